"""However the app ends, the terminal is as it was, and nothing that was said is lost."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from arc_tui import ending
from arc_tui.exit_codes import BUG
from taxonomy.judgements.schema import open_ledger
from taxonomy.judgements.tags import human_tags
from tests.faults.holdings import damage
from tests.spoken import spoken

PATIENCE_S = 300.0

OPENED = (b"\x1b[?1049h", b"\x1b[?25l", b"\x1b[?1000h", b"\x1b[?2004h")
"""The other screen, no cursor, the mouse, pasted text marked as such."""

BROKEN = """
import sys
from arc_tui.app import ArcApp
from arc_tui.commands import main

def bug(app):
    kept_in_a_local = "a-word-of-a-run"
    key = "sk-ant-api03-" + "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7" * 3
    raise ValueError("\\x1b]52;c;aGk=\\x07 key=" + key)

ArcApp.action_theme = bug
main()
"""
"""A program with a bug behind ctrl+t. A terminal would obey its message, which holds a key."""


class Pty:
    """A terminal with a program in it, and every byte that it was sent."""

    def __init__(self, folder: Path, *words: str, **environment: str) -> None:
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ.update(
                ARC_DATA_DIR=str(folder), ARC_CONFIG_DIR=str(folder), ARC_USER="tester",
                TERM="xterm-256color", **environment,
            )  # fmt: skip
            os.execv(sys.executable, [sys.executable, *words])
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
        self.before = termios.tcgetattr(self.fd)
        self.sent = b""

    def until(self, said: bytes, *then: bytes) -> None:
        """Read until those bytes were sent since the last time, and the others after them."""
        at, end = max(len(self.sent) - len(said), 0), time.monotonic() + PATIENCE_S
        for each in (said, *then):
            while (found := self.sent.find(each, at)) < 0:
                assert time.monotonic() < end, self.sent[-2000:]
                ready, _, _ = select.select([self.fd], [], [], 1.0)
                if ready:
                    self.sent += os.read(self.fd, 1 << 16)
            at = found + len(each)

    def type(self, keys: bytes) -> None:
        os.write(self.fd, keys)

    def left(self) -> int:
        """The rest that it sends, and the code it ends with; minus the signal that killed it."""
        end = time.monotonic() + PATIENCE_S
        with suppress(OSError):  # the other end is closed
            while time.monotonic() < end:
                ready, _, _ = select.select([self.fd], [], [], 1.0)
                if ready and not (read := os.read(self.fd, 1 << 16)):
                    break
                self.sent += read if ready else b""
        _, status = os.waitpid(self.pid, 0)
        self.pid = 0
        return os.waitstatus_to_exitcode(status)

    @property
    def is_as_it_was(self) -> bool:
        modes = dict(re.findall(rb"\x1b\[\?(\d+)([hl])", self.sent))
        on = {number for number, state in modes.items() if state == b"h"}
        pushed, popped = (
            len(re.findall(each, self.sent)) for each in (rb"\x1b\[>\d+u", rb"\x1b\[<u")
        )
        cooked = termios.tcgetattr(self.fd) == self.before
        return cooked and on <= {b"25", b"7"} and {b"25", b"7"} <= on and pushed == popped

    def close(self) -> None:
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        with suppress(OSError):
            os.close(self.fd)


@contextmanager
def running(folder: Path, *words: str, **environment: str) -> Iterator[Pty]:
    terminal = Pty(folder, *words, **environment)
    try:
        yield terminal
    finally:
        terminal.close()


def app(db: Path) -> tuple[str, ...]:
    return "-m", "arc_tui", "--db", str(db)


@pytest.mark.process
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=["term", "hup"])
def test_told_to_end_it_leaves_the_terminal_as_it_was(
    number: signal.Signals, tmp_path: Path, db: Path
) -> None:
    with running(tmp_path, *app(db)) as terminal:
        terminal.until(b"many-wishes")
        assert all(mode in terminal.sent for mode in OPENED)
        os.kill(terminal.pid, number)
        assert terminal.left() == 128 + number
        assert terminal.is_as_it_was
        assert b"Traceback" not in terminal.sent


@pytest.mark.process
def test_when_the_terminal_goes_away_so_does_the_app(tmp_path: Path, db: Path) -> None:
    with running(tmp_path, *app(db)) as terminal:
        terminal.until(b"many-wishes")
        os.close(terminal.fd)
        assert terminal.left() == 128 + signal.SIGHUP


@pytest.mark.process
def test_a_bug_leaves_the_terminal_as_it_was_and_shows_no_value(tmp_path: Path, db: Path) -> None:
    with running(tmp_path, "-c", BROKEN, "--db", str(db)) as terminal:
        terminal.until(b"many-wishes")
        terminal.type(b"\x14")
        terminal.until(b"This is a bug in arc")
        assert terminal.left() == BUG
        assert terminal.is_as_it_was
        told = terminal.sent[terminal.sent.rindex(b"\x1b[?1049l") :].decode()
        assert "ValueError: ␛]52;c;aGk=␇ key=[[SECRET:anthropic_key:" in told
        assert "a-word-of-a-run" not in told
        assert "in bug" in told
        assert "\x1b]" not in told


def test_what_is_told_of_a_bug_is_bounded() -> None:
    def one(levels: int) -> None:
        if not levels:
            raise RuntimeError("x" * 1_000_000)
        other(levels - 1)

    def other(levels: int) -> None:
        one(levels)

    with pytest.raises(RuntimeError) as caught:
        one(200)
    said = ending.bug_report(caught.value)
    assert len(said.splitlines()) <= ending.MOST_LINES + 3
    assert max(map(len, said.splitlines())) <= ending.MOST_COLUMNS


@pytest.mark.process
def test_a_tag_that_is_on_the_screen_outlives_a_killed_app(tmp_path: Path, db: Path) -> None:
    with running(tmp_path, *app(db)) as terminal:
        terminal.until(b"many-wishes")
        terminal.type(b"\r")
        terminal.until(b"refund_order")
        for letter, shown in ((b"w", b"wrong tool"), (b"l", b"loop")):
            terminal.type(b"t")
            terminal.until(b"gave up")
            terminal.type(letter)
            terminal.until(shown + b";")  # it says so once it is kept
        os.kill(terminal.pid, signal.SIGKILL)
        assert terminal.left() == -signal.SIGKILL
    assert damage(db) == []
    with open_ledger(db) as store:
        assert {tag.failure.value for tag in human_tags(store)} == {"wrong tool", "loop"}


@pytest.mark.process
def test_a_terminal_that_can_draw_nothing_is_a_sentence(tmp_path: Path, db: Path) -> None:
    with running(tmp_path, *app(db), COLORTERM="") as terminal:
        terminal.until(b"many-wishes")
    code = (
        "import os, sys; os.environ['TERM'] = 'dumb'\n"
        "from arc_tui.commands import main; sys.argv[1:] = sys.argv[1:]; main()"
    )
    with running(tmp_path, "-c", code, "--db", str(db)) as terminal:
        assert terminal.left() == 2
        assert b"arc: The app cannot draw on this terminal: TERM is 'dumb'" in terminal.sent
        assert b"\x1b[?1049h" not in terminal.sent


def test_without_a_terminal_it_is_a_sentence_too(tmp_path: Path) -> None:
    said = spoken(cwd=tmp_path)
    assert said.code == 2
    assert "the app needs a terminal" in said.err
