"""What is stored once however often it is said (messages, contexts, sets of tools), and rows that
wait for the end of their transaction.

Every text is redacted here, before it is hashed and before it reaches a row; each distinct message
of a trace once. Memos are kept per trace, so that a step costs only what is new in it.

Whoever writes holds the write lock, so the next id of a table is known: ids are given at once, rows
written together, and thousands of them can refer to each other before the first is in the file.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, NamedTuple

from msgspec import structs

from replay import digests
from replay.redact.placeholders import masked_count
from replay.redact.redactor import Redactor
from replay.store import text_index
from replay.store.connection import Row
from replay.trace import Context, Json, Message, Tool

SHORT = 200
"""Texts up to so many characters (names, settings) come again and again: their masks are kept."""


class Stored(NamedTuple):
    """A row of content: its id, its digest, and how many values in it are masked."""

    id: int
    digest: str
    masked: int = 0


class Content:
    """Puts content into one database under one redactor."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._short = lru_cache(4096)(redactor.text)
        self._short_clear = lru_cache(4096)(redactor.clear)
        self._messages: dict[int, tuple[Message, Stored]] = {}
        self._said: dict[str, Stored] = {}
        self._nodes: dict[int, tuple[Context, Stored]] = {}
        self._toolsets: dict[int, tuple[tuple[Tool, ...], Stored]] = {}

    def forget(self) -> None:
        """Drop the memos (they hold the objects they know, so that an id is never reused)."""
        self._messages.clear()
        self._said.clear()
        self._nodes.clear()
        self._toolsets.clear()

    @contextmanager
    def pending(self, db: sqlite3.Connection) -> Iterator[Pending]:
        """Rows for one transaction, written at its end; where it fails, none of them is known."""
        rows = Pending(db)
        written = False
        try:
            yield rows
            rows.write()
            written = True
        finally:
            if not written:
                self.forget()

    def text(self, value: str | None) -> str | None:
        """A redacted text."""
        if value is None:
            return None
        return self._short(value) if len(value) <= SHORT else self._redactor.text(value)

    def harmless(self, names: Iterable[str | None]) -> bool:
        """Is there surely no secret in any of them? One look at all."""
        return self._clear("\n".join(filter(None, names)).encode("utf-8", "replace"))

    def json(self, value: Json) -> str | None:
        """A redacted value as JSON text, None for nothing (None, {} and [])."""
        if value is None or value == {} or value == []:
            return None
        encoded = digests.encode(value)
        if self._clear(encoded):
            return encoded.decode()
        return digests.encode(self._redactor.value(value)).decode()

    def _clear(self, encoded: bytes) -> bool:
        if len(encoded) <= SHORT:
            return self._short_clear(encoded)
        return self._redactor.clear(encoded)

    def message(self, rows: Pending, message: Message | None) -> Stored | None:
        """The row of a message, None for none."""
        if message is None:
            return None
        known = self._messages.get(id(message))
        if known is None:
            known = (message, self._any_message(rows, message))
            self._messages[id(message)] = known
        return known[1]

    def _any_message(self, rows: Pending, message: Message) -> Stored:
        """The row of a message that may have been said before, as a value of its own."""
        body = digests.encode(message.body)
        digest = digests.message_digest(message, body)  # what it holds may have to be masked yet
        known = self._said.get(digest)
        if known is None:
            known = self._said[digest] = self._new_message(rows, message, body, digest)
        return known

    def _new_message(self, rows: Pending, message: Message, body: bytes, digest: str) -> Stored:
        if not self._redactor.clear(body):
            message = structs.replace(message, body=self._redactor.value(message.body))
            body = digests.encode(message.body)
            digest = digests.message_digest(message, body)
        text = body.decode()
        masked = masked_count(text)
        row = {
            "digest": digest,
            "dialect": message.dialect,
            "role": message.role,
            "body": text,
            "masked": masked,
        }
        known, added = rows.once("message", row)
        if added:
            rows.add("message_words", {"rowid": known, "words": text_index.of_message(message)})
        return Stored(known, digest, masked)

    def context(self, rows: Pending, context: Context | None) -> Stored | None:
        """The row of a context node, its ancestors with it, None for an empty context."""
        fresh: list[Context] = []
        node = context
        while node is not None and id(node) not in self._nodes:
            fresh.append(node)
            node = node.parent
        stored = self._nodes[id(node)][1] if node is not None else None
        for each in reversed(fresh):
            stored = self._new_node(rows, each, stored)
            self._nodes[id(each)] = (each, stored)
        return stored

    def _new_node(self, rows: Pending, node: Context, parent: Stored | None) -> Stored:
        said = self.message(rows, node.message)
        assert said is not None
        masked = said.masked + (parent.masked if parent else 0)
        digest = digests.node_digest(parent.digest if parent else None, said.digest)
        row = {
            "digest": digest,
            "parent": parent.id if parent else None,
            "message": said.id,
            "depth": node.depth,
            "masked": masked,
        }
        of_new = rows.holds("message", said.id) or (
            parent is not None and rows.holds("context", parent.id)
        )
        return Stored(rows.once("context", row, new=of_new)[0], digest, masked)

    def toolset(self, rows: Pending, tools: tuple[Tool, ...] | None) -> Stored | None:
        """The row of the tools offered together, None where they are unknown."""
        if tools is None:
            return None
        known = self._toolsets.get(id(tools))
        if known is None:
            known = (tools, self._new_toolset(rows, tools))
            self._toolsets[id(tools)] = known
        return known[1]

    def _new_toolset(self, rows: Pending, tools: tuple[Tool, ...]) -> Stored:
        value = self._redactor.value([digests.tool_value(tool) for tool in tools])
        digest = digests.digest("toolset", digests.encode_seen(value))
        body = digests.encode(value).decode()
        return Stored(rows.once("toolset", {"digest": digest, "body": body})[0], digest)


