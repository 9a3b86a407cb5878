"""Other tools' SQLite files in general: whose a file is, that it is left as it was, and what a
hostile one comes to."""

from __future__ import annotations

import gzip
import os
import sqlite3
import stat
from contextlib import closing, suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from replay.errors import BadTrace
from replay.formats import formats, load, sniff, sqlite
from replay.formats.database import opened
from replay.formats.source import HEAD_BYTES, Source, Tally
from tests.replay.sqlite_case import (
    LLM,
    MLFLOW,
    PHOENIX,
    PROJECT,
    STORE,
    made,
    message,
    observed,
    read,
    said,
    span,
    trace,
    tracked,
    turn,
)
from tests.tries import often

SMALL = [PROJECT, trace(1, "t1"), span("a", "AGENT", None, 0)]


def phoenix(path: Path) -> Path:
    return made(path, PHOENIX, SMALL)


def listing(folder: Path) -> dict[str, tuple[int, int]]:
    """Size and time of every file of a folder."""
    return {f.name: (f.stat().st_size, f.stat().st_mtime_ns) for f in folder.iterdir()}


# --- whose it is


def test_a_file_is_claimed_by_its_tables_and_by_nobody_else(tmp_path: Path) -> None:
    for name, schema in (("x", PHOENIX), ("logs.db", LLM + STORE)):
        source = Source(made(tmp_path / name, schema))
        assert [f for f in formats() if f.sniff(source.head)] == [sqlite]
    other = made(tmp_path / "phoenix.db", "CREATE TABLE moz_places (id INTEGER)")
    assert sniff(Source(other)) is None


@pytest.mark.slow
def test_a_file_is_claimed_whose_tables_stand_far_in(tmp_path: Path) -> None:
    far = "".join(f"CREATE TABLE t{at} (a TEXT DEFAULT '{'x' * 2000}');" for at in range(60))
    source = Source(made(tmp_path / "x", far + PHOENIX, SMALL))
    assert len(source.head.data) == HEAD_BYTES
    assert b"span_annotations" not in source.head.data
    assert sniff(source) is sqlite
    assert sniff(Source(made(tmp_path / "phoenix.db", far))) is None


def test_a_database_of_another_program_is_told_so(tmp_path: Path) -> None:
    path = made(tmp_path / "x.db", "CREATE TABLE moz_places (id INTEGER)")
    with pytest.raises(BadTrace, match=r"of an unknown tool \(its tables: moz_places\)"):
        list(load(Source(path), Tally(), format=sqlite))


def test_a_database_without_runs_says_so(tmp_path: Path) -> None:
    with pytest.raises(BadTrace, match="contains no run with a model call"):
        read(made(tmp_path / "phoenix.db", PHOENIX))


def test_a_compressed_file_is_read_from_a_copy_that_is_gone_afterwards(tmp_path: Path) -> None:
    plain = phoenix(tmp_path / "x.db")
    packed = tmp_path / "x.db.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert len(read(packed)[0]) == len(read(plain)[0]) == 1


# --- left as it was


def test_reading_changes_nothing_and_leaves_no_file_beside_it(tmp_path: Path) -> None:
    path = phoenix(tmp_path / "phoenix.db")
    path.chmod(stat.S_IRUSR)
    before = listing(tmp_path)
    read(path)
    assert listing(tmp_path) == before


def test_what_stands_only_in_the_log_of_a_running_program_is_read_beside_it(
    tmp_path: Path,
) -> None:
    path = phoenix(tmp_path / "phoenix.db")
    with closing(sqlite3.connect(path)) as writer:
        writer.execute("PRAGMA journal_mode=WAL")
        writer.execute("UPDATE traces SET trace_id = 'later'")
        writer.commit()
        assert read(path)[0][0].header.source_id == "later"
        writer.execute("UPDATE traces SET trace_id = 'still later'")  # and it can go on
        writer.commit()
    assert read(path)[0][0].header.source_id == "still later"


def test_a_log_that_was_copied_along_without_its_program_is_read_and_left(tmp_path: Path) -> None:
    path = phoenix(tmp_path / "live.db")
    copy = tmp_path / "copy" / "phoenix.db"
    copy.parent.mkdir()
    with closing(sqlite3.connect(path)) as writer:
        writer.execute("PRAGMA journal_mode=WAL")
        writer.execute("UPDATE traces SET trace_id = 'later'")
        writer.commit()
        for end in ("", "-wal"):
            Path(f"{copy}{end}").write_bytes(Path(f"{path}{end}").read_bytes())
    before = listing(copy.parent)
    assert read(copy)[0][0].header.source_id == "later"
    assert listing(copy.parent) == before


def test_a_file_that_is_being_written_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("replay.formats.database._BUSY_S", 0.0)
    path = phoenix(tmp_path / "phoenix.db")
    with closing(sqlite3.connect(path)) as writer:
        writer.execute("PRAGMA cache_spill = 1")
        writer.execute("PRAGMA locking_mode = EXCLUSIVE")
        writer.execute("BEGIN EXCLUSIVE")
        writer.execute("UPDATE traces SET trace_id = 'half done'")
        writer.execute("PRAGMA cache_size = 1")
        writer.execute("UPDATE spans SET name = 'half done'")
        with pytest.raises(BadTrace, match="is being written by another program"):
            list(load(Source(path), Tally(), format=sqlite))
        writer.rollback()


