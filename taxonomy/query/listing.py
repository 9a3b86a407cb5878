"""A list of runs: its order, its rows, and what it adds up to; the other trials of a task."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec
from msgspec import Struct

from replay import messages
from replay.store.handle import Store
from replay.store.rows import TraceRow, columns
from replay.trace import Level, Message
from taxonomy.classes import Shape
from taxonomy.held_out import HeldOutNote, hidden
from taxonomy.query.failures import count_runs
from taxonomy.query.filter import ALL, Filter, among, few, of_values

if TYPE_CHECKING:
    from taxonomy.metrics.reliability import Trials


class RunRow(TraceRow, frozen=True, kw_only=True):
    """A run: the columns of `trace_summary`, and what its diagnosis says first.

    `why` is the evidence of the first candidate in one phrase, `why_step` its step; `warnings`
    say why a run that passed is marked `✓!`.
    """

    shape: Shape | None = None
    why: str | None = None
    why_step: int | None = None
    warnings: tuple[str, ...] = ()


_ENDED = "CASE outcome WHEN 'failed' THEN 0 WHEN 'unknown' THEN 1 ELSE 2 END"
_WARNED = "SELECT trace FROM diagnosis WHERE warnings <> '[]'"

Order: TypeAlias = tuple[str, ...]
"""What a list is sorted by: expressions of SQL in ascending order, () the order of import. Runs
that are equal stand as they were imported. None of them is ever NULL, which would come first."""

ORDERS: dict[str, Order] = {
    "": (),
    "outcome": (_ENDED, f"trace NOT IN ({_WARNED})"),
    "task": ("task IS NULL", "coalesce(nullif(task, ''), title, '')", "coalesce(trial, '')"),
    "steps": ("-steps",),
    "cost": ("coalesce(-cost_usd, 9e999)",),
    "time": ("coalesce(-(CASE WHEN end_ns > start_ns THEN end_ns - start_ns END), 9e999)",),
}
"""The orders that an index has, by name: largest first, unknown last. By outcome the
unknown runs are moved to the end after the query. By time without `duration_ns`, because a
computed column of a view never matches an index."""

_LAST = ("imported_ns", "trace")

PAGE = 200
"""Rows that are read together."""


def run_rows(
    store: Store, chosen: Filter = ALL, *, order: Order = (), every: bool = False
) -> tuple[RunRow, ...]:
    """All rows that a filter chooses, in the order that `run_order` gives them."""
    cursor = store.db.execute(
        f"SELECT {columns(RunRow)} FROM runs WHERE {_seen(every)} AND ({chosen.sql})"
        f" ORDER BY {', '.join((*order, *_LAST))}",
        list(chosen.values),
    )
    found = tuple(_rows(cursor))
    if order == ORDERS["outcome"]:
        return tuple(sorted(found, key=lambda row: row.outcome == "unknown"))
    return found


def run_order(
    store: Store,
    chosen: Filter = ALL,
    *,
    order: Order = (),
    limit: int | None = None,
    newest: bool = False,
) -> list[str]:
    """The traces of a list in their order, without their rows: all that a screen scrolls over, or
    the first `limit`. With `newest` they stand the other way round."""
    if order == ORDERS["outcome"]:
        if limit is not None and not newest:
            return _by_outcome(store, chosen, limit)
        return _all_by_outcome(store, chosen)[:: -1 if newest else 1][:limit]
    return _in_order(store, chosen, order, limit, newest)


def _in_order(
    store: Store, chosen: Filter, order: Order, limit: int | None = None, newest: bool = False
) -> list[str]:
    # A list is walked by the index of its order; where the runs are few, these are sorted.
    terms = [f"+({each})" if chosen.few else each for each in (*order, *_LAST)]
    # As one value: of very many runs a row each takes longer than all that finds them.
    (found,) = store.db.execute(
        "SELECT json_group_array(trace) FROM ("
        f"SELECT trace FROM runs WHERE preferred AND ({chosen.sql})"
        f" ORDER BY {', '.join(f'{each} DESC' if newest else each for each in terms)}"
        f" LIMIT {-1 if limit is None else limit})",
        list(chosen.values),
    ).fetchone()
    return _NAMES.decode(found)


_IS_WARNED = (
    "EXISTS (SELECT 1 FROM diagnosis w INDEXED BY diagnosis_warned"
    " WHERE w.trace = runs.trace AND w.warnings <> '[]')"
)


def _by_outcome(store: Store, chosen: Filter, limit: int) -> list[str]:
    """The beginning of `_all_by_outcome`, part by part until there are enough."""
    found: list[str] = []
    warned = few(store, [Filter(_WARNED)])
    is_warned = Filter(_IS_WARNED) if warned is None else of_values("trace", warned)
    for ended in (0, 2, 1):
        for part in (is_warned, Filter(f"NOT ({is_warned.sql})", is_warned.values)):
            of = Filter(f"{_ENDED} = {ended}") & part & chosen
            found += _in_order(store, of, (), limit - len(found))
            if len(found) >= limit:
                return found
    return found


def _all_by_outcome(store: Store, chosen: Filter) -> list[str]:
    """What needs work first: failed, then passed with warnings, passed, unknown last."""
    found = store.db.execute(
        f"SELECT trace, {_ENDED} FROM runs WHERE preferred AND ({chosen.sql})"
        f" ORDER BY {', '.join((_ENDED, *_LAST))}",
        list(chosen.values),
    ).fetchall()
    warned = {row[0] for row in store.db.execute(_WARNED)}
    failed, unknown = (bisect_left(found, place, key=itemgetter(1)) for place in (1, 2))
    traces = [row[0] for row in found]
    parts = (traces[:failed], traces[unknown:], traces[failed:unknown])
    return [
        trace for part in parts for first in (True, False) for trace in part
        if (trace in warned) is first
    ]  # fmt: skip


def runs_at(store: Store, traces: Sequence[str]) -> tuple[RunRow, ...]:
    """The rows of some traces, in the order they are named; those that are gone are left out."""
    cursor = store.db.execute(
        f"SELECT {columns(RunRow)} FROM runs WHERE trace IN (SELECT value FROM json_each(?))",
        (among(traces),),
    )
    found = {row.trace: row for row in _rows(cursor)}
    return tuple(found[trace] for trace in traces if trace in found)


class Totals(Struct, frozen=True, kw_only=True):
    """What the runs of a list add up to; `cost_usd` sums what is known of it."""

    runs: int
    failed: int
    cost_usd: float | None
    cost_complete: bool


def run_totals(store: Store, chosen: Filter = ALL) -> Totals:
    """The sums over the runs that a filter chooses, each run once."""
    # SQLite leaves an unasked diagnosis out of a list's join, but not out of a sum's.
    joined = "trace_summary" if chosen.recorded else "runs"
    runs, failed, cost_usd, complete = store.db.execute(
        "SELECT count(*), count(*) FILTER (WHERE outcome = 'failed'), sum(cost_usd),"
        f" coalesce(min(cost_complete), 1) FROM {joined} WHERE preferred AND ({chosen.sql})",
        list(chosen.values),
    ).fetchone()
    return Totals(runs=runs, failed=failed, cost_usd=cost_usd, cost_complete=bool(complete))


def run_count(store: Store, chosen: Filter = ALL) -> int:
    """How many runs a filter chooses, each once."""
    joined = "trace_summary" if chosen.recorded else "runs"
    counted = store.db.execute(
        f"SELECT count(*) FROM {joined} WHERE preferred AND ({chosen.sql})", list(chosen.values)
    )
    return int(counted.fetchone()[0])


def _seen(every: bool) -> str:
    return "1" if every else "preferred"


_FIELDS = RunRow.__struct_fields__


def _rows(cursor: Iterable[Sequence[Any]]) -> Iterator[RunRow]:
    """Made by hand: the types of a strict table hold, and a conversion takes twice the time."""
    for values in cursor:
        known = dict(zip(_FIELDS, values, strict=True))
        for name in ("tokens_complete", "cost_complete", "preferred"):
            known[name] = bool(known[name])
        known["fidelity"] = None if known["fidelity"] is None else Level(known["fidelity"])
        known["shape"] = None if known["shape"] is None else Shape(known["shape"])
        said = known["warnings"]
        known["warnings"] = () if said in (None, "[]") else _WARNINGS.decode(said)
        yield RunRow(**known)


_WARNINGS = msgspec.json.Decoder(tuple[str, ...])
_NAMES = msgspec.json.Decoder(list[str])


def siblings(store: Store, of: RunRow) -> tuple[RunRow, ...]:
    """The other runs of a run's task, those that passed first, then those of its own variant.

    () where it names no task.
    """
    if of.task is None:
        return ()
    found = run_rows(store, Filter("task = ? AND run <> ?", (of.task, of.run), recorded=True))
    return tuple(
        sorted(
            found,
            key=lambda row: (row.outcome != "passed", row.variant != of.variant, row.trial or ""),
        )
    )


def held_out_note(store: Store, *, shown: bool = False) -> HeldOutNote:
    """What lists, counts and the tagging queue leave out, unless it is to be `shown`."""
    tasks = hidden(store)
    return HeldOutNote(tasks=tasks, runs=count_runs(store, tasks) if tasks else 0, shown=shown)


_PROMPTS = """
SELECT 'a system prompt', NULL, dialect, body FROM message
WHERE id IN (SELECT system FROM model_call)
UNION ALL
SELECT 'tool definitions', NULL, NULL, body FROM toolset
WHERE id IN (SELECT toolset FROM model_call)
"""

_EXAMPLES = """
WITH RECURSIVE begun(task, node) AS (
  SELECT DISTINCT t.task, m.context FROM trace t JOIN step s ON s.trace = t.id AND s.step = 0
    JOIN model_call m ON m.span = s.ask WHERE t.complete AND m.context IS NOT NULL),
