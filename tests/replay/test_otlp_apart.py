"""Spans and log records in files of their own: which belong together, and what comes of them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from replay import formats
from replay.formats.otlp import exports
from replay.formats.source import Source, Tally
from replay.trace import Batch, Level
from tests.replay.kinds import models, seen
from tests.replay.otlp_case import AGENT, ASKS, USER, Value, chat, logs, record, span, spans

DETAILS = "gen_ai.client.inference.operation.details"
BARE = span("ask", 1, "agent", {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"})
TOLD = logs(record(DETAILS, chat([USER], ASKS), "ask"))


def put(path: Path, *requests: Value) -> Path:
    data = "".join(json.dumps(each) + "\n" for each in requests).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def read(path: Path) -> tuple[list[Batch], Tally]:
    tally = Tally()
    return list(formats.load(Source(path), tally)), tally


@pytest.mark.parametrize(
    ("of_spans", "of_logs"),
    [
        ("traces.jsonl", "logs.jsonl"),
        ("trace.json", "events.json"),
        ("shop-spans-0.jsonl.gz", "shop-logs-0.jsonl.gz"),
        ("otel_traces", "otel_logs"),
    ],
)
def test_records_of_the_file_beside_it_are_given_to_the_spans_they_were_written_in(
    of_spans: str, of_logs: str, tmp_path: Path
) -> None:
    main = put(tmp_path / of_spans, spans(AGENT, BARE))
    part = put(tmp_path / of_logs, TOLD)
    assert (formats.part_of(part), formats.part_of(main)) == (main, None)
    (batch,), tally = read(main)
    (ask,) = models(batch)
    assert seen(ask) == [("user", "Where is order 7?")]
    assert ask.fidelity.level is Level.EXACT
    assert (tally.counts["log_records"], tally.problems) == (1, [])


def test_what_the_records_alone_tell_of_is_read_as_well(tmp_path: Path) -> None:
    main = put(tmp_path / "traces.jsonl", spans(AGENT, BARE))
    other = record(DETAILS, chat([USER], ASKS), "ask", traceId="ab" * 16)
    put(tmp_path / "logs.jsonl", TOLD, logs(other))
    batches, _ = read(main)
    assert [len(models(batch)) for batch in batches] == [1, 1]


@pytest.mark.parametrize(
    ("name", "requests"),
    [
        ("changelogs.jsonl", [TOLD]),  # another word
        ("logs-1.jsonl", [TOLD]),  # another file's
        ("logs.jsonl", [spans(AGENT)]),  # spans under that name
        ("logs.jsonl", [{"message": "no OTLP at all"}]),
    ],
)
def test_other_files_stand_alone(name: str, requests: list[Value], tmp_path: Path) -> None:
    main = put(tmp_path / "traces.jsonl", spans(AGENT, BARE))
    assert exports.spans_of(put(tmp_path / name, *requests)) is None
    assert exports.logs_of(main) == []


def test_records_that_cannot_be_read_cost_nothing_but_themselves(tmp_path: Path) -> None:
    main = put(tmp_path / "traces.jsonl", spans(AGENT, BARE))
    part = put(tmp_path / "logs.jsonl", TOLD)
    part.write_bytes(part.read_bytes() + b'{"resourceLogs": [{{{\n')
    (batch,), tally = read(main)
    assert len(models(batch)) == 1
    assert seen(models(batch)[0]) == [("user", "Where is order 7?")]
    assert [each.where for each in tally.problems] == ["logs.jsonl: line 2"]


def call_of(trace: str, name: str, answer: Value, parent: str | None = None, **more: int) -> Value:
    """A model call in a trace of its own, or below a span of it."""
    tokens = {"gen_ai.usage.input_tokens": 100, "gen_ai.usage.output_tokens": 20}
    given = (
        chat([USER], answer, **tokens) if answer else {"gen_ai.operation.name": "chat", **tokens}
    )
    made = span(name, more.get("at", 1), parent, given, traceId=trace * 16)
    if "shorter" in more:
        made["endTimeUnixNano"] = str(int(made["endTimeUnixNano"]) - more["shorter"])
    return made


def run_of(trace: str) -> list[Value]:
    root = span(f"root{trace}", 0, None, {"gen_ai.operation.name": "invoke_agent"})
    return [{**root, "traceId": trace * 16}, call_of(trace, f"in{trace}", ASKS, f"root{trace}")]


def test_a_client_s_span_in_a_trace_of_its_own_is_the_call_it_lies_in(tmp_path: Path) -> None:
    lone = call_of("cd", "lone", ASKS, shorter=10)
    batches, tally = read(put(tmp_path / "x.jsonl", spans(lone), spans(*run_of("ab"))))
    assert [batch.header.source_id for batch in batches] == ["ab" * 16]
    assert tally.counts["traces_of_calls_told_elsewhere"] == 1


def test_so_is_one_of_which_the_tokens_alone_are_known(tmp_path: Path) -> None:
    lone = call_of("cd", "lone", {}, shorter=10)
    batches, _ = read(put(tmp_path / "x.jsonl", spans(lone), spans(*run_of("ab"))))
    assert len(batches) == 1


SAYS: Value = {"role": "assistant", "parts": [{"type": "text", "content": "Shipped."}]}


@pytest.mark.parametrize(
    "requests",
    [
        [spans(call_of("cd", "lone", SAYS)), spans(*run_of("ab"))],  # another answer
        [spans(call_of("cd", "lone", ASKS, at=9)), spans(*run_of("ab"))],  # another time
        [spans(call_of("cd", "lone", ASKS)), spans(*run_of("ab")), spans(*run_of("ef"))],  # whose?
        [
            spans(call_of("cd", "lone", ASKS)),
            spans(call_of("ef", "other", ASKS)),
        ],  # two calls alone
    ],
)
def test_any_other_call_alone_is_a_run(requests: list[Value], tmp_path: Path) -> None:
    batches, _ = read(put(tmp_path / "x.jsonl", *requests))
    assert len(batches) == len(requests)


def named_together(*paths: Path) -> list[Batch]:
    found = formats.with_parts([Source(path) for path in paths])
    return [batch for source in found for batch in formats.load(source, Tally())]


def test_logs_of_any_name_are_read_with_the_spans_they_are_named_with(tmp_path: Path) -> None:
    one, two = put(tmp_path / "a.jsonl", spans(AGENT, BARE)), put(tmp_path / "b.jsonl", TOLD)
    for paths in ((one, two), (two, one)):
        (batch,) = named_together(*paths)
        assert seen(models(batch)[0]) == [("user", "Where is order 7?")]


def test_logs_of_several_files_of_spans_go_each_to_its_own(tmp_path: Path) -> None:
    other = {"traceId": "ab" * 16}
    first = put(tmp_path / "a.jsonl", spans(AGENT, BARE))
    second = put(tmp_path / "b.jsonl", spans({**AGENT, **other}, {**BARE, **other}))
    third = {**other, "traceId": "cd" * 16}
    told = [record(DETAILS, chat([USER], ASKS), "ask", **more) for more in ({}, other, third)]
    batches = named_together(first, second, put(tmp_path / "c.jsonl", logs(*told)))
    assert [batch.header.source_id for batch in batches][1:] == ["ab" * 16, "cd" * 16]
    assert [len(models(batch)) for batch in batches] == [1, 1, 1]


def test_logs_named_alone_or_with_other_formats_stand_alone(tmp_path: Path) -> None:
    told = put(tmp_path / "b.jsonl", TOLD)
    assert len(named_together(told)) == 1
    (source,) = formats.with_parts([Source(told)])
    assert source.parts is None
