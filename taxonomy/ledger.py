"""Judgements kept: tags, suggestions, scores, diagnoses; a migration set of their own.

Everything hangs on a trace's id and a span's id, never on row numbers, so it survives a trace that
is imported again and grew. Rules and judge write suggestions; only a person's word is a tag.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
from msgspec import Struct
from sqlite_utils import Database
from sqlite_utils.migrations import Migrations

from replay.store import Store
from replay.store.handle import now_ns
from taxonomy.classes import FailureClass, Fault
from taxonomy.findings import Diagnosis, Evidence, Source
from taxonomy.query import FAILURES

migrations = Migrations("taxonomy")

ENGINE = "arc rules 1"
"""Version of what writes diagnoses; another one makes them be written again."""


@migrations(name="0001_ledger")
def _ledger(db: Database) -> None:
    for statement in (*_LEDGER.split(";\n\n"), FAILURES):
        db.execute(statement)


_LEDGER = """
CREATE TABLE tag (
  id INTEGER PRIMARY KEY,
  trace TEXT NOT NULL,
  span TEXT NOT NULL,
  step INTEGER NOT NULL,
  class TEXT NOT NULL,
  sub TEXT,
  fault TEXT,
  note TEXT,
  by TEXT NOT NULL,
  source TEXT NOT NULL,
  evidence TEXT NOT NULL,
  tagged_ns INTEGER NOT NULL,
  UNIQUE (trace, span, class, by)
) STRICT;

CREATE TABLE suggestion (
  trace TEXT NOT NULL,
  place INTEGER NOT NULL,
  span TEXT NOT NULL,
  step INTEGER NOT NULL,
  class TEXT NOT NULL,
  sub TEXT,
  fault TEXT,
  why TEXT NOT NULL,
  by TEXT NOT NULL,
  source TEXT NOT NULL,
  confidence REAL,
  evidence TEXT NOT NULL,
  PRIMARY KEY (trace, source, place)
) STRICT;

CREATE TABLE score (
  trace TEXT NOT NULL,
  span TEXT NOT NULL,
  step INTEGER NOT NULL,
  value REAL,
  source TEXT NOT NULL,
  by TEXT NOT NULL,
  items TEXT NOT NULL,
  PRIMARY KEY (trace, step, source, by)
) STRICT;

CREATE TABLE diagnosis (
  trace TEXT PRIMARY KEY,
  content TEXT NOT NULL,
  engine TEXT NOT NULL,
  shape TEXT,
  why TEXT,
  why_step INTEGER,
  warnings TEXT NOT NULL,
  body TEXT NOT NULL
) STRICT;

CREATE INDEX tag_class ON tag(class);

CREATE INDEX suggestion_class ON suggestion(class)
"""


class Tag(Struct, frozen=True, kw_only=True):
    """A failure class on a step, said by someone."""

    trace: str
    span: str
    step: int
    failure: FailureClass
    by: str
    source: Source = "human"
    sub: str | None = None
    fault: Fault | None = None
    note: str | None = None
    evidence: tuple[Evidence, ...] = ()


def open_ledger(path: Path | str) -> Store:
    """A store with both migration sets applied."""
    return Store.open(path, migrations)


def tag(store: Store, given: Tag) -> None:
    """Keep a tag; the same class on the same step by the same person replaces its note."""
    with store.writing() as db:
        db.execute(
            "INSERT INTO tag (trace, span, step, class, sub, fault, note, by, source, evidence,"
            " tagged_ns) VALUES (?,?,?,?,?,?,?,?,?,?,?)"
            " ON CONFLICT (trace, span, class, by) DO UPDATE SET sub = excluded.sub,"
            " fault = excluded.fault, note = excluded.note, evidence = excluded.evidence,"
            " tagged_ns = excluded.tagged_ns",
            (
                given.trace,
                given.span,
                given.step,
                given.failure.value,
                given.sub,
                given.fault.value if given.fault else None,
                store.redactor.text(given.note) if given.note else None,
                given.by,
                given.source,
                msgspec.json.encode(given.evidence).decode(),
                now_ns(),
            ),
        )


def untag(store: Store, given: Tag) -> bool:
    """Take a tag back; was there one?"""
    with store.writing() as db:
        done = db.execute(
            "DELETE FROM tag WHERE trace = ? AND span = ? AND class = ? AND by = ?",
            (given.trace, given.span, given.failure.value, given.by),
        )
    return done.rowcount > 0


def keep(store: Store, diagnosis: Diagnosis, spans: dict[int, str]) -> None:
    """Keep what the rules say of a trace, in place of what they said before.

    `spans` gives the model span of each step.
    """
    key = diagnosis.trace
    first = diagnosis.candidates[0] if diagnosis.candidates else None
    encode = msgspec.json.encode
    with store.writing() as db:
        db.execute("DELETE FROM suggestion WHERE trace = ? AND source = 'rule'", (key,))
        db.execute("DELETE FROM score WHERE trace = ? AND source <> 'human'", (key,))
        db.executemany(
            "INSERT INTO suggestion VALUES (?,?,?,?,?,?,?,?,?,'rule',?,?)",
            [
                (
                    key,
                    place,
                    found.span or spans.get(found.step, ""),
                    found.step,
                    found.failure.value,
                    found.sub,
                    found.fault.value if found.fault else None,
                    found.why,
                    found.rule,
                    found.confidence,
                    encode(found.evidence).decode(),
                )
                for place, found in enumerate(diagnosis.findings)
            ],
        )
        db.executemany(
            "INSERT OR REPLACE INTO score VALUES (?,?,?,?,?,?,?)",
            [
                (
                    key,
                    score.span or spans.get(score.step, ""),
                    score.step,
                    score.value,
                    score.source,
                    score.by,
                    encode(score.items).decode(),
                )
                for score in diagnosis.scores
            ],
        )
        db.execute(
            "INSERT OR REPLACE INTO diagnosis"
            " SELECT key, content, ?, ?, ?, ?, ?, ? FROM trace WHERE key = ? AND complete",
            (
                ENGINE,
                diagnosis.shape.value if diagnosis.shape else None,
                first.why if first else None,
                first.step if first else None,
                encode(diagnosis.warnings).decode(),
                encode(diagnosis).decode(),
                key,
            ),
        )


def diagnosis(store: Store, trace: str) -> Diagnosis | None:
    """What the rules said of a trace, None where they were not asked yet."""
    row = store.db.execute("SELECT body FROM diagnosis WHERE trace = ?", (trace,)).fetchone()
    return None if row is None else msgspec.json.decode(row[0], type=Diagnosis)


def undiagnosed(store: Store) -> list[str]:
    """Traces the rules have not seen as they are now, in the order of their import."""
    found = store.db.execute(
        "SELECT t.key FROM trace t LEFT JOIN diagnosis d ON d.trace = t.key"
        " WHERE t.complete AND (d.content IS NOT t.content OR d.engine IS NOT ?)"
        " ORDER BY t.id",
        (ENGINE,),
    )
    return [row[0] for row in found]
