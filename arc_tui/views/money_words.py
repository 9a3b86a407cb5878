"""The money of a run in words: one line a fact, each naming its steps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from arc_tui import format
from arc_tui.views.money import SHOWN, MoneyView
from taxonomy.routing import WhatIf
from taxonomy.waste import CacheBreak, LoopCost, Redundant, Resent, Spending, StepCost, total

LEAST_USD = 0.0001

UNREPEATED = "nothing later repeats anything of it"


def sections(view: MoneyView) -> Iterator[tuple[str, list[str]]]:
    """The view as printed: a title and its lines, one section after another."""
    yield f"{view.trace[:8]}  {format.one_line(view.name)}", list(_spent(view.spending))
    if view.dearest:
        yield "where it went", [_step_line(step) for step in view.dearest]
    yield "prefix cache", list(_cache_lines(view))
    yield "observations sent again", list(_resent_lines(view.resent))
    yield "loops", [_loop_line(loop) for loop in view.loops] or ["none found"]
    yield "redundant calls", list(_redundant_lines(view.redundant))
    if view.route is not None:
        yield f"at the price of {format.one_line(view.route.model)}", _route_lines(view.route)


# --- totals


def _spent(spent: Spending) -> Iterator[str]:
    count = len(spent.steps)
    lacking = count - spent.priced
    if spent.cost_usd is None:
        yield f"{format.count(count, 'step')} of unknown cost"
    else:
        left_out = f", cost of {format.number(lacking)} unknown" if lacking else ""
        known = _usd(spent.cost_usd, complete=spent.cost_complete)
        yield f"spent {known} in {format.count(count, 'step')}{left_out}"
    if spent.reported_usd is not None:
        yield f"the source itself reports {_usd(spent.reported_usd)}"
    if spent.counted:
        some = f" (of {format.count(spent.counted, 'step')})" if spent.counted < count else ""
        yield (
            f"{format.tokens(spent.input_tokens)} tokens in,"
            f" {format.tokens(spent.output_tokens)} out{some}"
        )


def _step_line(step: StepCost) -> str:
    read = f" ({format.tokens(step.cache_read_tokens)} cached)" if step.cache_read_tokens else ""
    calls = f"  {format.one_line(', '.join(step.calls))}" if step.calls else ""
    return (
        f"step {step.step}: {_usd(step.cost_usd)}"
        f"  {format.tokens(step.input_tokens)} in{read},"
        f" {format.tokens(step.output_tokens)} out{calls}"
    )


# --- cache


def _cache_lines(view: MoneyView) -> Iterator[str]:
    spent = view.spending
    if not spent.cached:
        yield "the source has no figures of what was read from the cache"
        return
    whole = spent.cached_input_tokens
    yield (
        f"{_percent(spent.cache_read_tokens / max(whole, 1))} of {format.tokens(whole)} tokens in"
        " were read from it"
        f" (figures of {spent.cached} of {format.count(len(spent.steps), 'step')})"
    )
    if not view.cache_breaks:
        yield "no break"
    for each in view.cache_breaks:
        yield _break_line(each)


def _break_line(each: CacheBreak) -> str:
    left = f"{'' if each.left_exact else '≥ '}{format.tokens(each.left_tokens)}"
    why = "; ".join(
        f"{cause.kind.value} ({format.one_line(cause.detail)})" for cause in each.causes
    )
    extra = "cost unknown" if each.extra_usd is None else f"{_usd(each.extra_usd)} more"
    return (
        f"cache read fell {_percent(each.fall)} at step {each.step}"
        f" ({left} → {format.tokens(each.read_tokens)}, {extra}): {why}"
    )


# --- observations


def _resent_lines(found: Sequence[Resent]) -> Iterator[str]:
    if not found:
        yield "none"
        return
    yield f"{_resent_sum(found)} in all"
    for each in found[:SHOWN]:
        yield _resent_line(each)
    idle = [each for each in found if each.repeated is False]
    if idle:
        yield (
            f"nothing later repeats a name, number or new word of {_resent_sum(idle)}:"
            f" {_steps(each.step for each in idle)}"
        )


def _resent_sum(found: Sequence[Resent]) -> str:
    """How many, how many tokens, what it cost as far as that is known."""
    tokens = sum(each.resent_tokens or 0 for each in found)
    reckoned = any(each.how != "counted" for each in found)
    cost = _bounded(
        total(each.cost_usd for each in found).usd,
        priced=sum(each.priced for each in found),
        sends=sum(each.resends for each in found),
        at_most=any(each.at_most for each in found),
    )
    noun = format.count(len(found), "observation")
    return f"{noun}, {'≈ ' if reckoned else ''}{format.tokens(tokens)} tokens, {cost}"


def _resent_line(each: Resent) -> str:
    size = "size unknown"
    if each.tokens is not None:
        mark = "" if each.how == "counted" else "≈ "
        size = f"{mark}{format.tokens(each.tokens)} tokens"
    cost = _bounded(each.cost_usd, priced=each.priced, sends=each.resends, at_most=each.at_most)
    return (
        f"step {each.step}: {format.one_line(each.tool)} returned {size},"
        f" re-sent {each.resends}× up to step {each.last_step}, {cost}; {_repeated(each)}"
    )


def _repeated(each: Resent) -> str:
    if each.repeated is None:
        return "not known whether anything repeats it: an answer was not recorded"
    return f"first repeated at step {each.repeated_at}" if each.repeated else UNREPEATED


def _bounded(usd: float | None, *, priced: int, sends: int, at_most: bool) -> str:
    """A cost with what is not known of it."""
    if usd is None:
        return "cost unknown"
    if priced == sends:
        return f"{'≤ ' if at_most and usd >= LEAST_USD else ''}{_usd(usd)}"
    if at_most:
        return f"≤ {format.usd(usd)} for {priced} of {sends} sends"
    return _usd(usd, complete=False)


# --- doing again


def _loop_line(loop: LoopCost) -> str:
    cost = _usd(loop.cost_usd, complete=loop.cost_complete)
    return f"{_steps(loop.steps)}: {cost}, {format.one_line(loop.why)}"


def _redundant_lines(found: Redundant) -> Iterator[str]:
    share = found.share
    if share.value is None:
        yield "no call with a known reply"
        return
    line = f"{len(found.calls)} of {format.count(share.n, 'call')}"
    line += f" ({share.value:.2f}, 95 % {share.low:.2f}–{share.high:.2f})"
    if found.steps:
        cost = _usd(found.cost_usd, complete=found.cost_complete)
        line += f"; {_steps(found.steps)} did nothing else: {cost}"
    yield line
    for call in found.calls[:SHOWN]:
        tool = format.one_line(call.tool)
        yield f"step {call.step}: {tool}, same answer as at step {call.earlier}"


def _usd(value: float | None, *, complete: bool = True) -> str:
    """Money; what would round to nothing is said to be less than the least shown."""
    if complete and value is not None and 0 < value < LEAST_USD:
        return f"< ${LEAST_USD}"
    return format.usd(value, complete=complete)


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _steps(steps: Iterable[int]) -> str:
    """`step 4`, `steps 4, 5, 9`, the rest of a long list counted."""
    listed = list(steps)
    shown = ", ".join(map(str, listed[: 2 * SHOWN]))
    more = f" and {len(listed) - 2 * SHOWN} more" if len(listed) > 2 * SHOWN else ""
    return f"step{'' if len(listed) == 1 else 's'} {shown}{more}"


# --- what if


def _route_lines(route: WhatIf) -> list[str]:
    if route.now_usd is None or route.cached_usd is None or route.fresh_usd is None:
        return ["no step has a known price on both sides"]
    count = format.count(len(route.routed), "step")
    low, high = sorted((route.cached_usd, route.fresh_usd))
    range_ = _usd(low) if low == high else f"{_usd(low)} to {_usd(high)}"
    lines = [
        f"{route.where}, {count} routed: {_usd(route.now_usd)} would be {range_}"
        f" by {route.prices}; {route.caveat}"
    ]
    if low != high:
        lines.append("the range: its cache holding what the recorded one held, or nothing")
    if route.unknown:
        lines.append(f"left out for want of a price: {_steps(route.unknown)}")
    return lines
