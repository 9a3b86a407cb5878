"""What can still be read of a damaged database, and what it once held beside?

The rows of every table are read page by page into a new file of the same schema; those of pages
that no tree leads to any more go to the one table that they fit. What an index still names and no
page holds is lost, and told by that name. Whether the rows agree with each other is asked in
`mended`, whether traces are whole in `recover`.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field

from replay.errors import StoreUnusable
from replay.store.cipher.rewriting import begin_like
from replay.store.cipher.sealed import pages_of
from replay.store.handle import connect
from replay.store.migrating import BOOK, Migrations
from replay.store.rescue.pages import INTERIOR_INDEX, LEAF_TABLE, Damaged, Pages, Record, Row, Value
from replay.store.rescue.shapes import Table, fitted, tables_of
from replay.store.trouble import database_errors


class Lost(Struct, frozen=True, kw_only=True):
    """A row that an index names and no page holds, by the columns of that index."""

    table: str
    id: int
    known: dict[str, Value]


class Salvage(Struct, kw_only=True):
    """What was read of a file. `damaged` says of places how often something was wrong there, and
    what at first; `unplaced` rows fit no table, or several."""

    damaged: dict[str, tuple[int, str]] = field(default_factory=dict)
    hurt: set[str] = field(default_factory=set)
    lost: list[Lost] = field(default_factory=list)
    unplaced: int = 0

    def note(self, of: str, damage: Damaged) -> None:
        place = f"{of}, page {damage.page}"
        many, first = self.damaged.get(place, (0, damage.why))
        self.damaged[place] = (many + 1, first)


def salvage(path: Path, into: Path, sets: Sequence[Migrations]) -> Salvage:
    """Read the file at `path` into a new database at `into`, brought to the schema of today.

    `path` is only read. Raises StoreUnusable where it is written meanwhile, or holds no page.
    """
    before = _state(path)
    try:
        with pages_of(path) as pages:
            begin_like(path, into)
            found = _read(pages, into, sets)
    except Damaged as damage:
        raise StoreUnusable(f"{path}: nothing can be read of it: {damage.why}") from damage
    except OSError as error:
        raise StoreUnusable(f"{path}: cannot be read: {error.strerror}") from error
    if _state(path) != before:
        raise StoreUnusable(
            f"{path}: is being written", "end what writes it (another arc), then try again"
        )
    return found


def _state(path: Path) -> list[tuple[int, int]]:
    files = [path, path.with_name(path.name + "-wal")]
    stats = [each.stat() for each in files if each.exists()]
    return [(each.st_size, each.st_mtime_ns) for each in stats]


def _read(pages: Pages, into: Path, sets: Sequence[Migrations]) -> Salvage:
    found, seen = Salvage(), set[int]()
    if pages.log_cut:
        found.damaged["the log beside the file"] = (1, "what it says later is not used")
    roots = _roots(pages, found, seen)
    connection = connect(into)
    try:
        _make(connection, sets, _versions(pages, roots))
        tables = tables_of(connection)
        dropped = _without_triggers(connection)
        connection.execute("PRAGMA foreign_keys = OFF")
        connection.execute("BEGIN")
        known = _known_roots(pages, roots, connection, tables)
        for name in roots.keys() - known.keys():  # of indices and what is made anew: not read
            seen.update(each for each in _all(pages, roots[name]))
        for name, table in tables.items():
            if name in known:
                _put_tree(pages, connection, table, known[name], found, seen)
            else:
                found.hurt.add(name)
        if found.damaged or found.hurt:
            _put_strays(pages, connection, tables, found, seen)
        indices = {name: root for name, root in roots.items() if name not in tables}
        for name in sorted(found.hurt):
            found.lost += _lost(pages, connection, tables[name], indices)
        connection.execute("COMMIT")
        for statement in dropped:
            connection.execute(statement)
        for wanted in sets:
            wanted.apply(connection)
    finally:
        connection.close()
    return found


# --- the schema: what the file says of it, and what it must have been


def _roots(pages: Pages, found: Salvage, seen: set[int]) -> dict[str, int]:
    """The first page of each table and index, as far as the file's own list can be read."""
    roots: dict[str, int] = {}
    for leaf in pages.tree(1, seen):
        if isinstance(leaf, Damaged):
            found.note("the list of tables", leaf)
            continue
        for row in pages.rows(leaf):
            if isinstance(row, Damaged):
                found.note("the list of tables", row)
            elif len(row.values) == 5 and isinstance(row.values[3], int) and row.values[3] > 1:
                roots[str(row.values[1])] = row.values[3]
    return roots


def _all(pages: Pages, root: int) -> set[int]:
    """Every page of a tree whose rows are not wanted."""
    seen: set[int] = set()
    for leaf in pages.tree(root, seen):
        if not isinstance(leaf, Damaged):
            seen.update(pages.overflow(leaf))
    for number in list(seen):
        if number <= pages.count and _kind(pages, number) == INTERIOR_INDEX:
            seen.update(pages.overflow(number))
    return seen


def _kind(pages: Pages, number: int) -> int:
    try:
        return pages.kind(number)
    except Damaged:
        return 0


def _versions(pages: Pages, roots: Mapping[str, int]) -> dict[str, set[str]] | None:
    """The migrations that were applied, by set; None where the file does not say, which then is
    taken for one of today."""
    if BOOK not in roots:
        return None
    applied: dict[str, set[str]] = {}
    for leaf in pages.tree(roots[BOOK], set()):
        for row in pages.rows(leaf) if isinstance(leaf, int) else [leaf]:
            if isinstance(row, Damaged) or len(row.values) < 3:
                return None
            applied.setdefault(str(row.values[1]), set()).add(str(row.values[2]))
    return applied or None


