"""What is kept beside the tape (answers, replays, edits, judgements): can it be read, and what is a
row of it called?

Edits and replays have digests, which are derived again. Of other rows it is seen whether their
texts are texts and their JSON is JSON; a word changed for another inside them shows nowhere.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from replay import canon
from replay.store.check import Finding, damage
from replay.store.handle import Store
from replay.store.read import dicts, lenient

_JSON = frozenset({
    "asks", "arguments", "body", "core", "detail", "evidence", "fidelity_reasons", "items",
    "labels", "params", "problems", "reference", "tools", "warnings",
})  # fmt: skip
"""Columns that hold JSON, in whatever table."""

_TAPE = frozenset({"message", "context", "toolset", "span", "model_call", "tool_call"})
"""Tables that the digests speak for."""


def kept(store: Store) -> Iterator[Finding]:
    """Rows beside the tape that cannot be what was written."""
    db = store.db
    for table in beside_the_tape(db):
        for row in broken_rows(db, table):
            yield damage(name(table, known_of(db, table, row), row), "it cannot be read any more")
    for table, digest in broken_digests(db):
        yield damage(name(table, {"digest": digest}))


def beside_the_tape(db: sqlite3.Connection) -> list[str]:
    """The tables with rows of their own that no digest speaks for."""
    found = db.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE '\\_%' ESCAPE '\\'"
        " AND name NOT LIKE 'sqlite%' AND name NOT LIKE '%\\_words%' ESCAPE '\\'"
        " AND sql NOT LIKE '%WITHOUT ROWID%' ORDER BY name"
    )
    return [row[0] for row in found if row[0] not in _TAPE]


def broken_rows(db: sqlite3.Connection, table: str) -> list[int]:
    """Rows of a table with a text that is none, or with JSON that is none."""
    names = [
        row[1] for row in db.execute(f"PRAGMA table_info({table})").fetchall() if row[2] == "TEXT"
    ]
    if not names:
        return []
    values = ", ".join(f"CAST({each} AS BLOB)" for each in names)
    found = db.execute(f"SELECT rowid, {values} FROM {table}")
    return [row for row, *raw in found if not all(map(_readable, names, raw))]


def _readable(column: str, raw: bytes | None) -> bool:
    if raw is None:
        return True
    try:
        if column in _JSON:
            msgspec.json.decode(raw)
        raw.decode()
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return True


def broken_digests(db: sqlite3.Connection) -> Iterator[tuple[str, str]]:
    """(table, digest) of edits and replays that say otherwise."""
    from replay.edit import Edit

    with lenient(db):
        edits = db.execute("SELECT digest, body FROM edit").fetchall()
        replays = db.execute("SELECT digest, kind, core FROM replay").fetchall()
    for digest, body in edits:
        try:
            held = msgspec.json.decode(body, type=Edit).digest == digest
        except msgspec.DecodeError:
            continue  # said before
        if not held:
            yield "edit", digest
    for digest, kind, core in replays:
        if canon.digest("free" if kind == "free" else "replay", core) != digest:
            yield "replay", digest


def known_of(db: sqlite3.Connection, table: str, row: int) -> dict[str, Any]:
    """The values that tell a row from others: those of its unique columns."""
    columns: list[str] = []
    for index in db.execute(f"PRAGMA index_list({table})").fetchall():
        if index[2] and not columns:
            columns = [each[2] for each in db.execute(f"PRAGMA index_info({index[1]})").fetchall()]
    if not columns:
        return {}
    with lenient(db):
        sql = f"SELECT {', '.join(columns)} FROM {table} WHERE rowid = ?"
        return next(dicts(db.execute(sql, (row,))), {})


_SHOWN_CHARACTERS = 60


def name(table: str, known: Mapping[str, Any], row: int | None = None) -> str:
    """A row in words: its table and what is known of it."""
    said = [
        f"{_called(table, column)} {_short(value)}"
        for column, value in known.items()
        if value not in (None, "")
    ]
    if not said:
        return f"{table} row {row}" if row is not None else table
    words = ", ".join(said)
    return words if words.startswith(f"{table} ") else f"{table} {words}"


def _called(table: str, column: str) -> str:
    return "trace" if column == "trace_key" or (table, column) == ("trace", "key") else column


def _short(value: object) -> str:
    said = str(value)
    if _ID.fullmatch(said):
        return said[:8]
    return said if len(said) <= _SHOWN_CHARACTERS else said[: _SHOWN_CHARACTERS - 1] + "…"


_ID = re.compile("[0-9a-f]{16}")
"""The id of a trace, which lists show the beginning of."""
