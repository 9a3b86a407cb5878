"""What is pruned is gone from the bytes, what stays is complete, and a pruning may be killed.

`python -m tests.faults.pruned DB [AT]` prunes in a process of its own, which kills itself once
SQLite has come so far (counted in pieces of its work); without AT it prints how far there is to go.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from arc_tui import importing
from arc_tui.features.database.prune import PruneRequest, remove_runs
from replay.care import check
from replay.care.prune import unerased
from replay.store.rows import trace_rows
from taxonomy.judgements.schema import open_ledger
from tests.build import START_NS
from tests.faults import Row
from tests.faults.planted import BY_PEOPLE, DAY_NS, PLACES, every, found_in, indexed, plant, words

RUNS, KILLS, SEED = 60, 40, 7
_PIECE = 200
"""Instructions of SQLite's machine: the grain of the moments at which a pruning is killed."""


def wanted(runs: int) -> PruneRequest:
    """The older half of the planted runs."""
    return PruneRequest(before_ns=START_NS + runs // 2 * DAY_NS)


def planted(file: Path, runs: int, seed: int) -> list[dict[str, str]]:
    """A database of planted runs, a day between each and the next; the words of each."""
    said = [words(seed, run) for run in range(runs)]
    with open_ledger(file) as store:
        for run, each in enumerate(said):
            plant(store, each, run)
        for _ in importing.diagnose_new(store):
            pass
        store.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return said


def parted(said: list[dict[str, str]]) -> tuple[list[str], list[str]]:
    """(the words that must be gone, those that must be there still)."""
    half = len(said) // 2
    places = [place for place in PLACES if place not in BY_PEOPLE]
    stays = [*every(said[half:]), *every(said[:half], BY_PEOPLE)]
    return sorted(set(every(said[:half], places)) - set(stays)), stays


def rows(runs: int = RUNS, kills: int = KILLS, seed: int = SEED) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "made" / "arc.db"
        said = planted(made, runs, seed)
        gone, stays = parted(said)
        yield from _once(_copied(made, Path(folder) / "once"), runs, gone, stays)
        yield _killed(made, Path(folder), runs, kills, seed, gone, stays)


def _once(file: Path, runs: int, gone: list[str], stays: list[str]) -> Iterator[Row]:
    before = found_in(file, gone)
    assert len(before) == len(gone), "planted, and not in the file"
    with open_ledger(file) as store:
        remove_runs(store, wanted(runs))
        known = indexed(store, gone)
        left = found_in(file, gone)
    yield Row(
        promise="pruned data is gone",
        trial=f"{runs // 2} of {runs} runs pruned; texts found in the file, its log, beside it",
        figure=f"{len(left)} of {len(gone)}",
        kept=not left,
    )
    yield Row(
        promise="pruned data is gone",
        trial="their words still found by the search",
        figure=f"{len(known)} of {len(gone)}",
        kept=not known,
    )
    there = found_in(file, stays)
    yield Row(
        promise="what stays is complete",
        trial="texts of the runs that stay, and notes of people, still there",
        figure=f"{len(there)} of {len(stays)}",
        kept=len(there) == len(stays) and _whole(file, runs - runs // 2),
    )


def _killed(
    made: Path, folder: Path, runs: int, kills: int, seed: int, gone: list[str], stays: list[str]
) -> Row:
    total = int(_pruning(_copied(made, folder / "total"), runs).stdout)
    moments = random.Random(seed)
    kept = 0
    for kill in range(kills):
        file = _copied(made, folder / f"kill-{kill}")
        done = _pruning(file, runs, moments.randrange(total))
        assert done.returncode in (-signal.SIGKILL, 0), done.stderr
        all_there = len(found_in(file, stays)) == len(stays)
        valid = _whole(file, runs - runs // 2) or _whole(file, runs)
        with open_ledger(file) as store:
            remove_runs(store, wanted(runs))
            finished = not unerased(store)
        kept += all(
            (all_there, valid, finished, not found_in(file, gone), _whole(file, runs - runs // 2))
        )
        shutil.rmtree(file.parent)
    return Row(
        promise="a killed prune does no harm",
        trial="killed (SIGKILL) at seeded moments: all or nothing removed, the next finishes it",
        figure=f"{kept} of {kills}",
        kept=kept == kills,
    )


def _copied(file: Path, folder: Path) -> Path:
    folder.mkdir()
    return Path(shutil.copy(file, folder / file.name))


def _whole(file: Path, runs: int) -> bool:
    """Has it so many runs, and does everything in it hold together?"""
    with open_ledger(file) as store:
        keys = [row.trace for row in trace_rows(store, every=True)]
        damage = list(check.content(store))
        damage += [each for key in keys for each in check.trace_digests(store, key)]
        sound = store.db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        bound = store.db.execute("PRAGMA foreign_key_check").fetchone() is None
    return sound and bound and not damage and len(keys) == runs


def _pruning(file: Path, runs: int, at: int | None = None) -> subprocess.CompletedProcess[str]:
    given = [str(file), str(runs), *([] if at is None else [str(at)])]
    return subprocess.run(
        [sys.executable, "-m", "tests.faults.pruned", *given],
        capture_output=True,
        text=True,
        check=at is None,
        cwd=Path(__file__).parents[2],
    )


def _main(file: str, runs: str, at: str | None = None) -> None:
    done = 0

    def count() -> int:
        nonlocal done
        if done == (None if at is None else int(at)):
            os.kill(os.getpid(), signal.SIGKILL)
        done += 1
        return 0

    with open_ledger(Path(file)) as store:
        store.db.set_progress_handler(count, _PIECE)
        remove_runs(store, wanted(int(runs)))
        store.db.set_progress_handler(None, 0)
    print(done)


if __name__ == "__main__":
    _main(*sys.argv[1:])
