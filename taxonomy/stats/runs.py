"""Which runs, which numbers: from rows of the database to what the metrics take.

Where nobody could judge a run, what users did counts: they stepped in, took it back, or left.
Source: the ARC article, "Behavioral grounding": where transcripts cannot be read, proxies work.
Only what a source keeps is counted, as a share of the runs of sources that keep such things.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from replay import effects
from replay.action import Act
from replay.statistics import Rate, rate
from replay.store.handle import Store
from replay.store.rows import TraceRow, trace_row
from replay.trace import Json
from taxonomy.classes import Shape
from taxonomy.failures import iso_week
from taxonomy.held_out import stratum_of
from taxonomy.metrics import grounding
from taxonomy.metrics.change import dated
from taxonomy.metrics.cost import Money
from taxonomy.metrics.gold import Gold, gold_of, own_parts, plan_of, seen_late
from taxonomy.query import failures, fields
from taxonomy.query.failures import Verdict
from taxonomy.query.fields import (
    CallMade,
    StepSign,
    agent_extras,
    cache_shares,
    calls_made,
    references,
    step_signs,
)
from taxonomy.query.listing import natural
from taxonomy.stats.recovery import Injection, Recovery, recovery

FORMATS = frozenset({"claude-code"})
"""Sources that say where a user stepped in."""

_KINDS = {
    "interrupt": "interrupted",
    "interrupted": "interrupted",
    "rejected": "a call rejected",
    "rewind": "rewound",
    "regenerated": "regenerated",
    "abandoned": "abandoned",
}
"""A source's word for what happened, and ours for a run in which it did."""

ABANDONED = "abandoned"
UNTOUCHED = "none of these"


class Proxies(Struct, frozen=True, kw_only=True):
    """Runs in which users did something, as a share of those whose source would say so."""

    rates: dict[str, Rate] = {}
    runs: int = 0


NOTHING_KEPT = Proxies()
"""Where no run's source would say."""


def signs_of(agents: Iterable[Mapping[str, Json]]) -> frozenset[str]:
    """What users did in one run, from what its agent spans keep.

    A run whose last words are a user's, without an answer, was abandoned.
    """
    found: set[str] = set()
    for extra in agents:
        signals = extra.get("signals")
        for signal in signals if isinstance(signals, list) else ():
            kind = signal.get("kind") if isinstance(signal, dict) else None
            if isinstance(kind, str) and kind in _KINDS:
                found.add(_KINDS[kind])
        if _unanswered(extra):
            found.add(ABANDONED)
    return frozenset(found)


def _unanswered(extra: Mapping[str, Json]) -> bool:
    left = extra.get("unanswered")
    last = left[-1] if isinstance(left, list) and left else None
    if not isinstance(last, dict) or last.get("role") != "user" or extra.get("abandoned"):
        return False
    content = last.get("content")
    blocks = content if isinstance(content, list) else []
    return not any(isinstance(b, dict) and b.get("type") == "tool_result" for b in blocks)


def proxies(runs: Sequence[frozenset[str]]) -> Proxies:
    """The share of runs of each kind, and of those in which users did none of it."""
    if not runs:
        return NOTHING_KEPT
    names = list(dict.fromkeys(_KINDS.values()))
    counted = {name: sum(name in signs for signs in runs) for name in names}
    rates = {name: rate(hits, len(runs)) for name, hits in counted.items() if hits}
    rates[UNTOUCHED] = rate(sum(not signs for signs in runs), len(runs))
    return Proxies(rates=rates, runs=len(runs))


def read_signs(store: Store, rows: Iterable[TraceRow]) -> dict[str, frozenset[str]]:
    """What users did in each run whose source would say so."""
    telling = [row.trace for row in rows if row.format in FORMATS]
    kept = agent_extras(store, telling)
    return {trace: signs_of(kept.get(trace, ())) for trace in telling}


FAILED_BELOW = 0.5
"""A step whose score is lower, or one of whose calls ended in an error, failed."""


