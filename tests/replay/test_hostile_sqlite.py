"""SQLite files made to keep their reader busy, or to make it do something: each gives what its
tables hold, or a sentence, after no more work than its size is worth."""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Iterable
from contextlib import closing, suppress
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from replay.errors import BadTrace
from replay.formats import database, load, sqlite
from replay.formats.database import opened
from replay.formats.source import Source, Tally
from tests.replay.sqlite_case import LLM, PHOENIX, PROJECT, STORE, made, message, said, span, trace
from tests.replay.sqlite_case import turn as turned

PAGE = 4096


def written(path: Path, *statements: str, rows: Iterable[tuple[Any, ...]] = ()) -> Path:
    """A file of these statements, and of these rows in its table `t`."""
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(f"PRAGMA page_size = {PAGE}")
        for statement in statements:
            db.execute(statement)
        for row in rows:
            db.execute(f"INSERT INTO t VALUES ({', '.join('?' * len(row))})", row)
    return path


def taken(path: Path, *columns: str, order: tuple[str, ...] = (), **where: str | int) -> int:
    """How many rows of the table `t` are read."""
    with opened(path, "x") as found:
        return sum(1 for _ in found.rows("t", columns, order=order, **where))


# --- more than there is


@pytest.mark.parametrize("order", [(), ("a",)])
def test_a_default_that_every_row_has_is_no_more_than_the_file_has_room_for(
    order: tuple[str, ...], tmp_path: Path
) -> None:
    path = written(tmp_path / "x.db", "CREATE TABLE t (a INTEGER)", rows=[(1,)] * 1000)
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"ALTER TABLE t ADD COLUMN b TEXT DEFAULT '{'x' * 900_000}'")
    with pytest.raises(BadTrace, match="table t: has more bytes than the file has room for"):
        taken(path, "a", "b", order=order)


