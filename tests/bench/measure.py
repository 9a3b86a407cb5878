"""How a row is measured: both sides in one process run, in turn, the best of several."""

from __future__ import annotations

import gc
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple, TypeAlias


class Row(NamedTuple):
    """A line of the table. `limit` is what the figure is held against, as text."""

    what: str
    figure: str
    limit: str


class Compared(NamedTuple):
    """Two pieces of work run in turn: the fastest of each in seconds, and how often ours takes
    theirs, by turn: by the clock from least to most, and in seconds of the processor at its
    median."""

    ours_s: float
    theirs_s: float
    ratios: tuple[float, ...]
    processor: float

    def __str__(self) -> str:
        spread = f"{self.ratios[0]:.2f}-{self.ratios[-1]:.2f}"
        return (
            f"{ms(self.ours_s)} against {ms(self.theirs_s)}: {median(self.ratios):.2f}×"
            f" ({spread}), processor {self.processor:.2f}×"
        )


def compare(ours: Callable[[], object], theirs: Callable[[], object], times: int = 5) -> Compared:
    """Both in turn, so that the machine's mood hits both; processes that they start count too."""
    return compared([(_taken(ours), _taken(theirs)) for _ in range(times)])


def compared(turns: Sequence[tuple[Taken, Taken]]) -> Compared:
    """What ours and theirs took, turn by turn."""
    return Compared(
        min(mine for (mine, _), _ in turns),
        min(other for _, (other, _) in turns),
        tuple(sorted(mine / other for (mine, _), (other, _) in turns)),
        median(mine / max(other, _TICK_S) for (_, mine), (_, other) in turns),
    )


Taken: TypeAlias = tuple[float, float]
"""Seconds by the clock, and seconds of the processor."""

_TICK_S = 1e-6


def _taken(work: Callable[[], object]) -> Taken:
    """What it took, ended processes among it."""
    gc.collect()
    start, used = time.perf_counter(), processor_s()
    work()
    return time.perf_counter() - start, processor_s() - used


def processor_s() -> float:
    """Seconds of the processor that this process and those it started and that ended have used."""
    used = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in used)


def best(work: Callable[[], object], times: int = 5) -> float:
    """Seconds of the fastest of several runs of `work`."""
    found = []
    for _ in range(times):
        gc.collect()
        start = time.perf_counter()
        work()
        found.append(time.perf_counter() - start)
    return min(found)


def spent(work: Callable[[], object], times: int = 5) -> str:
    """The fastest of several runs of `work`, by the clock and by the processor: on a busy machine
    only the second says what the work takes."""
    taken = [_taken(work) for _ in range(times)]
    clock, processor = (min(each) for each in zip(*taken, strict=True))
    return f"{ms(clock)}, processor {ms(processor)}"


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
