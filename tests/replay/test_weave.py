"""Weave's calls: usage summed up the parents, references that are not in the file.

The service's files were not at hand: these are written after its schema of a call.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.errors import BadTrace
from replay.formats import load, weave
from replay.formats.source import Source, Tally
from replay.trace import Batch, Cost, Level, OtherSpan, Usage
from tests.replay.foreign_case import SOME, mutated
from tests.replay.kinds import agents, models, seen, tools
from tests.replay.service_case import USER, Value, at, read, survives, survives_cut, written
from tests.shared import DATA, needs_shared

MODEL = "claude-sonnet-4-5"


def call(name: str, op: str, start: int, parent: str | None = "a", **more: Any) -> Value:
    return {
        "id": name, "project_id": "team/proj", "op_name": f"weave:///team/proj/op/{op}:abc",
        "trace_id": "t", "parent_id": parent, "started_at": at(start), "ended_at": at(start + 1),
        "exception": None, "attributes": {}, "inputs": {}, "output": None, "summary": {}, **more,
    }  # fmt: skip


ANSWER = {
    "id": "msg_1", "type": "message", "role": "assistant", "stop_reason": "tool_use",
    "content": [{"type": "tool_use", "id": "t1", "name": "get_order", "input": {"id": 7}}],
    "usage": {"input_tokens": 300, "output_tokens": 50, "cache_creation_input_tokens": 200,
              "cache_read_input_tokens": 1000},
}  # fmt: skip
COSTS = {MODEL: {"prompt_tokens_total_cost": 0.0009, "completion_tokens_total_cost": 0.00075,
                 "prompt_token_cost": 3e-06}}  # fmt: skip
FEEDBACK = [{"feedback_type": "wandb.reaction.1", "creator": "mia", "payload": {"emoji": "👍"}}]
ASK = call(
    "b", "anthropic.Messages.create", 1, output=ANSWER,
    inputs={"self": "weave:///x", "model": MODEL, "max_tokens": 9, "system": "Be brief.",
            "messages": [USER]},
    summary={"usage": {MODEL: {"requests": 1, "input_tokens": 300, "output_tokens": 50}},
             "weave": {"status": "success", "costs": COSTS, "feedback": FEEDBACK}},
)  # fmt: skip
RUN = call("c", "get_order", 2, inputs={"id": 7}, exception="TimeoutError: db")
ROOT = call(
    "a", "agent_run", 0, None, inputs={"q": "Where is W123?"}, output="It shipped",
    ended_at=at(9), thread_id="conv-1", attributes={"weave": {"kind": "agent"}, "env": "x"},
    summary={"usage": {MODEL: {"input_tokens": 900, "output_tokens": 90}},
             "weave": {"status": "descendant_error"}},
)  # fmt: skip
LINES = [ROOT, ASK, RUN]


def one(path: Path, *values: Any) -> Batch:
    (batch,), tally = read(written(path, *values), weave)
    assert tally.problems == []
    return batch


def test_only_the_lowest_call_with_usage_called_a_model(tmp_path: Path) -> None:
    batch = one(tmp_path / "x.jsonl", *LINES)
    (ask,) = models(batch)
    assert (ask.name, ask.request.model) == ("anthropic.Messages.create", MODEL)
    assert ask.usage == Usage(
        input_tokens=1500, output_tokens=50, cache_read_tokens=1000, cache_write_tokens=200
    )
    assert ask.cost == Cost(usd=0.0009 + 0.00075, source="recorded")
    assert seen(ask) == [("user", "Where is W123?")]
    assert (ask.fidelity.level, ask.response.stop) == (Level.EXACT, "tool")


def test_a_function_of_the_name_of_a_called_tool_is_that_tool(tmp_path: Path) -> None:
    (run,) = tools(one(tmp_path / "x.jsonl", *LINES))
    assert (run.call_id, run.asked_by, run.arguments) == ("t1", "b", {"id": 7})
    assert (run.status, run.error) == ("error", "TimeoutError: db")


def test_a_call_does_not_fail_for_what_failed_below_it(tmp_path: Path) -> None:
    (root,) = agents(one(tmp_path / "x.jsonl", *LINES))
    assert (root.name, root.status) == ("agent_run", "ok")


def test_messages_behind_a_reference_are_not_known(tmp_path: Path) -> None:
    hidden = {**ASK, "inputs": {"model": MODEL, "messages": "weave:///team/proj/object/m:1"}}
    (ask,) = models(one(tmp_path / "x.jsonl", ROOT, hidden))
    assert (ask.fidelity.level, seen(ask)) == (Level.NONE, [])
    assert ask.extra["attributes"]["weave.unresolved"] == ["messages"]


def test_feedback_scores_the_call_and_labels_come_from_the_root(tmp_path: Path) -> None:
    batch = one(tmp_path / "x.jsonl", *LINES)
    (score,) = batch.scores
    assert (score.name, score.by, score.span, score.label) == ("reaction.1", "mia", "b", "👍")
    header = batch.header
    assert (header.title, header.agent) == ("Where is W123?", "agent_run")
    assert header.labels == {"session": "conv-1", "project": "team/proj"}


def test_deleted_calls_are_left_out_and_traces_told_apart(tmp_path: Path) -> None:
    gone = {**RUN, "id": "x", "deleted_at": at(3)}
    other = {**call("z", "main", 0, None), "trace_id": "u"}
    found, tally = read(written(tmp_path / "x.jsonl", *LINES, gone, other), weave)
    assert [batch.header.source_id for batch in found] == ["t", "u"]
    assert tally.counts["deleted_calls"] == 1
    assert isinstance(found[1].spans[0], OtherSpan)


def test_a_file_without_a_call_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "x.json", {"op_name": "weave:///x", "id": None})
    with pytest.raises(BadTrace, match="no call"):
        list(load(Source(path), Tally(), format=weave))


def test_parents_that_stand_in_a_circle_are_borne(tmp_path: Path) -> None:
    survives(
        tmp_path / "x.jsonl", weave, {**ROOT, "parent_id": "b"}, ASK, {**RUN, "parent_id": "c"}
    )


@pytest.mark.slow
@given(value=mutated(LINES))
@SOME
def test_anything_anywhere_gives_traces_or_a_sentence(value: Any, tmp_path: Path) -> None:
    survives(tmp_path / "x.jsonl", weave, *value)


@given(size=st.integers(0, sum(len(json.dumps(each)) + 1 for each in LINES)))
@SOME
def test_a_file_cut_anywhere_gives_traces_or_a_sentence(size: int, tmp_path: Path) -> None:
    survives_cut(tmp_path / "x.jsonl", weave, size, *LINES)


@needs_shared
def test_the_shared_sample_is_read() -> None:
    (batch,), tally = read(DATA / "formats" / "weave" / "calls.jsonl", weave)
    assert (tally.counts["spans"], len(models(batch)), len(tools(batch))) == (3, 1, 1)
