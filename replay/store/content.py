"""What is stored once however often it is said: messages, contexts, sets of tools.

Every text is redacted here, before it is hashed and before it reaches a row; each distinct message
once. Memos are kept per trace, so that a step costs only what is new in it.
"""

from __future__ import annotations

import sqlite3
from typing import Any, NamedTuple

from msgspec import structs

from replay import canon, redact
from replay.redact import Redactor
from replay.store import words
from replay.trace import Context, Json, Message, Tool


class Stored(NamedTuple):
    """A row of content: its id, its digest, and how many values in it are masked."""

    id: int
    digest: str
    masked: int = 0


class Content:
    """Puts content into one database under one redactor."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._messages: dict[int, tuple[Message, Stored]] = {}
        self._nodes: dict[int, tuple[Context, Stored]] = {}
        self._toolsets: dict[int, tuple[tuple[Tool, ...], Stored]] = {}

    def forget(self) -> None:
        """Drop the memos (they hold the objects they know, so that an id is never reused)."""
        self._messages.clear()
        self._nodes.clear()
        self._toolsets.clear()

    def text(self, value: str | None) -> str | None:
        """A redacted text."""
        return None if value is None else self._redactor.text(value)

    def json(self, value: Json) -> str | None:
        """A redacted value as JSON text, None for nothing (None, {} and [])."""
        if value is None or value == {} or value == []:
            return None
        encoded = canon.encode(value)
        if self._redactor.clear(encoded):
            return encoded.decode()
        return canon.encode(self._redactor.value(value)).decode()

    def message(self, db: sqlite3.Connection, message: Message | None) -> Stored | None:
        """The row of a message, None for none."""
        if message is None:
            return None
        known = self._messages.get(id(message))
        if known is None:
            known = (message, self._new_message(db, message))
            self._messages[id(message)] = known
        return known[1]

    def _new_message(self, db: sqlite3.Connection, message: Message) -> Stored:
        body = canon.encode(message.body)
        if not self._redactor.clear(body):
            message = structs.replace(message, body=self._redactor.value(message.body))
            body = canon.encode(message.body)
        text = body.decode()
        masked = redact.masked_count(text)
        digest = canon.message_digest(message)
        row = {"dialect": message.dialect, "role": message.role, "body": text, "masked": masked}
        known = _find(db, "message", digest)
        if known is None:
            known = insert(db, "message", {"digest": digest, **row})
            words.add_message(db, known, message)
        return Stored(known, digest, masked)

    def context(self, db: sqlite3.Connection, context: Context | None) -> Stored | None:
        """The row of a context node, its ancestors with it, None for an empty context."""
        fresh: list[Context] = []
        node = context
        while node is not None and id(node) not in self._nodes:
            fresh.append(node)
            node = node.parent
        stored = self._nodes[id(node)][1] if node is not None else None
        for each in reversed(fresh):
            stored = self._new_node(db, each, stored)
            self._nodes[id(each)] = (each, stored)
        return stored

    def _new_node(self, db: sqlite3.Connection, node: Context, parent: Stored | None) -> Stored:
        said = self.message(db, node.message)
        assert said is not None
        masked = said.masked + (parent.masked if parent else 0)
        digest = canon.node_digest(parent.digest if parent else None, said.digest)
        row = {
            "parent": parent.id if parent else None,
            "message": said.id,
            "depth": node.depth,
            "masked": masked,
        }
        return Stored(_once(db, "context", digest, row), digest, masked)

    def toolset(self, db: sqlite3.Connection, tools: tuple[Tool, ...] | None) -> Stored | None:
        """The row of the tools offered together, None where they are unknown."""
        if tools is None:
            return None
        known = self._toolsets.get(id(tools))
        if known is None:
            known = (tools, self._new_toolset(db, tools))
            self._toolsets[id(tools)] = known
        return known[1]

    def _new_toolset(self, db: sqlite3.Connection, tools: tuple[Tool, ...]) -> Stored:
        value = self._redactor.value([canon.tool_value(tool) for tool in tools])
        digest = canon.digest("toolset", canon.encode_seen(value))
        body = canon.encode(value).decode()
        return Stored(_once(db, "toolset", digest, {"body": body}), digest)


def _once(db: sqlite3.Connection, table: str, digest: str, row: dict[str, Any]) -> int:
    """The id of the row with that digest, inserted where it is new."""
    found = _find(db, table, digest)
    return insert(db, table, {"digest": digest, **row}) if found is None else found


def _find(db: sqlite3.Connection, table: str, digest: str) -> int | None:
    found = db.execute(f"SELECT id FROM {table} WHERE digest = ?", (digest,)).fetchone()
    return None if found is None else int(found[0])


_INSERTS: dict[tuple[str, ...], str] = {}


def insert(db: sqlite3.Connection, table: str, row: dict[str, Any]) -> int:
    """Insert a row by column name; returns its rowid."""
    shape = (table, *row)
    if shape not in _INSERTS:
        marks = ", ".join("?" * len(row))
        _INSERTS[shape] = f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})"
    return int(db.execute(_INSERTS[shape], list(row.values())).lastrowid or 0)
