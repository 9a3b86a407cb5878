"""How does an amount look that is not wholly known? `≥`, `≤`, `≈`, and `–` for nothing at all."""

from __future__ import annotations

from collections.abc import Iterable

from arc_tui import format
from taxonomy.waste import Resent

LEAST_USD = 0.0001

_LONG = 6
"""Digits of a lower bound that the least amount shown would hide."""

STEPS = 10
"""Steps of a list that are named before the rest is counted."""


def usd(value: float | None, *, complete: bool = True) -> str:
    """Money; what would round to nothing is said to be less than the least shown."""
    if complete and value is not None and 0 < value < LEAST_USD:
        return f"< ${LEAST_USD}"
    return format.usd(value, complete=complete)


def marked(value: float, *, at_least: bool, at_most: bool) -> str:
    """Money with what is not known of it: `≥`, `≤`, or `≈` where it may be more and less."""
    if 0 < value < LEAST_USD:
        return f"≥ ${value:.{_LONG}f}" if at_least else usd(value)
    mark = "≈ " if at_least and at_most else "≥ " if at_least else "≤ " if at_most else ""
    return f"{mark}{format.usd(value)}"


def sends_usd(each: Resent) -> str:
    """What sending an observation again cost, with what is not known of it."""
    return bounded(each.cost_usd, priced=each.priced, sends=each.resends, at_most=each.at_most)


def bounded(cost_usd: float | None, *, priced: int, sends: int, at_most: bool) -> str:
    """The cost of some sends, of which `priced` have one."""
    if cost_usd is None:
        return "cost unknown"
    if at_most and priced < sends:
        return f"≤ {format.usd(cost_usd)} for {priced} of {sends} sends"
    return marked(cost_usd, at_least=priced < sends, at_most=at_most)


def size(each: Resent) -> str:
    """The size of an observation; `≈` where its tokens were reckoned."""
    if each.tokens is None:
        return "size unknown"
    return f"{'' if each.how == 'counted' else '≈ '}{format.tokens(each.tokens)} tokens"


def percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def steps_named(steps: Iterable[int]) -> str:
    """`step 4`, `steps 4, 5, 9`, the rest of a long list counted."""
    listed = list(steps)
    shown = ", ".join(map(str, listed[:STEPS]))
    more = f" and {len(listed) - STEPS} more" if len(listed) > STEPS else ""
    return f"step{'' if len(listed) == 1 else 's'} {shown}{more}"
