"""The rows of the money screen: what cost much and what brought nothing, the dearest first.

Each row says its cost as far as that is known, its step, and what is to be known of it in full.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec
from msgspec import Struct

from arc_tui.features.cost.text import used_words
from arc_tui.features.cost.view import SHOWN, MoneyView, money_of
from arc_tui.ui import format
from arc_tui.ui.format import amount, percent, sends_usd, size, steps_named
from replay.messages import observed
from replay.store import read
from replay.store.handle import Store
from replay.store.rows import trace_row
from replay.trace import Trace
from taxonomy.waste import CacheBreak, LoopCost, Resent, StepCost
from taxonomy.waste.repeats import RedundantCall

Kind = Literal["dear step", "cache break", "re-sent", "loop", "done again"]


class Fact(Struct, frozen=True, kw_only=True):
    """One thing to be known of a row; `step` where it stands, `long` for recorded text."""

    label: str
    text: str
    step: int | None = None
    long: bool = False


class MoneyRow(Struct, frozen=True, kw_only=True):
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


class MoneyRows(Struct, frozen=True, eq=False, kw_only=True):
    """Everything the money screen draws of a run: what `arc money` says, and its rows."""

    money: MoneyView
    rows: tuple[MoneyRow, ...]


def build_money_rows(store: Store, name: str) -> MoneyRows:
    """The money of a trace, by row. Raises NotFound."""
    row = trace_row(store, name)
    title = " / ".join(filter(None, (row.task, row.trial))) or row.title or row.source_id
    trace = read.load(store, row.trace)
    money = money_of(trace, title)
    return MoneyRows(money=money, rows=tuple(money_rows(money, trace)))


def money_rows(view: MoneyView, trace: Trace) -> list[MoneyRow]:
    """The rows by cost, those of unknown cost by tokens after them; then by step."""
    found = [
        *(_dear(step, view) for step in _dearest(view)),
        *(_break(each) for each in view.cache_breaks),
        *(_re_sent(each, trace) for each in view.resent if each.repeated is not True),
        *(_loop(each, view, trace) for each in view.loops),
        *_again(view, trace),
    ]
    return sorted(found, key=lambda row: (-(row.usd or 0.0), -row.tokens, row.step))


def used_count(view: MoneyView) -> int:
    """Observations that were sent again and used: no waste, and no row."""
    return sum(each.repeated is True for each in view.resent)


# --- a row each


def _dearest(view: MoneyView) -> Sequence[StepCost]:
    """The dearest steps; without any price the largest."""
    if view.dearest:
        return view.dearest
    known = [step for step in view.spending.steps if step.input_tokens is not None]
    return sorted(known, key=lambda step: -_tokens(step))[:SHOWN]


def _tokens(step: StepCost) -> int:
    return (step.input_tokens or 0) + (step.output_tokens or 0)


def _dear(step: StepCost, view: MoneyView) -> MoneyRow:
    read_ = step.cache_read_tokens
    cached = f", {format.tokens(read_)} of them read from the cache" if read_ is not None else ""
    spent = view.spending.cost_usd
    share = (
        f", {percent(step.cost_usd / spent)} of what is known of the run"
        if step.cost_usd is not None and spent
        else ""
    )
    calls = ", ".join(map(format.one_line, step.calls))
    return MoneyRow(
        kind="dear step",
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
            Fact(label="calls", text=calls or "nothing"),
            Fact(label="model", text=format.one_line(step.model) or "unknown"),
        ),
    )


def _break(each: CacheBreak) -> MoneyRow:
    return MoneyRow(
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
            Fact(label="cost", text=f"{amount(each.extra_usd)} more than had it held"),
            Fact(label="read", text=_read(each), step=each.after),
            Fact(
                label="missed",
                text=f"{format.tokens(each.missed_tokens)} tokens that could have been read",
            ),
        ),
    )


def _read(each: CacheBreak) -> str:
    left = f"{'' if each.left_exact else '≥ '}{format.tokens(each.left_tokens)}"
    return f"{format.tokens(each.read_tokens)} of {left} tokens that step {each.after} had left"


def _re_sent(each: Resent, trace: Trace) -> MoneyRow:
    used = used_words(each)
    return MoneyRow(
        kind="re-sent",
        step=each.step,
        usd=each.cost_usd,
        tokens=each.resent_tokens or 0,
        amount=sends_usd(each) if each.cost_usd is not None else format.UNKNOWN,
        what=f"{'never used' if each.repeated is False else 'not known whether used'}:"
        f" {size(each)} of {format.one_line(each.tool)}, {each.resends}×",
        facts=(
            Fact(label="cost", text=sends_usd(each)),
            Fact(label="sent again", text=f"{each.resends}×, up to step {each.last_step}",
                 step=each.last_step),
            Fact(label="size", text=size(each)),
            Fact(label="used", text=used),
            *_call_facts(trace, each.step, each.span),
        ),
    )  # fmt: skip


def _loop(each: LoopCost, view: MoneyView, trace: Trace) -> MoneyRow:
    cost = amount(each.cost_usd, complete=each.cost_complete)
    steps = [_step_fact(view.spending.steps[step], trace) for step in each.steps]
    return MoneyRow(
        kind="loop",
        step=each.step,
        usd=each.cost_usd,
        tokens=sum(_tokens(view.spending.steps[step]) for step in each.steps),
        amount=cost,
        what=f"{format.one_line(each.why)} · {steps_named(each.steps)}",
        facts=(Fact(label="cost", text=cost), Fact(label="why", text=each.why), *steps),
    )


def _step_fact(step: StepCost, trace: Trace) -> Fact:
    said = ", ".join(_called(act.name, act.arguments) for act in trace.steps[step.step].acts)
    return Fact(label=f"step {step.step}", text=f"{amount(step.cost_usd)}  {said}", step=step.step)


def _again(view: MoneyView, trace: Trace) -> Iterator[MoneyRow]:
    """A row a step that asked again what it knew; only one that did nothing else has a cost.

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
        more = "" if alone else "; the step did more than that"
        yield MoneyRow(
            kind="done again",
            step=step,
            usd=spent.cost_usd if alone else None,
            tokens=_tokens(spent) if alone else 0,
            amount=amount(spent.cost_usd) if alone else format.UNKNOWN,
            what=f"{names} brought what {earlier} had brought{more}",
            facts=tuple(_again_facts(calls, spent, trace, alone=alone)),
        )


def _again_facts(
    calls: Sequence[RedundantCall], spent: StepCost, trace: Trace, *, alone: bool
) -> Iterator[Fact]:
    cost = amount(spent.cost_usd)
    more = "" if alone else "; the step did more, so what of it was for nothing is not known"
    yield Fact(label="cost", text=f"{cost} for the whole step{more}")
    for call in calls:
        yield Fact(label="as before", text=f"at step {call.earlier}", step=call.earlier)
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
