"""Tables of columns made to hurt: footers that lie, schemas without end, little that unpacks to
much. Each gives what it holds, or a sentence. Footers are written here, because no writer would."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from replay.errors import BadTrace
from replay.formats import load, openinference
from replay.formats.openinference import tables
from replay.formats.source import Source, Tally
from tests.replay.test_parquet import AGENT, ASK, needs_duckdb, written
from tests.tries import often

pytestmark = needs_duckdb


def refused(path: Path) -> str:
    """The sentence with which it is refused."""
    with pytest.raises(BadTrace) as caught:
        list(load(Source(path, display="x"), Tally(), format=openinference))
    return str(caught.value)


# --- a footer, in Thrift's compact protocol


def _number(value: int) -> bytes:
    found = bytearray()
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def _int(value: int) -> tuple[int, bytes]:
    return 5, _number((value << 1) ^ (value >> 63))


def _name(name: str) -> tuple[int, bytes]:
    return 8, _number(len(name)) + name.encode()


def _list(entries: Iterable[bytes]) -> tuple[int, bytes]:
    found = list(entries)
    return 9, b"\xfc" + _number(len(found)) + b"".join(found)


def _struct(**fields: tuple[int, bytes]) -> bytes:
    """Fields by their numbers, as `f4=…`, in order."""
    made, last = b"", 0
    for name, (kind, value) in fields.items():
        number = int(name[1:])
        made += bytes([number - last << 4 | kind]) + value
        last = number
    return made + b"\0"


def leaf(name: str) -> bytes:
    """A column of texts that may be null."""
    return _struct(f1=_int(6), f3=_int(1), f4=_name(name), f6=_int(0))


def group(name: str, children: int) -> bytes:
    return _struct(f3=_int(1), f4=_name(name), f5=_int(children))


def table(path: Path, columns: list[bytes], *, children: int | None = None, rows: int = 0) -> Path:
    """A file that is all footer: spans' ids, these columns, no row group."""
    ids = [leaf("context.trace_id"), leaf("context.span_id")]
    root = _struct(f4=_name("schema"), f5=_int(len(columns) + 2 if children is None else children))
    counted = 6, _int(rows)[1]
    footer = _struct(f1=_int(1), f2=_list([root, *ids, *columns]), f3=counted, f4=_list([]))
    path.write_bytes(tables.MAGIC + footer + struct.pack("<I", len(footer)) + tables.MAGIC)
    return path


def test_a_footer_that_is_written_here_is_read(tmp_path: Path) -> None:
    path = table(tmp_path / "x.parquet", [leaf("attributes.a")])
    assert refused(path) == "x: contains no span with an id and a trace id"


@pytest.mark.parametrize("depth", [1_000, 100_000])
def test_a_schema_that_is_nested_without_end_is_a_sentence(depth: int, tmp_path: Path) -> None:
    columns = [group("attributes.a", 1), *[group("g", 1)] * depth, leaf("x")]
    assert "nested" in refused(table(tmp_path / "x.parquet", columns, children=3))


@pytest.mark.parametrize("columns", [5_000, 20_000])
def test_more_columns_than_a_table_of_spans_has_are_a_sentence(
    columns: int, tmp_path: Path
) -> None:
    found = [leaf(f"attributes.{at}") for at in range(columns)]
    said = refused(table(tmp_path / "x.parquet", found))
    assert said == "x: is not a table of spans: it has more than 4000 columns"


@pytest.mark.slow
def test_a_million_columns_are_refused_by_the_length_of_their_footer(tmp_path: Path) -> None:
    found = [leaf("attributes.a")] * 1_000_000
    said = refused(table(tmp_path / "x.parquet", found))
    assert said == "x: is not a table of spans: its footer is larger than 16 MiB"


@pytest.mark.parametrize("children", [2**31 - 1, -5, 0, 1, 3])
def test_a_schema_that_miscounts_its_columns_is_a_sentence(children: int, tmp_path: Path) -> None:
    assert refused(table(tmp_path / "x.parquet", [], children=children))


@pytest.mark.parametrize("rows", [2**62, -1])
def test_a_number_of_rows_that_is_a_lie_is_a_sentence(rows: int, tmp_path: Path) -> None:
    said = refused(table(tmp_path / "x.parquet", [], rows=rows))
    assert "than the file has room for" in said or "no span" in said or "cannot be read" in said


@pytest.mark.parametrize("length", [0, 1, 2**24 - 1, 2**24 + 1, 2**32 - 1])
def test_a_length_of_the_footer_that_is_a_lie_is_a_sentence(length: int, tmp_path: Path) -> None:
    path = written(tmp_path / "x.parquet", AGENT)
    path.write_bytes(path.read_bytes()[:-8] + struct.pack("<I", length) + tables.MAGIC)
    assert refused(path)


# --- little that is much


