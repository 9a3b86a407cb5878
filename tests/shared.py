"""Where the real traces lie, the mark for tests that read them, and a database of them all.

The folder stands beside the checkout and is not part of the project; where it is absent, those
tests are skipped and say so. Under `CI` they run and fail.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from arc_tui.jobs import importing
from replay.store import Store
from replay.store.rows import TraceRow, trace_rows
from taxonomy.ledger import open_ledger

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"

needs_shared = pytest.mark.skipif(
    not DATA.is_dir() and not os.environ.get("CI"),
    reason="the shared folder of real traces is not beside this checkout",
)

FOLDERS = ("tau_bench", "docent", "claude_code_runs", "terminal_bench")
LABELLED = ("trail_swe", "whowhen", "toolbench", "openinference")


class Imported(NamedTuple):
    """A database with every run of the folders above, diagnosed, and what importing them said.

    It is read by many tests: one that writes takes a copy.
    """

    path: Path
    report: importing.ImportReport


def imported(store: Store, *paths: Path) -> importing.ImportReport:
    *_, report = importing.import_paths(store, paths)
    assert isinstance(report, importing.ImportReport)
    return report


def imported_once(folder: Path) -> Imported:
    """The database in this folder, made by the first of all processes that ask for it there."""
    path, said = folder / "shared.db", folder / "shared.json"
    with _alone(folder):
        if not said.exists():
            path.unlink(missing_ok=True)
            with open_ledger(path) as store:
                report = imported(store, *(DATA / name for name in FOLDERS + LABELLED))
            said.write_bytes(msgspec.json.encode(report))
    return Imported(path, msgspec.json.decode(said.read_bytes(), type=importing.ImportReport))


def runs_below(store: Store, *places: str) -> tuple[TraceRow, ...]:
    """The runs that came from these folders or files below the shared one, as they are listed."""
    wanted = tuple(str(DATA / place) for place in places)
    return tuple(row for row in trace_rows(store) if (row.path or "").startswith(wanted))


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    with (folder / "shared.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
