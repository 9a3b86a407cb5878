"""What does an error of SQLite mean to a person, and what can be done about it?

Only what a machine does to a file is told here: a full disk, a file that is not ours to write,
another writer, damage. Anything else (a statement that is wrong) is a bug and stays what it was.
"""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from replay.errors import ArcError, StoreUnusable
from replay.written import WRITE_UTF8, half


def database_errors() -> tuple[type[Exception], ...]:
    """What a driver raises: Python's own, and that of encrypted databases once it is loaded."""
    other = sys.modules.get("sqlcipher3.dbapi2")
    return (sqlite3.Error,) if other is None else (sqlite3.Error, other.Error)


def keeping_errors() -> tuple[type[Exception], ...]:
    """What can go wrong with keeping something that whoever made it must not be disturbed by."""
    return (ArcError, OSError, *database_errors())


class StoreBusy(StoreUnusable):
    """Another process has the database to itself for longer than we waited: try again."""


class StoreTooOld(StoreUnusable):
    """The tables are those of an arc before 0.1, and cannot be brought up to date.

    `last`: by the last of those, whose tables can still be read for an export.
    """

    def __init__(self, path: Path | str | None, *, last: bool) -> None:
        super().__init__(
            f"{path}: was written by an arc before 0.1 and cannot be upgraded",
            "Try: arc db export FILE, which still reads it; then arc db import FILE --db NEW.db"
            if last
            else "Try: open it once with the last arc before 0.1, then arc db export FILE",
        )
        self.last = last


class StoreDamaged(StoreUnusable):
    """The file holds what SQLite cannot have written."""


_MEANING: dict[str, tuple[type[StoreUnusable], str, str]] = {
    "SQLITE_FULL": (
        StoreUnusable,
        "the disk is full: nothing was written",
        "Try: free space, then run it again. Earlier data is intact",
    ),
    "SQLITE_IOERR": (
        StoreUnusable,
        "disk read or write error: nothing was written",
        "Try: check the disk, its quota and its limits, then run it again",
    ),
    "SQLITE_READONLY": (
        StoreUnusable,
        "is read-only: nothing was written",
        "Try: make the file and its folder writable, or another --db or ARC_DB",
    ),
    "SQLITE_CANTOPEN": (
        StoreUnusable,
        "cannot be opened: the file or its folder is not writable",
        "Try: make the file and its folder writable, or another --db or ARC_DB",
    ),
    "SQLITE_BUSY": (
        StoreBusy,
        "locked by another process: nothing was written",
        "Try: again when the other process is done",
    ),
    "SQLITE_LOCKED": (
        StoreBusy,
        "locked by another process: nothing was written",
        "Try: again when the other process is done",
    ),
    "SQLITE_CORRUPT": (
        StoreDamaged,
        "is damaged",
        "Try: arc db verify, to list what is lost; arc db recover, to save the rest",
    ),
    "SQLITE_INTERRUPT": (
        StoreDamaged,
        "is damaged or malicious: a query took far more work than a file of this size needs",
        "Try: arc db verify, to list what is wrong; arc db recover, to save the rest",
    ),
    "SQLITE_NOTADB": (
        StoreDamaged,
        "is not a database, or its beginning is damaged",
        "Try: another --db or ARC_DB; for a damaged one, arc db recover, to save what is readable",
    ),
}
"""By the name of SQLite's primary result code: which error, what happened, what to do."""

_CODES = {
    5: "SQLITE_BUSY", 6: "SQLITE_LOCKED", 8: "SQLITE_READONLY", 9: "SQLITE_INTERRUPT",
    10: "SQLITE_IOERR", 11: "SQLITE_CORRUPT", 13: "SQLITE_FULL", 14: "SQLITE_CANTOPEN",
    26: "SQLITE_NOTADB",
}  # fmt: skip

_IN_SQLITES_WORDS = frozenset({"SQLITE_CORRUPT", "SQLITE_NOTADB"})
"""What SQLite says of the damage is worth telling."""

_WORDS = {
    "database or disk is full": "SQLITE_FULL",
    "disk i/o error": "SQLITE_IOERR",
    "readonly database": "SQLITE_READONLY",
    "unable to open database file": "SQLITE_CANTOPEN",
    "database is locked": "SQLITE_BUSY",
    "malformed": "SQLITE_CORRUPT",
    "could not decode to utf-8": "SQLITE_CORRUPT",
    "file is not a database": "SQLITE_NOTADB",
}
"""What an error says where its driver gives no code with it."""


def unusable(error: Exception, path: Path | str | None) -> StoreUnusable | None:
    """The error as a sentence about the file, None where it says nothing of the file."""
    name = _named(error)
    if name is None:
        return None
    kind, what, hint = _MEANING[name]
    said = f"{path or 'the database'}: {what}"
    return kind(f"{said}: {error}" if name in _IN_SQLITES_WORDS else said, hint)


def is_of_file(error: Exception) -> bool:
    """Did a driver raise it because of what the machine does to the file?"""
    return _named(error) is not None


def cannot_write(error: Exception) -> bool:
    """Does it say that nothing can be written here, though it may be read?"""
    return _named(error) in {"SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_FULL", "SQLITE_IOERR"}


def is_locked(error: Exception) -> bool:
    """Does it say that another connection is writing just now?"""
    return _named(error) == "SQLITE_BUSY"


@contextmanager
def opening(path: Path | str) -> Iterator[None]:
    """As `told`, where a file is looked into for the first time: of a damaged list of tables SQLite
    complains in words that are no text."""
    with describe(path):
        try:
            yield
        except UnicodeDecodeError as error:
            raise sqlite3.DatabaseError("malformed database schema") from error


@contextmanager
def describe(path: Path | str | None) -> Iterator[None]:
    """Errors about the file, or about a text it cannot hold, leave as sentences, others as they
    are."""
    try:
        yield
    except database_errors() as error:
        said = unusable(error, path)
        if said is None:
            raise
        raise said from error
    except UnicodeEncodeError as error:
        wrong = half(error.object) or "is not valid text"
        raise ArcError(f"a text {wrong}: nothing was written", WRITE_UTF8) from error


T = TypeVar("T")

PATIENCE = 12
"""How often something is tried that another process is in the way of: a minute, each time as long
as a connection waits."""


def patiently(work: Callable[[], T], going: Callable[[], bool] = lambda: True) -> T:
    """Do it, and again while another process has the database and `going` holds.

    For who has nothing to lose by waiting: a worker of a screen. Raises StoreBusy at the end.
    """
    for _ in range(PATIENCE - 1):
        try:
            return work()
        except StoreBusy:
            if not going():
                raise
    return work()


def _named(error: Exception) -> str | None:
    if not isinstance(error, database_errors()):
        return None
    code = getattr(error, "sqlite_errorcode", None)
    if code is not None:
        return _CODES.get(code & 0xFF)  # the rest of a code says which kind of the same thing
    words = str(error).lower()
    return next((name for part, name in _WORDS.items() if part in words), None)