ORDER = (
    "toolset", "message", "context", "span", "model_call", "tool_call", "source_score",
    "message_words",
)  # fmt: skip
"""The tables that are written like this, each after those it refers to."""

SAME = {"toolset": ("digest",), "message": ("digest",), "context": ("message", "parent")}
"""The columns in which two rows of a table are the same, where it has each once."""

_FIND = {
    table: f"SELECT id FROM {table} WHERE {' AND '.join(f'{name} IS ?' for name in names)}"
    for table, names in SAME.items()
}


class Pending:
    """The rows of one transaction. All rows of a table have the same columns."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self.db = db
        self._rows: dict[str, list[Row]] = {}
        self._first: dict[str, int] = {}
        self._known: dict[tuple[str, tuple[Any, ...]], int] = {}

    def add(self, table: str, row: Row) -> None:
        """Add a row that has no id of its own."""
        self._rows.setdefault(table, []).append(row)

    def identified(self, table: str, row: Row) -> int:
        """Add a row and give it an id."""
        rows = self._rows.setdefault(table, [])
        own = self._first_id(table) + len(rows)
        rows.append({"id": own, **row})
        return own

    def once(self, table: str, row: Row, *, new: bool = False) -> tuple[int, bool]:
        """The id of the row that is the same, and whether it was added for it.

        `new` says that the database cannot have it.
        """
        same = tuple(row[name] for name in SAME[table])
        known = self._known.get((table, same))
        if known is None and not new:
            found = self.db.execute(_FIND[table], same).fetchone()
            known = found[0] if found is not None else None
        if known is not None:
            return known, False
        own = self._known[table, same] = self.identified(table, row)
        return own, True

    def holds(self, table: str, row: int) -> bool:
        """Is that row of a table one of those that wait?"""
        return table in self._first and row >= self._first[table]

    def write(self) -> None:
        """Write all rows. Raises sqlite3.IntegrityError where one must not be."""
        for table in ORDER:
            rows = self._rows.pop(table, ())
            if rows:
                names, marks = ", ".join(rows[0]), ", ".join("?" * len(rows[0]))
                self.db.executemany(
                    f"INSERT INTO {table} ({names}) VALUES ({marks})",
                    (tuple(row.values()) for row in rows),
                )
        assert not self._rows, "a table without a place in ORDER"

    def _first_id(self, table: str) -> int:
        if table not in self._first:
            latest = self.db.execute(f"SELECT max(id) FROM {table}").fetchone()[0]
            self._first[table] = (latest or 0) + 1
        return self._first[table]
