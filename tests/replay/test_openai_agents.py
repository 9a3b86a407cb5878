"""The OpenAI Agents SDK's exported spans: agents, generations, functions, hand-overs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.errors import BadTrace
from replay.formats import load, openai_agents
from replay.formats.source import Source, Tally
from replay.messages import calls, text
from replay.trace import Batch, Level, OtherSpan, Usage
from tests.replay.foreign_case import SOME, mutated
from tests.replay.kinds import agents, models, seen, tools
from tests.replay.service_case import (
    ASKS,
    SYSTEM,
    TOOL,
    USER,
    Value,
    at,
    read,
    survives,
    survives_cut,
    written,
)
from tests.shared import DATA, needs_shared

TRACE = {"object": "trace", "id": "trace_1", "workflow_name": "Support", "group_id": "conv-1",
         "metadata": {"env": "test"}}  # fmt: skip


def span(called: str, start: int, parent: str | None, kind: str, **data: Any) -> Value:
    return {
        "object": "trace.span", "id": called, "trace_id": "trace_1", "parent_id": parent,
        "started_at": at(start), "ended_at": at(start + 1), "error": None,
        "span_data": {"type": kind, **data},
    }  # fmt: skip


ASK = span("g", 1, "a", "generation", input=[SYSTEM, USER], output=[ASKS], model="gpt-4o",
           model_config={"temperature": 0, "top_p": None},
           usage={"input_tokens": 100, "output_tokens": 20,
                  "input_tokens_details": {"cached_tokens": 60}})  # fmt: skip
RUN = span("f", 2, "a", "function", name="get_order", input='{"id": 7}', output="shipped")
RUN["error"] = {"message": "boom", "data": {"x": 1}}
ANSWER = {
    "id": "resp_1", "object": "response", "model": "gpt-4.1", "status": "completed",
    "instructions": "Bill them.", "tools": [{"type": "function", "name": "refund"}],
    "output": [{"type": "function_call", "call_id": "c2", "name": "refund", "arguments": "{}"}],
    "usage": {"input_tokens": 9, "output_tokens": 2},
}  # fmt: skip
FULL = span("r", 5, "b", "response", response_id="resp_1", input=[USER], response=ANSWER)
BARE = span("q", 7, "b", "response", response_id="resp_2", usage={"input_tokens": 9})
OVER = span("h", 3, "a", "handoff", from_agent="support", to_agent="billing")
TURN = span("t", 4, "b", "custom", name="turn", data={"sdk_span_type": "turn", "turn": 1})
AGENT = {**span("a", 0, None, "agent", name="support", tools=["get_order"]), "ended_at": at(8)}
OTHER = {**span("b", 4, None, "agent", name="billing"), "ended_at": at(9)}
LINES = [TRACE, ASK, RUN, OVER, AGENT, TURN, FULL, BARE, OTHER]


def one(path: Path, *values: Any) -> Batch:
    (batch,), tally = read(written(path, *values), openai_agents)
    assert tally.problems == []
    return batch


def test_spans_written_on_their_end_stand_below_their_agents(tmp_path: Path) -> None:
    batch = one(tmp_path / "x.jsonl", *LINES)
    assert [agent.name for agent in agents(batch)] == ["support", "billing"]
    ask, full, bare = models(batch)
    assert (ask.parent, full.parent, bare.parent) == ("a", "b", "b")
    assert ask.usage == Usage(input_tokens=100, output_tokens=20, cache_read_tokens=60)
    assert ask.request.params == {"temperature": 0}
    assert [call.name for call in calls(ask.response.message)] if ask.response.message else None
    others = {span.operation for span in batch.spans if isinstance(span, OtherSpan)}
    assert others == {"handoff", "turn"}


def test_a_function_runs_the_call_of_its_name_and_arguments(tmp_path: Path) -> None:
    run = tools(one(tmp_path / "x.jsonl", *LINES))[0]
    assert (run.call_id, run.asked_by, run.arguments) == ("call_1", "g", {"id": 7})
    assert (run.status, run.error) == ("error", "boom")


def test_a_response_that_was_kept_whole_is_read_and_a_bare_one_is_said_to_be(
    tmp_path: Path,
) -> None:
    _, full, bare = models(one(tmp_path / "x.jsonl", *LINES))
    assert full.request.system is not None
    assert text(full.request.system) == "Bill them."
    assert (full.fidelity.level, full.response.id) == (Level.EXACT, "resp_1")
    assert [tool.name for tool in full.request.tools or ()] == ["refund"]
    assert (bare.fidelity.level, bare.response.id, seen(bare)) == (Level.NONE, "resp_2", [])


def test_the_trace_names_the_run_and_its_conversation(tmp_path: Path) -> None:
    header = one(tmp_path / "x.jsonl", *LINES).header
    assert (header.source_id, header.title, header.agent) == (
        "trace_1",
        "Where is W123?",
        "support",
    )
    assert header.labels == {"env": "test", "session": "conv-1", "workflow": "Support"}


def test_bodies_as_they_are_sent_are_read_as_lines_are(tmp_path: Path) -> None:
    batch = one(tmp_path / "x.json", {"data": LINES})
    assert len(batch.spans) == len(one(tmp_path / "y.jsonl", *LINES).spans)


def test_a_line_of_neither_is_named_and_a_file_of_none_is_refused(tmp_path: Path) -> None:
    _, tally = read(written(tmp_path / "x.jsonl", *LINES, {"object": "x"}), openai_agents)
    assert [problem.where for problem in tally.problems] == ["line 10"]
    path = written(tmp_path / "y.jsonl", {"object": "trace.span"}, TOOL)
    with pytest.raises(BadTrace, match="neither a trace"):
        list(load(Source(path), Tally(), format=openai_agents))


@given(value=mutated(LINES))
@SOME
def test_anything_anywhere_gives_traces_or_a_sentence(value: Any, tmp_path: Path) -> None:
    survives(tmp_path / "x.jsonl", openai_agents, *value)


@given(size=st.integers(0, sum(len(json.dumps(each)) + 1 for each in LINES)))
@SOME
def test_a_file_cut_anywhere_gives_traces_or_a_sentence(size: int, tmp_path: Path) -> None:
    survives_cut(tmp_path / "x.jsonl", openai_agents, size, *LINES)


@needs_shared
def test_a_real_export_is_read() -> None:
    path = DATA / "formats" / "openai-agents" / "trace_export.jsonl"
    (batch,), tally = read(path, openai_agents)
    assert tally.counts["spans"] == 5
    assert [tool.call_id for tool in tools(batch)] == ["call_1"]
