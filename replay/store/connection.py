"""A connection to a database file: by which driver, with which settings, and how its rows are read.

Python's own driver, or that of encrypted databases where the file is one. A file that cannot be
written is opened to be read.

The file may be somebody else's: then nothing runs by itself in it, and every statement on it comes
to an end.

Views, triggers, virtual tables and the expressions of columns and indices run by themselves, and
may never end: none does but those that `arc` made, word for word. `KNOWN` holds the digest of each;
`tests/replay/test_active.py` derives it anew.

Its pages may list one page many times over, so that a table of a few kilobytes has more rows than
can ever be read: a statement is ended when it takes far more work than the whole file is worth.
Nothing can be ended within one instruction, and a bare `count(*)` of a table is one: rows are
counted by `count(1)`.
"""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeAlias

from typing_extensions import override

from replay import files
from replay.errors import StoreUnusable
from replay.store import encryption
from replay.store.trouble import cannot_write, database_errors, is_locked

Row = dict[str, Any]

BUSY_TIMEOUT_S = 5.0

PAGE_BYTES = 8192
"""Of a new file: rows of a page and more, as tool results are, leave less of it empty than in the
usual 4096."""


def _opened(file: Path | None, options: str = "") -> sqlite3.Connection:
    """By Python's own driver, or the one of encrypted databases where the file is one: that one has
    no bounds, who made the file had the key. `options` are those of a URI of SQLite."""
    encryption.take_from_environment()
    encrypted = encryption.connect(file, BUSY_TIMEOUT_S, options) if file is not None else None
    if encrypted is not None:
        return encrypted
    connection = sqlite3.connect(
        encryption.uri(file, options) if file is not None else ":memory:",
        timeout=BUSY_TIMEOUT_S,
        isolation_level=None,
        uri=file is not None,
        factory=BoundedConnection,
    )
    if file is not None:
        connection.bound(file)
    return connection


def connect(file: Path | None) -> sqlite3.Connection:
    """A connection as every one to a database is; the file is made where there is none. Where
    nothing can be written, the connection only reads."""
    if file is not None and not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(file, os.O_CREAT | os.O_WRONLY, 0o600))
    try:
        return _writing(file)
    except database_errors() as error:
        if file is None or not cannot_write(error) or not file.stat().st_size:
            raise
        return connect_to_read(file)


def connect_to_read(file: Path) -> sqlite3.Connection:
    """A connection that only reads. Raises StoreUnusable where there is no such file.

    A file in WAL mode wants a shared index beside it; where none can be made it is read as if
    nobody could change it, and a copy of it where the last that was written to it still stands in
    its log.
    """
    if not file.exists():
        raise StoreUnusable(f"{file}: no such database", "Try: arc import FILES, or another --db")
    try:
        return _only_reading(file, "mode=ro")
    except database_errors() as error:
        if not cannot_write(error):
            raise
    log = file.with_name(f"{file.name}-wal")
    if not log.exists() or not log.stat().st_size:
        return _only_reading(file, "mode=ro&immutable=1")
    with files.private_folder() as folder:
        copy = folder / file.name
        shutil.copyfile(file, copy)
        shutil.copyfile(log, folder / log.name)
        return _only_reading(copy, "")  # its files are open now, and need no name any more


def _only_reading(file: Path, options: str) -> sqlite3.Connection:
    connection = _opened(file, options)
    try:
        connection.execute("SELECT count(1) FROM sqlite_master").fetchone()
        connection.execute("PRAGMA query_only = ON")
    except database_errors():
        connection.close()
        raise
    return connection


def _writing(file: Path | None) -> sqlite3.Connection:
    connection = _opened(file)
    try:
        _set_up(connection, file)
    except database_errors():
        connection.close()
        raise
    return connection


def _set_up(connection: sqlite3.Connection, file: Path | None) -> None:
    if file is None or not file.stat().st_size:
        connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA recursive_triggers = ON")
    if file is not None:
        _log_ahead(connection)
        connection.execute("PRAGMA synchronous = FULL")  # a tag outlives a power cut


def _log_ahead(connection: sqlite3.Connection) -> None:
    """Of two that open a new file at once, SQLite lets one change the mode and tells the other at
    once that the file is locked, without the wait of the connection."""
    give_up = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except database_errors() as error:
            if not is_locked(error) or time.monotonic() > give_up:
                raise
        time.sleep(0.01)


