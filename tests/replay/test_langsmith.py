"""LangSmith's runs: LangChain's objects, orders with dots, feedback, decimal costs.

The service's files were not at hand: these are written after its client's schema of a run.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.errors import BadTrace
from replay.formats import langsmith, load
from replay.formats.source import Source, Tally
from replay.messages import observed, text
from replay.trace import Batch, Cost, Level, Retrieval, Usage
from tests.replay.foreign_case import SOME, mutated
from tests.replay.kinds import models, seen, tools
from tests.replay.service_case import TOOL, USER, Value, read, survives, survives_cut, written
from tests.shared import DATA, needs_shared


def clock(second: int) -> str:
    return f"2026-11-20T10:00:{second:02}.000000"


def run(name: str, kind: str, start: int, parent: str | None = "root", **more: Any) -> Value:
    order = f"20261120T1000{start:02}000000Z{name}"
    return {
        "id": name, "trace_id": "root", "parent_run_id": parent, "name": name, "run_type": kind,
        "start_time": clock(start), "end_time": clock(start + 1), "error": None,
        "status": "success", "extra": {}, "inputs": {}, "outputs": None,
        "dotted_order": f"20261120T100000000000Zroot.{order}" if parent else order, **more,
    }  # fmt: skip


def message(kind: str, **kwargs: Any) -> Value:
    path = ["langchain", "schema", "messages", kind]
    return {"lc": 1, "type": "constructor", "id": path, "kwargs": kwargs}


GIVEN = [message("SystemMessage", content="Be brief."),
         message("HumanMessage", content="Where is W123?")]  # fmt: skip
MADE = message(
    "AIMessage",
    content=[{"type": "tool_use", "id": "t1", "name": "get_order", "input": {"id": 7}}],
    tool_calls=[{"name": "get_order", "args": {"id": 7}, "id": "t1", "type": "tool_call"}],
    response_metadata={"model_name": "claude-sonnet-4-5-2025"},
)  # fmt: skip
PARAMS = {"model": "claude-sonnet-4-5", "max_tokens": 1024, "tools": [TOOL], "_type": "x"}
ASK = run(
    "ask", "llm", 1, inputs={"messages": [GIVEN]},
    outputs={"generations": [[{"text": "", "message": MADE,
                               "generation_info": {"stop_reason": "tool_use"}}]]},
    extra={"invocation_params": PARAMS, "metadata": {"ls_provider": "anthropic"}},
    prompt_tokens=1500, completion_tokens=50, total_cost="0.0027",
    prompt_token_details={"cache_read": 1000, "cache_creation": 200},
    feedback_stats={"kind": {"n": 2, "avg": 0.5}},
)  # fmt: skip
CALLED = run(
    "get_order", "tool", 2, inputs={"input": "{'id': 7}"},
    outputs={"output": message("ToolMessage", content="shipped", tool_call_id="t1")},
)  # fmt: skip
FOUND = run("search", "retriever", 3, inputs={"query": "W123"},
            outputs={"documents": [{"page_content": "x"}]})  # fmt: skip
ROOT = run(
    "root", "chain", 0, None, inputs={"messages": [USER]}, outputs={"output": "It shipped"},
    end_time=clock(9), extra={"metadata": {"thread_id": "conv-1"}}, total_cost="0.0061",
    reference_example_id="ex-1", session_name="shop", tags=["a"], prompt_tokens=9000,
)  # fmt: skip
SAID = {"id": "f-1", "run_id": "root", "key": "correct", "score": 1, "value": "yes",
        "comment": "right", "feedback_source": {"type": "api"}}  # fmt: skip
LINES = [ROOT, ASK, CALLED, FOUND, SAID]


def one(path: Path, *values: Any) -> Batch:
    (batch,), tally = read(written(path, *values), langsmith)
    assert tally.problems == []
    return batch


def test_langchain_s_objects_are_a_request_and_an_answer(tmp_path: Path) -> None:
    (ask,) = models(one(tmp_path / "x.jsonl", *LINES))
    assert ask.request.system is not None
    assert text(ask.request.system) == "Be brief."
    assert seen(ask) == [("user", "Where is W123?")]
    assert (ask.request.model, ask.request.params) == ("claude-sonnet-4-5", {"max_tokens": 1024})
    assert (ask.response.model, ask.response.stop) == ("claude-sonnet-4-5-2025", "tool")
    assert ask.fidelity.level is Level.EXACT


def test_figures_are_those_of_the_model_s_run_and_money_is_decimal(tmp_path: Path) -> None:
    batch = one(tmp_path / "x.jsonl", *LINES)
    (ask,) = models(batch)
    assert ask.usage == Usage(
        input_tokens=1500, output_tokens=50, cache_read_tokens=1000, cache_write_tokens=200
    )
    assert ask.cost == Cost(usd=0.0027, source="recorded")
    assert batch.header.reported_cost_usd == 0.0061


def test_an_older_run_s_counts_are_those_of_its_message(tmp_path: Path) -> None:
    usage = {"input_tokens": 9, "output_tokens": 2, "input_token_details": {"cache_read": 4}}
    old = run("ask", "llm", 1, None, inputs={"messages": [GIVEN]}, outputs={
        "generations": [[{"text": "Hi", "message": message("AIMessage", content="Hi",
                                                           usage_metadata=usage)}]]
    })  # fmt: skip
    (ask,) = models(one(tmp_path / "x.json", [old]))
    assert ask.usage == Usage(input_tokens=9, output_tokens=2, cache_read_tokens=4)


def test_a_tool_s_arguments_and_message_are_unwrapped(tmp_path: Path) -> None:
    (called,) = tools(one(tmp_path / "x.jsonl", *LINES))
    assert (called.call_id, called.asked_by, called.arguments) == ("t1", "ask", {"id": 7})
    assert called.observation is not None
    assert observed(called.observation).text == "shipped"


def test_a_look_up_is_one(tmp_path: Path) -> None:
    batch = one(tmp_path / "x.jsonl", *LINES)
    (found,) = [span for span in batch.spans if isinstance(span, Retrieval)]
    assert (found.query, found.documents) == ("W123", [{"page_content": "x"}])


def test_times_without_a_zone_are_utc(tmp_path: Path) -> None:
    root = one(tmp_path / "x.jsonl", *LINES).spans[0]
    assert root.start_ns == 1_795_168_800_000_000_000


def test_the_root_makes_the_header_and_feedback_the_scores(tmp_path: Path) -> None:
    batch = one(tmp_path / "x.jsonl", *LINES)
    header = batch.header
    assert (header.source_id, header.title, header.task) == ("root", "Where is W123?", "ex-1")
    assert header.labels == {"session": "conv-1", "project": "shop", "tags": "a"}
    whole, mean = batch.scores
    assert (whole.name, whole.by, whole.span, whole.value) == ("correct", "api", None, 1.0)
    assert (whole.label, whole.explanation) == ("yes", "right")
    assert (mean.name, mean.span, mean.value, mean.explanation) == ("kind", "ask", 0.5, "mean of 2")


def test_runs_within_runs_and_runs_that_name_their_place_alone_are_the_same(
    tmp_path: Path,
) -> None:
    bare = [{n: v for n, v in each.items() if n not in ("parent_run_id", "trace_id")}
            for each in (ROOT, ASK, CALLED)]  # fmt: skip
    inner = [{n: v for n, v in each.items() if n != "dotted_order"} for each in bare]
    tree = {**inner[0], "child_runs": inner[1:]}
    for values in ((tree,), tuple(bare)):
        batch = one(tmp_path / "x.json", *values)
        assert [(span.id, span.parent) for span in batch.spans] == [
            ("root", None), ("ask", "root"), ("get_order", "root"),
        ]  # fmt: skip


def test_a_file_without_a_run_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "x.json", [{"run_type": "llm"}])
    with pytest.raises(BadTrace, match="no run"):
        list(load(Source(path), Tally(), format=langsmith))


@pytest.mark.parametrize("runs", [80, 300])
def test_runs_nested_without_end_are_left_out_with_a_sentence(runs: int, tmp_path: Path) -> None:
    tree: Value = {"id": "x", "run_type": "chain"}
    for number in range(runs):
        tree = {"id": str(number), "run_type": "chain", "child_runs": [tree]}
    path = written(tmp_path / "x.jsonl", tree, {"id": "other", "run_type": "chain"})
    tally = Tally()
    found = list(load(Source(path), tally, format=langsmith))
    assert len(found) == (2 if runs == 80 else 1)
    assert any("too deeply" in problem.why for problem in tally.problems) == (runs == 300)


@given(value=mutated(LINES))
@SOME
def test_anything_anywhere_gives_traces_or_a_sentence(value: Any, tmp_path: Path) -> None:
    survives(tmp_path / "x.jsonl", langsmith, *value)


@given(size=st.integers(0, sum(len(json.dumps(each)) + 1 for each in LINES)))
@SOME
def test_a_file_cut_anywhere_gives_traces_or_a_sentence(size: int, tmp_path: Path) -> None:
    survives_cut(tmp_path / "x.jsonl", langsmith, size, *LINES)


@needs_shared
def test_the_shared_sample_is_read() -> None:
    (batch,), tally = read(DATA / "formats" / "langsmith" / "runs.jsonl", langsmith)
    assert tally.counts["spans"] == 3
    assert [tool.status for tool in tools(batch)] == ["error"]
