"""How a row is measured: both sides in one process run, in turn, the best of several."""

from __future__ import annotations

import gc
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple


class Row(NamedTuple):
    """A line of the table. `limit` is what the figure is held against, as text."""

    what: str
    figure: str
    limit: str


def best(work: Callable[[], object], times: int = 5) -> float:
    """Seconds of the fastest of several runs of `work`."""
    found = []
    for _ in range(times):
        gc.collect()
        start = time.perf_counter()
        work()
        found.append(time.perf_counter() - start)
    return min(found)


def pair(
    ours: Callable[[], object], theirs: Callable[[], object], times: int = 5
) -> tuple[float, float]:
    """The fastest of each of two, run in turn so that the machine's mood hits both."""
    mine, other = [], []
    for _ in range(times):
        mine.append(best(ours, 1))
        other.append(best(theirs, 1))
    return min(mine), min(other)


def process(*command: str) -> Callable[[], object]:
    """A whole process as a piece of work; its output is thrown away, a failure is not."""

    def run() -> object:
        return subprocess.run(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False
        )

    return run


def python(code: str) -> Callable[[], object]:
    """A fresh interpreter running `code`."""
    return process(sys.executable, "-c", code)


def peak_mb() -> float:
    """The most memory this process has held so far, in MB.

    What `getrusage` says of a process begins with what the one that started it held.
    """
    about = Path("/proc/self/status")
    for line in about.read_text().splitlines() if about.exists() else ():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def ms(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"
