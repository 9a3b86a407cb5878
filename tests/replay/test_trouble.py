"""A full disk, a file that is not ours, another writer: a sentence, and nothing half-written."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from replay.care import check
from replay.errors import StoreUnusable
from replay.store import answers, connection
from replay.store.handle import Store
from replay.store.rows import trace_rows
from replay.store.trouble import StoreBusy, StoreDamaged, patiently, unusable
from replay.store.write import Writer
from tests.bench.corpus import batches

ROOT = Path(__file__).resolve().parents[2]
NOBODY = 65534


def fill(store: Store, traces: int, seed: int = 1) -> None:
    writer = Writer(store)
    for batch in batches(traces, seed=seed, steps=3):
        writer.finish(writer.write(batch))


def sound(store: Store) -> bool:
    (said,) = store.db.execute("PRAGMA integrity_check").fetchall()
    found = list(check.content(store))
    for row in trace_rows(store, every=True):
        found += check.trace_digests(store, row.trace)
    return said[0] == "ok" and not found


@pytest.mark.slow
def test_a_full_disk_is_a_sentence_and_keeps_what_was_there(tmp_path: Path) -> None:
    with Store.open(tmp_path / "arc.db") as store:
        fill(store, 2)
        before = trace_rows(store)
        pages = store.db.execute("PRAGMA page_count").fetchone()[0]
        store.db.execute(f"PRAGMA max_page_count = {pages + 2}")
        with pytest.raises(StoreUnusable, match="the disk is full") as raised:
            fill(store, 50, seed=2)
        assert str(tmp_path / "arc.db") in raised.value.message
        assert "free space" in raised.value.hint
        assert not store.db.in_transaction
        assert trace_rows(store)[: len(before)] == before
        assert sound(store)
        store.db.execute("PRAGMA max_page_count = 1000000")
        fill(store, 50, seed=2)
        assert len(trace_rows(store)) == 52


@pytest.mark.slow
def test_a_full_disk_at_any_moment_of_a_trace_leaves_it_or_nothing(tmp_path: Path) -> None:
    for room in range(0, 40, 3):
        with Store.open(tmp_path / f"{room}.db") as store:
            pages = store.db.execute("PRAGMA page_count").fetchone()[0]
            store.db.execute(f"PRAGMA max_page_count = {pages + room}")
            with suppress(StoreUnusable):
                fill(store, 8)
            assert sound(store)


def arc(
    *words: str, db: Path, limit: Callable[[], None] | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "arc_tui", "--db", str(db), *words],
        cwd=ROOT, text=True, capture_output=True, check=False, preexec_fn=limit,
    )  # fmt: skip


def one_sentence(found: subprocess.CompletedProcess[str]) -> str:
    """What a command that could not do it says: a line that begins with `arc:`, and a hint."""
    assert found.returncode == 2, found.stderr
    lines = found.stderr.strip().splitlines()
    assert lines[0].startswith("arc: ")
    assert len(lines) <= 2
    assert "Traceback" not in found.stderr
    return lines[0]


TRACES = [str(path) for path in sorted((ROOT / "fixtures" / "traces").glob("*.jsonl"))[:30]]


def no_more_than(size: int) -> None:
    """In a child: no file may grow beyond that."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


@pytest.mark.process
def test_a_file_that_may_not_grow_stops_an_import_with_a_sentence(tmp_path: Path) -> None:
    db = tmp_path / "arc.db"
    found = arc("import", *TRACES, db=db, limit=lambda: no_more_than(700_000))
    assert "disk read or write error" in one_sentence(found)
    with Store.open(db) as store:
        assert sound(store)
        assert len(trace_rows(store)) < len(TRACES)
    assert arc("import", *TRACES, db=db).returncode == 0
    with Store.open(db) as store:
        assert len(trace_rows(store)) == len(TRACES)


