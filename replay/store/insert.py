"""The rows of a batch into their tables: each is given its id, and those that it refers to.

What many traces say is there once: messages and sets of tools by their digests, contexts by their
message and their parent.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec import Struct, field

from replay.store.content import Table

REFERENCES: dict[str, tuple[str, ...]] = {
    "model_call": ("message", "toolset", "context", "message"),
    "tool_call": ("message",),
}
"""The tables that rows of calls refer to, in the columns that come after that of their span."""

_KNOWN = "SELECT t.digest, t.id FROM json_each(?) j JOIN {} t ON t.digest = j.value"

Values = tuple[Any, ...]


class NextIds:
    """The id that the next row of each table is given, while nobody else can write."""

    def __init__(self) -> None:
        self._next: dict[str, int] = {}

    def take(self, db: sqlite3.Connection, table: str, count: int) -> int:
        """The first of so many."""
        first = self._next.get(table)
        if first is None:
            first = (db.execute(f"SELECT max(id) FROM {table}").fetchone()[0] or 0) + 1
        self._next[table] = first + count
        return first

    def forget(self) -> None:
        """From now on another may write, or rows were taken away."""
        self._next.clear()


class TraceIds(Struct):
    """The rows of a trace: its own, how many spans it has so far, and the ids of its messages,
    contexts and sets of tools by their numbers in it."""

    trace: int
    spans: int = 0
    content: dict[str, list[int]] = field(
        default_factory=lambda: {"toolset": [], "message": [], "context": []}
    )


def insert(
    db: sqlite3.Connection, tables: dict[str, Table], ids: TraceIds, next_ids: NextIds
) -> list[tuple[int, str]]:
    """Write the rows that a trace has more than before; gives the rows of messages that are new in
    the database, each with its words. Raises sqlite3.IntegrityError where a row must not be
    written."""
    left = dict(tables)
    empty = Table((), [])
    toolsets, messages = (left.pop(name, empty) for name in ("toolset", "message"))
    _insert(db, "toolset", toolsets.columns, _once(db, "toolset", toolsets, ids, next_ids))
    new = _once(db, "message", messages, ids, next_ids)
    _insert(db, "message", messages.columns[:-1], (row[:-1] for row in new))
    _insert_contexts(db, left.pop("context", empty), ids, next_ids, {row[0] for row in new})
    spans = left.pop("span", empty)
    first = next_ids.take(db, "span", len(spans.rows))
    of_number = first - ids.spans
    ids.spans += len(spans.rows)
    own = ((at, ids.trace, *row) for at, row in enumerate(spans.rows, first))
    _insert(db, "span", ("trace", *spans.columns), own)
    for table, refers in REFERENCES.items():
        calls = left.pop(table, empty)
        named = [ids.content[each] for each in refers]
        _insert(db, table, calls.columns, (_call(row, of_number, named) for row in calls.rows), ())
    scores = left.pop("source_score", empty)
    given = ((ids.trace, *row) for row in scores.rows)
    _insert(db, "source_score", ("trace", *scores.columns), given, ())
    assert not left, "a table that is not written"
    return [(row[0], row[-1]) for row in new]


def _insert(
    db: sqlite3.Connection,
    table: str,
    columns: Sequence[str],
    rows: Iterable[Values],
    key: tuple[str, ...] = ("id",),
) -> None:
    names = (*key, *columns)
    if columns:
        marks = ", ".join("?" * len(names))
        db.executemany(f"INSERT INTO {table} ({', '.join(names)}) VALUES ({marks})", rows)


def _once(
    db: sqlite3.Connection, table: str, rows: Table, ids: TraceIds, next_ids: NextIds
) -> list[Values]:
    """The rows that are not in the table yet, with their ids; all are known from now on. The first
    column is the digest."""
    asked = msgspec.json.encode([row[0] for row in rows.rows]).decode() if rows.rows else "[]"
    known: dict[str, int] = dict(db.execute(_KNOWN.format(table), (asked,))) if rows.rows else {}
    new = [row for row in rows.rows if row[0] not in known]
    first = next_ids.take(db, table, len(new)) if new else 0
    known.update((row[0], at) for at, row in enumerate(new, first))
    ids.content[table] += [known[row[0]] for row in rows.rows]
    return [(at, *row) for at, row in enumerate(new, first)]


_NODE = "SELECT id FROM context WHERE message IS ? AND parent IS ?"


def _insert_contexts(
    db: sqlite3.Connection, nodes: Table, ids: TraceIds, next_ids: NextIds, new_messages: set[int]
) -> None:
    """Nodes come after their parents. One whose message or parent is new is new itself: the
    database is asked for the others alone."""
    messages, known = ids.content["message"], ids.content["context"]
    new: list[Values] = []
    added: set[int] = set()
    for digest, above, said, *rest in nodes.rows:
        message, parent = messages[said], None if above is None else known[above]
        found = None
        if message not in new_messages and parent not in added:
            found = db.execute(_NODE, (message, parent)).fetchone()
        if found is None:
            own = next_ids.take(db, "context", 1)
            new.append((own, digest, parent, message, *rest))
            added.add(own)
        else:
            own = found[0]
        known.append(own)
    _insert(db, "context", nodes.columns, new)


def _call(row: Values, of_number: int, named: list[list[int]]) -> Values:
    """The row of a call with the ids of its span and of its content."""
    many = len(named)
    content = (
        None if number is None else of[number]
        for of, number in zip(named, row[1 : many + 1], strict=True)
    )
    return row[0] + of_number, *content, *row[many + 1 :]
