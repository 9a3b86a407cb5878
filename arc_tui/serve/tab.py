"""The process of a tab: the app on a database, drawn for a page.

`python -m arc_tui.serve.tab` is told on the first line of its standard input what to open: a key
stands neither among its words nor in its environment, which others can read.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import msgspec
from msgspec import Struct


class Opening(Struct, frozen=True, forbid_unknown_fields=True):
    """What a tab opens: a database, and its key where it is encrypted."""

    path: str
    key: str | None = None


def greeting(opening: Opening) -> bytes:
    """The line that says so."""
    return msgspec.json.encode(opening) + b"\n"


def main() -> int:
    """Run the app until the person or the page ends it; its exit code."""
    opening = msgspec.json.decode(_first_line(), type=Opening)
    path = Path(opening.path)
    _know(path, opening.key)
    from arc_tui.serve.page import PageApp, PageDriver
    from arc_tui.settings import read_settings

    settings = read_settings()
    app = PageApp(path, settings=settings)
    app.driver_class = PageDriver
    app.run(mouse=settings.mouse)
    return app.return_code or 0


def _first_line() -> bytes:
    """A byte at a time: what follows the line is the driver's."""
    line = bytearray()
    while not line.endswith(b"\n"):
        read = os.read(0, 1)
        if not read:
            break
        line += read
    return bytes(line)


def _know(path: Path, key: str | None) -> None:
    """Know the key, and what else is to be masked, before anything is read."""
    from arc_tui.config import read_redaction
    from replay.store import encryption
    from replay.store.handle import mask_with

    mask_with(read_redaction)
    encryption.ask_with(None)
    salt = encryption.salt_of(path)
    if key is not None and salt is not None:
        encryption.remember(salt, key)


if __name__ == "__main__":
    sys.exit(main())
