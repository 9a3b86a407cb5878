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

from replay.errors import ArcError
from replay.store import Store
from replay.store.handle import now_ns
from taxonomy.classes import FailureClass, Fault
from taxonomy.findings import Diagnosis, Evidence, Item, Source, StepScore
from taxonomy.query import FAILURES

migrations = Migrations("taxonomy")

ENGINE = "arc rules 2"
"""Version of what writes diagnoses; another one makes them be written again."""


@migrations(name="0001_ledger")
def _ledger(db: Database) -> None:
    for statement in (*_LEDGER.split(";\n\n"), FAILURES):
        db.execute(statement)


@migrations(name="0002_hints")
def _hints(db: Database) -> None:
    db.execute("DROP VIEW failures")
    db.execute(FAILURES)


@migrations(name="0003_clearances")
def _clearances(db: Database) -> None:
    for statement in _CLEARANCES.split(";\n\n"):
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

_CLEARANCES = """
CREATE TABLE clearance (
  trace TEXT NOT NULL,
  by TEXT NOT NULL,
  note TEXT,
  blind INTEGER NOT NULL,
  cleared_ns INTEGER NOT NULL,
  PRIMARY KEY (trace, by)
) STRICT;

ALTER TABLE tag ADD COLUMN blind INTEGER NOT NULL DEFAULT 0
"""


class Tag(Struct, frozen=True, kw_only=True):
    """A failure class on a step, said by someone.

    `blind`: before they saw what others, rules and judges say of the run.
    """

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
    blind: bool = False


class Clearance(Struct, frozen=True, kw_only=True):
    """A person saw nothing wrong in a run; `blind` as of a tag."""

    trace: str
    by: str
    note: str | None = None
    blind: bool = False


_RECORDINGS = """(SELECT ?
  UNION SELECT o.key FROM trace t JOIN trace o ON o.run = t.run WHERE t.key = ?)"""
"""A trace and the other recordings of its run."""


def open_ledger(path: Path | str) -> Store:
    """A store with both migration sets applied."""
    return Store.open(path, migrations)


