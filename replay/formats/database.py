"""Another program's SQLite file, read as it stands: never written to, never locked for long, not
trusted.

A file without a write-ahead log is opened as immutable, which takes no lock at all. One with a log
that a program has open is read beside that program; one whose program is gone is copied first,
because SQLite would leave a file beside it.

Only stored columns of ordinary tables are read. No query gives more rows, or more bytes, than the
file has room for, and none takes more steps than a multiple of its size: a broken file can lead in
circles, and say the same page many times. Views, virtual tables, generated columns and functions in
the file's schema never run: none of them is asked for, and an authorizer refuses them.
(`trusted_schema` would refuse too much: with it off, SQLite 3.40 does not read a schema that has an
index over `json_extract`, as Phoenix's has.)
"""

from __future__ import annotations

import re
import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import quote

from replay import files
from replay.errors import BadTrace
from replay.formats.source import Head

Row: TypeAlias = dict[str, Any]

MAGIC = b"SQLite format 3\0"
MAX_CELL_BYTES = 256 * 1024 * 1024
"""Of one value: a span with its messages, an image."""

_TABLE = re.compile(rb"CREATE TABLE\s+(?:IF NOT EXISTS\s+)?[\"'`\[]?(\w+)")
_ORDINARY = re.compile(r"CREATE TABLE\b", re.I)
_SMALLEST_ROW_BYTES = 4
_MOST_RATIO = 8
"""Bytes of rows, of the file's: columns added later have their defaults in every row."""
_FREE_BYTES = 1 << 20
_STEPS_A_BYTE = 100
"""Of SQLite's machine, for all queries together. A real file takes a few."""
_FREE_STEPS = 100_000_000
_STEPS_AT_ONCE = 100_000
_BUSY_S = 5.0
_ALLOWED = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_PRAGMA}


def tables(head: Head) -> frozenset[str] | None:
    """The tables of a file that is being sniffed at: where it is compressed, those whose names
    stand in its head. None where it is no database."""
    if not head.data.startswith(MAGIC):
        return None
    if head.file is None:
        return frozenset(name.decode() for name in _TABLE.findall(head.data))
    try:
        with opened(head.file, head.name) as database:
            return database.tables
    except BadTrace:
        return frozenset()


class Database:
    """The ordinary tables of a file and their stored columns."""

    def __init__(self, connection: sqlite3.Connection, display: str, size: int) -> None:
        self._connection = connection
        self._display = display
        self._most_rows = size // _SMALLEST_ROW_BYTES
        self._most_bytes = size * _MOST_RATIO + _FREE_BYTES
        self._columns: dict[str, frozenset[str]] = {}
        self._looked_over: set[tuple[str, ...]] = set()
        schema = self._query("SELECT name, sql FROM sqlite_master WHERE type = 'table'")
        self.tables = frozenset(
            str(row["name"]) for row in schema if _ORDINARY.match(str(row["sql"]))
        )

    def columns(self, table: str) -> frozenset[str]:
        """The names of a table's stored columns; empty where there is no such table."""
        if table not in self.tables:
            return frozenset()
        if table not in self._columns:
            found = self._query(f"PRAGMA table_info({quoted(table)})")
            self._columns[table] = frozenset(str(row["name"]) for row in found)
        return self._columns[table]

    def rows(
        self,
        table: str,
        columns: Sequence[str],
        *,
        order: Sequence[str] = (),
        **where: str | int,
    ) -> Iterator[Row]:
        """Rows by the names of `columns`; one that the table lacks is left out of them.

        A table that is not there, or that lacks a column of `order` or `where`, has no rows. Texts
        that are no UTF-8 are mended, as everywhere.
        """
        there = self.columns(table)
        if not there.issuperset({*order, *where}):
            return
        chosen = [name for name in columns if name in there]
        if not chosen:
            return
        sql = f"SELECT {', '.join(map(quoted, chosen))} FROM {quoted(table)}"
        if where:
            sql += " WHERE " + " AND ".join(f"{quoted(name)} = ?" for name in where)
        place = f"table {table}"
        if order:
            self._look_over(table, chosen, place)
            sql += f" ORDER BY {', '.join(map(quoted, order))}"
        yield from self._query(sql, tuple(where.values()), where=place)

    def _look_over(self, table: str, columns: Sequence[str], place: str) -> None:
        """Raise BadTrace where a table has too much: to sort it would take as much on disk."""
        if (table, *columns) not in self._looked_over:
            sql = f"SELECT {', '.join(map(quoted, columns))} FROM {quoted(table)}"
            for _ in self._query(sql, where=place):
                pass
            self._looked_over.add((table, *columns))

    def _query(
        self, sql: str, given: tuple[str | int, ...] = (), *, where: str = "schema"
    ) -> Iterator[Row]:
        try:
            cursor = self._connection.execute(sql, given)
            names = [column[0] for column in cursor.description or ()]
            left = self._most_bytes
            for number, values in enumerate(cursor):
                left -= sum(len(value) for value in values if isinstance(value, (str, bytes)))
                if number > self._most_rows or left < 0:
                    what = "bytes" if left < 0 else "rows"
                    why = f"has more {what} than the file has room for"
                    raise BadTrace(self._display, where, why)
                yield dict(zip(names, values, strict=True))
        except (sqlite3.Error, OverflowError, UnicodeError) as error:
            raise BadTrace(self._display, where, _why(error), _hint(error)) from error


