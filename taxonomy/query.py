"""Questions over both migration sets: what was recorded joined with what is said of it.

The view `failures` and the indices for such questions are defined here and made by the ledger's
migrations.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

import msgspec
from msgspec import Struct

from replay.action import Act
from replay.store import Store
from replay.store.rows import rows
from replay.trace import Effect, Json
from taxonomy.classes import FailureClass, Fault, Shape
from taxonomy.findings import Source

_TAG_TRUST = "CASE source WHEN 'human' THEN 0 WHEN 'judge' THEN 1 ELSE 2 END"
_SUGGESTION_TRUST = "CASE source WHEN 'judge' THEN 3 ELSE 4 END"
_COUNTS = "(confidence IS NULL OR confidence >= 0.5)"
"""Below that a suggestion is a hint, and counts nowhere."""

FAILURES = f"""
CREATE VIEW failures AS
WITH said AS (
  SELECT trace, span, step, class, sub, fault, source, by, note AS why, 1 AS accepted,
    {_TAG_TRUST} AS trust
  FROM tag
  UNION ALL
  SELECT trace, span, step, class, sub, fault, source, by, why, 0, {_SUGGESTION_TRUST}
  FROM suggestion
  WHERE {_COUNTS})
SELECT p.trace, p.run, p.task, p.trial, p.variant, p.models, p.outcome,
  said.class, said.sub, said.fault, r.key AS recording, said.step, said.span, said.source,
  said.by, said.why, said.accepted,
  row_number() OVER (PARTITION BY p.trace ORDER BY said.trust, said.step, said.class) AS place
FROM trace_summary p
JOIN trace r ON r.run = p.run AND r.complete
JOIN said ON said.trace = r.key AND (said.accepted OR r.key = p.trace)
WHERE p.preferred
"""

INDICES = f"""
CREATE INDEX suggestion_first ON suggestion(trace, {_SUGGESTION_TRUST}, step, class)
  WHERE {_COUNTS};

CREATE INDEX trace_ending ON trace(outcome, complete, key, run, steps, task);

CREATE INDEX trace_recordings ON trace(run, complete, steps)
"""
"""What lets the failed runs of a large database be counted without reading their rows."""


class TagRow(Struct, frozen=True, kw_only=True):
    """A row of the view `failures`: a tag (`accepted`) or a suggestion, on one run.

    `trace` is the run's preferred recording. `recording` is the one it was said of, whose step and
    span these are: a person may have tagged another recording, where steps count otherwise.
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
    recording: str
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


# --- failed runs; those of the tasks `without` are left out


NONE: frozenset[str] = frozenset()
"""No task is left out."""


def _but(without: Collection[str]) -> tuple[str, tuple[str, ...]]:
    """A condition on the column `task`, and its values."""
    if not without:
        return "1", ()
    return "(task IS NULL OR task NOT IN (SELECT value FROM json_each(?)))", (_among(without),)


def first_words(
    store: Store, *, every: bool = False, without: Collection[str] = NONE
) -> list[TagRow]:
    """What the Pareto counts of each failed run: one word on it, or `every` one."""
    known, values = _but(without)
    first = "1" if every else "place = 1"
    return tag_rows(store, f"outcome = 'failed' AND {first} AND {known}", values)


class WordCount(NamedTuple):
    """Failed runs of which the same is said first; `failure` None: nobody says anything."""

    failure: FailureClass | None
    sub: str | None
    fault: Fault | None
    accepted: bool
    runs: int


def count_first_words(store: Store, *, without: Collection[str] = NONE) -> list[WordCount]:
    """The rows of `first_words` counted, and the runs that have none.

    Asked of each run on its own, by index: the view would first write down and sort all that is
    said of every run.
    """
    known, values = _but(without)
    found = store.db.execute(
        "WITH tagged AS ("
        "  SELECT r.run, g.class, g.sub, g.fault, row_number() OVER ("
        f"    PARTITION BY r.run ORDER BY {_TAG_TRUST}, g.step, g.class) AS place"
        "  FROM tag g JOIN trace r ON r.key = g.trace AND r.complete)"
        " SELECT coalesce(t.class, s.class) AS class, iif(t.run IS NULL, s.sub, t.sub) AS sub,"
        "   iif(t.run IS NULL, s.fault, t.fault) AS fault, t.run IS NOT NULL AS accepted, count(*)"
        " FROM trace_summary p LEFT JOIN tagged t ON t.run = p.run AND t.place = 1"
        " LEFT JOIN suggestion s ON t.run IS NULL AND s.rowid = ("
        f"   SELECT rowid FROM suggestion WHERE trace = p.trace AND {_COUNTS}"
        f"   ORDER BY {_SUGGESTION_TRUST}, step, class LIMIT 1)"
        f" WHERE p.preferred AND p.outcome = 'failed' AND {known}"
        " GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4",
        values,
    )
    return [
        WordCount(
            failure=FailureClass(failure) if failure else None,
            sub=sub,
            fault=Fault(fault) if fault else None,
            accepted=bool(accepted),
            runs=runs,
        )
        for failure, sub, fault, accepted, runs in found
    ]


def count_runs(store: Store, tasks: Collection[str]) -> int:
    """How many runs some tasks have, each run once."""
    (count,) = store.db.execute(
        "SELECT count(*) FROM trace_summary WHERE preferred"
        " AND task IN (SELECT value FROM json_each(?))",
        (_among(tasks),),
    ).fetchone()
    return int(count)


def outcome_count(store: Store, outcome: str, *, without: Collection[str] = NONE) -> int:
    """How many runs ended so, each run once."""
    known, values = _but(without)
    (count,) = store.db.execute(
        f"SELECT count(*) FROM trace_summary WHERE preferred AND outcome = ? AND {known}",
        (outcome, *values),
    ).fetchone()
    return int(count)


class RunHead(NamedTuple):
    """What a run is called, how it ended and when it began; its preferred recording."""

    trace: str
    run: str
    title: str | None
    task: str | None
    trial: str | None
    outcome: str
    start_ns: int | None


def run_heads(store: Store, *, without: Collection[str] = NONE) -> list[RunHead]:
    """Every run once, in the order of their traces' ids."""
    known, values = _but(without)
    found = store.db.execute(
        "SELECT trace, run, title, task, trial, outcome, start_ns FROM trace_summary"
        f" WHERE preferred AND {known} ORDER BY trace",
        values,
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


def agent_extras(store: Store, traces: Iterable[str]) -> dict[str, list[dict[str, Json]]]:
    """What the source keeps of each agent of a trace that has no field of its own."""
    found = store.db.execute(
        "SELECT t.key, json_extract(s.detail, '$.extra') FROM trace t JOIN span s ON s.trace = t.id"
        " WHERE t.complete AND t.key IN (SELECT value FROM json_each(?)) AND s.kind = 'agent'"
        "   AND json_type(s.detail, '$.extra') = 'object' ORDER BY t.id, s.seq",
        (_among(traces),),
    )
    kept: dict[str, list[dict[str, Json]]] = {}
    for key, extra in found:
        kept.setdefault(key, []).append(msgspec.json.decode(extra, type=dict[str, Json]))
    return kept


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
