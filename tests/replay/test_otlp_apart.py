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
