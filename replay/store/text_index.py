"""Which messages and spans hold a text? The index of words, and what a text is compared with.

A text is found where it stands from the beginning of a word on, letter case and the width of
gaps aside. The index only narrows down where to look: `place` decides. It is kept by words
alone, without their places and without a copy of the text (a ninth of the text's size,
measured), cut by `ascii`, the one tokenizer that can be foretold here: it parts at every ASCII
sign that is no letter or digit, and `_indexed` turns what else is no letter into a gap.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from typing import cast

import msgspec

from replay.messages import calls, text, thinking
from replay.trace import Dialect, Json, Message

INDEX = """
CREATE VIRTUAL TABLE message_words USING fts5(
  words, content='', detail=none, tokenize='ascii');

CREATE VIRTUAL TABLE span_words USING fts5(
  words, content='', detail=none, tokenize='ascii');

CREATE TABLE message_step (
  trace INTEGER NOT NULL REFERENCES trace(id) ON DELETE CASCADE,
  message INTEGER NOT NULL REFERENCES message(id),
  step INTEGER NOT NULL,
  PRIMARY KEY (trace, message, step)
) STRICT, WITHOUT ROWID;

CREATE INDEX message_step_message ON message_step(message)
"""
"""`message_words` goes by the id of a message, `span_words` by that of a span of a finished trace.
`message_step` says for which steps of a trace a message counts: those that said it or got it
back; a prompt or a user's message for the first that was shown it."""

SPANS = (
    "SELECT s.id, s.step, s.kind, s.name, s.error, t.arguments, t.arguments_raw"
    " FROM span s LEFT JOIN tool_call t ON t.span = s.id"
)
"""Spans as `span_text` takes them, after their id and their step."""


# --- what a text is compared with


def folded(words: str) -> str:
    """The text in lower case with single spaces: what texts are compared in."""
    return " ".join(words.lower().split())


def place(wanted: str, words: str) -> int | None:
    """Where the wanted text begins in the other, both folded; None where it does not stand there
    from the beginning of a word."""
    at = words.find(wanted)
    while at > 0 and wanted[0].isalnum() and words[at - 1].isalnum():
        at = words.find(wanted, at + 1)
    return None if at < 0 else at


def message_text(message: Message) -> str:
    """Everything a reader of the message sees."""
    called = (f"{call.name} {call.raw or flat(call.arguments)}" for call in calls(message))
    return "\n".join((text(message), thinking(message), *called))


def stored_text(dialect: str, body: str) -> str:
    """The same of a stored message."""
    return message_text(Message(dialect=cast(Dialect, dialect), body=msgspec.json.decode(body)))


def span_text(
    kind: str, name: str, error: str | None, arguments: str | None, raw: str | None
) -> str:
    """What a span says beside its messages: its error; a tool call's name and arguments."""
    if kind != "tool":
        return error or ""
    given = raw or ("" if arguments is None else flat(msgspec.json.decode(arguments)))
    return "\n".join(filter(None, (name, given, error)))


def flat(value: Json) -> str:
    """The keys and values of a JSON value, one after the other."""
    said: list[str] = []
    left: list[Json] = [value]
    while left:
        each = left.pop()
        if isinstance(each, dict):
            for key in reversed(each):
                left += [each[key], key]
        elif isinstance(each, list):
            left += reversed(each)
        elif isinstance(each, str):
            said.append(each)
        elif each is not None:
            said.append(msgspec.json.encode(each).decode())
    return " ".join(said)


# --- the index


def query(wanted: str) -> str | None:
    """What the index is asked for a folded text: its words, the last one as a beginning.

    None where it has no word.
    """
    words = re.findall(r"[^\W_]+", wanted)
    if not words:
        return None
    asked = [f'"{word}"' for word in words]
    return " ".join(asked) + (" *" if wanted[-1].isalnum() else "")


def word_query(words: str) -> str | None:
    """What the index is asked for a text of one plain word: it says by itself what holds it, and no
    text need be read. None for any other text."""
    wanted = folded(words)
    return query(wanted) if wanted.isascii() and wanted.isalnum() else None


def of_message(message: Message) -> str:
    """What `message_words` is given of a message."""
    return _indexed(message_text(message))


_PENDING_CHARS = 4 * 1024 * 1024
"""So many characters of words wait at most. An index itself holds as much before it writes."""


