"""A text in a person's own editor or pager: the only place of the app that starts a process."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from textual.app import App, SuspendNotSupported

from replay.errors import ArcError
from replay.files import new, private_folder

EDITOR, PAGER = ("editor", "EDITOR"), ("pager", "PAGER")


def edit_in_terminal(app: App[None], text: str) -> str:
    """The text after `$VISUAL`, `$EDITOR` or vi has had the terminal. Raises ArcError."""
    with _lend_terminal(app):
        return edit(text, editor())


def edit_file(app: App[None], file: Path) -> None:
    """A file of the person's own in the same editor. Raises ArcError."""
    with _lend_terminal(app):
        start(editor(), file)


def view_in_terminal(app: App[None], text: str, suffix: str) -> None:
    """A text in the same editor, to be read: nothing that is done to it is kept. Raises
    ArcError."""
    with _lend_terminal(app):
        read(text, suffix, editor())


def page_in_terminal(app: App[None], text: str, suffix: str) -> None:
    """A text in `$PAGER` or less. Raises ArcError."""
    with _lend_terminal(app):
        read(text, suffix, pager(), PAGER)


@contextmanager
def _lend_terminal(app: App[None]) -> Iterator[None]:
    """The terminal is another program's for a while."""
    try:
        with app.suspend():
            yield
    except SuspendNotSupported as error:
        raise ArcError("no editor can be opened from here") from error


def editor() -> list[str]:
    """The command that edits a file named after it."""
    return shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")


def pager() -> list[str]:
    """The command that shows a file named after it."""
    return shlex.split(os.environ.get("PAGER") or "less")


def read(text: str, suffix: str, command: list[str], what: tuple[str, str] = EDITOR) -> None:
    """Show a text by a command, in a file that nobody may write and nobody else read."""
    with private_folder() as folder:
        file = new(folder / f"step{suffix}")
        file.write_text(text, encoding="utf-8", errors="replace", newline="\n")
        file.chmod(0o400)
        start(command, file, what)


def edit(text: str, command: list[str]) -> str:
    """The text after a command has edited it, in a file nobody else may read. Raises ArcError where
    what it leaves is not UTF-8.

    The folder is private too: editors leave swap files and backups beside what they edit.
    """
    with private_folder() as folder:
        file = new(folder / "edit.md")
        file.write_text(text, encoding="utf-8", newline="\n")
        start(command, file)
        try:
            made = file.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise ArcError("the edited file is not UTF-8; nothing was changed") from error
    # Editors end a file with a line break; that alone is no edit.
    return made if text.endswith("\n") else made.removesuffix("\n")


def start(command: list[str], file: Path, what: tuple[str, str] = EDITOR) -> None:
    """Run a program on a file until it ends. Raises ArcError where it cannot, or fails.

    `what` is what it is called, and the variable that names another. ctrl+c is the program's own.
    """
    name, variable = what
    try:
        with _unbroken():
            done = subprocess.run([*command, str(file)], check=False)
    except OSError as error:
        raise ArcError(
            f"the {name} {command[0]!r} cannot be started: {error.strerror}", f"set {variable}"
        ) from error
    if done.returncode:
        raise ArcError(f"the {name} {command[0]!r} failed; nothing was changed")


@contextmanager
def _unbroken() -> Iterator[None]:
    """ctrl+c in a terminal goes to every program in it: this one is not meant. A handler, unlike
    being deaf, is not handed on to the program."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
