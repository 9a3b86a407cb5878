"""The eval pyramid over two groups of runs of a database: what each layer counts, and
where they point.

L0 is the share of a run's asserts that held, L1 its tool-call F1 against gold, L2 the mean score of
its steps (of one source in both groups: an approved judge where it scored at least half of the runs
of each, else the rules, whose scores are read without the outcome), L3 whether it passed. Runs that
lack a layer are in none of its figures.
"""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from replay.statistics import Rate
from replay.store import read
from replay.store.handle import Store, now_ns
from replay.store.rows import TraceRow
from taxonomy.calibration import approval
from taxonomy.findings import most_trusted
from taxonomy.metrics.layers import (
    MARGIN,
    Layer,
    LayerChange,
    LayerVerdict,
    Needed,
    compare_layers,
    route,
    runs_needed,
)
from taxonomy.metrics.reliability import mean_rate
from taxonomy.query.fields import tool_definitions
from taxonomy.stats.asserts import Asserts, Checked
from taxonomy.stats.gold import call_f1
from taxonomy.stats.runs import runs_of

Sides: TypeAlias = tuple[Sequence[TraceRow], Sequence[TraceRow]]
How: TypeAlias = Literal["changed", "added", "removed"]


class ToolChange(Struct, frozen=True, kw_only=True):
    """A tool whose definition (description or schema) the groups do not share."""

    tool: str
    how: How


class AssertChange(Struct, frozen=True, kw_only=True):
    """One assert in both groups: the share of completions in which it held, as a mean over tasks.
    `unknown` completions could not be decided."""

    name: str
    before: Rate
    after: Rate
    checked: tuple[int, int]
    unknown: int


class LayerFigures(Struct, frozen=True, kw_only=True):
    """Every layer of both groups, and what they say.

    `rubric` is the source of the scores of L2: the judge's name, or `rules`, None where no step has
    a score; `judge_left` names an approved judge that scored too few runs, and how many. `tools`
    are the tools whose definitions differ, None where one group recorded none; `also` what else
    differs between the groups (model, system prompt).
    """

    layers: tuple[LayerChange, ...]
    verdict: LayerVerdict
    needed: Needed | None
    margin: float
    rubric: str | None
    judge_left: tuple[str, int] | None
    tools: tuple[ToolChange, ...] | None
    also: tuple[str, ...]
    asserts: tuple[AssertChange, ...]


RULES = "rules"


def layer_figures(
    store: Store, sides: Sides, asserts: Asserts | None = None, margin: float = MARGIN
) -> LayerFigures:
    """The figures of two groups, before and after; without `asserts` L0 is not evaluated."""
    checked = [_check(store, rows, asserts) for rows in sides]
    rubric, scores, judge_left = _rubric(store, sides)
    found: dict[Layer, tuple[dict[str, list[float]], dict[str, list[float]]]] = {}
    values_of: dict[Layer, Sequence[Mapping[str, float | None]]] = {
        "L0": [_assert_shares(each) for each in checked],
        "L1": [{run.trace: call_f1(run) for run in runs_of(store, rows)} for rows in sides],
        "L2": scores,
        "L3": [{row.trace: _outcome(row) for row in rows} for rows in sides],
    }
    for layer, values in values_of.items():
        before, after = (
            _by_task(rows, known) for rows, known in zip(sides, values, strict=True)
        )  # fmt: skip
        found[layer] = before, after
    layers = compare_layers(found, margin)
    tools = _tool_changes(store, sides)
    return LayerFigures(
        layers=layers,
        verdict=route(layers, None if tools is None else bool(tools)),
        needed=runs_needed(layers, margin),
        margin=margin,
        rubric=rubric,
        judge_left=judge_left,
        tools=tools,
        also=tuple(_also(sides)),
        asserts=() if asserts is None else tuple(_assert_changes(asserts, sides, checked)),
    )


def _by_task(
    rows: Iterable[TraceRow], values: Mapping[str, float | None]
) -> dict[str, list[float]]:
    """The values by task; a run without a task is a task of its own."""
    found: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        value = values.get(row.trace)
        if value is not None:
            found[_task(row)].append(value)
    return dict(found)


def _task(row: TraceRow) -> str:
    return f"run {row.trace}" if row.task is None else f"task {row.task}"


