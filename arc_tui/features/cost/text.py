"""The money of a run in words: one line a fact, each naming its steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from arc_tui.features.cost.view import SHOWN, MoneyView, Part, Wasted, unused
from arc_tui.ui import format
from arc_tui.ui.format import amount, bounded, marked, percent, sends_usd, size, steps_named
from taxonomy.metrics.cost import spent
from taxonomy.stats.routing import WhatIf
from taxonomy.waste import CacheBreak, LoopCost, Redundant, Resent, Spending, StepCost

UNREPEATED = "nothing later repeats anything of it"


def sections(view: MoneyView) -> Iterator[tuple[str, list[str]]]:
    """The view as printed: a title and its lines, one section after another."""
    head = [sentence(view), *_figures(view.spending)]
    yield f"{view.trace[:8]}  {format.one_line(view.name)}", head
    if view.dearest:
        yield "where it went", [_step_line(step) for step in view.dearest]
    yield "prefix cache", list(_cache_lines(view))
    yield "observations sent again", list(_resent_lines(view.resent))
    yield "loops", [_loop_line(loop) for loop in view.loops] or ["none found"]
    yield "redundant calls", list(_redundant_lines(view.redundant))
    if view.route is not None:
        yield f"at the price of {format.one_line(view.route.model)}", route_lines(view.route)


# --- totals


def sentence(view: MoneyView) -> str:
    """What was spent, and how much of it was likely wasted, as far as either is known."""
    spent = view.spending
    if not view.wasted.parts and not spent.counted and not spent.priced:
        return f"{_spent(spent)}; what of it was wasted cannot be told."
    return f"{_spent(spent)}; {_wasted(view.wasted)}."


def _spent(spent: Spending) -> str:
    count = len(spent.steps)
    lacking = count - spent.priced
    steps = format.count(count, "step")
    if spent.cost_usd is not None and spent.priced:
        left_out = f" (cost of {format.number(lacking)} unknown)" if lacking else ""
        return f"Spent {amount(spent.cost_usd, complete=spent.cost_complete)} in {steps}{left_out}"
    known = f"{_tokens(spent)}, {steps} of unknown cost" if spent.counted else ""
    return known or f"{steps} of unknown cost and size"


def _wasted(found: Wasted) -> str:
    if not found.parts:
        return "nothing of it looks wasted"
    listed = ", ".join(f"{part.what} {_part(part)}" for part in found.parts)
    if found.cost_usd is not None:
        whole = marked(found.cost_usd, at_least=not found.cost_complete, at_most=found.at_most)
        return (
            f"likely wasted: {whole} ({listed})"
            if len(found.parts) > 1
            else f"likely wasted: {listed}"
        )
    return f"likely wasted: {listed}"


def _part(part: Part) -> str:
    """The cost of a part, else its tokens, else how often."""
    if part.cost_usd is not None:
        return marked(part.cost_usd, at_least=not part.cost_complete, at_most=part.at_most)
    if part.tokens is not None:
        return f"{'' if part.counted else '≈ '}{format.tokens(part.tokens)} tokens"
    return f"{format.number(part.times)}×, cost unknown"


def _tokens(spent: Spending) -> str:
    less = spent.counted < len(spent.steps)
    some = f" (of {format.count(spent.counted, 'step')})" if less else ""
    return (
        f"{format.tokens(spent.input_tokens)} tokens in,"
        f" {format.tokens(spent.output_tokens)} out{some}"
    )


def _figures(spent: Spending) -> Iterator[str]:
    if spent.reported_usd is not None:
        yield f"the source itself reports {amount(spent.reported_usd)}"
    if spent.counted and spent.priced:
        yield _tokens(spent)


def _step_line(step: StepCost) -> str:
    read = f" ({format.tokens(step.cache_read_tokens)} cached)" if step.cache_read_tokens else ""
    calls = f"  {format.one_line(', '.join(step.calls))}" if step.calls else ""
    return (
        f"step {step.step}: {amount(step.cost_usd)}"
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
        f"{percent(spent.cache_read_tokens / max(whole, 1))} of {format.tokens(whole)} tokens in"
        " were read from it"
        f" (figures of {spent.cached} of {format.count(len(spent.steps), 'step')})"
    )
    if not view.cache_breaks:
        yield "no break"
    for each in view.cache_breaks:
        yield _break_line(each)


def _break_line(each: CacheBreak) -> str:
    why = "; ".join(
        f"{cause.kind.value} ({format.one_line(cause.detail)})" for cause in each.causes
    )
    left = f"{'' if each.left_exact else '≥ '}{format.tokens(each.left_tokens)}"
    extra = "cost unknown" if each.extra_usd is None else f"{amount(each.extra_usd)} more"
    return (
        f"cache read fell {percent(each.fall)} at step {each.step}"
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
    idle = unused(found)
    if idle:
        yield (
            f"nothing later repeats a name, number or new word of {_resent_sum(idle)}:"
            f" {steps_named(each.step for each in idle)}"
        )


def _resent_sum(found: Sequence[Resent]) -> str:
    """How many, how many tokens, what it cost as far as that is known."""
    tokens = sum(each.resent_tokens or 0 for each in found)
    reckoned = any(each.how != "counted" for each in found)
    cost = bounded(
        spent(each.cost_usd for each in found).cost_usd,
        priced=sum(each.priced for each in found),
        sends=sum(each.resends for each in found),
        at_most=any(each.at_most for each in found),
    )
    noun = format.count(len(found), "observation")
    return f"{noun}, {'≈ ' if reckoned else ''}{format.tokens(tokens)} tokens, {cost}"


def _resent_line(each: Resent) -> str:
    return (
        f"step {each.step}: {format.one_line(each.tool)} returned {size(each)}, re-sent"
        f" {each.resends}× up to step {each.last_step}, {sends_usd(each)}; {used_words(each)}"
    )


def used_words(each: Resent) -> str:
    if each.repeated is None:
        return "not known whether anything repeats it: an answer was not recorded"
    return f"first repeated at step {each.repeated_at}" if each.repeated else UNREPEATED


# --- doing again


def _loop_line(loop: LoopCost) -> str:
    cost = amount(loop.cost_usd, complete=loop.cost_complete)
    return f"{steps_named(loop.steps)}: {cost}, {format.one_line(loop.why)}"


def _redundant_lines(found: Redundant) -> Iterator[str]:
    share = found.share
    if share.value is None:
        yield "no call with a known reply"
        return
    line = f"{len(found.calls)} of {format.count(share.n, 'call')}"
    line += f" ({share.value:.2f}, 95 % {share.low:.2f}–{share.high:.2f})"
    if found.steps:
        cost = amount(found.cost_usd, complete=found.cost_complete)
        line += f"; {steps_named(found.steps)} did nothing else: {cost}"
    yield line
    for call in found.calls[:SHOWN]:
        tool = format.one_line(call.tool)
        yield f"step {call.step}: {tool}, same answer as at step {call.earlier}"


# --- what if


def route_lines(route: WhatIf) -> list[str]:
    if route.now_usd is None or route.cached_usd is None or route.fresh_usd is None:
        return ["no step has a known price on both sides"]
    count = format.count(len(route.routed), "step")
    low, high = sorted((route.cached_usd, route.fresh_usd))
    range_ = amount(low) if low == high else f"{amount(low)} to {amount(high)}"
    lines = [
        f"{route.where}, {count} routed: {amount(route.now_usd)} would be {range_}"
        f" by {route.prices}; {route.caveat}"
    ]
    if low != high:
        lines.append("the range: its cache holding what the recorded one held, or nothing")
    if route.unknown:
        lines.append(f"left out for want of a price: {steps_named(route.unknown)}")
    return lines
