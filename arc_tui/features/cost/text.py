"""The cost of a run in words: a sentence, and a row for everything that cost much or brought
nothing, the most expensive first.

A row has its cost as far as that is known, its step, and all that is known of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec
from msgspec import Struct

from arc_tui.features.cost.view import SHOWN, CostView, Part, Wasted, cost_of, load_named
from arc_tui.ui import format
from arc_tui.ui.format import amount, percent, sends_usd, size, steps_named, usd_bound
from replay.messages import observed
from replay.store.handle import Store
from replay.trace import Trace
from taxonomy.stats.routing import Compared, PerResolved, Resolution, WhatIf
from taxonomy.waste import CacheBreak, LoopCost, Resent, Spending, StepCost
from taxonomy.waste.repeats import RedundantCall

UNREPEATED = "not repeated later"


def sentence(view: CostView) -> str:
    """What was spent, and how much of it was likely wasted, as far as either is known."""
    spent = view.spending
    if not view.wasted.parts and not spent.counted and not spent.priced:
        return f"{_spent(spent)}; waste unknown."
    return f"{_spent(spent)}; {_wasted(view.wasted)}."


def _spent(spent: Spending) -> str:
    count = len(spent.steps)
    lacking = count - spent.priced
    steps = format.count(count, "step")
    if spent.cost_usd is not None and spent.priced:
        left_out = f" (cost of {format.number(lacking)} unknown)" if lacking else ""
        return f"Spent {amount(spent.cost_usd, complete=spent.cost_complete)} in {steps}{left_out}"
    known = f"{spending_tokens(spent)}, cost of {steps} unknown" if spent.counted else ""
    return known or f"Cost and tokens of {steps} unknown"


def _wasted(found: Wasted) -> str:
    if not found.parts:
        return "no likely waste"
    listed = "; ".join(f"{part.what} {_part(part)}" for part in found.parts)
    if found.cost_usd is not None:
        whole = usd_bound(found.cost_usd, at_least=not found.cost_complete, at_most=found.at_most)
        return (
            f"likely wasted: {whole} ({listed})"
            if len(found.parts) > 1
            else f"likely wasted: {listed}"
        )
    return f"likely wasted: {listed}"


def _part(part: Part) -> str:
    """The cost of a part, else its tokens, else how often."""
    if part.cost_usd is not None:
        return usd_bound(part.cost_usd, at_least=not part.cost_complete, at_most=part.at_most)
    if part.tokens is not None:
        return f"{'' if part.counted else '≈ '}{format.tokens(part.tokens)} tokens"
    return f"{format.number(part.times)}×, cost unknown"


def spending_tokens(spent: Spending) -> str:
    """The tokens in and out, as far as they were counted."""
    less = spent.counted < len(spent.steps)
    some = f" (of {format.count(spent.counted, 'step')})" if less else ""
    return (
        f"{format.tokens(spent.input_tokens)} tokens in,"
        f" {format.tokens(spent.output_tokens)} out{some}"
    )


def used_words(each: Resent) -> str:
    """Whether anything later repeats an observation, and where first."""
    if each.repeated is None:
        return "use unknown: a response is not recorded"
    return f"first repeated at step {each.repeated_at}" if each.repeated else UNREPEATED


def route_lines(route: WhatIf) -> list[str]:
    """What the routed steps would have cost, and what is not known of that."""
    if route.now_usd is None or route.cached_usd is None or route.fresh_usd is None:
        return ["No step has a known price for both models."]
    count = format.count(len(route.routed), "step")
    low, high = sorted((route.cached_usd, route.fresh_usd))
    lines = [
        f"{route.where}, {count} routed: {amount(route.now_usd)} would be"
        f" {_span((low, high))}"
        f" by {route.prices}; {route.caveat}"
    ]
    if low != high:
        lines.append("range: same cache hits as recorded, or none")
    if route.unknown:
        lines.append(f"left out, no price: {steps_named(route.unknown)}")
    return lines


LARGE = 1000
"""From so many USD on cents are left out."""


def resolved_lines(found: Compared) -> list[str]:
    """What a run and a resolved task cost as recorded and routed, and whether routing pays."""
    lines = [f"as recorded: {_per_resolved(found.recorded, found)}"]
    if found.routed is not None:
        lines += [f"routed: {_per_resolved(found.routed, found)}", *_verdict(found)]
    if not found.complete:
        lines.append("steps without a price are in none of these figures")
    return lines


def _per_resolved(each: PerResolved, found: Compared) -> str:
    parts = [f"{_span(each.run_usd)} a run", f"{_price_resolved(each)} a resolved task"]
    if each.month_usd is not None:
        runs = format.count(found.runs_per_month or 0, "run")
        parts.append(f"{_span(each.month_usd)} a month of {runs}")
    return " · ".join([*parts, _resolution(each.resolution)])


def _span(usd: tuple[float, float]) -> str:
    low, high = (amount(each) if each < LARGE else f"${format.number(round(each))}" for each in usd)
    return low if low == high else f"{low} to {high}"


def _price_resolved(each: PerResolved) -> str:
    if each.resolved_usd is None:
        return format.UNKNOWN
    if each.bounds is None:
        return _span(each.resolved_usd)
    low, high = each.bounds
    most = "no upper bound" if high is None else amount(high)
    return f"{_span(each.resolved_usd)} (95 % {amount(low)} to {most})"


def _resolution(found: Resolution) -> str:
    if found.value is None or (found.rate is None and not found.assumed):
        return "resolution unknown"
    if found.assumed:
        return f"resolution {format.fraction(found.value)} assumed"
    assert found.rate is not None
    runs = format.count(found.rate.n, "run")
    return (
        f"resolution {format.fraction(found.value)} ({format.interval(found.rate)}) measured on"
        f" {runs} of {format.one_line(found.of)}"
    )


def _verdict(found: Compared) -> Iterator[str]:
    assert found.routed is not None
    both = (found.recorded, found.routed)
    assumed = any(each.resolution.assumed for each in both)
    told = " · resolution assumed: measure it before you route" if assumed else ""
    before, after = (_price_resolved(each) for each in both)
    match found.verdict:
        case "pays":
            yield f"Routing pays: {after} a resolved task against {before}{told}."
        case "does not pay":
            yield f"Routing does not pay: {after} a resolved task against {before}{told}."
        case "not shown":
            yield f"Not shown that routing pays: {after} a resolved task against {before}{told}."
        case "unknown":
            names = ("recorded", "routed")
            lacking = [
                name
                for name, each in zip(names, both, strict=True)
                if each.resolution.value is None
            ]
            agents = f"the {' and the '.join(lacking)} agent"
            why = f"no resolution of {agents}" if lacking else "no run is resolved"
            yield f"Whether routing pays is unknown: {why}."
    if found.break_even is not None:
        low, high = found.break_even
        if low >= 1:
            yield "It cannot pay at any resolution."
        else:
            most = format.fraction(min(high, 1.0))
            from_ = format.fraction(low)
            yield (
                f"It pays from a routed resolution of"
                f" {from_ if from_ == most else f'{from_} to {most}'} on."
            )


Kind = Literal["expensive step", "cache break", "resent", "loop", "repeated"]


class Fact(Struct, frozen=True, kw_only=True):
    """One thing to be known of a row; `step` where it stands, `long` for recorded text."""

    label: str
    text: str
    step: int | None = None
    long: bool = False


class CostRow(Struct, frozen=True, kw_only=True):
    """Something that cost. `usd` None: unknown, then `tokens` say how much it was.

    `amount` is the cost as it is shown, `what` one phrase, `facts` all of it.
    """

    kind: Kind
    step: int
    usd: float | None
    tokens: int
    amount: str
    what: str
    facts: tuple[Fact, ...]


class CostRows(Struct, frozen=True, eq=False, kw_only=True):
    """Everything the cost screen draws of a run: what `arc cost` says, and its rows."""

    view: CostView
    rows: tuple[CostRow, ...]


def build_cost_rows(store: Store, name: str) -> CostRows:
    """The cost of a trace, by row. Raises NotFound."""
    trace, title = load_named(store, name)
    cost = cost_of(trace, title)
    return CostRows(view=cost, rows=tuple(cost_rows(cost, trace)))


def cost_rows(view: CostView, trace: Trace) -> list[CostRow]:
    """The rows by cost, those of unknown cost by tokens after them; then by step."""
    found = [
        *(_expensive_row(step, view) for step in _expensive_steps(view)),
        *(_break(each) for each in view.cache_breaks),
        *(_re_sent(each, trace) for each in view.resent if each.repeated is not True),
        *(_loop(each, view, trace) for each in view.loops),
        *_again(view, trace),
    ]
    return sorted(found, key=lambda row: (-(row.usd or 0.0), -row.tokens, row.step))


def used_count(view: CostView) -> int:
    """Tool results that were resent and used: no waste, and no row."""
    return sum(each.repeated is True for each in view.resent)


# --- a row each


def _expensive_steps(view: CostView) -> Sequence[StepCost]:
    """The most expensive steps; without any price the largest."""
    if view.expensive_steps:
        return view.expensive_steps
    known = [step for step in view.spending.steps if step.input_tokens is not None]
    return sorted(known, key=lambda step: -_tokens(step))[:SHOWN]


def _tokens(step: StepCost) -> int:
    return (step.input_tokens or 0) + (step.output_tokens or 0)


def _expensive_row(step: StepCost, view: CostView) -> CostRow:
    read_ = step.cache_read_tokens
    cached = f", {format.tokens(read_)} read from the cache" if read_ is not None else ""
    spent = view.spending.cost_usd
    share = (
        f", {percent(step.cost_usd / spent)} of the known cost of the run"
        if step.cost_usd is not None and spent
        else ""
    )
    calls = ", ".join(map(format.one_line, step.calls))
    return CostRow(
        kind="expensive step",
        step=step.step,
        usd=step.cost_usd,
        tokens=_tokens(step),
        amount=amount(step.cost_usd),
        what=f"{calls or 'no call'} · {format.tokens(step.input_tokens)} tokens in,"
        f" {format.tokens(step.output_tokens)} out",
        facts=(
            Fact(label="cost", text=f"{amount(step.cost_usd)}{share}", step=step.step),
            Fact(label="tokens in", text=f"{format.tokens(step.input_tokens)}{cached}"),
            Fact(label="tokens out", text=format.tokens(step.output_tokens)),
            Fact(label="calls", text=calls or "none"),
            Fact(label="model", text=format.one_line(step.model) or "unknown"),
        ),
    )


def _break(each: CacheBreak) -> CostRow:
    return CostRow(
        kind="cache break",
        step=each.step,
        usd=each.extra_usd,
        tokens=each.missed_tokens,
        amount=amount(each.extra_usd),
        what=f"cache read fell {percent(each.fall)}: "
        + "; ".join(cause.kind.value for cause in each.causes),
        facts=(
            *(
                Fact(label="differs", text=f"{cause.kind.value}: {cause.detail}")
                for cause in each.causes
            ),
            Fact(label="cost", text=f"{amount(each.extra_usd)} more than with the cache intact"),
            Fact(label="read", text=_read(each), step=each.after),
            Fact(
                label="missed",
                text=f"{format.tokens(each.missed_tokens)} tokens not read from the cache",
            ),
        ),
    )


def _read(each: CacheBreak) -> str:
    left = f"{'' if each.left_exact else '≥ '}{format.tokens(each.left_tokens)}"
    return f"{format.tokens(each.read_tokens)} of {left} tokens cached by step {each.after}"


def _re_sent(each: Resent, trace: Trace) -> CostRow:
    used = used_words(each)
    return CostRow(
        kind="resent",
        step=each.step,
        usd=each.cost_usd,
        tokens=each.resent_tokens or 0,
        amount=sends_usd(each) if each.cost_usd is not None else format.UNKNOWN,
        what=f"{'unused' if each.repeated is False else 'use unknown'}:"
        f" {size(each)} of {format.one_line(each.tool)}, {each.resends}×",
        facts=(
            Fact(label="cost", text=sends_usd(each)),
            Fact(label="resent", text=f"{each.resends}×, up to step {each.last_step}",
                 step=each.last_step),
            Fact(label="size", text=size(each)),
            Fact(label="used", text=used),
            *_call_facts(trace, each.step, each.span),
        ),
    )  # fmt: skip


def _loop(each: LoopCost, view: CostView, trace: Trace) -> CostRow:
    cost = amount(each.cost_usd, complete=each.cost_complete)
    steps = [_step_fact(view.spending.steps[step], trace) for step in each.steps]
    return CostRow(
        kind="loop",
        step=each.step,
        usd=each.cost_usd,
        tokens=sum(_tokens(view.spending.steps[step]) for step in each.steps),
        amount=cost,
        what=f"{format.one_line(each.why)} · {steps_named(each.steps)}",
        facts=(Fact(label="cost", text=cost), Fact(label="why", text=each.why), *steps),
    )


def _step_fact(step: StepCost, trace: Trace) -> Fact:
    calls = ", ".join(_called(act.name, act.arguments) for act in trace.steps[step.step].acts)
    return Fact(label=f"step {step.step}", text=f"{amount(step.cost_usd)}  {calls}", step=step.step)


def _again(view: CostView, trace: Trace) -> Iterator[CostRow]:
    """A row for each step that repeated a call; only one that did nothing else has a cost.

    The steps of a loop stand in its row.
    """
    looped = {step for loop in view.loops for step in loop.steps}
    by_step: dict[int, list[RedundantCall]] = {}
    for call in view.redundant.calls:
        if call.step not in looped:
            by_step.setdefault(call.step, []).append(call)
    for step, calls in by_step.items():
        spent = view.spending.steps[step]
        alone = step in view.redundant.steps
        names = ", ".join(dict.fromkeys(format.one_line(call.tool) for call in calls))
        earlier = steps_named(dict.fromkeys(call.earlier for call in calls))
        more = "" if alone else "; the step also did other work"
        yield CostRow(
            kind="repeated",
            step=step,
            usd=spent.cost_usd if alone else None,
            tokens=_tokens(spent) if alone else 0,
            amount=amount(spent.cost_usd) if alone else format.UNKNOWN,
            what=f"{names} returned the same as {earlier}{more}",
            facts=tuple(_again_facts(calls, spent, trace, alone=alone)),
        )


def _again_facts(
    calls: Sequence[RedundantCall], spent: StepCost, trace: Trace, *, alone: bool
) -> Iterator[Fact]:
    cost = amount(spent.cost_usd)
    more = "" if alone else "; it also did other work, so the wasted part is unknown"
    yield Fact(label="cost", text=f"{cost} for the whole step{more}")
    for call in calls:
        yield Fact(label="same as", text=f"step {call.earlier}", step=call.earlier)
        yield from _call_facts(trace, call.step, call.span)


def _call_facts(trace: Trace, step: int, span: str) -> Iterator[Fact]:
    """The call and what it returned."""
    for act in trace.steps[step].acts:
        if act.id == span:
            yield Fact(label="call", text=_called(act.name, act.arguments), step=step, long=True)
            if act.observation is not None:
                yield Fact(label="returned", text=observed(act.observation).text, long=True)


def _called(name: str, arguments: object) -> str:
    given = "" if arguments is None else f" {msgspec.json.encode(arguments).decode()}"
    return f"{name}{given}"