def _outcome(row: TraceRow) -> float | None:
    return None if row.outcome == "unknown" else float(row.outcome == "passed")


# --- L0


def _check(
    store: Store, rows: Sequence[TraceRow], asserts: Asserts | None
) -> dict[str, list[Checked]]:
    if asserts is None:
        return {}
    return {
        row.trace: asserts.check(
            read.load(store, row.trace), msgspec.json.decode(row.labels, type=dict[str, str])
        )
        for row in rows
    }


def _assert_shares(
    checked: Mapping[str, Iterable[Checked]], name: str | None = None
) -> dict[str, float | None]:
    found: dict[str, float | None] = {}
    for trace, each in checked.items():
        held = [one.held for one in each if one.held is not None and name in (None, one.name)]
        found[trace] = sum(held) / len(held) if held else None
    return found


def _assert_changes(
    asserts: Asserts, sides: Sides, checked: Sequence[Mapping[str, list[Checked]]]
) -> Iterable[AssertChange]:
    for each in asserts.all:
        own = [[c for found in side.values() for c in found if c.name == each.name]
               for side in checked]  # fmt: skip
        before, after = (
            mean_rate([statistics.fmean(values) for values in _by_task(
                rows, _assert_shares(side, each.name)).values()])
            for rows, side in zip(sides, checked, strict=True)
        )  # fmt: skip
        yield AssertChange(
            name=each.name,
            before=before,
            after=after,
            checked=(len(own[0]), len(own[1])),
            unknown=sum(c.held is None for side in own for c in side),
        )


# --- L2


def _rubric(
    store: Store, sides: Sides
) -> tuple[str | None, list[dict[str, float | None]], tuple[str, int] | None]:
    """The source of scores for both groups, the mean score of each run by it, and an approved judge
    that scored too few of them with how many."""
    now = now_ns()
    by_source: list[dict[str, dict[str, float]]] = []
    for rows in sides:
        found: dict[str, dict[str, float]] = defaultdict(dict)
        for row in rows:
            scores = approval.trusted_scores(store, row.trace, now, items=False)
            for source, by in (("judge", None), ("rule", RULES)):
                own = [each for each in scores if each.source == source]
                values = [each.value for each in most_trusted(own).values()]
                known = [value for value in values if value is not None]
                if known:
                    found[by or own[0].by][row.trace] = statistics.fmean(known)
        by_source.append(found)
    judges = Counter[str]()
    for found in by_source:
        judges.update({by: len(runs) for by, runs in found.items() if by != RULES})
    left = None
    for by, scored in judges.most_common():
        shares = [2 * len(found.get(by, ())) >= max(len(rows), 1)
                  for found, rows in zip(by_source, sides, strict=True)]  # fmt: skip
        if all(shares):
            return by, [dict(found[by]) for found in by_source], None
        left = left or (by, scored)
    rules = RULES if any(RULES in found for found in by_source) else None
    return rules, [dict(found.get(RULES, {})) for found in by_source], left


# --- what else differs


def _tool_changes(store: Store, sides: Sides) -> tuple[ToolChange, ...] | None:
    """The tools whose definitions differ, over the tasks of both groups where they share some:
    other tasks may offer other tools."""
    shared = {_task(row) for row in sides[0]} & {_task(row) for row in sides[1]}
    compared = [[row for row in rows if not shared or _task(row) in shared] for rows in sides]
    definitions = [
        tool_definitions(store, [row.trace for row in rows]).values() for rows in compared
    ]
    if not all(definitions):
        return None
    before, after = (_all_definitions(each) for each in definitions)
    return tuple(
        ToolChange(
            tool=name,
            how="added" if name not in before else "removed" if name not in after else "changed",
        )
        for name in sorted({*before, *after})
        if before.get(name) != after.get(name)
    )


def _all_definitions(
    found: Iterable[Mapping[str, frozenset[str]]],
) -> dict[str, frozenset[str]]:
    merged: dict[str, frozenset[str]] = {}
    for each in found:
        for name, known in each.items():
            merged[name] = merged.get(name, frozenset()) | known
    return merged


def _also(sides: Sides) -> Iterable[str]:
    """What a change of the figures may be due to besides."""
    for name, column in (("model", "models"), ("system prompt", "prompt")):
        before, after = ({getattr(row, column) for row in rows} - {None} for rows in sides)
        if before and after and before != after:
            yield name
