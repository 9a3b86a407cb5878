"""New databases whose tables are made once, then copied.

Making them takes ten milliseconds, longer than most tests that ask for one. Every new database in
memory is such a copy; a file is one only where it is asked for: two may open a new file at once,
and who makes its tables matters then.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest

from replay.store import connection
from replay.store.handle import Store
from replay.store.schema import Migrations
from taxonomy.judgements.schema import open_ledger


@contextmanager
def copied_tables() -> Iterator[None]:
    """Every new database in memory takes its tables from the first that had the same sets."""
    made: dict[tuple[str, ...], sqlite3.Connection] = {}
    make = Store.open

    def opened(
        path: Path | str, *sets: Migrations, before: bool = False, to_read: bool = False
    ) -> Store:
        if str(path) != ":memory:":
            return make(path, *sets, before=before, to_read=to_read)
        names = tuple(each.name for each in sets)
        if names not in made:
            made[names] = sqlite3.connect(":memory:", check_same_thread=False)
            with make(path, *sets) as store:
                store.db.backup(made[names])
        copy = connection.connect(None)
        made[names].backup(copy)
        return Store(copy, None)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Store, "open", opened)
        yield
    for each in made.values():
        each.close()


def put_ledger(path: Path) -> None:
    """Write an empty database with every table, unless there is one."""
    if not path.exists():
        path.write_bytes(_empty_ledger())


@cache
def _empty_ledger() -> bytes:
    with open_ledger(":memory:") as store:
        return store.db.serialize()