class Pending:
    """Words that are yet to be put into the index of a table, so many at once.

    Whenever SQLite marks a place to go back to within a transaction, an index writes out what it
    was given so far as a part of its own, which is then merged with others: a trace at a time, that
    takes as long as all else that is written of it.
    """

    def __init__(self) -> None:
        self._rows: dict[str, list[tuple[int, str]]] = {}
        self._chars = 0

    def add(self, db: sqlite3.Connection, table: str, rows: list[tuple[int, str]]) -> None:
        """Have the words of these rows put in with `put`, or now where too many wait."""
        self._rows.setdefault(table, []).extend(rows)
        self._chars += sum(len(words) for _, words in rows)
        if self._chars > _PENDING_CHARS:
            self.put(db)

    def put(self, db: sqlite3.Connection) -> None:
        """Put in all that wait."""
        for table, rows in self._rows.items():
            db.executemany(f"INSERT INTO {table} (rowid, words) VALUES (?, ?)", rows)
        self.forget()

    def forget(self) -> None:
        """None waits any more: their rows were taken back, or they are in the index."""
        self._rows.clear()
        self._chars = 0


def add_places(db: sqlite3.Connection, trace: int) -> None:
    """Put the messages of a finished trace at their steps."""
    db.executemany("INSERT OR IGNORE INTO message_step VALUES (?, ?, ?)", list(_places(db, trace)))


def take_trace(db: sqlite3.Connection, trace: int) -> None:
    """Take the spans of a trace out of the index, before its rows go.

    An index without a copy of the text is told what to forget, in the words it was given.
    """
    db.executemany(
        "INSERT INTO span_words (span_words, rowid, words) VALUES ('delete', ?, ?)",
        span_words(db, trace),
    )


def refill(db: sqlite3.Connection) -> None:
    """Forget all words, then index what is there: nothing is left of what is not.

    To take single texts out would need them in the words they were once given in.
    """
    for table in ("message_words", "span_words"):
        db.execute(f"INSERT INTO {table} ({table}) VALUES ('delete-all')")
    for row, dialect, body in db.execute("SELECT id, dialect, body FROM message"):
        words = _indexed(stored_text(dialect, body))
        db.execute("INSERT INTO message_words (rowid, words) VALUES (?, ?)", (row, words))
    for (trace,) in db.execute("SELECT id FROM trace WHERE complete").fetchall():
        db.executemany("INSERT INTO span_words (rowid, words) VALUES (?, ?)", span_words(db, trace))


_FOREIGN = re.compile(r"[^\w\x00-\x7f]+")


def _indexed(words: str) -> str:
    """The text as the index is given it, so that what it takes for a word is what `query` does."""
    if words.isascii():
        return words
    return _FOREIGN.sub(" ", folded(words)).encode(errors="ignore").decode()


def span_words(db: sqlite3.Connection, trace: int) -> list[tuple[int, str]]:
    """The spans of a trace that say something, as `span_words` is given them."""
    spans = db.execute(f"{SPANS} WHERE s.trace = ?", (trace,))
    return [(row, _indexed(said)) for row, _, *known in spans if (said := span_text(*known))]


# --- the steps a message counts for

_SAID = """
SELECT m.response, s.step FROM span s JOIN model_call m ON m.span = s.id
WHERE s.trace = :trace AND s.step IS NOT NULL AND m.response IS NOT NULL
UNION
SELECT t.observation, s.step FROM span s JOIN tool_call t ON t.span = s.id
WHERE s.trace = :trace AND s.step IS NOT NULL AND t.observation IS NOT NULL
"""

_ASKED = """
SELECT s.step, m.context, m.system FROM span s JOIN model_call m ON m.span = s.id
WHERE s.trace = ? AND s.step IS NOT NULL ORDER BY s.step
"""

_CHAIN = """
WITH RECURSIVE node(id, parent, message) AS (
  SELECT c.id, c.parent, c.message FROM span s JOIN model_call m ON m.span = s.id
  JOIN context c ON c.id = m.context WHERE s.trace = ?
  UNION
  SELECT c.id, c.parent, c.message FROM node JOIN context c ON c.id = node.parent)
SELECT id, parent, message FROM node
"""


def _places(db: sqlite3.Connection, trace: int) -> Iterator[tuple[int, int, int]]:
    """(trace, message, step) of every message of a trace; some may come twice."""
    said = db.execute(_SAID, {"trace": trace}).fetchall()
    own = {message for message, _ in said}
    yield from ((trace, message, step) for message, step in said)
    chain = {row[0]: row[1:] for row in db.execute(_CHAIN, (trace,))}
    told: set[int] = set()
    for step, node, system in db.execute(_ASKED, (trace,)).fetchall():
        if system is not None and system not in told:
            told.add(system)
            yield trace, system, step
        while node in chain:
            node, message = chain.pop(node)  # what later steps share is no news to them
            if message not in own:
                yield trace, message, step
