"""What can still be read of a damaged database, and what did it once hold beside? Its tables, whose
rows can be read by themselves, and what a row of each looks like.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field

from replay.care.pages import INTERIOR_INDEX, LEAF_TABLE, Damaged, Pages, Record, Row, Value
from replay.care.rewriting import begin_like, pages_of
from replay.errors import StoreUnusable
from replay.store.connection import connect
from replay.store.schema import BOOK, Migrations
from replay.store.trouble import StoreTooOld, database_errors


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
            found = _read(path, pages, into, sets)
    except Damaged as damage:
        raise StoreUnusable(f"{path}: nothing readable: {damage.why}") from damage
    except OSError as error:
        raise StoreUnusable(f"{path}: cannot be read: {error.strerror}") from error
    if _state(path) != before:
        raise StoreUnusable(
            f"{path}: another process is writing to it",
            "Try: close the other arc, then run it again",
        )
    return found


def _state(path: Path) -> list[tuple[int, int]]:
    files = [path, path.with_name(path.name + "-wal")]
    stats = [each.stat() for each in files if each.exists()]
    return [(each.st_size, each.st_mtime_ns) for each in stats]


def _read(path: Path, pages: Pages, into: Path, sets: Sequence[Migrations]) -> Salvage:
    found, seen = Salvage(), set[int]()
    if pages.log_cut:
        found.damaged["the write-ahead log"] = (1, "later entries are not used")
    roots = _roots(pages, found, seen)
    connection = connect(into)
    try:
        versions = _versions(pages, roots)
        _refuse_before(path, sets, versions or {})
        _make(connection, sets, versions)
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


def _refuse_before(path: Path, sets: Sequence[Migrations], applied: dict[str, set[str]]) -> None:
    """Raises StoreTooOld where the tables cannot be brought up to date."""
    if any(applied.get(each.name, set()) & set(each.before) for each in sets):
        last = all(applied.get(each.name) == set(each.before) for each in sets)
        raise StoreTooOld(path, last=last)


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
            _hurt(found, table, Damaged(leaf, "not a table page"))
            continue
        seen.update(pages.overflow(leaf))
        for row in pages.rows(leaf):
            if isinstance(row, Damaged):
                _hurt(found, table, row)
            elif not _put(connection, table, row):
                _hurt(found, table, Damaged(leaf, "row of another table"))


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


DERIVED = ("step", "latency", "message_step", "message_words", "span_words", "first_word")
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