def test_a_file_that_was_written_while_it_was_read_is_to_be_read_again(tmp_path: Path) -> None:
    path = phoenix(tmp_path / "phoenix.db")
    tally = Tally()
    reading = load(Source(path), tally, format=sqlite)
    next(reading)
    with closing(sqlite3.connect(path)) as writer, writer:
        writer.execute("CREATE TABLE later (id INTEGER)")
    assert list(reading) == []
    assert [problem.why for problem in tally.problems] == [
        "was written to while it was read. Try: import it again"
    ]


# --- not trusted

TRAP = """
CREATE TABLE real (id INTEGER PRIMARY KEY, a TEXT, b TEXT AS (upper(a)) VIRTUAL);
INSERT INTO real (a) VALUES ('x');
CREATE VIEW projects AS SELECT load_extension('evil');
CREATE VIRTUAL TABLE traces USING fts5(a);
CREATE TRIGGER t AFTER INSERT ON real BEGIN DELETE FROM real; END;
"""


def test_views_virtual_tables_and_generated_columns_are_not_there(tmp_path: Path) -> None:
    path = made(tmp_path / "x.db", TRAP)
    with opened(path, "x") as database:
        assert "real" in database.tables
        assert not database.tables & {"projects", "traces"}
        assert database.columns("real") == {"id", "a"}
        assert list(database.rows("real", ["a", "b"])) == [{"a": "x"}]
        assert list(database.rows("projects", ["id"])) == []


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT upper(a) FROM real",
        "SELECT * FROM projects",
        "DELETE FROM real",
        "PRAGMA writable_schema = ON",
        "ATTACH 'y.db' AS y",
    ],
)
def test_whatever_else_a_schema_might_make_it_do_is_refused(sql: str, tmp_path: Path) -> None:
    path = made(tmp_path / "x.db", TRAP)
    with opened(path, "x") as database, pytest.raises(BadTrace, match=r"x: schema: "):
        list(database._query(sql))


def test_a_row_lacks_what_the_version_of_the_file_did_not_know(tmp_path: Path) -> None:
    path = made(tmp_path / "x.db", "CREATE TABLE t (a TEXT)", [("t", {"a": "1"})])
    with opened(path, "x") as database:
        assert list(database.rows("t", ["a", "later"])) == [{"a": "1"}]
        assert list(database.rows("t", ["later"])) == []
        assert list(database.rows("t", ["a"], order=["later"])) == []
        assert list(database.rows("nowhere", ["a"])) == []


def test_texts_that_are_no_utf8_are_mended(tmp_path: Path) -> None:
    path = made(tmp_path / "x.db", "CREATE TABLE t (a TEXT)")
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("INSERT INTO t VALUES (CAST(X'61FF' AS TEXT))")
    with opened(path, "x") as database:
        assert list(database.rows("t", ["a"])) == [{"a": "a\ufffd"}]


def test_a_value_of_more_than_the_limit_is_refused_before_it_is_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("replay.formats.database.MAX_CELL_BYTES", 1000)
    path = made(tmp_path / "x.db", "CREATE TABLE t (a TEXT)", [("t", {"a": "x" * 2000})])
    with opened(path, "x") as database, pytest.raises(BadTrace, match="too big"):
        list(database.rows("t", ["a"]))


def test_more_rows_than_the_file_has_room_for_are_refused(tmp_path: Path) -> None:
    rows = [("t", {"a": at}) for at in range(10)]
    path = made(tmp_path / "x.db", "CREATE TABLE t (a INTEGER)", rows)
    with opened(path, "x") as database:
        database._most_rows = 5
        with pytest.raises(BadTrace, match="table t: has more rows than the file has room for"):
            list(database.rows("t", ["a"]))


MESSAGES = [
    *message("h1", None, "user", said("Where is order 7?")),
    *message("h2", "h1", "assistant", said("Shipped.")),
]
CHATS = [("threads", {"id": "c1"}), turn("t1", "h1", "h2", 1), *MESSAGES]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ...]:
    folder = tmp_path_factory.mktemp("sqlite")
    return (
        phoenix(folder / "x.db"),
        made(folder / "y.db", LLM + STORE, CHATS),
        made(folder / "z.db", MLFLOW, [tracked(), observed("a", "LLM", None, 0, "Hi", "Ho")]),
    )


@given(
    which=st.integers(0, 2),
    kept=st.sampled_from([1 << 30, 5000, 4096, 100]),
    changes=st.lists(st.tuples(st.integers(16, 1 << 20), st.integers(0, 255)), max_size=12),
)
@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    deadline=None,
    max_examples=often(200),
)
def test_a_damaged_file_gives_traces_or_a_sentence(
    which: int,
    kept: int,
    changes: list[tuple[int, int]],
    files: tuple[Path, ...],
    tmp_path: Path,
) -> None:
    held = bytearray(files[which].read_bytes()[:kept])
    for at, value in changes:
        held[16 + at % (len(held) - 16)] = value
    path = tmp_path / "x.db"
    path.write_bytes(held)
    with suppress(BadTrace):
        list(load(Source(path), Tally(), format=sqlite))


def test_a_file_that_is_gone_or_no_file_gives_a_sentence(tmp_path: Path) -> None:
    fake = tmp_path / "x.db"
    fake.write_bytes(b"SQLite format 3\0" + os.urandom(500))
    with pytest.raises(BadTrace, match="SQLite database"):
        list(load(Source(fake), Tally(), format=sqlite))