def made(path: Path, select: str) -> Path:
    connection: Any = import_module("duckdb").connect(":memory:", config={"threads": "1"})
    connection.execute(f"COPY ({select}) TO '{path}' (FORMAT parquet, COMPRESSION zstd)")
    connection.close()
    return path


@pytest.mark.slow
def test_rows_without_end_in_few_bytes_are_a_sentence(tmp_path: Path) -> None:
    path = made(
        tmp_path / "x.parquet",
        """SELECT 's' AS "context.span_id", 't' AS "context.trace_id" FROM range(3000000)""",
    )
    assert path.stat().st_size < 1 << 17
    assert refused(path).startswith("x: has more rows than the file has room for: 3000000 in")


@pytest.mark.slow
def test_a_long_text_that_every_row_refers_to_is_no_more_than_the_file_may_unpack_to(
    tmp_path: Path,
) -> None:
    """A dictionary says it once; sorted, every row would have it."""
    path = made(
        tmp_path / "x.parquet",
        """SELECT 's' || i AS "context.span_id", 't' AS "context.trace_id",
            repeat('x', 1000000) AS "attributes.a" FROM range(1000) r(i)""",
    )
    assert path.stat().st_size < 1 << 14
    assert "cannot be read as parquet: Out of Memory" in refused(path)


def test_a_table_that_repeats_itself_as_runs_do_is_read(tmp_path: Path) -> None:
    path = made(
        tmp_path / "x.parquet",
        """SELECT 's' || i AS "context.span_id", 't' || i // 10 AS "context.trace_id",
            'LLM' AS span_kind, repeat('You are a shop. ', 500) AS "attributes.input.value"
            FROM range(300) r(i)""",
    )
    found = list(load(Source(path), Tally(), format=openinference))
    assert (len(found), sum(len(batch.spans) for batch in found)) == (30, 300)


# --- wrong in other ways


@pytest.mark.parametrize(
    "column",
    [
        """7 AS "context.trace_id" """,
        """[1, 2] AS "context.trace_id" """,
        """{'a': {'b': [1]}} AS "context.span_id" """,
        """DATE '2026-01-01' AS start_time""",
        """[TIMESTAMP '2026-01-01'] AS end_time""",
        """'\\xFF\\xFE'::BLOB AS "attributes.llm.input_messages" """,
        """MAP {'a': 1, 'b': 2} AS "attributes.llm.input_messages" """,
        """INTERVAL 3 DAY AS status_code""",
        """true AS parent_id""",
        """[[[[1]]]] AS events""",
        """'[[[' AS events""",
        """'infinity'::DOUBLE AS "attributes.llm.token_count.prompt" """,
        """TIMESTAMP 'infinity' AS start_time""",
        """170141183460469231731687303715884105727::HUGEINT AS end_time""",
        """(SELECT list(i) FROM range(10000) t(i)) AS "attributes.metadata" """,
    ],
)
def test_a_column_of_another_type_gives_spans_or_a_sentence(column: str, tmp_path: Path) -> None:
    name = column.rsplit(" AS ", 1)[1].strip()
    path = tmp_path / "x.parquet"
    replaced = ", ".join(each for each in AGENT.split(", ") if name not in each)
    made(path, f"SELECT {replaced}, {column}")
    with suppress(BadTrace):
        list(load(Source(path), Tally(), format=openinference))


@pytest.mark.slow
def test_a_damaged_table_gives_spans_or_a_sentence(tmp_path: Path) -> None:
    path, chosen = written(tmp_path / "x.parquet", ASK, AGENT), random.Random(7)
    whole = path.read_bytes()
    for _ in range(often(200)):
        data = bytearray(whole)
        for _ in range(chosen.randint(1, 6)):
            data[chosen.randrange(4, len(data))] = chosen.choice((0, 0xFF, chosen.randrange(256)))
        path.write_bytes(data)
        with suppress(BadTrace):
            list(load(Source(path), Tally(), format=openinference))


# --- nothing else is read


def test_no_other_file_is_read_and_nothing_is_fetched(tmp_path: Path) -> None:
    duckdb: Any = import_module("duckdb")
    path, other = written(tmp_path / "x.parquet", AGENT), tmp_path / "other.txt"
    other.write_text("secret")
    connection = duckdb.connect(":memory:")
    tables._shut(connection, path, str(path))
    assert connection.read_parquet(str(path)).project("name").fetchall() == [("agent",)]
    for query in (
        f"SELECT * FROM read_text('{other}')",
        f"COPY (SELECT 1) TO '{tmp_path / 'new.csv'}'",
        f"ATTACH '{tmp_path / 'new.db'}'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET enable_external_access = true",
        "SET memory_limit = '10GB'",
    ):
        with pytest.raises(duckdb.Error):
            connection.execute(query)
    connection.close()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["other.txt", "x.parquet"]
