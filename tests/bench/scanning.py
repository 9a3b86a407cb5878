"""How many runs a second of CPU a scan of a trace store looks at, and how far two workers share the
work.

`measure_scan` counts the CPU time of the worker processes alone, as the system does: that of the
store is not in it, and a busy machine changes it little.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from arc_tui.features.fleet.run import FleetRequest
from arc_tui.features.fleet.scan import Outcome, ScanPlan, in_processes, plan_scan, run_scan
from arc_tui.importing import run_to_end
from replay.store.handle import Store


class ScanPace(Struct, frozen=True, kw_only=True):
    """What a scan took: the CPU seconds of each worker, its start included."""

    runs: int
    workers_s: tuple[float, ...]

    @property
    def runs_per_cpu_s(self) -> float:
        return self.runs / sum(self.workers_s)

    def speedup(self, one: ScanPace) -> float:
        """How much sooner the busiest worker is through than the one of another scan was."""
        return sum(one.workers_s) / max(self.workers_s)


def measure_scan(store: Store, request: FleetRequest, workers: int) -> ScanPace:
    """Scan a store anew into a database. Raises ArcError."""
    plan = plan_scan(store, request, "bench", None, anew=True)
    seconds: dict[int, float] = {}
    report = run_to_end(run_scan(store, plan, _timed(plan, workers, seconds)))  # type: ignore[arg-type]
    assert report.exit_code == 0, report.failed
    return ScanPace(runs=report.scan.runs, workers_s=tuple(seconds.values()))


def _timed(plan: ScanPlan, workers: int, seconds: dict[int, float]) -> Iterator[Outcome]:
    """What workers give, and their CPU seconds by process as of the last that they gave."""
    before = _children()
    for outcome in in_processes(plan, workers):
        for process in _children() - before:
            seconds[process] = _cpu_s(process)
        yield outcome


def _children() -> set[int]:
    own = os.getpid()
    return {int(each) for each in Path(f"/proc/{own}/task/{own}/children").read_text().split()}


def _cpu_s(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
