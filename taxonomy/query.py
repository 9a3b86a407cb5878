"""Questions over both migration sets: what was recorded joined with what is said of it.

The view `failures` is defined here and made by the ledger's first migration.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec
from msgspec import Struct

from replay.action import Act
from replay.store import Store
from replay.store.rows import rows
from replay.trace import Effect, Json
from taxonomy.classes import FailureClass, Fault, Shape
from taxonomy.findings import Source

FAILURES = """
CREATE VIEW failures AS
WITH said AS (
  SELECT trace, span, step, class, sub, fault, source, by, note AS why, 1 AS accepted,
    CASE source WHEN 'human' THEN 0 WHEN 'judge' THEN 1 ELSE 2 END AS trust
  FROM tag
  UNION ALL
  SELECT trace, span, step, class, sub, fault, source, by, why, 0,
    CASE source WHEN 'judge' THEN 3 ELSE 4 END
  FROM suggestion
  WHERE confidence IS NULL OR confidence >= 0.5)  -- below that it is a hint, and counts nowhere
SELECT p.trace, p.run, p.task, p.trial, p.variant, p.models, p.outcome,
  said.class, said.sub, said.fault, said.step, said.span, said.source, said.by, said.why,
  said.accepted,
  row_number() OVER (PARTITION BY p.trace ORDER BY said.trust, said.step, said.class) AS place
FROM trace_summary p
JOIN trace r ON r.run = p.run AND r.complete
JOIN said ON said.trace = r.key AND (said.accepted OR r.key = p.trace)
WHERE p.preferred
"""


class TagRow(Struct, frozen=True, kw_only=True):
    """A row of the view `failures`: a tag (`accepted`) or a suggestion, on one run.

    `place` 1 is what the Pareto counts: the most trusted source, then the earliest step.
    """

    trace: str
    run: str
    task: str | None
    trial: str | None
    variant: str | None
    models: str | None
    outcome: str
    failure: FailureClass = msgspec.field(name="class")
    sub: str | None
    fault: Fault | None
    step: int
    span: str
    source: Source
    by: str
    why: str | None
    accepted: bool
    place: int


def tag_rows(store: Store, where: str = "1", values: tuple[object, ...] = ()) -> list[TagRow]:
    """Rows of the view `failures`, by run and place."""
    cursor = store.db.execute(
        f"SELECT * FROM failures WHERE {where} ORDER BY trace, place", list(values)
    )
    return list(rows(cursor, TagRow))


class Verdict(Struct, frozen=True, kw_only=True):
    """What a list says of a trace's diagnosis: the first candidate's phrase and step."""

    trace: str
    shape: Shape | None
    why: str | None
    why_step: int | None
    warnings: tuple[str, ...]


def verdicts(store: Store, where: str = "1", values: tuple[str, ...] = ()) -> dict[str, Verdict]:
    """The diagnoses of all traces, by trace, as far as a list shows them."""
    found = store.db.execute(
        f"SELECT trace, shape, why, why_step, warnings FROM diagnosis WHERE {where}", values
    )
    return {
        row[0]: Verdict(
            trace=row[0],
            shape=Shape(row[1]) if row[1] else None,
            why=row[2],
            why_step=row[3],
            warnings=msgspec.json.decode(row[4], type=tuple[str, ...]),
        )
        for row in found
    }


def verdict(store: Store, trace: str) -> Verdict | None:
    """The same of one trace, None where it has no diagnosis."""
    return verdicts(store, "trace = ?", (trace,)).get(trace)


def outcome_counts(store: Store) -> dict[str, int]:
    """How many runs passed, failed, and are unknown, each run once."""
    found = store.db.execute(
        "SELECT outcome, count(*) FROM trace_summary WHERE preferred GROUP BY outcome"
    )
    return {str(outcome): int(count) for outcome, count in found}


class RunHead(NamedTuple):
    """What a run is called, how it ended and when it began; its preferred recording."""

    trace: str
    run: str
    title: str | None
    task: str | None
    trial: str | None
    outcome: str
    start_ns: int | None


def run_heads(store: Store) -> list[RunHead]:
    """Every run once, in the order of their traces' ids."""
    found = store.db.execute(
        "SELECT trace, run, title, task, trial, outcome, start_ns FROM trace_summary"
        " WHERE preferred ORDER BY trace"
    )
    return [RunHead(*row) for row in found]


def first_tools(store: Store) -> dict[tuple[str, int], str]:
    """The first tool called at each step, by (trace, step)."""
    found = store.db.execute(
        "SELECT t.key, s.step, s.name, min(s.seq) FROM span s JOIN trace t ON t.id = s.trace"
        " WHERE s.kind = 'tool' AND t.complete AND s.step IS NOT NULL GROUP BY t.key, s.step"
    )
    return {(trace, step): name for trace, step, name, _ in found}


