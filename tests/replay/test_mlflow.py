"""MLflow's traces as JSON: attributes that are texts of JSON, ids in base64, assessments."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.errors import BadTrace
from replay.formats import load, mlflow
from replay.formats.source import Source, Tally
from replay.trace import Batch, Level, Usage
from tests.replay.foreign_case import SOME, mutated
from tests.replay.kinds import agents, models, seen, tools
from tests.replay.service_case import ASKS, SYSTEM, TOOL, USER, Value, read, survives, survives_cut
from tests.replay.service_case import written as put
from tests.shared import DATA, needs_shared

SECOND = 1_795_226_725_000_000_000


def coded(name: str) -> str:
    return base64.b64encode(name.encode().rjust(8, b"\1")).decode()


def hexed(name: str) -> str:
    return name.encode().rjust(8, b"\1").hex()


def span(name: str, start: int, parent: str | None, kind: str, **attributes: Any) -> Value:
    given = {"mlflow.spanType": kind, **{f"mlflow.{n}": v for n, v in attributes.items()}}
    return {
        "trace_id": "0MirZHp9NcSSs5qOUs4cmQ==", "span_id": coded(name), "name": name,
        "parent_span_id": coded(parent) if parent else None, "events": [], "links": [],
        "start_time_unix_nano": SECOND + start * 10**9,
        "end_time_unix_nano": SECOND + (start + 1) * 10**9,
        "status": {"code": "STATUS_CODE_OK", "message": ""},
        "attributes": {key: json.dumps(value) for key, value in given.items()},
    }  # fmt: skip


ASK = span("ask", 1, "agent", "CHAT_MODEL",
           spanInputs={"model": "gpt-4o", "messages": [SYSTEM, USER]},
           spanOutputs={"choices": [{"message": ASKS, "finish_reason": "tool_calls"}]},
           **{"chat.tools": [TOOL],
              "chat.tokenUsage": {"input_tokens": 100, "output_tokens": 20}})  # fmt: skip
RUN = span("get_order", 2, "agent", "TOOL", spanInputs={"id": 7}, spanOutputs="shipped")
ROOT = span("agent", 0, None, "AGENT", spanInputs={"q": "Where is W123?"}, spanOutputs="shipped")
GOOD = {"assessment_name": "good", "source": {"source_type": "HUMAN", "source_id": "me"},
        "feedback": {"value": True}, "rationale": "fine", "span_id": hexed("ask")}  # fmt: skip
GOLD = {"assessment_name": "answer", "source": {"source_type": "HUMAN"},
        "expectation": {"value": "shipped"}}  # fmt: skip
TRACE: Value = {
    "info": {
        "trace_id": "tr-1", "request_time": "2026-11-21T02:05:25Z", "state": "OK",
        "trace_metadata": {"mlflow.trace.session": "s-1",
                           "mlflow.trace.cost": '{"total_cost": 0.5}'},
        "tags": {"mlflow.traceName": "agent", "team": "shop"}, "assessments": [GOOD, GOLD],
    },
    "data": {"spans": [ROOT, ASK, RUN]},
}  # fmt: skip


def one(path: Path, *values: Any) -> Batch:
    (batch,), tally = read(put(path, *values), mlflow)
    assert tally.problems == []
    return batch


def test_a_trace_is_read_through_both_layers_of_json(tmp_path: Path) -> None:
    batch = one(tmp_path / "x.json", TRACE)
    (ask,) = models(batch)
    assert (ask.id, ask.parent) == (hexed("ask"), hexed("agent"))
    assert seen(ask) == [("user", "Where is W123?")]
    assert (ask.fidelity.level, ask.response.stop) == (Level.EXACT, "tool")
    assert ask.usage == Usage(input_tokens=100, output_tokens=20)
    (run,) = tools(batch)
    assert (run.call_id, run.asked_by, run.arguments) == ("call_1", ask.id, {"id": 7})
    assert [agent.name for agent in agents(batch)] == ["agent"]


def test_feedback_scores_and_expectations_are_kept_as_gold(tmp_path: Path) -> None:
    batch = one(tmp_path / "x.json", TRACE)
    (score,) = batch.scores
    assert (score.name, score.by, score.span) == ("good", "HUMAN", hexed("ask"))
    assert (score.value, score.label, score.explanation) == (1.0, "true", "fine")
    assert batch.header.reference == {"expectations": {"answer": "shipped"}}


def test_the_header_says_what_the_trace_says(tmp_path: Path) -> None:
    header = one(tmp_path / "x.json", TRACE).header
    assert (header.source_id, header.title) == ("tr-1", "Where is W123?")
    assert (header.labels, header.reported_cost_usd) == ({"team": "shop", "session": "s-1"}, 0.5)


def test_traces_stand_one_a_line_each_once(tmp_path: Path) -> None:
    other = {**TRACE, "info": {**TRACE["info"], "trace_id": "tr-2"}}
    found, tally = read(put(tmp_path / "x.jsonl", TRACE, other, TRACE), mlflow)
    assert [batch.header.source_id for batch in found] == ["tr-1", "tr-2"]
    assert ["twice" in problem.why for problem in tally.problems] == [True]


def test_a_document_without_spans_is_refused(tmp_path: Path) -> None:
    path = put(tmp_path / "x.json", {"info": {"trace_id": "tr-1"}, "data": {}})
    with pytest.raises(BadTrace, match="no trace"):
        list(load(Source(path), Tally(), format=mlflow))


@given(value=mutated(TRACE))
@SOME
def test_anything_anywhere_gives_traces_or_a_sentence(value: Any, tmp_path: Path) -> None:
    survives(tmp_path / "x.json", mlflow, value)


@given(size=st.integers(0, len(json.dumps(TRACE))))
@SOME
def test_a_file_cut_anywhere_gives_traces_or_a_sentence(size: int, tmp_path: Path) -> None:
    survives_cut(tmp_path / "x.json", mlflow, size, TRACE)


@needs_shared
def test_a_real_trace_is_read() -> None:
    (batch,), tally = read(DATA / "formats" / "mlflow" / "trace.json", mlflow)
    assert (tally.counts["spans"], batch.header.title) == (3, "Where is W123?")
    assert len(tools(batch)) == 1