def _make(
    db: sqlite3.Connection, sets: Sequence[Migrations], applied: dict[str, set[str]] | None
) -> None:
    """The tables of the version that the file has."""
    for wanted in sets:
        names = wanted.names
        there = names if applied is None else applied.get(wanted.name, ())
        done = next((at for at, name in enumerate(names) if name not in there), len(names))
        if done:
            wanted.first(done).apply(db)


def _without_triggers(connection: sqlite3.Connection) -> list[str]:
    """Drop every trigger, and return what makes them again."""
    found = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")
    made = found.fetchall()
    for name, _ in made:
        connection.execute(f"DROP TRIGGER {name}")
    return [sql for _, sql in made]


def _known_roots(
    pages: Pages,
    roots: Mapping[str, int],
    connection: sqlite3.Connection,
    tables: Mapping[str, Table],
) -> dict[str, int]:
    """The first page of each table that is read.

    Where the file does not say, it may be where a new file of that version has it; it is, if what
    stands there fits.
    """
    fresh = dict(connection.execute("SELECT name, rootpage FROM sqlite_master").fetchall())
    known: dict[str, int] = {}
    for name, table in tables.items():
        if name in roots:
            known[name] = roots[name]
        elif fresh[name] not in roots.values() and _fits_tree(pages, fresh[name], table):
            known[name] = fresh[name]
    return known


def _fits_tree(pages: Pages, root: int, table: Table) -> bool:
    rows = 0
    for leaf in pages.tree(root, set()):
        if isinstance(leaf, Damaged) or pages.kind(leaf) != LEAF_TABLE:
            return False
        for row in pages.rows(leaf):
            if isinstance(row, Damaged) or fitted(table, row) is None:
                return False
            rows += 1
        if rows:
            return True
    return False


# --- rows


def _put_tree(
    pages: Pages,
    connection: sqlite3.Connection,
    table: Table,
    root: int,
    found: Salvage,
    seen: set[int],
) -> None:
    """Every row that a tree leads to; what is damaged in it is noted, and the table as hurt."""
    for leaf in pages.tree(root, seen):
        if isinstance(leaf, Damaged):
            _hurt(found, table, leaf)
            continue
        if pages.kind(leaf) != LEAF_TABLE:
            _hurt(found, table, Damaged(leaf, "is no page of a table"))
            continue
        seen.update(pages.overflow(leaf))
        for row in pages.rows(leaf):
            if isinstance(row, Damaged):
                _hurt(found, table, row)
            elif not _put(connection, table, row):
                _hurt(found, table, Damaged(leaf, "a row is none of this table"))


def _hurt(found: Salvage, table: Table, damage: Damaged) -> None:
    found.hurt.add(table.name)
    found.note(table.name, damage)


def _put(connection: sqlite3.Connection, table: Table, row: Row) -> bool:
    """Put a row, unless it is none of this table or stands in the way of one that is there."""
    values = fitted(table, row)
    if values is None:
        return False
    names = table.columns if table.own is not None else ("rowid", *table.columns)
    given = values if table.own is not None else (row.id, *values)
    marks = ", ".join("?" * len(given))
    try:
        done = connection.execute(
            f"INSERT OR IGNORE INTO {table.name} ({', '.join(names)}) VALUES ({marks})", given
        )
    except database_errors() as error:  # a value that a column of its type does not take
        if type(error).__name__ != "IntegrityError":  # each driver has its own
            raise
        return False
    return done.rowcount > 0


# --- pages that no tree leads to


def _put_strays(
    pages: Pages,
    connection: sqlite3.Connection,
    tables: Mapping[str, Table],
    found: Salvage,
    seen: set[int],
) -> None:
    """Rows of tables that are hurt, on pages that nothing leads to and that are not free."""
    wanted = [tables[name] for name in sorted(found.hurt)]
    seen |= pages.free()
    for number in range(1, pages.count + 1):
        if number in seen or _kind(pages, number) != LEAF_TABLE:
            continue
        rows = [row for row in pages.rows(number) if isinstance(row, Row)]
        fit = [
            table
            for table in wanted
            if rows and all(fitted(table, row) is not None for row in rows)
        ]
        if len(fit) == 1:
            for row in rows:
                _put(connection, fit[0], row)
        elif fit:
            found.unplaced += len(rows)


# --- rows that are named and not there


def _lost(
    pages: Pages, connection: sqlite3.Connection, table: Table, roots: Mapping[str, int]
) -> Iterator[Lost]:
    """What the indices of a table name and it does not have, with all that they know of it."""
    named: dict[int, dict[str, Value]] = {}
    there = {row[0] for row in connection.execute(f"SELECT rowid FROM {table.name}")}
    for index, columns in sorted(table.indices.items()):
        if index not in roots:
            continue
        for values in _entries(pages, roots[index]):
            row = values[-1] if len(values) == len(columns) else None
            if isinstance(row, int) and row > 0 and row not in there:
                known = zip(columns[:-1], values, strict=False)
                named.setdefault(row, {}).update(
                    (name, value) for name, value in known if name is not None
                )
    for row in sorted(named):
        yield Lost(table=table.name, id=row, known=named[row])


def _entries(pages: Pages, root: int) -> Iterator[Record]:
    """The entries of an index, those on its interior pages too."""
    seen: set[int] = set()
    for _ in pages.tree(root, seen):
        pass
    for number in sorted(seen):
        if _kind(pages, number) in (INTERIOR_INDEX, 10):
            for row in pages.rows(number):
                if isinstance(row, Row):
                    yield row.values


def discard(path: Path) -> None:
    """Remove a database that was made on the way, and what SQLite put beside it."""
    for left in ("", "-wal", "-shm", "-journal"):
        with_left = path.with_name(path.name + left)
        if os.path.lexists(with_left):
            with_left.unlink()