def runs_of(store: Store, rows: Sequence[TraceRow]) -> list[Run]:
    """What the metrics need of some runs, in the order they were made where that is known."""
    traces = [row.trace for row in rows]
    told = references(store, traces)
    gold = {trace: gold for trace in told if (gold := gold_of(told[trace])) is not None}
    plans = {trace: plan for trace in told if (plan := plan_of(told[trace])) is not None}
    own = {
        row.trace: OwnGold(hindsight=seen_late(told[row.trace], row.start_ns))
        for row in rows
        if row.trace in told and own_parts(told[row.trace])
    }
    calls = calls_made(store, {*gold, *plans})
    writes = writing_tools([*calls.values()], gold.values())
    signs = step_signs(store, traces)
    verdicts = failures.verdicts(store)
    cached = cache_shares(store, traces)
    temperatures = fields.temperatures(store, traces)
    return [
        _run(
            row,
            gold=gold.get(row.trace),
            gold_plan=plans.get(row.trace),
            own=own.get(row.trace),
            calls=tuple(made.act for made in calls.get(row.trace, ())),
            writes=writes,
            signs=signs.get(row.trace, ()),
            verdict=verdicts.get(row.trace),
            cached=cached.get(row.trace),
            temperatures=temperatures.get(row.trace, ()),
        )
        for row in sorted(rows, key=_when)
    ]


def _run(
    row: TraceRow,
    *,
    signs: Sequence[StepSign],
    verdict: Verdict | None,
    **known: Any,
) -> Run:
    labels = msgspec.json.decode(row.labels, type=dict[str, str])
    injected = _whole(labels.get("injected"))
    delay = None
    if injected is not None:
        delay = grounding.corrected_after([_score(sign) for sign in signs], injected)
    return Run(
        trace=row.trace,
        task=task_of(row),
        stratum=stratum_of(labels),
        series=series_of(row),
        steps=row.steps,
        passed=None if row.outcome == "unknown" else row.outcome == "passed",
        verifier=row.outcome_by,
        value=_value(row),
        money=money_of(row),
        failed_steps=tuple(map(_failed, signs)),
        shape=verdict.shape if verdict else None,
        clean=_clean(signs),
        size=number_in(labels.get("length")),
        injected=injected,
        corrected_after=delay,
        paraphrase_of=labels.get("paraphrase_of"),
        agent=row.agent,
        **known,
    )


# --- who ran what


def variant_of(row: TraceRow) -> str | None:
    """What tells two agents apart: the variant, else the models, in a fixed order."""
    if row.variant is not None or row.models is None:
        return row.variant
    return ",".join(sorted(row.models.split(",")))


def task_of(row: TraceRow) -> str | None:
    """The task for one agent: runs that share it are trials of one another."""
    if row.task is None:
        return None
    return msgspec.json.encode([row.format, variant_of(row), row.task]).decode()


def series_of(row: TraceRow) -> str | None:
    """The runs of one agent with the same trial are one run of its benchmark."""
    if row.task is None or row.trial is None:
        return None
    return msgspec.json.encode([row.format, variant_of(row), row.trial]).decode()


def _when(row: TraceRow) -> tuple[float, list[tuple[int, str]], str]:
    """By start; where that is not known, by trial, its numbers in their order."""
    return (math.inf if row.start_ns is None else row.start_ns), natural(row.trial), row.trace


# --- what a run has


def writing_tools(made: Iterable[Iterable[CallMade]], gold: Iterable[Gold]) -> frozenset[str]:
    """The tools that change something: as a recording says, else by the verb in their name."""
    recorded: dict[str, set[str]] = {}
    for calls in made:
        for call in calls:
            recorded.setdefault(call.act.tool, set()).add(call.effect)
    named = {act.tool for each in gold for act in each.calls}
    return frozenset(
        tool
        for tool in {*recorded, *named}
        if "write" in recorded.get(tool, ())
        or ("read" not in recorded.get(tool, ()) and effects.guess(tool) == "write")
    )


def money_of(row: TraceRow) -> Money:
    """What a run cost: the sum over its steps where it is whole, else the source's own total.

    A source that says a run with steps cost nothing did not know its price.
    """
    if not row.cost_complete and row.reported_cost_usd:
        return Money(cost_usd=row.reported_cost_usd, cost_complete=True)
    return Money(
        cost_usd=row.cost_usd, cost_complete=row.cost_complete and row.cost_usd is not None
    )


