"""The key of an encrypted database: where it comes from, and how long it is remembered.

A key is a text. It comes from `ARC_DB_KEY`, from the file that `ARC_DB_KEY_FILE` names, from the
keyring of the system, or from whoever sits at the terminal, in this order; never from an argument,
which every other process could read. It is taken once a process and kept for the connections of all
its threads. What a variable said leaves the environment, so that no child inherits it.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from threading import RLock
from typing import NamedTuple

from replay.errors import ArcError, StoreUnusable

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
                f"{file}: is encrypted, and there is no key to open it",
                f"set {KEY}, or {KEY_FILE} to a file that holds the key",
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
        raise ArcError(f"a key has at least {LEAST_CHARACTERS} characters")
    if "\0" in key:
        raise ArcError("a key has no zero character in it")
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
        raise ArcError(
            "there is no access to a keyring", "install it: pip install 'arc-tui[crypt]'"
        ) from error
    try:
        keyring.set_password(SERVICE, salt.hex(), key)
    except KeyringError as error:
        raise ArcError(
            f"the keyring does not take the key: {error}", "give it another way: --key-from"
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
