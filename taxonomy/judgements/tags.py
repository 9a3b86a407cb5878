"""What do people call a run? Tags on its steps, or the word that nothing is wrong with it.

A row of the view `failures`.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from replay.errors import ArcError
from replay.store.handle import Store, now_ns
from taxonomy.classes import Attribution, FailureClass
from taxonomy.findings import Evidence, Source


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
    attribution: Attribution | None = None
    note: str | None = None
    evidence: tuple[Evidence, ...] = ()
    blind: bool = False


class CleanMark(Struct, frozen=True, kw_only=True):
    """A person saw nothing wrong in a run; `blind` as of a tag."""

    trace: str
    by: str
    note: str | None = None
    blind: bool = False


RECORDINGS = """(SELECT :trace
  UNION SELECT o.key FROM trace t JOIN trace o ON o.run = t.run WHERE t.key = :trace)"""
"""A trace and the other recordings of its run."""


def put_tag(store: Store, given: Tag) -> None:
    """Keep a tag; the same class on the same step by the same person replaces its note.

    A tag takes back the same person's word that nothing is wrong with the run.
    """
    with store.writing() as db:
        db.execute(
            f"DELETE FROM clearance WHERE by = :by AND trace IN {RECORDINGS}",
            {"by": given.by, "trace": given.trace},
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
                given.attribution.value if given.attribution else None,
                store.redactor.text(given.note) if given.note else None,
                given.by,
                given.source,
                store.redactor.encoded(given.evidence),
                now_ns(),
                given.blind,
            ),
        )


def remove_tag(store: Store, given: Tag) -> bool:
    """Take a tag back; was there one?"""
    with store.writing() as db:
        done = db.execute(
            "DELETE FROM tag WHERE trace = ? AND span = ? AND class = ? AND by = ?",
            (given.trace, given.span, given.failure.value, given.by),
        )
    return done.rowcount > 0


def mark_clean(store: Store, given: CleanMark) -> None:
    """Keep that a person saw nothing wrong in a run.

    Raises ArcError where the same person tagged that run: the two cannot both be meant.
    """
    with store.writing() as db:
        tagged = db.execute(
            "SELECT step, class FROM tag WHERE by = :by AND source = 'human'"
            f" AND trace IN {RECORDINGS} ORDER BY step",
            {"by": given.by, "trace": given.trace},
        ).fetchone()
        if tagged is not None:
            raise ArcError(
                f"{given.by} tagged step {tagged[0]} of this run {tagged[1]}",
                "Try: arc tag rm TRACE STEP, before you mark the run as clean",
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


def unmark_clean(store: Store, given: CleanMark) -> bool:
    """Take back that nothing is wrong with a run; was it said?"""
    with store.writing() as db:
        done = db.execute(
            "DELETE FROM clearance WHERE trace = ? AND by = ?", (given.trace, given.by)
        )
    return done.rowcount > 0


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
            attribution=Attribution(fault) if fault else None,
            note=note,
            blind=bool(blind),
        )
        for trace, span, step, failure, by, sub, fault, note, blind in found
    ]


def clean_marks(store: Store) -> list[CleanMark]:
    """Every run that a person saw nothing wrong in, by trace and person."""
    found = store.db.execute("SELECT trace, by, note, blind FROM clearance ORDER BY trace, by")
    return [
        CleanMark(trace=trace, by=by, note=note, blind=bool(blind))
        for trace, by, note, blind in found
    ]


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
    attribution: Attribution | None
    recording: str
    step: int
    span: str
    source: Source
    by: str
    why: str | None
    accepted: bool
    place: int
