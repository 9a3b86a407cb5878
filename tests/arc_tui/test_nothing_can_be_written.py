"""A database that can only be read, a disk that is full, and output that cannot be printed.

Whoever may mount can make a file system that takes nothing more, root included.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from arc_tui.app import ArcApp
from replay.errors import StoreUnusable
from replay.store.handle import Store
from taxonomy.judgements.schema import open_ledger
from tests.screen import rows, settle

ROOT = Path(__file__).resolve().parents[2]


def arc(
    *words: str, folder: Path, stdout: int | None = subprocess.PIPE, encoding: str = "utf-8"
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "arc_tui", *words],
        stdout=stdout, stderr=subprocess.PIPE, text=True, check=False, cwd=ROOT, timeout=60,
        errors="replace",
        env={**os.environ, "ARC_DATA_DIR": str(folder), "ARC_CONFIG_DIR": str(folder),
             "PYTHONIOENCODING": encoding},
    )  # fmt: skip


@contextmanager
def mounted(at: Path, options: str) -> Iterator[Callable[[str], None]]:
    """A small file system of its own; yields what mounts it again with other options."""

    def mount(more: str) -> None:
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", more, "tmpfs", str(at)], capture_output=True, check=False
        )
        if done.returncode:
            pytest.skip("file systems may not be mounted here")

    at.mkdir()
    mount(options)
    try:
        yield lambda more: mount(f"remount,{more}")
    finally:
        subprocess.run(["umount", "-l", str(at)], check=True)


@pytest.fixture
def read_only(db: Path, tmp_path: Path) -> Iterator[Path]:
    """A database on a disk that may only be read."""
    place = tmp_path / "disk"
    with mounted(place, "size=64m") as again:
        shutil.copy(db, place / "arc.db")
        again("ro")
        yield place / "arc.db"


@pytest.fixture
def full(db: Path, tmp_path: Path) -> Iterator[Path]:
    """A database on a disk that is full."""
    place = tmp_path / "disk"
    with mounted(place, "size=64m"):
        shutil.copy(db, place / "arc.db")
        with (place / "filler").open("wb") as filler:
            try:
                while True:
                    filler.write(bytes(1 << 16))
                    filler.flush()
            except OSError:
                pass
        yield place / "arc.db"


LOOKS = (["ls"], ["show", "last"], ["brief", "last"], ["failures"], ["stats"], ["tag", "list"])


@pytest.mark.process
@pytest.mark.parametrize("where", ["read_only", "full"])
def test_commands_that_look_say_the_same_as_where_it_can_be_written(
    where: str, db: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    path = request.getfixturevalue(where)
    for words in LOOKS:
        seen = arc("--db", str(path), *words, folder=tmp_path)
        expected = arc("--db", str(db), *words, folder=tmp_path)
        assert (seen.returncode, seen.stdout) == (0, expected.stdout), seen.stderr
        assert "Traceback" not in seen.stderr


@pytest.mark.process
@pytest.mark.parametrize("where", ["read_only", "full"])
def test_what_would_write_says_so_in_a_sentence(
    where: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    path = request.getfixturevalue(where)
    done = arc("--db", str(path), "tag", "add", "last", "0", "loop", folder=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith(f"arc: {path}: ")
    assert "Traceback" not in done.stderr


@pytest.mark.pilot
async def test_the_app_shows_the_runs(read_only: Path) -> None:
    async with ArcApp(read_only).run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        assert any("shop-" in line or "many-wishes" in line for line in rows(pilot.app))


def test_what_stands_in_the_log_alone_is_read(db: Path, tmp_path: Path) -> None:
    """Whoever wrote last was killed: the main file lacks what it wrote."""
    place = tmp_path / "disk"
    with mounted(place, "size=64m") as again:
        writer = sqlite3.connect(db, isolation_level=None)
        writer.execute("PRAGMA wal_autocheckpoint = 0")
        writer.execute("INSERT INTO setting (name, value) VALUES ('late', '1')")
        for end in ("", "-wal"):
            shutil.copy(f"{db}{end}", place / f"arc.db{end}")
        writer.close()
        again("ro")
        with Store.open(place / "arc.db") as store:
            late = store.db.execute("SELECT value FROM setting WHERE name = 'late'").fetchall()
            assert (late, store.read_only) == ([("1",)], True)


@pytest.mark.process
def test_rules_that_are_newer_do_not_look_again(db: Path, tmp_path: Path) -> None:
    with sqlite3.connect(db) as connection:
        connection.execute("UPDATE diagnosis SET engine = 'older'")
    connection.close()
    place = tmp_path / "disk"
    with mounted(place, "size=64m") as again:
        shutil.copy(db, place / "arc.db")
        again("ro")
        seen = arc("--db", str(place / "arc.db"), "ls", folder=tmp_path)
    assert seen.returncode == 0
    assert "read-only; " in seen.stderr
    assert "not analysed, or by older rules" in seen.stderr


def test_an_older_database_names_the_way(db: Path, tmp_path: Path) -> None:
    with sqlite3.connect(db) as connection:
        connection.execute(
            "DELETE FROM _sqlite_migrations WHERE rowid ="
            " (SELECT max(rowid) FROM _sqlite_migrations)"
        )
    connection.close()
    place = tmp_path / "disk"
    with mounted(place, "size=64m") as again:
        shutil.copy(db, place / "arc.db")
        again("ro")
        with pytest.raises(StoreUnusable, match="older arc") as refused:
            open_ledger(place / "arc.db")
    assert "copy it" in refused.value.hint


COMMANDS = (["ls"], ["show", "last"], ["stats"], ["ls", "--json"], ["--help"])


@pytest.mark.process
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_output_that_cannot_be_printed_is_no_traceback(
    words: list[str], db: Path, tmp_path: Path
) -> None:
    line = ("--db", str(db), *words)
    with open("/dev/full", "w") as nowhere:
        full = arc(*line, folder=tmp_path, stdout=nowhere.fileno())
    assert (full.returncode, full.stderr.splitlines()[-1]) == (
        2, "arc: cannot print the result: No space left on device",
    )  # fmt: skip
    for encoding in ("latin-1", "ascii"):
        plain = arc(*line, folder=tmp_path, encoding=encoding)
        assert (plain.returncode, "Traceback" in plain.stderr) == (0, False)
        assert plain.stdout
    shell = f'"{sys.executable}" -m arc_tui --db "{db}" {" ".join(words)}'
    for ending in (">&-", "2>&- >&-", "| head -c 1 >/dev/null; exit ${PIPESTATUS[0]}"):
        done = subprocess.run(
            ["bash", "-c", f"{shell} {ending}"], capture_output=True, text=True, check=False,
            cwd=ROOT, timeout=60, env={**os.environ, "ARC_DATA_DIR": str(tmp_path)},
        )  # fmt: skip
        assert (done.returncode, "Traceback" in done.stderr) == (0, False), (ending, done.stderr)
