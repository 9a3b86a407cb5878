"""The key of an encrypted database, asked of whoever sits at the terminal.

It is asked before the app takes the screen, and shown nowhere. Where nobody can be asked, the
sentence says which variables give it.
"""

from __future__ import annotations

import sys
import threading
from getpass import getpass
from pathlib import Path

from arc_tui.format import one_line
from replay.errors import ArcError, StoreUnusable
from replay.store.cipher import crypt, keys


def ask_for_key(file: Path) -> str:
    """The key of a file, typed. Raises StoreUnusable where nobody can type it."""
    if not _can_ask():
        raise StoreUnusable(
            f"{file}: is encrypted, and there is no terminal to ask for its key",
            f"set {keys.KEY}, or {keys.KEY_FILE} to a file that holds the key",
        )
    return getpass(f"key of {one_line(str(file))}: ", sys.stderr)


def ask_for_new_key(file: Path) -> str:
    """A new key for a file, typed twice. Raises ArcError where the two are not the same."""
    if not _can_ask():
        raise ArcError(
            "there is no terminal to ask for a key", "--key-from env takes it from a variable"
        )
    key = keys.fit(getpass(f"new key of {one_line(str(file))}: ", sys.stderr))
    if getpass("the same once more: ", sys.stderr) != key:
        raise ArcError("that was not the same key twice")
    return key


def unlock(file: Path) -> None:
    """Know the key of a database before threads need it, or the app has the screen; from then on
    nobody is asked."""
    opened = crypt.connect(file, 0.0)
    if opened is not None:
        opened.close()
    keys.ask_with(None)


def _can_ask() -> bool:
    return sys.stdin.isatty() and threading.current_thread() is threading.main_thread()