above(task, node) AS (
  SELECT task, c.parent FROM begun JOIN context c ON c.id = node WHERE c.parent IS NOT NULL
  UNION
  SELECT task, c.parent FROM above JOIN context c ON c.id = node WHERE c.parent IS NOT NULL)
SELECT 'an example before the task of a run', task, g.dialect, g.body
FROM above JOIN context c ON c.id = node JOIN message g ON g.id = c.message
"""


def prompt_texts(store: Store) -> Iterator[tuple[str, str | None, str]]:
    """(where, task, text) of all that agents were told before their tasks: system prompts, tool
    definitions, and what stands before the message that a run of a task begins with."""
    for query in (_PROMPTS, _EXAMPLES):
        for place, task, dialect, body in store.db.execute(query):
            value = msgspec.json.decode(body)
            told = messages.text(Message(dialect=dialect, body=value)) if dialect else str(value)
            yield place, task, told


def tools_called(store: Store, trace: str) -> tuple[str, ...]:
    """The tools that any run of the agent of a trace called, as far as its source and its name
    tell."""
    found = store.db.execute(
        "SELECT DISTINCT s.name FROM span s JOIN trace t ON t.id = s.trace AND t.complete"
        " JOIN trace own ON own.key = ? AND t.format = own.format AND t.agent IS own.agent"
        " WHERE s.kind = 'tool' ORDER BY s.name",
        (trace,),
    )
    return tuple(name for (name,) in found)


# --- the trials of each task


class TaskTrials(Struct, frozen=True, kw_only=True):
    """The trials of one task with one variant and the same models. `golden` are the golden sets
    that the runs name, "" for none."""

    task: str | None
    variant: str | None
    models: str | None
    trials: Trials
    golden: tuple[str, ...]


_TRIALS = """
SELECT task, nullif(variant, '') AS variant, nullif(models, '') AS models,
  count(*) FILTER (WHERE outcome <> 'unknown'), count(*) FILTER (WHERE outcome = 'passed'),
  count(*) FILTER (WHERE outcome = 'unknown'),
  sum(usd) FILTER (WHERE outcome <> 'unknown'),
  coalesce(min(whole) FILTER (WHERE outcome <> 'unknown'), 0),
  json_group_array(DISTINCT coalesce(json_extract(labels, '$."arc.golden"'), ''))
