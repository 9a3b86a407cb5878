"""Phoenix's tables of spans in parquet; the tables here are written by duckdb, and two real ones
are read."""

from __future__ import annotations

import gzip
import os
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec
import pytest

from replay.errors import BadTrace
from replay.formats import load, openinference, sniff
from replay.formats.openinference import tables
from replay.formats.source import Head, Source, Tally
from replay.trace import Batch, Level, Usage
from tests.replay.kinds import models, seen, tools
from tests.shared import DATA, needs_shared

needs_duckdb = pytest.mark.skipif(
    find_spec("duckdb") is None and not os.environ.get("CI"),
    reason="duckdb (the extra `parquet`) is not installed",
)

SAMPLES = DATA / "formats" / "openinference"


def read(path: Path) -> tuple[list[Batch], Tally]:
    tally = Tally()
    source = Source(path)
    assert sniff(source) is openinference
    return list(load(source, tally)), tally


def written(path: Path, *rows: str) -> Path:
    """A table of these rows, each a list of `value AS column`."""
    table = " UNION ALL BY NAME ".join(f"SELECT {row}" for row in rows)
    connection: Any = import_module("duckdb").connect(":memory:")
    connection.execute(f"COPY ({table}) TO '{path}' (FORMAT parquet)")
    connection.close()
    return path


def row(name: str, kind: str, at: int, trace: str = "t1", *more: str) -> str:
    return ", ".join(
        (
            f"'{name}' AS name",
            f"'{kind}' AS span_kind",
            f"TIMESTAMPTZ '2026-07-09 00:00:0{at}+00' AS start_time",
            f"TIMESTAMPTZ '2026-07-09 00:00:0{at + 1}+00' AS end_time",
            "'OK' AS status_code",
            f"""'{name}' AS "context.span_id" """,
            f"""'{trace}' AS "context.trace_id" """,
            *more,
        )
    )


ASK = row(
    "ask", "LLM", 1, "t1",
    "'agent' AS parent_id",
    """[{'message.role': 'user', 'message.content': 'Hi', 'message.contents': NULL},
        {'message.role': 'user', 'message.content': NULL,
         'message.contents': [{'message_content.text': 'there', 'message_content.type': 'text'}]}]
       AS "attributes.llm.input_messages" """,
    """[{'message.role': 'assistant', 'message.content': 'Ho'}]
       AS "attributes.llm.output_messages" """,
    """100.0::DOUBLE AS "attributes.llm.token_count.prompt" """,
    """'NaN'::DOUBLE AS "attributes.llm.token_count.prompt_details.cache_read" """,
    """{'request': {'model': 'm-1', 'n': 7::HUGEINT}} AS "attributes.gen_ai" """,
    """12.5::DECIMAL(4, 1) AS "attributes.shop.price" """,
    """[{'name': 'exception', 'timestamp': TIMESTAMPTZ '2026-07-09 00:00:02+00',
         'attributes': {'exception.message': 'late'}}] AS events""",
)  # fmt: skip
AGENT = row("agent", "AGENT", 0, "t1", "NULL AS parent_id", "'x' AS unrelated")


@needs_duckdb
def test_a_row_is_a_span_and_its_columns_are_attributes(tmp_path: Path) -> None:
    (batch,), tally = read(written(tmp_path / "x.parquet", ASK, AGENT))
    (ask,) = models(batch)
    assert seen(ask) == [("user", "Hi"), ("user", "there")]
    assert ask.usage == Usage(input_tokens=100)
    assert (ask.request.model, ask.parent, ask.duration_ns) == ("m-1", "agent", 10**9)
    assert ask.extra["attributes"] == {"shop.price": "12.5", "gen_ai.request.n": 7.0}
    assert ask.extra["events"][0]["attributes"] == {"exception.message": "late"}
    assert ask.fidelity.level is Level.PARTIAL
    assert [span.name for span in batch.spans] == ["agent", "ask"]
    assert (tally.counts["spans"], dict(tally.unknown)) == (
        2,
        {"column unrelated": 1, "attribute gen_ai.request.n": 1},
    )


