"""Which runs say something, and at which steps? Over everything the store holds of them.

A text counts for the step that said it, called with it or got it back; a prompt or a user's
message for the first step that was shown it. `words` says what it is to be found.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import chain, islice
from sqlite3 import Cursor

from msgspec import Struct

from replay.store import text_index
from replay.store.handle import Store

AROUND = 60
"""Characters of an excerpt on either side of where the text begins."""

READ_WHOLE = 1000
"""A trace of at most so many spans is read sooner than the index of a large database is."""


class Saying(Struct, frozen=True, kw_only=True):
    """A run that says a text: its preferred recording, a step that says it, and how.

    `step` is None where that is part of no step. The excerpt is one line, cut with `…`.
    """

    trace: str
    run: str
    task: str | None
    step: int | None
    excerpt: str


def steps_saying(store: Store, trace: str, text: str) -> frozenset[int]:
    """The steps of a trace that say a text."""
    wanted = text_index.folded(text)
    row = store.db.execute("SELECT id FROM trace WHERE key = ? AND complete", (trace,)).fetchone()
    if row is None or not wanted:
        return frozenset()
    said = chain(_with_context(store, row[0], wanted), _called(store, row[0], wanted))
    return frozenset(step for step, text in said if _says(wanted, text))


def runs_saying(
    store: Store, text: str, limit: int = 50, *, without: Collection[str] = ()
) -> list[Saying]:
    """At most `limit` runs that say a text, each once, those with the latest messages first; runs
    of the tasks `without` are left out."""
    said = _sayings(store, text_index.folded(text))
    return list(islice((each for each in said if each.task not in without), limit))


def traces_saying(store: Store, text: str) -> frozenset[str]:
    """All preferred recordings that say a text: for a filter of runs."""
    return frozenset(each.trace for each in _sayings(store, text_index.folded(text)))


def _says(wanted: str, said: str) -> bool:
    return text_index.place(wanted, text_index.folded(said)) is not None


# --- in one trace


def _with_context(store: Store, trace: int, wanted: str) -> Iterator[tuple[int, str]]:
    """(step, text) of the messages of a trace that may say it."""
    narrowed = _narrowed(store, "e.message", "message_words", trace, wanted)
    found = store.db.execute(
        "SELECT e.step, g.dialect, g.body FROM message_step e JOIN message g ON g.id = e.message"
        f" WHERE e.trace = :trace AND {narrowed}",
        {"trace": trace, "words": text_index.query(wanted)},
    )
    for step, dialect, body in found:
        yield step, text_index.stored_text(dialect, body)


def _called(store: Store, trace: int, wanted: str) -> Iterator[tuple[int, str]]:
    """(step, text) of the spans of a trace that may say it."""
    narrowed = _narrowed(store, "s.id", "span_words", trace, wanted)
    found = store.db.execute(
        f"{text_index.SPANS} WHERE s.trace = :trace AND s.step IS NOT NULL AND {narrowed}",
        {"trace": trace, "words": text_index.query(wanted)},
    )
    for _, step, *known in found:
        yield step, text_index.span_text(*known)


def _narrowed(store: Store, row: str, index: str, trace: int, wanted: str) -> str:
    """A condition that the index says may hold, where asking it is worth it and possible."""
    (spans,) = store.db.execute("SELECT spans FROM trace WHERE id = ?", (trace,)).fetchone()
    if spans <= READ_WHOLE or text_index.query(wanted) is None:
        return "1"
    return f"{row} IN (SELECT rowid FROM {index} WHERE {index} MATCH :words)"


# --- over all runs


def _sayings(store: Store, wanted: str) -> Iterator[Saying]:
    """The preferred recordings that say a folded text, each once, the latest messages first.

    A message of one trace alone is not read where that trace is known to say it, nor are those
    before it up to one that another trace has too: a long run says a common word in thousands.
    """
    if not wanted:
        return
    known: set[int] = set()
    until: int | None = None
    for (message,) in _messages(store, wanted):
        if until is not None and message > until:
            continue
        dialect, body, first, last = _read_message(store, message)
        if first is None:
            continue
        if first == last and first in known:
            until = _before(store, message, first)
            continue
        said = text_index.stored_text(dialect, body)
        at = text_index.place(wanted, text_index.folded(said))
        runs = () if at is None else store.db.execute(_RUNS_OF_MESSAGE, (message,))
        yield from _new(runs, known, said, at or 0)
    for row, step, *span in _spans(store, wanted):
        said = text_index.span_text(*span)
        at = text_index.place(wanted, text_index.folded(said))
        runs = () if at is None else store.db.execute(_RUN_OF_SPAN, (step, row))
        yield from _new(runs, known, said, at or 0)


def _new(
    runs: Iterable[tuple[int, str, str, str | None, int | None]],
    known: set[int],
    said: str,
    at: int,
) -> Iterator[Saying]:
    """Those of the runs that are not known yet, which they are from now on."""
    for id_, trace, run, task, step in runs:
        if id_ not in known:
            known.add(id_)
            yield Saying(trace=trace, run=run, task=task, step=step, excerpt=_excerpt(said, at))


_RUNS_OF_MESSAGE = """
SELECT e.trace, t.key, t.run, t.task, min(e.step)
FROM message_step e JOIN trace t ON t.id = e.trace
WHERE e.message = ? AND t.preferred GROUP BY e.trace ORDER BY e.trace DESC
"""
"""In the order in which the index has the traces of a message: of those that share a prompt only as
many are read as are asked for."""

_RUN_OF_SPAN = """
SELECT t.id, t.key, t.run, t.task, ? FROM span s JOIN trace t ON t.id = s.trace
WHERE s.id = ? AND t.preferred
"""

_MESSAGE = """
SELECT g.dialect, g.body,
  (SELECT min(trace) FROM message_step WHERE message = g.id),
  (SELECT max(trace) FROM message_step WHERE message = g.id)
