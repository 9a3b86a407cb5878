"""Pages read without SQLite say what SQLite says, and of damaged ones whatever is left."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.care.pages import Damaged, Pages, Record, Row

TEXTS = st.text(alphabet=st.characters(codec="utf-8", exclude_characters="\0"))
NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.integers(-300, 300)
VALUES = st.none() | NUMBERS | st.floats(allow_nan=False) | TEXTS | st.binary()


def table(path: Path, name: str = "t") -> dict[int, Record]:
    """The rows of a table by their number, page by page."""
    with Pages(path) as pages:
        master = [
            row.values
            for leaf in pages.tree(1, set())
            if isinstance(leaf, int)
            for row in pages.rows(leaf)
            if isinstance(row, Row)
        ]
        root = next(row[3] for row in master if row[1] == name)
        assert isinstance(root, int)
        found: dict[int, Record] = {}
        for leaf in pages.tree(root, set()):
            for row in pages.rows(leaf) if isinstance(leaf, int) else ():
                if isinstance(row, Row) and row.id is not None:
                    found[row.id] = row.values
        return found


@given(rows=st.lists(st.tuples(VALUES, VALUES), max_size=20), size=st.sampled_from([512, 4096]))
def test_every_value_comes_as_sqlite_gives_it(
    rows: list[tuple[object, object]], size: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("pages") / "a.db"
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"PRAGMA page_size = {size}")
        db.execute("CREATE TABLE t (a, b)")
        db.executemany("INSERT INTO t VALUES (?, ?)", rows)
        db.commit()
        wanted = {row[0]: row[1:] for row in db.execute("SELECT rowid, a, b FROM t")}
    assert table(path) == wanted


def large(path: Path, many: int = 400) -> dict[int, Record]:
    """A table over many pages, some of whose rows run over many more."""
    chance = random.Random(5)
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA page_size = 1024")
        db.execute("CREATE TABLE t (a, b)")
        for number in range(many):
            length = chance.choice((5, 50, 990, 5000))
            db.execute("INSERT INTO t VALUES (?, ?)", (number, chr(97 + number % 26) * length))
        db.execute("DELETE FROM t WHERE a % 7 = 3")
        db.commit()
        return {row[0]: row[1:] for row in db.execute("SELECT rowid, a, b FROM t")}


def test_rows_that_run_over_many_pages_are_whole(tmp_path: Path) -> None:
    wanted = large(tmp_path / "a.db")
    assert table(tmp_path / "a.db") == wanted


def test_what_is_in_the_log_and_not_yet_in_the_file_counts(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    large(path)
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA wal_autocheckpoint = 0")
        db.execute("UPDATE t SET b = 'new' WHERE a < 50")
        db.commit()
        db.execute("UPDATE t SET b = 'never said' WHERE a < 50")
        wanted = {
            row[0]: ("new" if row[1] < 50 else row[2]) for row in
            db.execute("SELECT rowid, a, b FROM t")
        }  # fmt: skip
        assert {row: values[1] for row, values in table(path).items()} == wanted
        log = path.with_name("a.db-wal")
        whole, spoiled = path.read_bytes(), bytearray(log.read_bytes())
        spoiled[32 + 24 + 500] ^= 1  # the first page that is logged
        (tmp_path / "b.db").write_bytes(whole)
        (tmp_path / "b.db-wal").write_bytes(spoiled)
        with Pages(tmp_path / "b.db") as pages:
            assert pages.log_cut
        assert not any(values[1] == "new" for values in table(tmp_path / "b.db").values())


def test_what_is_left_of_a_damaged_file_is_what_was_there(tmp_path: Path) -> None:
    """No row is made up: each that is read is one that was written, but for its spoiled bytes."""
    wanted = large(tmp_path / "a.db")
    raw = (tmp_path / "a.db").read_bytes()
    for seed in range(30):
        chance = random.Random(seed)
        spoiled = bytearray(raw)
        page = chance.randrange(2, len(raw) // 1024)
        spoiled[page * 1024 : page * 1024 + 1024] = chance.randbytes(1024)
        (tmp_path / "b.db").write_bytes(spoiled)
        found = table(tmp_path / "b.db")
        same = sum(found.get(row) == values for row, values in wanted.items())
        assert len(found.keys() - wanted.keys()) <= 64
        assert same >= len(wanted) * 0.3


@given(raw=st.binary(max_size=5000))
def test_arbitrary_bytes_end_in_words(raw: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("any") / "a.db"
    path.write_bytes(raw)
    try:
        pages = Pages(path)
    except Damaged:
        return
    with pages:
        pages.free()
        for number in range(1, pages.count + 1):
            list(pages.rows(number))
            list(pages.overflow(number))
            list(pages.tree(number, set()))