def dicts(cursor: sqlite3.Cursor) -> Iterator[Row]:
    """Rows by the names of their columns."""
    # Later columns of one name win: a digest selected beside `c.*` stands for the row id.
    names = [column[0] for column in cursor.description]
    return (dict(zip(names, values, strict=True)) for values in cursor)


@contextmanager
def lenient(db: sqlite3.Connection) -> Iterator[None]:
    """Bytes that are no text come as another text, whose digest is another, and not as an error."""
    before, db.text_factory = db.text_factory, lambda raw: raw.decode(errors="replace")
    try:
        yield
    finally:
        db.text_factory = before


# --- a file that somebody else made

NAMES = frozenset(
    "_sqlite_migrations answer audit batch claim clearance context diagnosis "
    "edit environment failures first_word gold latency message message_step message_words "
    "message_words_config message_words_data message_words_docsize message_words_idx model_call "
    "replay "
    "runs scan scan_finding scan_partition scan_run score setting source_score span span_latency "
    "span_words span_words_config span_words_data span_words_docsize span_words_idx step "
    "steps stub suggestion supplement tag tool_call "
    "toolset trace trace_summary trace_supplement".split()
)
"""Of the tables and views."""
KNOWN = frozenset(
    "1782abc04c3c5d582da90119 1810b55eb5f0ef94aabc3542 1ca2a17f4dd6ab33766f98ff "
    "1e2e88a0326b625340a30074 241ac9c604b98006af3eacec 26f3a34699540e0c355db204 "
    "35a814dd7378a0898694f598 364548974c257f2c3051cdc7 38c04e7b0672f617f23fdc42 "
    "48ca57590b277423676f952a 49701d34158578e8a3e8d6ef 4c96ff438dca739db67e917c "
    "5fac624c3b30804a951a6af0 6a83cfb7624f8ca36b37b42b 7407daa052d3368c172b5753 "
    "76ffc92747a77ea561443f95 77d6505f5215d01efd479344 78aefdfa0cd0a67b6fe975e2 "
    "89d2743dba7ca22351ca8014 91033fb99dc5563d713d98f0 91f91e8a66c00f825539aeae "
    "92752dea0dc661b73b6789ea a6d0e92d4049a7925dd6e3b0 afa394a3c7f27b8aecedde8d "
    "b5baa8dd2e52485543783068 bfa35299e361fdf8569de346 c0c5dbc8564ff2c00af4f37c "
    "d0399e28731e5bec324ea4e6 d81f1bc257f193c6bcffdfd0 dad5a20a0f8fe065b4d9274a "
    "dd20323b4bd29a6abb0b3f23 dd439230e10974cbe98b8d4f e0b9ef8588232e1e40103480 "
    "e2e44d77f16aebc6d3cb58c1 e6790b1f9487023dbc4a104d ede99f7e25bf446a9481d5d9 "
    "eeb9bcdd945c33ee076909e8 ef15dc7e0afb4b7defb22c4f f1141a8279fd9d5ec1b6b2f9 "
    "f80bf3a2608aaaed73063b01 fb935613d94acce50f6504c2".split()
)
"""Digests of what runs by itself."""

_TOKEN = re.compile(
    r"""(?P<left>--[^\n]*|/\*.*?(?:\*/|\Z)|\s+)"""
    r"""|'(?:[^']|'')*'|"(?:[^"]|"")*"|`(?:[^`]|``)*`|\[[^\]]*\]|\w+|.""",
    re.DOTALL,
)
"""As SQLite reads it; what is `left` says nothing."""


def refuse_foreign(db: sqlite3.Connection, path: Path | str) -> None:
    """Raise StoreUnusable where something runs by itself that no version of `arc` made.

    A view of another name than ours is left alone: nothing here asks for it.
    """
    rows = db.execute("SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL")
    for kind, name, sql in rows.fetchall():
        if is_foreign(kind, sql) and (kind != "view" or name.lower() in NAMES):
            raise StoreUnusable(
                f"{path}: refused: it contains the {kind} {name!r}, which arc did not create",
                "Try: another --db; arc import, to read databases of other programs",
            )


