"""A text in the editor of the person: the only place of the app that starts a process."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from textual.app import App, SuspendNotSupported

from replay.errors import ArcError


def edited(app: App[None], text: str) -> str:
    """The text after `$VISUAL`, `$EDITOR` or vi has had the terminal. Raises ArcError."""
    try:
        with app.suspend():
            return edit(text, editor())
    except SuspendNotSupported as error:
        raise ArcError("this terminal cannot be lent to an editor") from error


def editor() -> list[str]:
    """The command that edits a file named after it."""
    return shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")


def edit(text: str, command: list[str]) -> str:
    """The text after a command has edited it, in a file nobody else may read.

    The folder is private too: editors leave swap files and backups beside what they edit.
    """
    with TemporaryDirectory(prefix="arc-") as folder:
        file = Path(folder) / "edit.md"
        file.write_text(text, encoding="utf-8", newline="\n")
        try:
            done = subprocess.run([*command, str(file)], check=False)
        except OSError as error:
            raise ArcError(
                f"the editor {command[0]!r} cannot be started: {error.strerror}", "set EDITOR"
            ) from error
        if done.returncode:
            raise ArcError(f"the editor {command[0]!r} failed; nothing was changed")
        made = file.read_text(encoding="utf-8", errors="replace")
    # Editors end a file with a line break; that alone is no edit.
    return made if text.endswith("\n") else made.removesuffix("\n")
