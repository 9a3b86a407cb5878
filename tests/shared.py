"""Where the real traces lie, the mark for tests that read them, and a database of them all.

The folder stands beside the checkout and is not part of the project; where it is absent, those
tests are skipped and say so. Under `CI` they run and fail, unless `WITHOUT_REAL_TRACES` is set: a
machine that never has the folder says so.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from arc_tui import importing
from replay.store.handle import Store
from replay.store.rows import TraceRow, trace_rows
from taxonomy.judgements.schema import open_ledger

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"

MUST_BE_THERE = bool(os.environ.get("CI")) and not os.environ.get("WITHOUT_REAL_TRACES")

needs_shared = pytest.mark.skipif(
    not DATA.is_dir() and not MUST_BE_THERE,
    reason="the shared folder of real traces is not beside this checkout",
)

FOLDERS = ("tau_bench", "docent", "claude_code_runs", "terminal_bench")
LABELLED = ("trail_swe", "whowhen", "toolbench", "openinference")
OTHERS = (
    "apb_hotpotqa", "claude_code_jsonl", "clients", "formats", "inspect_ai", "langfuse",
    "mini_swe_agent", "openclaw", "openhands", "otlp", "swe_agent",
)  # fmt: skip
LARGE = ("trail_gaia",)
"""As long to import as all others together, and of a format that these have too."""


class Imported(NamedTuple):
    """A database with every run of some of the folders above, diagnosed, and what importing them
    said.

    It is read by many tests: one that writes takes a copy.
    """

    path: Path
    report: importing.ImportReport


def imported(store: Store, *paths: Path) -> importing.ImportReport:
    *_, report = importing.import_paths(store, paths)
    assert isinstance(report, importing.ImportReport)
    return report


def imported_once(folder: Path, name: str, places: Sequence[str]) -> Imported:
    """The database of that name in this folder, of these folders below the shared one; made by the
    first of all processes that ask for it there."""
    path, said = folder / f"{name}.db", folder / f"{name}.json"
    with _alone(folder / f"{name}.lock"):
        if not said.exists():
            path.unlink(missing_ok=True)
            with open_ledger(path) as store:
                report = imported(store, *(DATA / place for place in places))
            said.write_bytes(msgspec.json.encode(report))
    return Imported(path, msgspec.json.decode(said.read_bytes(), type=importing.ImportReport))


def runs_below(store: Store, *places: str) -> tuple[TraceRow, ...]:
    """The runs that came from these folders or files below the shared one, as they are listed."""
    wanted = tuple(str(DATA / place) for place in places)
    return tuple(row for row in trace_rows(store) if (row.path or "").startswith(wanted))


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
