"""A program in a real pty, and how long it takes to draw: from its start, and from a key.

The terminal says that it takes frames whole, so the end of each can be seen.
"""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import sys
import termios
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import NamedTuple

COLUMNS, LINES = 120, 40
PATIENCE_S = 120.0
QUIET_S = 0.2
"""Nothing is drawn for so long when all that a key asked for is drawn."""

_SCHEDULED = 2
"""Which of a process's clocks: what it was run for, as `clock_getcpuclockid` composes it."""

_ASKED, _ANSWER, _DRAWN = b"\x1b[?2026$p", b"\x1b[?2026;2$y", b"\x1b[?2026l"


class Press(NamedTuple):
    """Seconds from a key to the end of the first frame, and of the last one before it is quiet."""

    first_s: float
    all_s: float


class Pace(NamedTuple):
    """What a row of keys came to, pressed at a pace whatever was drawn.

    `first` and `settled` are seconds from each key to the end of the first frame after it, and of
    the last one before the next key: what is late for a key is a frame of the next one. `after` is
    how long it drew after the last key. `cpu`, `frames` and `written` (bytes) are a key's share.
    """

    first: list[float]
    settled: list[float]
    after: float
    cpu: float
    frames: float
    written: float


class Terminal:
    """A Python program drawn on 120 columns and 40 lines. Use as a context manager."""

    def __init__(self, *words: str) -> None:
        self._began = time.perf_counter()
        self._pid, self._fd = pty.fork()
        if self._pid == 0:
            os.environ.update(TERM="xterm-256color", COLORTERM="truecolor")
            os.execv(sys.executable, [sys.executable, *words])
        size = struct.pack("HHHH", LINES, COLUMNS, 0, 0)
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, size)
        self._said = b""
        self._asked = False
        self.frames = 0
        """How many were drawn since the start, or since the last key."""

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        os.close(self._fd)
        with suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)

    def until(self, words: str) -> float:
        """Seconds from the start, or from the last key, to the end of the first frame that has
        those words on one line."""
        wanted = words.encode()
        end = time.perf_counter() + PATIENCE_S
        while time.perf_counter() < end:
            _, found, rest = self._said.partition(wanted)
            if found and (_DRAWN in rest or not self._asked):
                return self._read_at - self._began
            self._read(1.0)
        raise TimeoutError(f"never drawn: {words!r}; {self._said[-2000:]!r}")

    def press(self, key: str) -> Press:
        """Press a key while all is quiet, and wait until it is again."""
        self.send(key)
        first = last = 0.0
        while not first or time.perf_counter() - last < QUIET_S:
            if self._read(QUIET_S) and _DRAWN in self._said:
                last = self._read_at
                first = first or last
                self._said = self._said.rpartition(_DRAWN)[2]
            elif not first and time.perf_counter() - self._began > PATIENCE_S:
                raise TimeoutError(f"{key!r} drew nothing")
        return Press(first - self._began, last - self._began)

    def hold(self, keys: str, count: int, gap_s: float) -> Pace:
        """Press `count` keys, in turn those of `keys`, one every `gap_s` seconds."""
        self.settle()
        cpu, sent, drawn, written = self.cpu_s(), list[float](), list[float](), 0
        start = time.perf_counter()
        for number in range(count):
            sent.append(time.perf_counter())
            os.write(self._fd, keys[number % len(keys)].encode())
            last = number == count - 1
            end = start + (number + 1) * gap_s
            self._said = b""
            while (left := end - time.perf_counter()) > 0 or last:
                before = len(self._said)
                if not self._read(max(left, QUIET_S) if last else left):
                    break
                written += len(self._said) - before
                ends = self._said.count(_DRAWN) - self._said.count(_DRAWN, 0, before)
                drawn += [self._read_at] * ends
        first, settled = [], []
        for begun, until in zip(sent, [*sent[1:], float("inf")], strict=True):
            own = [at - begun for at in drawn if begun < at <= until]
            late = next((at - begun for at in drawn if at > begun), 0.0)
            first.append(own[0] if own else late)
            settled.append(own[-1] if own else late)
        return Pace(
            first, settled, drawn[-1] - sent[-1], (self.cpu_s() - cpu) / count,
            len(drawn) / count, written / count,
        )  # fmt: skip

    def cpu_s(self) -> float:
        """The CPU time of the program so far, user and system, in seconds."""
        return time.clock_gettime((~self._pid << 3) | _SCHEDULED)

    def settle(self) -> None:
        """Until nothing more is drawn."""
        while self._read(QUIET_S):
            pass

    def send(self, key: str) -> None:
        self._said = b""
        self.frames = 0
        self._began = time.perf_counter()
        os.write(self._fd, key.encode())

    def memory_mb(self) -> float:
        """What the program holds now."""
        for line in Path(f"/proc/{self._pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
        raise OSError("this system does not say what a process holds")

    def _read(self, seconds: float) -> bool:
        """Take what comes within that time, if anything does."""
        ready, _, _ = select.select([self._fd], [], [], seconds)
        if not ready:
            return False
        try:
            data = os.read(self._fd, 1 << 16)
        except OSError as error:
            raise EOFError(f"the program has ended: {self._said[-2000:]!r}") from error
        self._read_at = time.perf_counter()
        begun = self._said[1 - len(_DRAWN) :]
        self.frames += (begun + data).count(_DRAWN)
        self._said += data
        if not self._asked and _ASKED in self._said:
            self._asked = True
            os.write(self._fd, _ANSWER)
        return True