@pytest.mark.parametrize("order", [(), ("a",)])
def test_rows_that_share_their_pages_are_no_more_than_the_file_has_room_for(
    order: tuple[str, ...], tmp_path: Path
) -> None:
    """The rest of a long row lies in a chain of pages; here all rows are led to the same one."""
    long = 60_000
    path = written(
        tmp_path / "x.db",
        "CREATE TABLE t (a BLOB)",
        rows=[(bytes([at]) * long,) for at in range(8)],
    )
    data = bytearray(path.read_bytes())
    shared = 0
    for page in range(1, len(data) // PAGE):
        at = page * PAGE
        if data[at] == 13 and (cells := struct.unpack_from(">H", data, at + 3)[0]):
            for cell in range(cells):
                (start,) = struct.unpack_from(">H", data, at + 8 + 2 * cell)
                end = at + (
                    struct.unpack_from(">H", data, at + 8 + 2 * cell - 2)[0] if cell else PAGE
                )
                rest = struct.unpack_from(">I", data, end - 4)[0]
                shared = shared or rest
                assert start
                assert rest
                struct.pack_into(">I", data, end - 4, shared)
    path.write_bytes(data)
    with opened(path, "x") as found:
        assert sum(1 for _ in found.rows("t", ["a"], order=order)) == 8  # a little is borne
        found._most_bytes = len(data) // 2
        found._looked_over.clear()
        with pytest.raises(BadTrace, match="has more bytes"):
            list(found.rows("t", ["a"], order=order))


@pytest.mark.parametrize("asked", [{}, {"order": ("a",)}, {"a": -1}])
def test_pages_that_lead_to_the_same_page_end(
    asked: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each inner page lists the next one four hundred times: nine pages, and 400^9 rows."""
    monkeypatch.setattr(database, "_FREE_STEPS", 2_000_000)
    path = written(
        tmp_path / "x.db", "CREATE TABLE t (a INTEGER)", rows=[(at,) for at in range(4000)]
    )
    data = bytearray(path.read_bytes())
    (root,) = [page for page in range(1, len(data) // PAGE) if data[page * PAGE] == 5]
    leaf = struct.unpack_from(">I", data, root * PAGE + 8)[0]
    inner = len(data) // PAGE + 1
    data += bytes(PAGE) * 9
    for level in range(9):
        target = inner + level + 1 if level < 8 else leaf
        _inner_page(data, inner + level, target)
    _inner_page(data, root + 1, inner)
    struct.pack_into(">I", data, 28, len(data) // PAGE)
    path.write_bytes(data)
    with pytest.raises(BadTrace, match=r"more rows than|more work than|malformed"):
        taken(path, "a", **asked)


def _inner_page(data: bytearray, number: int, target: int) -> None:
    """Make the page one that lists another page, and nothing else."""
    at, cells = (number - 1) * PAGE, 400
    content = PAGE - 8 * cells
    data[at : at + PAGE] = bytes(PAGE)
    struct.pack_into(">BHHHBI", data, at, 5, 0, cells, content, 0, target)
    for cell in range(cells):
        struct.pack_into(">H", data, at + 12 + 2 * cell, content + 8 * cell)
        struct.pack_into(">IB", data, at + content + 8 * cell, target, min(cell, 127))


# --- more work than there is


def test_a_query_takes_no_more_steps_than_the_file_is_worth(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(
        tmp_path / "x.db", "CREATE TABLE t (a INTEGER)", rows=[(at,) for at in range(5000)]
    )
    monkeypatch.setattr(database, "_FREE_STEPS", 20_000)
    monkeypatch.setattr(database, "_STEPS_A_BYTE", 0)
    monkeypatch.setattr(database, "_STEPS_AT_ONCE", 1000)
    why = "table t: needs far more work than a file of this size should"
    with opened(path, "x") as found, pytest.raises(BadTrace, match=why):
        list(chain.from_iterable(found.rows("t", ["a"], a=-1) for _ in range(100)))


def _phoenix(runs: int) -> tuple[str, list[tuple[str, dict[str, Any]]]]:
    rows = [PROJECT]
    for at in range(runs):
        table, row = span(f"s{at}", "AGENT", None, 0)
        rows += [trace(at + 1, f"t{at}"), (table, {**row, "id": at + 1, "trace_rowid": at + 1})]
    return PHOENIX, rows


def _llm(runs: int) -> tuple[str, list[tuple[str, dict[str, Any]]]]:
    rows: list[tuple[str, dict[str, Any]]] = []
    for at in range(runs):
        table, row = turned(f"t{at}", f"h{at}", f"g{at}", 1)
        rows += [("threads", {"id": f"c{at}"}), (table, {**row, "thread_id": f"c{at}"})]
        rows += message(f"h{at}", None, "user", said(f"Where is {at}?"))
        rows += message(f"g{at}", f"h{at}", "assistant", said("Shipped."))
    return LLM + STORE, rows


@pytest.mark.parametrize("tool", [_phoenix, _llm])
def test_twice_the_runs_take_twice_the_steps(
    tool: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which is what lets a file that takes many more be refused."""
    steps = 0

    def count() -> bool:
        nonlocal steps
        steps += 10
        return False

    monkeypatch.setattr(database, "_Steps", lambda size: count)
    monkeypatch.setattr(database, "_STEPS_AT_ONCE", 10)
    took = []
    for runs in (100, 200):
        before = steps
        path = made(tmp_path / f"{runs}.db", *tool(runs))
        assert len(list(load(Source(path), Tally(), format=sqlite))) == runs
        took.append(steps - before)
    assert took[1] < 2.4 * took[0]
    assert took[1] < (tmp_path / "200.db").stat().st_size * database._STEPS_A_BYTE / 10


# --- what would run


ENDLESS = """WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
    SELECT i AS id, i AS name, i AS a FROM n"""


def test_a_view_without_end_in_the_place_of_a_table_is_never_asked(tmp_path: Path) -> None:
    schema = PHOENIX.replace(
        "CREATE TABLE projects (id INTEGER NOT NULL PRIMARY KEY, name VARCHAR NOT NULL UNIQUE);",
        f"CREATE VIEW projects AS {ENDLESS};",
    )
    assert "CREATE VIEW" in schema
    path = made(tmp_path / "x.db", schema, [trace(1, "t1"), span("a", "AGENT", None, 0)])
    with pytest.raises(BadTrace, match="of an unknown tool"):
        list(load(Source(path), Tally(), format=sqlite))


@pytest.mark.parametrize(
    "statement",
    [
        f"CREATE VIEW t AS {ENDLESS}",
        "CREATE TABLE t (x INTEGER, a TEXT AS (hex(zeroblob(x * 100000000))) VIRTUAL)",
        "CREATE VIRTUAL TABLE t USING fts5(a)",
    ],
)
def test_what_is_computed_is_not_there(statement: str, tmp_path: Path) -> None:
    path = written(tmp_path / "x.db", statement)
    assert taken(path, "a") == 0


def test_a_view_that_is_called_a_table_in_the_schema_runs_nothing(tmp_path: Path) -> None:
    path = written(tmp_path / "x.db", f"CREATE VIEW t AS {ENDLESS}")
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("PRAGMA writable_schema = ON")
        db.execute("UPDATE sqlite_master SET type = 'table', sql = '/**/' || sql")
    with suppress(BadTrace):
        assert taken(path, "a") == 0


def test_an_index_over_a_function_without_end_is_not_run(tmp_path: Path) -> None:
    path = written(
        tmp_path / "x.db",
        "CREATE TABLE t (a TEXT)",
        "CREATE INDEX i ON t (hex(a))",
        rows=[("x" * 10,)] * 10,
    )
    assert taken(path, "a", order=("a",)) == 10


@pytest.mark.parametrize("claimed", [2**31 - 1, 2**40])
def test_a_value_that_claims_to_be_longer_than_the_file_is_a_sentence(
    claimed: int, tmp_path: Path
) -> None:
    path = written(tmp_path / "x.db", "CREATE TABLE t (a TEXT)", rows=[("x" * 100,)])
    data = bytearray(path.read_bytes())
    at = PAGE + struct.unpack_from(">H", data, PAGE + 8)[0]
    data[at : at + 12] = _varint(claimed) + b"\x01" + b"\x0a" + _varint(claimed * 2 + 13)
    path.write_bytes(data[: 2 * PAGE])
    with pytest.raises(BadTrace):
        taken(path, "a")


def _varint(number: int) -> bytes:
    """A number as SQLite writes it."""
    found = [number & 0x7F]
    while number := number >> 7:
        found.append(number & 0x7F | 0x80)
    return bytes(reversed(found))