@lru_cache(maxsize=256)  # each question of the app opens the database anew, always the same one
def is_foreign(kind: str, sql: str) -> bool:
    """Does something run by itself in an entry of the schema that no version of `arc` made?"""
    return any(digest(text) not in KNOWN for text in active(kind, sql))


def active(kind: str, sql: str) -> Iterator[Sequence[str]]:
    """What runs by itself of an entry of the schema, in tokens: all of a view, a trigger, a virtual
    table and an index that is over more than columns; of a table, the expressions."""
    tokens = [each[0] for each in _TOKEN.finditer(sql) if each["left"] is None]
    words = [each.lower() if each[0].isalnum() else each for each in tokens]
    if kind in ("view", "trigger") or words[1:2] == ["virtual"]:
        yield words
    elif kind == "index":
        if words.count("(") > 1 or "where" in words:
            yield words
    else:
        for at, word in enumerate(words):
            if word in ("as", "check", "default") and words[at + 1 : at + 2] == ["("]:
                yield words[at : _closed(words, at + 1)]


def _closed(words: Sequence[str], at: int) -> int:
    """Behind the parenthesis that closes the one at a place."""
    deep = 0
    for place in range(at, len(words)):
        deep += {"(": 1, ")": -1}.get(words[place], 0)
        if not deep:
            return place + 1
    return len(words)


def digest(words: Sequence[str]) -> str:
    """Of tokens: letter case, spaces and comments aside."""
    return sha256("\0".join(words).encode("utf-8", "surrogatepass")).hexdigest()[:24]


_Values: TypeAlias = Any
"""Of the placeholders of a statement, as SQLite's driver takes them."""

STEPS_BETWEEN_LOOKS = 100_000
"""Instructions of SQLite's machine between two looks at the bound: about a millisecond."""

FREE_STEPS = 10_000_000
STEPS_A_BYTE = 10
"""A statement may take so many instructions, and so many more for each byte of the file. The
greediest of ours, taking old runs away (`arc db prune`), takes a twenty-eighth of it."""


class BoundedConnection(sqlite3.Connection):
    """A connection to the database in one file, bounded once `bound` was called.

    What is over raises sqlite3.OperationalError with the code SQLITE_INTERRUPT, as it does when
    `stop_when` ends a statement that nobody waits for.
    """

    _file: Path | None = None
    _steps = 0
    _most = 0
    _ended = False
    _over: Callable[[], bool] | None = None

    def bound(self, file: Path) -> None:
        """From now on each statement has a bound, by the size that `file` has when it is near."""
        self._file = file
        self._measure()
        self.set_progress_handler(self._look, STEPS_BETWEEN_LOOKS)

    def stop_when(self, over: Callable[[], bool]) -> None:
        """From now on a statement also ends soon after it is `over`."""
        self._over = over
        self.set_progress_handler(self._look, STEPS_BETWEEN_LOOKS)

    @override
    def execute(self, sql: str, parameters: _Values = (), /) -> sqlite3.Cursor:
        self._steps, self._ended = 0, False
        try:
            return super().execute(sql, parameters)
        except sqlite3.OperationalError as error:
            self.raise_if_pressed(error)
            raise

    @override
    def executemany(self, sql: str, parameters: Iterable[_Values], /) -> sqlite3.Cursor:
        return super().executemany(sql, self._each(parameters))

    def _each(self, parameters: Iterable[_Values]) -> Iterator[Any]:
        for each in parameters:
            self._steps = 0
            yield each

    def raise_if_pressed(self, error: BaseException | None) -> None:
        """Raise KeyboardInterrupt where it was ctrl-c that ended a statement: raised in `_look`, it
        ends the statement, and SQLite says only that something did."""
        interrupted = getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_INTERRUPT
        if interrupted and not self._ended:
            raise KeyboardInterrupt from error

    def _look(self) -> bool:
        """True ends the statement."""
        self._ended = self._is_over()
        return self._ended

    def _is_over(self) -> bool:
        if self._over is not None and self._over():
            return True
        if self._file is None:
            return False
        self._steps += STEPS_BETWEEN_LOOKS
        if self._steps <= self._most:
            return False
        self._measure()  # the file may have grown since
        return self._steps > self._most

    def _measure(self) -> None:
        assert self._file is not None
        size = files.size(self._file) + files.size(Path(f"{self._file}-wal"))
        self._most = FREE_STEPS + STEPS_A_BYTE * size
