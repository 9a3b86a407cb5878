"""A copy is whole, private, in nobody's way; an older database is copied before it changes."""

from __future__ import annotations

import shutil
import sqlite3
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from replay.care import check
from replay.errors import StoreUnusable
from replay.store import backup
from replay.store.handle import Store
from replay.store.rows import trace_rows
from replay.store.schema import Migrations, migrations
from replay.store.write import Writer
from tests.bench.corpus import batches


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("made") / "arc.db"
    with Store.open(path) as store:
        fill(store, 4)
    return path


@pytest.fixture
def path(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(made, tmp_path / "arc.db"))


def fill(store: Store, traces: int, seed: int = 1) -> None:
    writer = Writer(store)
    for batch in batches(traces, seed=seed, steps=3):
        writer.finish(writer.write(batch))


def test_a_copy_holds_what_the_database_holds_and_is_private(path: Path) -> None:
    with Store.open(path) as store:
        before = trace_rows(store)
        copied = store.backup()
    assert copied.path.parent == path.parent
    assert copied.path.name.startswith("arc-2")
    assert stat.S_IMODE(copied.path.stat().st_mode) == 0o600
    assert copied.rows["trace"] == 4
    with Store.open(copied.path) as store:
        assert trace_rows(store) == before
        assert not list(check.content(store))
    assert {each.name for each in path.parent.iterdir()} == {"arc.db", copied.path.name}


def test_what_stands_there_is_never_written_over(path: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    with Store.open(path) as store:
        for name in ("mine", "dangling"):
            with pytest.raises(StoreUnusable, match="already exists"):
                store.backup(tmp_path / name)
    assert (tmp_path / "mine").read_text() == "mine"
    assert not (tmp_path / "nowhere").exists()


def test_a_copy_is_made_while_another_writes(path: Path, tmp_path: Path) -> None:
    with Store.open(path) as writer, Store.open(path) as store, writer.writing() as db:
        db.execute("DELETE FROM trace")
        copied = store.backup(tmp_path / "copy.db")
    assert copied.rows["trace"] == 4


def test_what_was_deleted_is_not_in_a_copy(path: Path, tmp_path: Path) -> None:
    with Store.open(path) as store:
        store.db.execute("PRAGMA secure_delete = OFF")
        store.db.execute("INSERT INTO setting VALUES ('gone', 'a word that was deleted')")
        store.db.execute("DELETE FROM setting WHERE name = 'gone'")
        store.backup(tmp_path / "copy.db")
    assert b"a word that was deleted" not in (tmp_path / "copy.db").read_bytes()


def test_no_copy_is_left_where_the_database_is_damaged(path: Path, tmp_path: Path) -> None:
    with Store.open(path) as store:
        (root, size) = (
            store.db.execute("SELECT rootpage FROM sqlite_master WHERE name = 'span'").fetchone()[
                0
            ],
            store.db.execute("PRAGMA page_size").fetchone()[0],
        )
    raw = bytearray(path.read_bytes())
    raw[(root - 1) * size : root * size] = b"\xff" * size
    path.write_bytes(raw)
    with Store.open(path) as store, pytest.raises(StoreUnusable, match="is damaged") as raised:
        store.backup(tmp_path / "copy.db")
    assert "arc db recover" in raised.value.hint
    assert [each.name for each in tmp_path.glob("copy*")] == []


def test_a_place_that_cannot_be_written_is_named(path: Path, tmp_path: Path) -> None:
    with Store.open(path) as store, pytest.raises(StoreUnusable, match=r"none/copy\.db"):
        store.backup(tmp_path / "none" / "copy.db")


# --- before a migration


def later(fails: bool = False) -> tuple[Migrations, Migrations]:
    """A set of migrations as an older version had it, and as it is now."""

    def first(db: sqlite3.Connection) -> None:
        db.execute("CREATE TABLE word (said TEXT) STRICT")
        db.execute("INSERT INTO word VALUES ('kept')")

    def second(db: sqlite3.Connection) -> None:
        db.execute("ALTER TABLE word ADD COLUMN by TEXT")
        db.execute("UPDATE word SET by = 'me'")
        if fails:
            db.execute("SELECT * FROM nothing")

    old, new = Migrations("words"), Migrations("words")
    for each in (old, new):
        each("0001_words")(first)
    new("0002_by")(second)
    return old, new


def copies(path: Path) -> list[str]:
    return sorted(each.name for each in path.parent.glob("*.bak"))


def schema() -> str:
    return migrations.names[-1].partition("_")[0]


def test_an_older_database_is_copied_before_it_is_brought_up_to_date(path: Path) -> None:
    old, new = later()
    Store.open(path, old).close()
    assert copies(path) == []
    told: list[Path] = []
    token = backup.copied.set(told.append)
    try:
        with Store.open(path, new) as store:
            assert store.db.execute("SELECT said, by FROM word").fetchone() == ("kept", "me")
    finally:
        backup.copied.reset(token)
    (name,) = copies(path)
    assert name == f"arc.db.{schema()}-0001.bak"
    assert told == [path.with_name(name)]
    assert stat.S_IMODE(told[0].stat().st_mode) == 0o600
    with sqlite3.connect(told[0]) as kept:
        assert kept.execute("SELECT * FROM word").fetchall() == [("kept",)]
        assert kept.execute("SELECT count(*) FROM trace").fetchone() == (4,)
    kept.close()
    Store.open(path, new).close()
    assert copies(path) == [name]


def test_a_change_that_fails_leaves_the_database_and_no_copy(path: Path) -> None:
    old, failing = later(fails=True)
    Store.open(path, old).close()
    with pytest.raises(sqlite3.OperationalError, match="nothing"):
        Store.open(path, failing)
    assert copies(path) == []
    with Store.open(path, old) as store:
        assert [row[1] for row in store.db.execute("PRAGMA table_info(word)")] == ["said"]


def test_nothing_is_copied_where_there_is_nothing_to_lose(tmp_path: Path) -> None:
    old, new = later()
    with Store.open(tmp_path / "arc.db", old) as store:
        store.db.execute("DELETE FROM word")
    Store.open(tmp_path / "arc.db", new).close()
    assert copies(tmp_path / "arc.db") == []


def test_an_earlier_copy_stays(path: Path) -> None:
    old, new = later()
    Store.open(path, old).close()
    first = path.with_name(f"arc.db.{schema()}-0001.bak")
    first.write_text("an earlier one")
    Store.open(path, new).close()
    assert first.read_text() == "an earlier one"
    assert copies(path) == [f"arc.db.{schema()}-0001.2.bak", first.name]


def test_of_many_that_open_an_older_database_at_once_one_copies_it(path: Path) -> None:
    old, new = later()
    Store.open(path, old).close()
    with ThreadPoolExecutor(6) as pool:
        for store in pool.map(lambda _: opened(path, new), range(6)):
            assert store == 1
    assert len(copies(path)) == 1


def opened(path: Path, wanted: Migrations) -> int:
    with Store.open(path, wanted) as store:
        return len(store.db.execute("SELECT * FROM word").fetchall())
