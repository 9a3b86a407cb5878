"""How much of what a run spent was likely wasted? A sum that says how far it can be trusted.

Three parts: what a broken cache cost beyond a whole one, steps that did again what had been done,
observations that later requests carried and nothing ever used. A step that stands in two of them
is counted once where that can be told apart; where it cannot, the sum is at most what it says.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import Struct

from taxonomy.cost import spent
from taxonomy.waste import Resent, StepCost, Waste

What = Literal["cache breaks", "done again", "re-sent and never used"]


class Part(Struct, frozen=True, kw_only=True):
    """One way of wasting: how often, its cost, and its tokens where those were for nothing.

    `cost_usd` None: unknown; `at_most`: no more than that; `counted` False: tokens were reckoned.
    """

    what: What
    times: int
    cost_usd: float | None
    cost_complete: bool
    at_most: bool = False
    tokens: int | None = None
    counted: bool = True


class Wasted(Struct, frozen=True, kw_only=True):
    """What was likely wasted in all. `cost_usd` sums what is known; None where nothing is.

    `cost_complete` False: some of it is unknown. `at_most`: parts may overlap, or are bounds.
    """

    parts: tuple[Part, ...]
    cost_usd: float | None
    cost_complete: bool
    at_most: bool
    tokens: int
    counted: bool


def wasted(found: Waste) -> Wasted:
    """The parts of some waste that has any, and their sum."""
    parts = tuple(part for part in _parts(found) if part.times)
    known = [part.cost_usd for part in parts if part.cost_usd is not None]
    idle = next((part for part in parts if part.what == "re-sent and never used"), None)
    return Wasted(
        parts=parts,
        cost_usd=sum(known) if known else None,
        cost_complete=all(part.cost_complete for part in parts),
        at_most=any(part.at_most for part in parts) or (idle is not None and len(parts) > 1),
        tokens=sum(part.tokens or 0 for part in parts),
        counted=all(part.counted for part in parts),
    )


def unused(found: Sequence[Resent]) -> tuple[Resent, ...]:
    """The observations of which nothing later repeats anything."""
    return tuple(each for each in found if each.repeated is False)


def _parts(found: Waste) -> Iterator[Part]:
    again = {*found.redundant.steps, *(step for loop in found.loops for step in loop.steps)}
    breaks = [each for each in found.cache_breaks if each.step not in again]
    extra = spent(each.extra_usd for each in breaks)
    yield Part(
        what="cache breaks",
        times=len(breaks),
        cost_usd=extra.cost_usd,
        cost_complete=extra.cost_complete,
    )
    yield _done_again([step for step in found.spending.steps if step.step in again])
    yield _re_sent(unused(found.resent))


def _done_again(steps: Sequence[StepCost]) -> Part:
    whole = spent(step.cost_usd for step in steps)
    tokens = [step.input_tokens for step in steps] + [step.output_tokens for step in steps]
    return Part(
        what="done again",
        times=len(steps),
        cost_usd=whole.cost_usd,
        cost_complete=whole.cost_complete,
        tokens=sum(each or 0 for each in tokens) if any(tokens) else None,
    )


def _re_sent(found: Sequence[Resent]) -> Part:
    whole = spent(each.cost_usd for each in found)
    known = [each.resent_tokens for each in found if each.resent_tokens is not None]
    return Part(
        what="re-sent and never used",
        times=len(found),
        cost_usd=whole.cost_usd,
        cost_complete=whole.cost_complete and all(each.priced == each.resends for each in found),
        at_most=any(each.at_most for each in found),
        tokens=sum(known) if known else None,
        counted=all(each.how == "counted" for each in found),
    )