@pytest.mark.process
def test_a_disk_that_is_really_full_stops_an_import_with_a_sentence(tmp_path: Path) -> None:
    if os.name != "posix" or os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("mounting a small disk needs root and unshare")
    disk = tmp_path / "disk"
    disk.mkdir()
    script = (
        'mount -t tmpfs -o size=900k small "$0" || exit 77\n'
        'python="$1"; shift\n'
        '"$python" -m arc_tui --db "$0/arc.db" import "$@"; echo "code $?"\n'
        '"$python" -m arc_tui --db "$0/arc.db" db verify; echo "code $?"\n'
    )
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script, str(disk), sys.executable, *TRACES],
        cwd=ROOT, text=True, capture_output=True, check=False,
    )  # fmt: skip
    if done.returncode in (1, 77):
        pytest.skip(f"no disk can be mounted here: {done.stderr}")
    assert "the disk is full" in done.stderr
    assert "Traceback" not in done.stderr
    assert [line for line in done.stdout.splitlines() if line.startswith("code")] == [
        "code 2", "code 0",
    ], done.stdout + done.stderr  # fmt: skip


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[Path]:
    """A folder that another user can reach, with a database in it."""
    if os.geteuid() != 0:
        pytest.skip("another user can be asked only by root")
    folder = Path("/tmp") / f"arc-readonly-{os.getpid()}"
    folder.mkdir(mode=0o755)
    with Store.open(folder / "arc.db") as store:
        fill(store, 1)
    (folder / "arc.db").chmod(0o444)
    yield folder
    shutil.rmtree(folder)


WRITES = """
import os, sys
from pathlib import Path
from replay.budget import Limits
from replay.errors import StoreUnusable
from replay.store.handle import Store; from replay.store import answers as notes
with Store.open(":memory:") as store:
    notes.keep(store, "x", Limits())  # all that is needed is loaded while it may be read
os.setuid({user})
try:
    with Store.open(Path({path!r})) as store:
        notes.keep(store, "x", Limits())
except StoreUnusable as error:
    print(error.message)
"""


@pytest.mark.process
@pytest.mark.parametrize("mode", [0o755, 0o777])
def test_what_may_only_be_read_is_a_sentence_and_stays_as_it_was(shared: Path, mode: int) -> None:
    shared.chmod(mode)  # a folder of someone else's, and one where all may write
    before = (shared / "arc.db").read_bytes()
    code = WRITES.format(user=NOBODY, path=str(shared / "arc.db"))
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert "is read-only" in done.stdout or "cannot be opened" in done.stdout, done.stderr
    assert (shared / "arc.db").read_bytes() == before


def test_a_second_writer_waits_and_then_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "BUSY_TIMEOUT_S", 0.05)
    path = tmp_path / "arc.db"
    with Store.open(path) as first, Store.open(path) as second:
        with first.writing():
            with pytest.raises(StoreBusy, match="another process") as raised:
                keep(second)
            assert "again when the other process is done" in raised.value.hint
            assert trace_rows(second) == [], "who only reads does not wait"
        keep(second)
        assert answers.get(first, "k") is not None


def test_who_is_patient_tries_again_until_the_other_is_done_or_nobody_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "BUSY_TIMEOUT_S", 0.01)
    path = tmp_path / "arc.db"
    tries: list[int] = []
    with Store.open(path) as first, Store.open(path) as second, ExitStack() as writing:
        writing.enter_context(first.writing())

        def work() -> None:
            tries.append(1)
            if len(tries) == 4:
                writing.close()
            keep(second)

        with pytest.raises(StoreBusy):
            patiently(work, lambda: len(tries) < 2)
        assert len(tries) == 2
        patiently(work)
        assert (len(tries), answers.get(first, "k") is not None) == (4, True)


def keep(store: Store) -> None:
    answers.put(store, "k", model="m", sample=0, body={"a": 1}, source="live")


def test_a_wrong_statement_is_a_bug_and_no_sentence(tmp_path: Path) -> None:
    with Store.open(tmp_path / "arc.db") as store:
        with pytest.raises(sqlite3.OperationalError, match="no such table"), store.writing() as db:
            db.execute("SELECT * FROM nowhere")
        with pytest.raises(sqlite3.IntegrityError), store.writing() as db:
            db.execute("INSERT INTO setting VALUES ('a', NULL)")
    assert unusable(sqlite3.OperationalError("no such column: x"), "a") is None


def test_damage_met_while_reading_is_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "arc.db"
    with Store.open(path) as store:
        fill(store, 20)
        (root,) = store.db.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = 'message'"
        ).fetchone()
        (size,) = store.db.execute("PRAGMA page_size").fetchone()
    raw = bytearray(path.read_bytes())
    raw[(root - 1) * size : root * size] = b"\xff" * size
    path.write_bytes(raw)
    with pytest.raises(StoreDamaged, match="is damaged"), Store.open(path) as store:
        store.db.execute("SELECT * FROM message").fetchall()
