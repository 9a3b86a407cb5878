"""Rows that wait for the end of their transaction: ids are given at once, rows written together.

Whoever writes holds the write lock, so the next id of a table is known, and thousands of rows can
refer to each other before the first of them is in the file.
"""

from __future__ import annotations

import sqlite3
from typing import Any

Row = dict[str, Any]

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
