"""Questions over both migration sets: what was recorded joined with what is said of it.

The view `failures` is defined here and made by the ledger's first migration.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from replay.store import Store
from replay.store.rows import rows
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
  FROM suggestion)
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


def first_tools(store: Store) -> dict[tuple[str, int], str]:
    """The first tool called at each step, by (trace, step)."""
    found = store.db.execute(
        "SELECT t.key, s.step, s.name, min(s.seq) FROM span s JOIN trace t ON t.id = s.trace"
        " WHERE s.kind = 'tool' AND t.complete AND s.step IS NOT NULL GROUP BY t.key, s.step"
    )
    return {(trace, step): name for trace, step, name, _ in found}