@needs_duckdb
def test_traces_come_whole_however_their_rows_lie(tmp_path: Path) -> None:
    rows = [row(f"s{at}", "CHAIN", at, f"t{at % 2}") for at in range(8)]
    batches, _ = read(written(tmp_path / "x.parquet", *rows))
    assert [(b.header.source_id, len(b.spans)) for b in batches] == [("t0", 4), ("t1", 4)]


@needs_duckdb
def test_rows_without_ids_are_problems_and_broken_times_unknown(tmp_path: Path) -> None:
    lost = """NULL AS "context.span_id", 't1' AS "context.trace_id", 'x' AS start_time"""
    kept = """'a' AS "context.span_id", 't1' AS "context.trace_id", 'soon' AS start_time"""
    (batch,), tally = read(written(tmp_path / "x.parquet", lost, kept))
    assert [(span.id, span.start_ns) for span in batch.spans] == [("a", None)]
    assert [problem.why for problem in tally.problems] == ["has no span id or no trace id"]


@needs_duckdb
def test_names_that_look_like_patterns_and_packed_files_are_read(tmp_path: Path) -> None:
    path = written(tmp_path / "x.parquet", AGENT)
    odd = tmp_path / "x[1]*?.parquet"
    odd.write_bytes(path.read_bytes())
    packed = tmp_path / "x.parquet.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert len(read(odd)[0]) == len(read(packed)[0]) == 1


@needs_duckdb
def test_a_table_of_something_else_is_told_so(tmp_path: Path) -> None:
    path = written(tmp_path / "x.parquet", "1 AS a, 2 AS b")
    assert sniff(Source(path)) is None
    with pytest.raises(
        BadTrace, match=r"is not a table of spans: it has no columns context\.trace_id"
    ):
        list(load(Source(path), Tally(), format=openinference))


@needs_duckdb
@pytest.mark.parametrize("keep", [4, 200, -9])
def test_a_broken_file_gives_a_sentence(keep: int, tmp_path: Path) -> None:
    path = written(tmp_path / "x.parquet", AGENT)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(BadTrace, match="cannot be read as parquet"):
        list(load(Source(path), Tally(), format=openinference))


@needs_duckdb
def test_reading_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = written(tmp_path / "x.parquet", AGENT)
    read(path)
    assert [each.name for each in tmp_path.iterdir()] == ["x.parquet"]


def test_without_duckdb_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    path = tmp_path / "x.parquet"
    path.write_bytes(tables.MAGIC + b"context.trace_id")
    with pytest.raises(BadTrace, match="duckdb is not installed") as caught:
        read(path)
    assert caught.value.hint == "Try: pip install 'arc-tui[parquet]'"


def test_a_small_table_of_something_else_is_left_to_others() -> None:
    assert not openinference.sniff(Head(name="x", data=tables.MAGIC + b"price"))


@needs_shared
@needs_duckdb
def test_a_table_of_the_spans_of_a_listing_gives_the_same_traces() -> None:
    table, _ = read(SAMPLES / "phoenix_get_spans_dataframe.parquet")
    listing = load(Source(SAMPLES / "phoenix_rest_spans.json"), Tally())
    by_id = {batch.header.source_id: batch for batch in listing}
    assert {batch.header.source_id for batch in table} == by_id.keys()
    for batch in table:
        other = by_id[batch.header.source_id]
        assert [span.id for span in batch.spans] == [span.id for span in other.spans]
        for ours, theirs in zip(models(batch), models(other), strict=True):
            assert seen(ours) == seen(theirs)
            assert ours.usage == theirs.usage
            assert ours.request.tools == theirs.request.tools
            assert ours.response.message == theirs.response.message
            assert ours.fidelity == theirs.fidelity
        assert msgspec.json.encode(tools(batch)) == msgspec.json.encode(tools(other))


@needs_shared
@needs_duckdb
def test_a_table_with_a_column_a_message_is_read_whole() -> None:
    (batch,), tally = read(SAMPLES / "phoenix_spans_dataframe_like.parquet")
    assert (len(models(batch)), len(tools(batch))) == (9, 8)
    assert tally.counts["prompt_tokens"] == 310222
    assert batch.header.agent == "pxi.turn"
