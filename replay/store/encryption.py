"""An encrypted database: how it is told from others and opened, and where its key comes from."""

from __future__ import annotations

import hashlib
import os
import sqlite3
import stat
from collections.abc import Callable
from pathlib import Path
from threading import Lock, RLock
from typing import Any, NamedTuple, cast

from replay.errors import ArcError, StoreUnusable
from replay.store.trouble import database_errors

MAGIC = b"SQLite format 3\0"
SALT_BYTES, ENCRYPTED_PAGE_BYTES = 16, 4096

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
    first = os.pread(handle, ENCRYPTED_PAGE_BYTES, 0)
    count = os.fstat(handle).st_size // ENCRYPTED_PAGE_BYTES
    if first.startswith(MAGIC) or not count:
        return None
    chosen = range(0, count, -(-count // _LOOKED_AT))
    pages = [
        os.pread(handle, ENCRYPTED_PAGE_BYTES, number * ENCRYPTED_PAGE_BYTES) for number in chosen
    ]
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
    found = find(file, salt)
    connection = open_with(file, derived(found.key, salt), timeout_s, options)
    if _can_be_read(connection):
        remember(salt, found.key)
        return connection
    forget_known(salt)
    if look_again(file) != salt:
        return connect(file, timeout_s, options)
    raise StoreUnusable(
        f"{file}: {found.where} does not decrypt it",
        "Try: another key or another file. If the key is right, the file is damaged:"
        " arc db recover saves what is readable",
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
            "Try: pip install 'arc-tui[crypt]'",
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


KEY, KEY_FILE = "ARC_DB_KEY", "ARC_DB_KEY_FILE"
NEW_KEY, NEW_KEY_FILE = "ARC_DB_NEW_KEY", "ARC_DB_NEW_KEY_FILE"

SERVICE = "arc"
"""What the entries in a keyring are under; each goes by the salt of its database, which a copy of
the file has too, wherever it is moved."""

LEAST_CHARACTERS = 8

ITERATIONS = 256_000
"""Of PBKDF2 with SHA-512: what SQLCipher 4 makes of a text, so that its own tools open the file
with the same one."""

Ask = Callable[[Path], str]


class Found(NamedTuple):
    """A key, and where it was found, in words."""

    key: str
    where: str


_lock = RLock()
_taken: dict[str, str] = {}
_known: dict[bytes, str] = {}
_derived: dict[tuple[str, bytes], str] = {}
_asks: list[Ask] = []


def take_from_environment() -> None:
    """Take what the variables say out of the environment, and remember it."""
    for name in (KEY, NEW_KEY):
        given = os.environ.pop(name, None)
        if given:
            with _lock:
                _taken[name] = given


def forget() -> None:
    """Forget everything that was taken, proven or derived."""
    with _lock:
        for kept in (_taken, _known, _derived):
            kept.clear()


def ask_with(ask: Ask | None) -> None:
    """How a person is asked for the key of a file; None: nobody can be asked (any more)."""
    _asks[:] = [] if ask is None else [ask]


def find(file: Path, salt: bytes) -> Found:
    """The key to try on a file with that salt. Raises StoreUnusable where there is none."""
    take_from_environment()
    with _lock:  # of several threads one asks
        if salt in _known:
            return Found(_known[salt], "the key that opened it before")
        found = given(KEY, KEY_FILE) or _from_keyring(salt)
        if found is not None:
            return found
        if not _asks:
            raise StoreUnusable(
                f"{file}: is encrypted, and no key is set",
                f"Try: set {KEY}, or {KEY_FILE} to a file with the key",
            )
        return Found(_asks[0](file), "the key you gave")


def given(name: str, file_name: str) -> Found | None:
    """The key that one of two variables gives: as it is, or in a file that the other names.

    Raises StoreUnusable where that file cannot be read, or is empty.
    """
    take_from_environment()
    if name in _taken:
        return Found(_taken[name], f"the key in {name}")
    place = os.environ.get(file_name)
    if not place:
        return None
    try:
        key = Path(place).read_text().rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise StoreUnusable(f"{place}: the key file cannot be read: {error}") from error
    if not key:
        raise StoreUnusable(f"{place}: the key file is empty")
    return Found(key, f"the key in {place}")


def remember(salt: bytes, key: str) -> None:
    """The key opened the database with that salt."""
    with _lock:
        _known[salt] = key


def forget_known(salt: bytes) -> None:
    """The key of the database with that salt does not open it, or is no more its key."""
    with _lock:
        _known.pop(salt, None)


def fit(key: str) -> str:
    """A new key as it may be used. Raises ArcError for one that is too short, or cannot be."""
    if len(key) < LEAST_CHARACTERS:
        raise ArcError(f"a key must have at least {LEAST_CHARACTERS} characters")
    if "\0" in key:
        raise ArcError("a key must not contain a NUL character")
    return key


def derived(key: str, salt: bytes) -> str:
    """Key and salt as SQLCipher takes them ready-made: to derive them takes a while, and this is
    done once a process and not once a connection."""
    with _lock:
        found = _derived.get((key, salt))
        if found is None:
            raw = hashlib.pbkdf2_hmac("sha512", key.encode(), salt, ITERATIONS, 32)
            found = _derived[key, salt] = f"x'{raw.hex()}{salt.hex()}'"
        return found


# --- the keyring of the system


def keep_in_keyring(salt: bytes, key: str) -> None:
    """Put a key into the keyring. Raises ArcError where there is no keyring."""
    try:
        import keyring
        from keyring.errors import KeyringError
    except ModuleNotFoundError as error:
        raise ArcError("no keyring available", "Try: pip install 'arc-tui[crypt]'") from error
    try:
        keyring.set_password(SERVICE, salt.hex(), key)
    except KeyringError as error:
        raise ArcError(
            f"the keyring rejected the key: {error}", "Try: another --key-from"
        ) from error


def drop_from_keyring(salt: bytes) -> None:
    """Take the key of that salt out of the keyring, where there is one and it has it."""
    try:
        import keyring
        from keyring.errors import KeyringError
    except ModuleNotFoundError:
        return
    try:
        keyring.delete_password(SERVICE, salt.hex())
    except KeyringError:
        return  # it was not there


def _from_keyring(salt: bytes) -> Found | None:
    try:
        import keyring
        from keyring.errors import KeyringError
    except ModuleNotFoundError:
        return None
    try:
        key = keyring.get_password(SERVICE, salt.hex())
    except KeyringError:
        return None  # there is no keyring on this machine, or it stays shut
    return None if key is None else Found(key, "the key in the keyring")