@contextmanager
def opened(path: Path, display: str) -> Iterator[Database]:
    """The database in a file. Raises BadTrace where it cannot be opened or is none."""
    with files.private_folder() as folder:
        log, index = Path(f"{path}-wal"), Path(f"{path}-shm")
        left = files.size(log) > 0 and not index.exists()
        here = _copied(path, folder, display) if left else path
        busy = files.size(log) > 0 or files.size(Path(f"{path}-journal")) > 0
        mode = "mode=ro" if busy else "mode=ro&immutable=1"
        uri = f"file:{quote(str(here.absolute()))}?{mode}"
        try:
            connection = sqlite3.connect(uri, uri=True, timeout=_BUSY_S, cached_statements=16)
        except sqlite3.Error as error:
            raise BadTrace(display, "", _why(error), _hint(error)) from error
        with closing(connection):
            _distrust(connection, display)
            size = files.size(path) + files.size(log)
            connection.set_progress_handler(_Steps(size), _STEPS_AT_ONCE)
            yield Database(connection, display, size)


class _Steps:
    """The steps that a file of some size is worth. Called after so many of them."""

    def __init__(self, size: int) -> None:
        self._left = _FREE_STEPS + size * _STEPS_A_BYTE

    def __call__(self) -> bool:
        """True ends the query."""
        self._left -= _STEPS_AT_ONCE
        return self._left < 0


def _distrust(connection: sqlite3.Connection, display: str) -> None:
    """Before the first look at the schema, which may be made to do harm."""
    connection.text_factory = lambda text: text.decode("utf-8", "replace")
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_CELL_BYTES)
    try:
        connection.execute("PRAGMA cell_size_check = ON")
        connection.execute("PRAGMA query_only = ON")
        connection.execute("PRAGMA mmap_size = 0")
    except sqlite3.Error as error:
        raise BadTrace(display, "", _why(error), _hint(error)) from error
    connection.set_authorizer(_allow)


def _allow(action: int, first: str | None, *rest: str | None) -> int:
    """Reading columns of tables, and asking what columns there are; nothing by way of a view."""
    through = rest[-1]
    if action not in _ALLOWED or through is not None:
        return sqlite3.SQLITE_DENY
    if action == sqlite3.SQLITE_PRAGMA and first != "table_info":
        return sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK


def _copied(path: Path, folder: Path, display: str) -> Path:
    copy = files.new(folder / "copy.db")
    try:
        shutil.copyfile(path, copy)
        shutil.copyfile(f"{path}-wal", files.new(folder / "copy.db-wal"))
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise BadTrace(display, "", f"cannot be copied with its log: {why}") from error
    return copy


def quoted(name: str) -> str:
    """A name as SQL takes it."""
    return '"' + name.replace('"', '""') + '"'


def _why(error: Exception) -> str:
    said = str(error)
    if "locked" in said or "busy" in said:
        return "is being written by another program"
    if "interrupted" in said:
        return "needs far more work than a file of this size should"
    if isinstance(error, UnicodeError):
        return "is not a complete SQLite database: its schema is not text"
    if "not a database" in said or "malformed" in said:
        return f"is not a complete SQLite database: {said}"
    return f"cannot be read as an SQLite database: {said}"


def _hint(error: Exception) -> str:
    if "locked" in str(error) or "busy" in str(error):
        return "Try: again when that program has finished"
    if "readonly" in str(error) or "unable to open" in str(error):
        return (
            "Try: open it once with the program it belongs to, which completes an interrupted write"
        )
    return ""
