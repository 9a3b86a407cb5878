"""The command in a real terminal: opens, shows, leaves, and the terminal is as it was."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from arc_tui.places import fixtures
from tests.faults import hostile

needs_tmux = pytest.mark.skipif(
    shutil.which("tmux") is None and not os.environ.get("CI"), reason="tmux is not installed"
)

PATIENCE_S = 300.0
RUN = fixtures() / "traces" / "shop-many-wishes-v5-0.jsonl"


class Terminal:
    """A tmux pane with a shell in it, on a tmux server of its own.

    A shared server ends with its last session: one that a test beside starts just then is lost
    ("server exited unexpectedly", 30 of 600 starts by two loops).
    """

    def __init__(self, folder: Path, columns: int, lines: int) -> None:
        self._name = "arc"
        self._place = tempfile.TemporaryDirectory(prefix="arc-")
        environment = {"ARC_DATA_DIR": str(folder), "ARC_USER": "tester"}
        given = [word for name, value in environment.items() for word in ("-e", f"{name}={value}")]
        self._tmux("new-session", "-d", "-s", self._name, "-x", str(columns), "-y", str(lines),
                   *given, "-c", str(folder), "bash --norc --noprofile")  # fmt: skip

    def _tmux(self, *words: str) -> str:
        socket = Path(self._place.name) / "socket"
        done = subprocess.run(
            ["tmux", "-S", str(socket), "-f", os.devnull, *words], capture_output=True, text=True
        )
        assert done.returncode == 0, f"tmux {' '.join(words)}: {done.stderr}"
        return done.stdout

    def type(self, *keys: str) -> None:
        self._tmux("send-keys", "-t", self._name, *keys)

    def shown(self) -> str:
        return self._tmux("capture-pane", "-p", "-t", self._name)

    def wait(self, ready: Callable[[str], bool]) -> str:
        """The screen once it is ready; fails with what it shows when patience is over."""
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            screen = self.shown()
            if ready(screen):
                return screen
            time.sleep(0.05)
        pytest.fail(f"the terminal never showed it:\n{self.shown()}")

    def state(self) -> str:
        """Whose screen it is, and whether it shows a cursor and hears of the mouse."""
        return self._tmux(
            "display-message", "-p", "-t", self._name,
            "#{alternate_on} #{cursor_flag} #{mouse_any_flag} #{keypad_flag}",
        )  # fmt: skip

    def settings(self) -> str:
        """What its driver does with what is typed, as `stty` says it."""
        file = self._tmux("display-message", "-p", "-t", self._name, "#{pane_tty}").strip()
        done = subprocess.run(
            ["stty", "-a", "-F", file], capture_output=True, text=True, check=True
        )
        return done.stdout

    def close(self) -> None:
        self._tmux("kill-server")
        self._place.cleanup()


def command() -> str:
    """The command as it was installed, else the package of the checkout."""
    installed = Path(sys.executable).with_name("arc")
    return str(installed) if installed.exists() else f"{sys.executable} -m arc_tui"


def at_prompt(screen: str) -> bool:
    """Does a shell wait for a command?"""
    return screen.rstrip().endswith(("$", "#"))


@pytest.fixture(params=[(80, 24), (160, 48)], ids=["80x24", "160x48"])
def terminal(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Terminal]:
    opened = Terminal(tmp_path, *request.param)
    yield opened
    opened.close()


@pytest.mark.process
@needs_tmux
def test_the_demo_opens_a_run_tags_it_replays_it_and_leaves_the_terminal_as_it_was(
    terminal: Terminal,
) -> None:
    terminal.wait(at_prompt)
    terminal.type(f"{sys.executable} -m arc_tui demo", "Enter")
    terminal.wait(lambda screen: "58 runs" in screen and "many-wishes" in screen)
    terminal.type("/")
    terminal.wait(lambda screen: "filter outcome:" in screen)
    terminal.type("many-wishes variant:v5 trial:0")
    terminal.wait(lambda screen: "1 of 58 runs" in screen)
    terminal.type("Enter")
    terminal.wait(lambda screen: "/ filter" in screen and "esc clear" not in screen)
    terminal.type("Enter")
    terminal.wait(lambda screen: "candidate: step 4" in screen and "refund_order" in screen)
    terminal.type("t")
    terminal.wait(lambda screen: "wrong tool" in screen)
    terminal.type("h")
    terminal.wait(lambda screen: "wrong tool" not in screen)
    terminal.type("r")
    terminal.wait(lambda screen: "48 calls to demo, rule-based" in screen)
    terminal.type("r")
    terminal.wait(lambda screen: "sha256:" in screen)
    terminal.type("Escape")
    terminal.wait(lambda screen: "candidate: step 4" in screen)
    terminal.type("C-q")
    left = terminal.wait(lambda screen: "break?" not in screen and at_prompt(screen))
    assert "Traceback" not in left
    terminal.type(f"{sys.executable} -m arc_tui --db demo.db tag list many-wishes", "Enter")
    said = terminal.wait(lambda screen: "tag  fbeb" in screen)
    assert "halluc" in said
    assert all(len(line) <= 160 for line in said.splitlines())


@pytest.mark.process
@needs_tmux
def test_a_file_is_imported_opened_tagged_and_replayed_and_the_terminal_is_as_it_was(
    tmp_path: Path,
) -> None:
    terminal = Terminal(tmp_path, 100, 30)
    try:
        terminal.wait(at_prompt)
        before, state = terminal.settings(), terminal.state()
        terminal.type(f"{command()} import {RUN} && clear && {command()}", "Enter")
        terminal.wait(lambda screen: "1 run" in screen and "many-wishes" in screen)
        assert terminal.state() != state, "it has a screen of its own, without a cursor"
        terminal.type("Enter")
        terminal.wait(lambda screen: "candidate: step 4" in screen and "rule: " in screen)
        terminal.type("t")
        terminal.wait(lambda screen: "wrong tool" in screen)
        terminal.type("h")
        terminal.wait(lambda screen: "wrong tool" not in screen)
        terminal.type("r")
        terminal.wait(lambda screen: "48 calls to demo, rule-based" in screen)
        terminal.type("r")
        terminal.wait(lambda screen: "sha256:" in screen)
        terminal.type("C-q")
        left = terminal.wait(at_prompt)
        assert "Traceback" not in left
        assert terminal.settings() == before
        assert terminal.state() == state
        terminal.type(f"{command()} tag list", "Enter")
        assert "halluc" in terminal.wait(lambda screen: "tag  fbeb" in screen)
    finally:
        terminal.close()


@pytest.mark.process
@needs_tmux
@pytest.mark.parametrize("opens", ["demo", str(RUN)], ids=["demo", "file"])
def test_what_is_typed_before_the_app_is_there_opens_and_tags_a_run(
    tmp_path: Path, opens: str
) -> None:
    terminal = Terminal(tmp_path, 100, 30)
    try:
        terminal.wait(at_prompt)
        terminal.type(f"{command()} {opens}", "Enter")
        terminal.wait(lambda screen: "╭" in screen)
        terminal.type("Enter", "t", "h")
        terminal.wait(lambda screen: "halluc" in screen and "wrong tool" not in screen)
        terminal.type("C-q")
        terminal.wait(at_prompt)
        database = "demo.db" if opens == "demo" else "arc.db"
        terminal.type(f"clear; {command()} --db {database} tag list", "Enter")
        assert "halluc" in terminal.wait(lambda screen: "tag  " in screen)
    finally:
        terminal.close()


def sent(folder: Path, *words: str, keys: bytes) -> bytes:
    """Every byte that the command sends to a terminal, when those keys are pressed one by one, each
    once it has nothing more to say."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update(ARC_DATA_DIR=str(folder), ARC_USER="tester", TERM="xterm-256color")
        os.execv(sys.executable, [sys.executable, "-m", "arc_tui", *words])
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
    found = bytearray()
    left = list(keys)
    end = time.monotonic() + PATIENCE_S
    try:
        while time.monotonic() < end:
            ready, _, _ = select.select([terminal], [], [], 0.3 if b"runs" in found else 5.0)
            if ready:
                try:
                    found += os.read(terminal, 1 << 16)
                except OSError:  # the other end is closed
                    break
            elif left:
                os.write(terminal, bytes([left.pop(0)]))
    finally:
        os.close(terminal)
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    return bytes(found)


_SENT = re.compile(
    "\x1b\\[[0-9;?<=>$]*[a-zA-Z~]"  # of styles, places and modes
    "|\x1b]22;[a-z-]+\x07"  # the pointer's shape
)


@pytest.mark.process
def test_no_byte_of_a_run_is_sent_to_the_terminal_as_anything_but_text(tmp_path: Path) -> None:
    path = hostile.database(tmp_path)
    said = sent(tmp_path, "--db", str(path), keys=b"\rjjt\x1b2345e\x1b\x1bP\x1bc\x11").decode()
    assert "\x1b[?1049h" in said, "the app was open"
    assert "red" in said
    assert "6666m" not in "".join(_SENT.findall(said))
    assert not hostile.OBEYED & set(_SENT.sub("", said).replace("\r\n", ""))