def _value(row: TraceRow) -> float | None:
    """The outcome as a score in 0..1."""
    value = number_in(row.outcome_value)
    if value is not None and 0 <= value <= 1:
        return value
    return None if row.outcome == "unknown" else float(row.outcome == "passed")


def _failed(sign: StepSign) -> bool | None:
    if sign.errors:
        return True
    return None if sign.score is None else sign.score < FAILED_BELOW


def _clean(signs: Sequence[StepSign]) -> bool | None:
    """Did a person or a judge find no step wanting? None where a step was not looked at.

    Rules that find nothing prove nothing.
    """
    judged = [sign.score for sign in signs if sign.source in ("human", "judge")]
    if not judged or len(judged) < len(signs):
        return None
    return all(score is not None and score >= FAILED_BELOW for score in judged)


def _score(sign: StepSign) -> float | None:
    """The score of a step, 0 where one of its calls ended in an error."""
    return 0.0 if sign.errors else sign.score


def number_in(text: str | None) -> float | None:
    """The finite number that a label or an outcome is, None for any other."""
    try:
        found = math.nan if text is None else float(text)
    except ValueError:
        return None
    return found if math.isfinite(found) else None


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None


# --- groups


def grouped(
    rows: Iterable[TraceRow], by: Collection[str]
) -> dict[tuple[str | None, ...], frozenset[str]]:
    """The traces of each value of some columns, sorted by it; those without a value last.

    A column is one of a row, or `week`, the ISO week of its start.
    """
    found: dict[tuple[str | None, ...], set[str]] = {}
    for row in rows:
        found.setdefault(tuple(_column(row, name) for name in by), set()).add(row.trace)
    order = sorted(found, key=lambda key: [(each is None, natural(each)) for each in key])
    return {key: frozenset(found[key]) for key in order}


def _column(row: TraceRow, name: str) -> str | None:
    if name == "week":
        return None if dated(row.start_ns) is None else iso_week(row.start_ns)
    value: str | None = getattr(row, name)
    return value


# --- errors put in on purpose, told of elsewhere


def recovered(store: Store, given: Sequence[Injection]) -> Recovery:
    """The recovery rate over a file of injections; runs are looked up by the name it gives them.

    Raises NotFound where a correction is left out and there is no such run to look at.
    """
    open_ = {each.run for each in given if each.corrected_after is msgspec.UNSET}
    traces = {name: trace_row(store, name).trace for name in sorted(open_)}
    signs = step_signs(store, traces.values())
    scores = {
        name: [_score(sign) for sign in signs.get(trace, ())] for name, trace in traces.items()
    }
    return recovery(given, scores)


class OwnGold(Struct, frozen=True, kw_only=True):
    """Gold that a user wrote; `hindsight`: first seen after the run began, None where unknown."""

    hindsight: bool | None


class Run(Struct, frozen=True, eq=False, kw_only=True):
    """What the metrics need of a run.

    `own` is of gold that a user wrote, None where there is none. `task` names the task for one
    agent (trials of one task share it), `series` what was evaluated together with this trial, both
    None where the source says no task. `writes` names the tools that change something.
    `failed_steps` has an entry a step. `clean` says that a person or a judge scored every step and
    found none wanting. `size` is the length of the task where a label gives it, `injected` the step
    an error was put in at and `corrected_after` the steps until it was corrected, `paraphrase_of`
    the task whose words were changed. `cached` are the input tokens of the calls that say what they
    read from a cache, and how many that were.
    """

    trace: str
    steps: int
    money: Money
    passed: bool | None = None
    verifier: str | None = None
    value: float | None = None
    task: str | None = None
    stratum: str = ""
    series: str | None = None
    gold: Gold | None = None
    gold_plan: tuple[str, ...] | None = None
    own: OwnGold | None = None
    calls: tuple[Act, ...] = ()
    writes: frozenset[str] = frozenset()
    failed_steps: tuple[bool | None, ...] = ()
    shape: Shape | None = None
    clean: bool | None = None
    size: float | None = None
    injected: int | None = None
    corrected_after: int | None = None
    paraphrase_of: str | None = None
    agent: str | None = None
    temperatures: tuple[float, ...] = ()
    cached: tuple[int, int] | None = None