def tag(store: Store, given: Tag) -> None:
    """Keep a tag; the same class on the same step by the same person replaces its note.

    A tag takes back the same person's word that nothing is wrong with the run.
    """
    with store.writing() as db:
        db.execute(
            f"DELETE FROM clearance WHERE by = ? AND trace IN {_RECORDINGS}",
            (given.by, given.trace, given.trace),
        )
        db.execute(
            "INSERT INTO tag (trace, span, step, class, sub, fault, note, by, source, evidence,"
            " tagged_ns, blind) VALUES (?,?,?,?,?,?,?,?,?,?,?,?)"
            " ON CONFLICT (trace, span, class, by) DO UPDATE SET sub = excluded.sub,"
            " fault = excluded.fault, note = excluded.note, evidence = excluded.evidence,"
            " tagged_ns = excluded.tagged_ns, blind = max(tag.blind, excluded.blind)",
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
                given.blind,
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


def clear(store: Store, given: Clearance) -> None:
    """Keep that a person saw nothing wrong in a run.

    Raises ArcError where the same person tagged that run: the two cannot both be meant.
    """
    with store.writing() as db:
        tagged = db.execute(
            "SELECT step, class FROM tag WHERE by = ? AND source = 'human'"
            f" AND trace IN {_RECORDINGS} ORDER BY step",
            (given.by, given.trace, given.trace),
        ).fetchone()
        if tagged is not None:
            raise ArcError(
                f"{given.by} tagged step {tagged[0]} of this run {tagged[1]}",
                "take that tag back before you say that nothing is wrong",
            )
        db.execute(
            "INSERT INTO clearance (trace, by, note, blind, cleared_ns) VALUES (?,?,?,?,?)"
            " ON CONFLICT (trace, by) DO UPDATE SET note = excluded.note,"
            " cleared_ns = excluded.cleared_ns, blind = max(clearance.blind, excluded.blind)",
            (
                given.trace,
                given.by,
                store.redactor.text(given.note) if given.note else None,
                given.blind,
                now_ns(),
            ),
        )


def unclear(store: Store, given: Clearance) -> bool:
    """Take back that nothing is wrong with a run; was it said?"""
    with store.writing() as db:
        done = db.execute(
            "DELETE FROM clearance WHERE trace = ? AND by = ?", (given.trace, given.by)
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
        db.execute("DELETE FROM score WHERE trace = ? AND source IN ('rule', 'import')", (key,))
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


# --- what people said, and what it is held against


class HumanScore(Struct, frozen=True, kw_only=True):
    """A score 0..1 that a person gave a step."""

    trace: str
    span: str
    step: int
    value: float
    by: str
    note: str | None = None


NOTE = "note"
"""The name of the item that holds a person's note; it decides nothing."""


def score_step(store: Store, given: HumanScore) -> None:
    """Keep a person's score of a step, in place of the one the same person gave before."""
    note = store.redactor.text(given.note) if given.note else None
    items = (Item(name=NOTE, held=None, because=note),) if note else ()
    with store.writing() as db:
        db.execute(
            "INSERT OR REPLACE INTO score (trace, span, step, value, source, by, items)"
            " VALUES (?,?,?,?,'human',?,?)",
            (
                given.trace,
                given.span,
                given.step,
                given.value,
                given.by,
                msgspec.json.encode(items).decode(),
            ),
        )


def unscore_step(store: Store, trace: str, step: int, by: str) -> bool:
    """Take a person's score of a step back; was there one?"""
    with store.writing() as db:
        done = db.execute(
            "DELETE FROM score WHERE trace = ? AND step = ? AND by = ? AND source = 'human'",
            (trace, step, by),
        )
    return done.rowcount > 0


def human_scores(store: Store) -> list[HumanScore]:
    """Every score a person gave, by trace and step."""
    found = store.db.execute(
        "SELECT trace, span, step, value, by, items FROM score"
        " WHERE source = 'human' AND value IS NOT NULL ORDER BY trace, step, by"
    )
    return [
        HumanScore(trace=trace, span=span, step=step, value=value, by=by, note=_note(items))
        for trace, span, step, value, by, items in found
    ]


def _note(items: str) -> str | None:
    kept = msgspec.json.decode(items, type=tuple[Item, ...])
    return next((item.because for item in kept if item.name == NOTE), None)


class Word(Struct, frozen=True, kw_only=True):
    """A tag or a clearance as one person's word on a run; `failure` and `step` None: nothing
    wrong."""

    run: str
    trace: str
    by: str
    step: int | None
    failure: FailureClass | None
    sub: str | None
    blind: bool
    said_ns: int


def human_words(store: Store, run: str | None = None) -> list[Word]:
    """What people said of all runs, or of one: by run, person, step and class.

    Tags and clearances of traces that are not in the database say nothing here.
    """
    found = store.db.execute(
        "SELECT r.run, s.trace, s.by, s.step, s.class, s.sub, s.blind, s.said_ns FROM ("
        "  SELECT trace, by, step, class, sub, blind, tagged_ns AS said_ns FROM tag"
        "    WHERE source = 'human'"
        "  UNION ALL SELECT trace, by, NULL, NULL, NULL, blind, cleared_ns FROM clearance) s"
        " JOIN trace r ON r.key = s.trace AND r.complete"
        " WHERE r.run = coalesce(?, r.run) ORDER BY r.run, s.by, s.step, s.class, s.trace",
        (run,),
    )
    return [
        Word(
            run=run,
            trace=trace,
            by=by,
            step=step,
            failure=FailureClass(failure) if failure else None,
            sub=sub,
            blind=bool(blind),
            said_ns=said_ns,
        )
        for run, trace, by, step, failure, sub, blind, said_ns in found
    ]


def clearances(store: Store) -> list[Clearance]:
    """Every run that a person saw nothing wrong in, by trace and person."""
    found = store.db.execute("SELECT trace, by, note, blind FROM clearance ORDER BY trace, by")
    return [
        Clearance(trace=trace, by=by, note=note, blind=bool(blind))
        for trace, by, note, blind in found
    ]


def judge_sets(store: Store, trace: str) -> dict[str, int]:
    """How many steps of a trace each set of judge scores has."""
    found = store.db.execute(
        "SELECT by, count(*) FROM score WHERE trace = ? AND source = 'judge' GROUP BY by", (trace,)
    )
    return dict(found.fetchall())


def all_scores(store: Store, trace: str, step: int | None = None) -> tuple[StepScore, ...]:
    """Every score of a trace, or of one of its steps, whoever gave it, by step."""
    found = store.db.execute(
        "SELECT step, value, source, by, span, items FROM score"
        " WHERE trace = ? AND step = coalesce(?, step) ORDER BY step, source, by",
        (trace, step),
    )
    return tuple(
        StepScore(
            step=step,
            value=value,
            source=source,
            by=by,
            span=span or None,
            items=msgspec.json.decode(items, type=tuple[Item, ...]),
        )
        for step, value, source, by, span, items in found
    )


def human_tags(store: Store) -> list[Tag]:
    """Every tag a person gave, by trace and step, without its evidence."""
    found = store.db.execute(
        "SELECT trace, span, step, class, by, sub, fault, note, blind FROM tag"
        " WHERE source = 'human' ORDER BY trace, step, class, by"
    )
    return [
        Tag(
            trace=trace,
            span=span,
            step=step,
            failure=FailureClass(failure),
            by=by,
            sub=sub,
            fault=Fault(fault) if fault else None,
            note=note,
            blind=bool(blind),
        )
        for trace, span, step, failure, by, sub, fault, note, blind in found
    ]


class Suggested(Struct, frozen=True, kw_only=True):
    """A class that a rule or a judge suggests for a step."""

    source: Source
    by: str
    step: int
    failure: FailureClass
    confidence: float | None
    why: str


def suggested(store: Store, trace: str) -> list[Suggested]:
    """What rules and judges suggest of a trace, by source and step."""
    found = store.db.execute(
        "SELECT source, by, step, class, confidence, why FROM suggestion WHERE trace = ?"
        " ORDER BY source, step, place",
        (trace,),
    )
    return [
        Suggested(
            source=source,
            by=by,
            step=step,
            failure=FailureClass(failure),
            confidence=confidence,
            why=why,
        )
        for source, by, step, failure, confidence, why in found
    ]
