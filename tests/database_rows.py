"""Every row of a database, for comparing two that should hold the same."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

_MOMENT = {"trace": {"imported_ns"}}
"""Columns that say when something was done."""

_OWN = ("sqlite_", "_sqlite", "setting")
_PARTS = ("_data", "_idx", "_docsize", "_config", "_content")


def rows_of(path: Path) -> dict[str, list[tuple[object, ...]]]:
    """The rows of each table in the order of their primary keys, and the words that each row is
    found by; without what is of the moment, and the settings, which have a key of their own."""
    found: dict[str, list[tuple[object, ...]]] = {}
    with closing(sqlite3.connect(path)) as db:
        names = [
            name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type='table'")
        ]
        for name in sorted(names):
            if name.startswith(_OWN) or ("_words_" in name and name.endswith(_PARTS)):
                continue
            if name.endswith("_words"):
                db.execute(
                    f"CREATE VIRTUAL TABLE temp.v_{name} USING fts5vocab(main, {name}, instance)"
                )
                found[name] = db.execute(f"SELECT term, doc FROM v_{name} ORDER BY 1, 2").fetchall()
                continue
            about = db.execute(f"PRAGMA table_info({name})").fetchall()
            kept = [row[1] for row in about if row[1] not in _MOMENT.get(name, ())]
            ids = ", ".join(row[1] for row in about if row[5]) or "rowid"
            sql = f"SELECT {', '.join(kept)} FROM {name} ORDER BY {ids}"
            found[name] = db.execute(sql).fetchall()
    return found