FROM (
  SELECT task, variant, models, outcome, labels,
    iif(reported, reported_cost_usd, cost_usd) AS usd,
    reported OR (cost_complete AND cost_usd IS NOT NULL) AS whole
  FROM (SELECT *, NOT cost_complete AND coalesce(reported_cost_usd, 0) <> 0 AS reported
    FROM {} WHERE preferred AND ({}))
)
GROUP BY 1, 2, 3
"""
"""A run costs what its steps cost, else what its source says, as for `arc stats`."""


def task_trials(store: Store, chosen: Filter = ALL) -> Iterator[TaskTrials]:
    """The trials of each task, counted by the database in one pass."""
    from taxonomy.metrics.cost import Money  # a list of runs starts without either
    from taxonomy.metrics.reliability import Trials

    known = "trace_summary" if chosen.recorded else "runs"
    found = store.db.execute(_TRIALS.format(known, chosen.sql), list(chosen.values))
    for task, variant, models, n, passed, unknown, usd, whole, golden in found:
        cost = Money(cost_usd=usd, cost_complete=bool(whole) and usd is not None)
        yield TaskTrials(
            task=task,
            variant=variant,
            models=models,
            trials=Trials(n=n, passed=passed, unknown=unknown, cost=cost),
            golden=msgspec.json.decode(golden, type=tuple[str, ...]),
        )


def natural(text: str | None) -> list[tuple[int, str]]:
    """A key that sorts v9 before v10."""
    parts = re.findall(r"[0-9]+|[^0-9]+", text or "")
    return [(int(part), "") if part.isdecimal() else (0, part) for part in parts]