# --- what the metrics of some traces are counted from, by trace


def _among(traces: Iterable[str]) -> str:
    return msgspec.json.encode(sorted(traces)).decode()


def references(store: Store, traces: Iterable[str]) -> dict[str, dict[str, Json]]:
    """The gold actions and the like of those traces whose source has some."""
    found = store.db.execute(
        "SELECT key, reference FROM trace WHERE complete AND reference IS NOT NULL"
        " AND key IN (SELECT value FROM json_each(?))",
        (_among(traces),),
    )
    return {key: msgspec.json.decode(text) for key, text in found}


class CallMade(NamedTuple):
    """A call as it was made; `effect` as recorded."""

    act: Act
    effect: Effect


def calls_made(store: Store, traces: Iterable[str]) -> dict[str, list[CallMade]]:
    """The tool calls of each trace, in the order of their steps."""
    found = store.db.execute(
        "SELECT t.key, s.name, c.arguments, c.arguments_raw, c.effect"
        " FROM trace t JOIN span s ON s.trace = t.id JOIN tool_call c ON c.span = s.id"
        " WHERE t.complete AND t.key IN (SELECT value FROM json_each(?))"
        " ORDER BY t.id, s.step, s.seq",
        (_among(traces),),
    )
    made: dict[str, list[CallMade]] = {}
    for key, name, arguments, raw, effect in found:
        given = None if arguments is None else msgspec.json.decode(arguments)
        act = Act(tool=name, arguments=given, raw=raw)
        made.setdefault(key, []).append(CallMade(act, effect))
    return made


class StepSign(NamedTuple):
    """What is known of how a step went: calls that ended in an error, its most trusted score.

    `source` says whose score it is.
    """

    errors: int
    score: float | None
    source: Source | None


def step_signs(store: Store, traces: Iterable[str]) -> dict[str, list[StepSign]]:
    """A sign a step of each trace, in order."""
    found = store.db.execute(
        "SELECT t.key, s.errors, g.value, g.source FROM trace t JOIN step s ON s.trace = t.id"
        " LEFT JOIN score g ON g.rowid = (SELECT rowid FROM score o"
        "   WHERE o.trace = t.key AND o.step = s.step AND o.value IS NOT NULL"
        "   ORDER BY CASE o.source WHEN 'human' THEN 0 WHEN 'judge' THEN 1 WHEN 'import' THEN 2"
        "     ELSE 3 END, o.by LIMIT 1)"
        " WHERE t.complete AND t.key IN (SELECT value FROM json_each(?)) ORDER BY t.id, s.step",
        (_among(traces),),
    )
    signs: dict[str, list[StepSign]] = {}
    for key, errors, score, source in found:
        signs.setdefault(key, []).append(StepSign(errors, score, source))
    return signs


class CacheShare(NamedTuple):
    """Input tokens of the calls whose cache figures are known, and how many came from the cache."""

    input_tokens: int
    cache_read_tokens: int


def cache_shares(store: Store, traces: Iterable[str]) -> dict[str, CacheShare]:
    """By trace, of those with a call that says what it read from the cache."""
    found = store.db.execute(
        "SELECT t.key, sum(m.input_tokens), sum(m.cache_read_tokens)"
        " FROM trace t JOIN span s ON s.trace = t.id JOIN model_call m ON m.span = s.id"
        " WHERE t.complete AND t.key IN (SELECT value FROM json_each(?))"
        "   AND m.input_tokens IS NOT NULL AND m.cache_read_tokens IS NOT NULL GROUP BY t.key",
        (_among(traces),),
    )
    return {key: CacheShare(given, read) for key, given, read in found}


def temperatures(store: Store, traces: Iterable[str]) -> dict[str, tuple[float, ...]]:
    """The sampling temperatures each trace was recorded with, where it says."""
    found = store.db.execute(
        "SELECT DISTINCT t.key, json_extract(m.params, '$.temperature') AS temperature"
        " FROM trace t JOIN span s ON s.trace = t.id JOIN model_call m ON m.span = s.id"
        " WHERE t.complete AND t.key IN (SELECT value FROM json_each(?))"
        "   AND json_type(m.params, '$.temperature') IN ('integer', 'real')"
        " ORDER BY t.key, temperature",
        (_among(traces),),
    )
    known: dict[str, tuple[float, ...]] = {}
    for key, temperature in found:
        known[key] = (*known.get(key, ()), float(temperature))
    return known
