"""Pages that lead to each other for ever: whatever is asked of such a file comes to an end."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from threading import Event, Timer

import pytest

from replay.store import connection, read
from replay.store.handle import Store
from replay.store.rows import trace_rows
from replay.store.trouble import StoreDamaged
from taxonomy.judgements.schema import open_ledger
from tests.arc_tui.free_case import put_account
from tests.replay import circles_case

ROOT = Path(__file__).resolve().parents[2]
ENDLESS = """WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
    SELECT count(1) FROM n"""
SCANNED = """SELECT name, tbl_name FROM sqlite_master
    WHERE rootpage > 1 AND coalesce(sql, '') NOT LIKE 'CREATE %INDEX%WHERE %'"""
"""An index of some rows only is no way to all of them."""


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("circles") / "arc.db"
    put_account(path)
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA journal_mode = DELETE")
    return path


@pytest.fixture
def copy(sound: Path, tmp_path: Path) -> Path:
    path = tmp_path / "arc.db"
    path.write_bytes(sound.read_bytes())
    return path


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound is reached in a tenth of a second."""
    monkeypatch.setattr(connection, "FREE_STEPS", 1_000_000)
    monkeypatch.setattr(connection, "STEPS_A_BYTE", 0)


@pytest.mark.slow
def test_reading_any_table_or_index_of_pages_listed_many_times_ends(
    sound: Path, tmp_path: Path, soon: None
) -> None:
    """Of each: a scan, by the index where it is one."""
    with closing(sqlite3.connect(sound)) as db:
        tables = dict(db.execute(SCANNED))
    roots = circles_case.roots(sound)
    for number, (name, table) in enumerate(tables.items()):
        path = tmp_path / f"{number}.db"
        path.write_bytes(sound.read_bytes())
        circles_case.lead_to_one_page(path, roots[name])
        by = f'INDEXED BY "{name}"' if name != table else "NOT INDEXED"
        if table == "message_step":  # its rows are an index, and another is shorter
            by = 'INDEXED BY "sqlite_autoindex_message_step_1"' if name == table else by
        scan = f'SELECT count(1) FROM "{table}" {by} WHERE 1'
        with pytest.raises(StoreDamaged), Store.open(path) as store:
            store.db.execute(scan).fetchall()
    assert len(tables) > 40


@pytest.mark.process
@pytest.mark.parametrize(
    ("name", "command", "code", "says"),
    [
        ("trace", ("ls",), 2, "a query took far more work than a file of this size needs"),
        ("trace", ("failures",), 2, "a query took far more work"),
        ("trace", ("stats",), 2, "a query took far more work"),
        (
            "message",
            (
                "db",
                "verify",
            ),
            1,
            "damaged place",
        ),
        (
            "trace",
            (
                "db",
                "verify",
            ),
            1,
            "damaged place",
        ),
    ],
)
def test_every_command_ends_with_a_sentence(
    name: str, command: tuple[str, ...], code: int, says: str, copy: Path, tmp_path: Path
) -> None:
    circles_case.lead_to_one_page(copy, circles_case.roots(copy)[name])
    done = arc(tmp_path, *command, "--db", str(copy))
    assert done.returncode == code, done.stderr
    assert says in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("name", ["trace", "span", "message", "sqlite_autoindex_message_1"])
def test_a_page_that_lists_the_page_that_lists_it_is_damage(name: str, copy: Path) -> None:
    circles_case.lead_in_a_circle(copy, circles_case.roots(copy)[name])
    with pytest.raises(StoreDamaged, match="malformed"):
        _read_all(copy)


def test_a_list_of_free_pages_that_never_ends_is_damage(copy: Path) -> None:
    circles_case.lead_free_pages_in_a_circle(copy)
    rows = [(str(number), "x" * 50_000) for number in range(100)]
    with pytest.raises(StoreDamaged), Store.open(copy) as store, store.writing() as db:
        db.executemany("INSERT INTO setting (name, value) VALUES (?, ?)", rows)


@pytest.mark.slow
def test_many_statements_are_no_long_one(tmp_path: Path, soon: None) -> None:
    with Store.open(tmp_path / "arc.db") as store:
        count = ENDLESS.replace("FROM n)", "FROM n WHERE i < 20000)")
        for _ in range(20):
            assert store.db.execute(count).fetchone() == (20_000,)
        with store.writing() as db:
            rows = ((str(number),) for number in range(20))
            db.executemany(f"INSERT INTO setting SELECT ?1, ({count})", rows)


@pytest.mark.slow
def test_a_file_that_has_grown_is_worth_more_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "FREE_STEPS", 100_000)
    count = ENDLESS.replace("FROM n)", "FROM n WHERE i < 1000000)")
    with Store.open(tmp_path / "arc.db") as store:
        with pytest.raises(sqlite3.OperationalError):
            store.db.execute(count).fetchone()
        with store.writing() as db:
            db.execute("INSERT INTO setting VALUES ('long', ?)", ("x" * 4_000_000,))
        assert store.db.execute(count).fetchone() == (1_000_000,)


@pytest.mark.slow
def test_what_nobody_waits_for_ends_before_its_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "FREE_STEPS", 10**15)
    over = Event()
    with Store.open(tmp_path / "arc.db") as store:
        store.stop_when(over.is_set)
        timer = Timer(0.2, over.set)
        timer.start()
        with pytest.raises(sqlite3.OperationalError, match="interrupted"):
            store.db.execute(ENDLESS).fetchone()
        assert over.is_set()


@pytest.mark.parametrize("rows", [False, True])
@pytest.mark.slow
def test_ctrl_c_in_a_long_statement_is_ctrl_c(
    rows: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While SQLite works, the signal arrives where it looks at its bound."""
    monkeypatch.setattr(connection, "FREE_STEPS", 10**15)
    endless = ENDLESS.replace("count(1) FROM n", "1 UNION ALL SELECT i FROM n WHERE i < 0")
    Timer(0.3, signal.raise_signal, [signal.SIGINT]).start()
    with pytest.raises(KeyboardInterrupt), Store.open(tmp_path / "arc.db") as store:
        store.db.execute(endless if rows else ENDLESS).fetchall()


def _read_all(path: Path) -> None:
    with open_ledger(path) as store:
        for row in trace_rows(store, every=True):
            read.load(store, row.trace)
        store.db.execute("SELECT id FROM message WHERE digest > '' ORDER BY digest").fetchall()


def arc(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "arc_tui", *words],
        capture_output=True, text=True, check=False, cwd=ROOT, timeout=120,
        env={**os.environ, "ARC_DATA_DIR": str(folder), "ARC_CONFIG_DIR": str(folder)},
    )  # fmt: skip
