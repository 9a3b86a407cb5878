"""The tables of a database whose rows can be read by themselves, and what a row of each looks like.

Taken from a database of the same version, not from the damaged one: what a page holds is one of
these rows, or nothing.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence

from msgspec import Struct

from replay.store.migrating import BOOK
from replay.store.rescue.pages import Record, Row, Value

DERIVED = ("step", "latency", "message_step", "message_words", "span_words")
"""Tables that follow from the others: they are made anew, not read."""


class Table(Struct, frozen=True, kw_only=True):
    """A table as the schema of that version has it; `own` is the column that is the row's number,
    `indices` their columns by name (None for an expression)."""

    name: str
    columns: tuple[str, ...]
    types: tuple[str, ...]
    needed: tuple[bool, ...]
    defaults: tuple[Value, ...]
    own: int | None
    least: int
    indices: dict[str, tuple[str | None, ...]]


def tables_of(connection: sqlite3.Connection) -> dict[str, Table]:
    """The tables whose rows are read, by name."""
    listed = connection.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%'"
        " ESCAPE '\\' ORDER BY name"
    ).fetchall()
    wanted = [
        name
        for (name,) in listed
        if name != BOOK and not any(re.fullmatch(rf"{each}(_\w+)?", name) for each in DERIVED)
    ]
    return {name: _table(connection, name) for name in wanted}


def _table(connection: sqlite3.Connection, name: str) -> Table:
    columns = connection.execute(f"PRAGMA table_info({name})").fetchall()
    whole = [row for row in columns if row[5] and row[2] == "INTEGER"]
    keys = [row for row in columns if row[5]]
    own = whole[0][0] if len(keys) == 1 and whole else None
    later = [row[0] for row in columns if row[4] is not None]
    indices = {}
    for index in connection.execute(f"PRAGMA index_list({name})").fetchall():
        shape = connection.execute(f"PRAGMA index_xinfo({index[1]})").fetchall()
        indices[index[1]] = tuple(None if row[1] == -2 else row[2] for row in shape)
    return Table(
        name=name,
        columns=tuple(row[1] for row in columns),
        types=tuple(row[2] for row in columns),
        needed=tuple(bool(row[3] or row[5]) for row in columns),
        defaults=tuple(_value(connection, row[4]) for row in columns),
        own=own,
        least=_least(columns, later),
        indices=indices,
    )


def _least(columns: Sequence[Sequence[Value]], defaulted: Sequence[int]) -> int:
    """How many values the oldest row of a table may have: columns that came later are missing."""
    least = len(columns)
    while least > 1 and (least - 1 in defaulted or not columns[least - 1][3]):
        least -= 1
    return least


def _value(connection: sqlite3.Connection, sql: str | None) -> Value:
    found: Value = connection.execute(f"SELECT {sql}").fetchone()[0] if sql is not None else None
    return found


_TYPES: dict[str, tuple[type, ...]] = {
    "INTEGER": (int,), "REAL": (int, float), "TEXT": (str,), "BLOB": (bytes,),
}  # fmt: skip


def fitted(table: Table, row: Row) -> Record | None:
    """The values of a row by the columns of a table, None where it cannot be one of it."""
    if row.id is None or not table.least <= len(row.values) <= len(table.columns):
        return None
    values = [*row.values, *table.defaults[len(row.values) :]]
    for at, value in enumerate(values):
        if at == table.own:
            if value is not None:
                return None
            values[at] = row.id
        elif value is None:
            if table.needed[at]:
                return None
        elif not isinstance(value, _TYPES.get(table.types[at], (object,))):
            return None
    return tuple(values)
