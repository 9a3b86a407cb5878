"""What runs by itself in a database that somebody else made: nothing, and `arc` says so at once."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from replay.errors import StoreUnusable
from replay.store import connection
from replay.store.schema import Migrations, migrations
from taxonomy.judgements.schema import migrations as ledger
from taxonomy.judgements.schema import open_ledger
from tests.arc_tui.free_case import put_account

ROOT = Path(__file__).resolve().parents[2]


def _versions() -> Iterator[tuple[Migrations, ...]]:
    """Every version of the schema, and of the judgements' over the last one."""
    for count in range(1, len(migrations.names) + 1):
        yield (migrations.first(count),)
    for count in range(1, len(ledger.names) + 1):
        yield migrations, ledger.first(count)


def _schema(sets: tuple[Migrations, ...]) -> list[tuple[str, str, str]]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        for each in sets:
            each.apply(db)
        return db.execute(SCHEMA).fetchall()


SCHEMA = "SELECT type, name, sql FROM sqlite_master WHERE sql IS NOT NULL"


def test_all_that_any_version_made_is_known_and_nothing_else() -> None:
    known: set[str] = set()
    names: set[str] = set()
    for sets in _versions():
        for kind, name, sql in _schema(sets):
            known |= {connection.digest(each) for each in connection.active(kind, sql)}
            if kind in ("table", "view"):
                names.add(name.lower())
    assert sorted(connection.KNOWN) == sorted(known), (
        "copy the right side into replay/store/connection.py"
    )
    assert sorted(connection.NAMES) == sorted(names)


FOR_EVER = "WITH RECURSIVE e(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM e) SELECT n FROM e"
HANGS = "length(replace(hex(zeroblob(9999)), '0', 'a')) > 0"
WAYS = {
    "a view": ("DROP VIEW runs", f"CREATE VIEW runs AS {FOR_EVER}"),
    "a view in another letter case": ("DROP VIEW runs", f"CREATE VIEW RUNS AS {FOR_EVER}"),
    "a view for a table": ("DROP TABLE setting", f"CREATE VIEW setting AS {FOR_EVER}"),
    "a view for the book of migrations": (
        "DROP TABLE _sqlite_migrations", f"CREATE VIEW _sqlite_migrations AS {FOR_EVER}",
    ),
    "a trigger": (
        "CREATE TRIGGER t AFTER INSERT ON setting BEGIN"
        f" INSERT INTO setting SELECT n, n FROM ({FOR_EVER}); END",
    ),
    "a trigger of a name that is ours": (
        "DROP TRIGGER trace_finished",
        "CREATE TRIGGER trace_finished AFTER UPDATE ON trace BEGIN"
        f" INSERT INTO setting SELECT n, n FROM ({FOR_EVER}); END",
    ),
    "a virtual table": ("CREATE VIRTUAL TABLE v USING fts5(a)",),
    "a generated column": (f"ALTER TABLE tag ADD COLUMN x INTEGER GENERATED ALWAYS AS ({HANGS})",),
    "a generated column behind a comment": (
        f"ALTER TABLE tag ADD COLUMN x INTEGER AS/**/({HANGS})",
    ),
    "a check": (f"ALTER TABLE tag ADD COLUMN x INTEGER CHECK ({HANGS})",),
    "a check of another table": (f"CREATE TABLE more (x CHECK ({HANGS}))",),
    "a default": (f"CREATE TABLE more (x DEFAULT ({HANGS}))",),
    "an index over an expression": (f"CREATE INDEX i ON tag ({HANGS})",),
    "an index of some rows": (f"CREATE INDEX i ON tag (class) WHERE {HANGS}",),
}  # fmt: skip


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("active") / "arc.db"
    put_account(path)
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA journal_mode = DELETE")
    return path


def changed(sound: Path, folder: Path, *statements: str) -> Path:
    path = folder / "arc.db"
    path.write_bytes(sound.read_bytes())
    with closing(sqlite3.connect(path)) as db, db:
        for each in statements:
            db.execute(each)
    return path


@pytest.mark.parametrize("way", WAYS)
def test_what_no_arc_made_is_not_run(way: str, sound: Path, tmp_path: Path) -> None:
    path = changed(sound, tmp_path, *WAYS[way])
    with pytest.raises(StoreUnusable, match="which arc did not create"):
        open_ledger(path)


@pytest.mark.parametrize(
    "command",
    [
        ("ls",),
        ("show", "account"),
        ("failures",),
        (
            "db",
            "verify",
        ),
    ],
)
@pytest.mark.slow
def test_every_command_ends_with_a_sentence(
    command: tuple[str, ...], sound: Path, tmp_path: Path
) -> None:
    path = changed(sound, tmp_path, *WAYS["a view"])
    done = subprocess.run(
        [sys.executable, "-m", "arc_tui", *command, "--db", str(path)],
        capture_output=True, text=True, check=False, cwd=ROOT, timeout=60,
        env={**os.environ, "ARC_DATA_DIR": str(tmp_path), "ARC_CONFIG_DIR": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert "contains the view 'runs', which arc did not create" in done.stderr


def test_what_a_person_adds_that_runs_nothing_is_left_alone(sound: Path, tmp_path: Path) -> None:
    path = changed(
        sound, tmp_path,
        "CREATE VIEW mine AS SELECT trace FROM runs", "CREATE TABLE notes (x TEXT DEFAULT 'as (')",
        "CREATE INDEX by_class ON tag (class, trace)",
    )  # fmt: skip
    with open_ledger(path) as store:
        assert store.db.execute("SELECT count(*) FROM mine").fetchone() == (1,)
