"""An encrypted database: how it is told from others, and opened.

It is a file of SQLCipher 4 at its defaults, so SQLCipher's own tools open it with the same key. Its
first 16 bytes are a salt where a plain file says what it is; nothing in it can be read without the
key. The driver is the optional `sqlcipher3`, which is loaded for such files alone and whose SQLite
is another than Python's.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from pathlib import Path
from threading import Lock
from typing import Any, cast

from replay.errors import StoreUnusable
from replay.store.cipher import keys
from replay.store.trouble import database_errors

MAGIC = b"SQLite format 3\0"
SALT_BYTES, PAGE_BYTES = 16, 4096

_MOST_ALIKE = 200
"""A page of cipher has nearly all of the 256 bytes there are; a text has less than half of them."""

_LOOKED_AT = 16
"""Pages by which a file is judged: a single one may be damaged, in either kind of file."""

_NOT_A_DATABASE = 26

_MOST_OPEN = 32

_looking = Lock()
_looked: dict[tuple[int, int], tuple[int, bytes | None]] = {}
"""By the identity of a file: a handle on it, and its salt."""


def salt_of(file: Path) -> bytes | None:
    """The salt of an encrypted database, None for any other file, and for none.

    Each file is looked into once a process, by a handle that stays open: POSIX gives up every lock
    that a process has on a file as soon as it closes it anywhere, and while it is open no other
    file gets its identity.
    """
    return _look(file, again=False)


def is_encrypted(file: Path) -> bool:
    """Does a file say nothing without its key?"""
    return salt_of(file) is not None


def look_again(file: Path) -> bytes | None:
    """The same of a file that may have been written anew since."""
    return _look(file, again=True)


def _look(file: Path, *, again: bool) -> bytes | None:
    try:
        found = file.stat()
    except OSError:
        return None
    if not stat.S_ISREG(found.st_mode):
        return None
    identity = (found.st_dev, found.st_ino)
    with _looking:
        if identity in _looked:
            handle, salt = _looked.pop(identity)  # and in again, as the one used last
        else:
            _let_go()
            try:
                handle, again = os.open(file, os.O_RDONLY), True
            except OSError:
                return None  # whoever opens it as a database says why
            found = os.fstat(handle)  # it may have been swapped since
            identity, salt = (found.st_dev, found.st_ino), None
        if again:
            salt = _salt_in(handle)
        _looked[identity] = (handle, salt)
        return salt


def _let_go() -> None:
    """Close the handles of files that are gone, and of the one used longest ago of too many."""
    gone = [each for each, (handle, _) in _looked.items() if not os.fstat(handle).st_nlink]
    for identity in gone or list(_looked)[: max(0, len(_looked) - _MOST_OPEN + 1)]:
        os.close(_looked.pop(identity)[0])


def _salt_in(handle: int) -> bytes | None:
    """The first bytes, where most of the pages between the first and the last are cipher."""
    first = os.pread(handle, PAGE_BYTES, 0)
    count = os.fstat(handle).st_size // PAGE_BYTES
    if first.startswith(MAGIC) or not count:
        return None
    chosen = range(0, count, -(-count // _LOOKED_AT))
    pages = [os.pread(handle, PAGE_BYTES, number * PAGE_BYTES) for number in chosen]
    cipher = sum(len(set(page)) >= _MOST_ALIKE for page in pages)
    return first[:SALT_BYTES] if cipher * 2 > len(pages) else None


def uri(file: Path, options: str = "") -> str:
    """A file's name as SQLite takes it with options such as `mode=ro`."""
    return f"{file.absolute().as_uri()}{'?' if options else ''}{options}"


def connect(file: Path, timeout_s: float, options: str = "") -> sqlite3.Connection | None:
    """A connection to an encrypted database, as `sqlite3.connect` makes one to a plain one; None
    where the file is not encrypted.

    Raises StoreUnusable where the driver is not installed, no key is known, or it is the wrong one.
    """
    salt = salt_of(file)
    if salt is None:
        return None
    found = keys.find(file, salt)
    connection = open_with(file, keys.derived(found.key, salt), timeout_s, options)
    if _can_be_read(connection):
        keys.remember(salt, found.key)
        return connection
    keys.forget_known(salt)
    if look_again(file) != salt:
        return connect(file, timeout_s, options)
    raise StoreUnusable(
        f"{file}: {found.where} does not open it",
        "give the right one, or name another file; if it is the right one, the file is damaged:"
        " `arc db recover` saves what it can",
    )


def open_with(
    file: Path, key: str | None, timeout_s: float, options: str = ""
) -> sqlite3.Connection:
    """A connection by the other driver, with a key as `keys.derived` gives it, or without one."""
    connection = driver(file).connect(
        uri(file, options), timeout=timeout_s, isolation_level=None, uri=True
    )
    connection.execute("PRAGMA cipher_log_level = NONE")  # else a wrong key writes on a screen
    if key is not None:
        connection.execute(f'PRAGMA key = "{key}"')
    return cast("sqlite3.Connection", connection)


def driver(file: Path) -> Any:
    """The module `sqlcipher3.dbapi2`. Raises StoreUnusable where it is not installed."""
    try:
        from sqlcipher3 import dbapi2  # type: ignore[import-untyped]
    except ModuleNotFoundError as error:
        raise StoreUnusable(
            f"{file}: encrypted databases need sqlcipher3, which is not installed",
            "install it: pip install 'arc-tui[crypt]'",
        ) from error
    return dbapi2


def _can_be_read(connection: sqlite3.Connection) -> bool:
    """Is it a database under this key? Closes the connection where it is not."""
    try:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except database_errors() as error:
        connection.close()
        if getattr(error, "sqlite_errorcode", None) != _NOT_A_DATABASE:
            raise
        return False
    return True