FROM message g WHERE g.id = ?
"""

_BEFORE = """
SELECT message FROM message_step WHERE message < ? AND trace <> ? ORDER BY message DESC LIMIT 1
"""


def _messages(store: Store, wanted: str) -> Cursor:
    """The rows of the messages that may say it, the latest first."""
    asked = text_index.query(wanted)
    if asked is None:
        return store.db.execute("SELECT id FROM message ORDER BY id DESC")
    return store.db.execute(
        "SELECT rowid FROM message_words WHERE message_words MATCH ? ORDER BY rowid DESC", (asked,)
    )


def _read_message(store: Store, row: int) -> tuple[str, str, int | None, int | None]:
    """(dialect, body, first trace, last trace); of one that is gone nothing."""
    found = store.db.execute(_MESSAGE, (row,)).fetchone()
    return found or ("", "", None, None)


def _before(store: Store, row: int, trace: int) -> int:
    """The last message before that one which another trace has too, 0 where none is."""
    found = store.db.execute(_BEFORE, (row, trace)).fetchone()
    return found[0] if found else 0


def _spans(store: Store, wanted: str) -> Cursor:
    """The spans that may say it, the latest first."""
    asked = text_index.query(wanted)
    if asked is None:
        return store.db.execute(f"{text_index.SPANS} ORDER BY s.id DESC")
    return store.db.execute(
        f"{text_index.SPANS} WHERE s.id IN (SELECT rowid FROM span_words WHERE span_words MATCH ?)"
        " ORDER BY s.id DESC",
        (asked,),
    )


def _excerpt(said: str, at: int) -> str:
    """The text around a place in it, counted as folded."""
    line = " ".join(said.split())
    if len(line.lower()) != len(line):  # a letter that is two in lower case: places have moved
        line = line.lower()
    start, end = max(at - AROUND, 0), at + AROUND
    return ("…" if start else "") + line[start:end].strip() + ("…" if end < len(line) else "")
