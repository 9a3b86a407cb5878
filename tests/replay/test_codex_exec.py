"""What `codex exec --json` prints: answers, calls, turns, and a run that has a rollout too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.errors import BadTrace
from replay.formats import codex, load, sniff
from replay.formats.codex.exec import NO_BORDERS, NO_PROMPT
from replay.formats.source import Source, Tally
from replay.messages import observed, thinking
from replay.trace import NO_SYSTEM, NO_TOOLS, Batch, Level
from tests.replay.foreign_case import SOME, lines, mutated, stored
from tests.replay.kinds import agents, models, seen, tools
from tests.shared import DATA, needs_shared

Value = dict[str, Any]
ID = "0199a213-81c0-7800-8aa1-bbab2a035a53"


def event(kind: str, number: int, type_: str, **more: Any) -> Value:
    return {"type": f"item.{kind}", "item": {"id": f"item_{number}", "type": type_, **more}}


def command(kind: str, number: int, words: str, **more: Any) -> Value:
    state = {"exit_code": None, "aggregated_output": "", "status": "in_progress", **more}
    return event(kind, number, "command_execution", command=words, **state)


def ran(number: int, words: str, output: str, code: int = 0) -> list[Value]:
    status = "failed" if code else "completed"
    done = {"exit_code": code, "aggregated_output": output, "status": status}
    return [command("started", number, words), command("completed", number, words, **done)]


STARTED = {"type": "thread.started", "thread_id": ID}
TURN = {"type": "turn.started"}
USAGE = {"input_tokens": 600, "cached_input_tokens": 128, "output_tokens": 63}
DONE = {"type": "turn.completed", "usage": USAGE}
THOUGHT = event("completed", 1, "reasoning", text="I look.")
SAID = event("completed", 9, "agent_message", text="Done.")
WHOLE = [STARTED, TURN, THOUGHT, *ran(2, "ls", "a.py\n"), *ran(3, "cat b", "no b", 1), SAID, DONE]


def read(tmp_path: Path, *records: Value) -> tuple[Batch, Tally]:
    path = tmp_path / "exec.jsonl"
    path.write_bytes(lines([*records]))
    source, tally = Source(path), Tally()
    assert sniff(source) is codex
    (batch,) = load(source, tally)
    return batch, tally


def test_answers_calls_and_what_came_back_are_told(tmp_path: Path) -> None:
    batch, tally = read(tmp_path, *WHOLE)
    first, second, last = models(batch)
    assert first.response.message is not None
    assert thinking(first.response.message) == "I look."
    fine, failed = tools(batch)
    assert (fine.name, fine.arguments) == ("command_execution", {"command": "ls"})
    assert fine.observation is not None
    assert observed(fine.observation).text == "a.py\n"
    assert (fine.status, failed.status, failed.error) == ("ok", "error", "exit code 1")
    assert (fine.asked_by, failed.asked_by) == (first.id, second.id)
    assert [text for _, text in seen(last)] == ["", "a.py\n", "", "no b"]
    assert (tally.counts["command_execution"], tally.counts["agent_message"]) == (2, 1)
    assert tally.unknown == {}


def test_what_is_not_printed_is_unknown_and_named(tmp_path: Path) -> None:
    batch, tally = read(tmp_path, *WHOLE)
    (root,) = agents(batch)
    assert (root.status, root.extra["turn_usage"]) == ("ok", [USAGE])
    for ask in models(batch):
        assert (ask.usage, ask.cost, ask.response.stop, ask.response.model) == (None,) * 4
        assert (ask.start_ns, ask.end_ns, ask.time_quality) == (None, None, "none")
        assert ask.fidelity.level is Level.NONE
        assert ask.fidelity.reasons == (NO_PROMPT, NO_SYSTEM, NO_TOOLS, NO_BORDERS)
    (problem,) = tally.problems
    assert problem.why.startswith("600 input and 63 output tokens are of the whole turn")


def test_calls_that_ran_at_once_are_of_one_answer(tmp_path: Path) -> None:
    (one, one_done), (two, two_done) = ran(2, "ls", "a"), ran(3, "pwd", "/w")
    batch, _ = read(tmp_path, STARTED, TURN, one, two, two_done, one_done, SAID, DONE)
    assert len(models(batch)) == 2
    assert [call.asked_by for call in tools(batch)] == [models(batch)[0].id] * 2


def test_the_other_kinds_of_items_are_calls_too(tmp_path: Path) -> None:
    result = {"content": [{"type": "text", "text": "sunny"}], "structured_content": None}
    mcp = {"server": "weather", "tool": "get", "arguments": {"city": "Rome"}}
    refused = {**mcp, "result": None, "error": {"message": "no such city"}, "status": "failed"}
    plan = [{"text": "look", "completed": False}]
    batch, tally = read(
        tmp_path,
        STARTED, TURN,
        event("started", 1, "todo_list", items=plan),
        event("started", 2, "mcp_tool_call", **mcp, result=None, error=None, status="in_progress"),
        event("completed", 2, "mcp_tool_call", **{**mcp, "result": result, "status": "completed"}),
        event("completed", 3, "mcp_tool_call", **refused),
        event("completed", 4, "file_change", changes=[{"path": "a"}], status="failed"),
        event("completed", 5, "web_search", query="rome"),
        event("updated", 1, "todo_list", items=[{"text": "look", "completed": True}]),
        event("completed", 1, "todo_list", items=[{"text": "look", "completed": True}]),
        event("completed", 6, "error", message="Falling back."),
        SAID, DONE,
    )  # fmt: skip
    told = [(call.name, call.status, call.error) for call in tools(batch)]
    assert sorted(told, key=str) == [
        ("file_change", "error", "failed"),
        ("mcp__weather__get", "error", "no such city"),
        ("mcp__weather__get", "ok", None),
        ("todo_list", "ok", None),
        ("todo_list", "ok", None),
        ("web_search", "ok", None),
    ]
    assert agents(batch)[0].extra["notices"][0]["text"] == "Falling back."
    assert tally.unknown == {}
    assert len(tally.problems) == 1


def test_a_turn_that_failed_and_a_call_that_was_cut_off_are_said(tmp_path: Path) -> None:
    failed = {"type": "turn.failed", "error": {"message": "quota"}}
    batch, tally = read(tmp_path, STARTED, TURN, command("started", 1, "sleep 9"), failed)
    (root,) = agents(batch)
    assert (root.status, root.error) == ("error", "quota")
    (call,) = tools(batch)
    assert (call.status, call.observation) == ("unset", None)
    assert [each.why for each in tally.problems] == ["command_execution did not come back"]


def test_a_thread_that_is_resumed_in_one_file_goes_on(tmp_path: Path) -> None:
    batch, _ = read(tmp_path, *WHOLE, *WHOLE)
    assert (len(models(batch)), len(tools(batch))) == (6, 4)
    assert len({span.id for span in batch.spans}) == len(batch.spans)
    assert (batch.header.run, batch.header.format) == (ID, "codex")


def test_output_without_an_item_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "exec.jsonl"
    path.write_bytes(lines([STARTED, TURN]))
    with pytest.raises(BadTrace, match="no item of a Codex run"):
        list(load(Source(path), Tally()))


@pytest.mark.slow
@given(value=mutated(WHOLE))
@SOME
def test_output_with_anything_anywhere_is_kept_or_refused_with_a_sentence(
    value: Any, tmp_path: Path
) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(lines(value))
    assert all(trace.header.format == "codex" for trace in stored(path, codex))


@given(size=st.integers(0, len(lines(WHOLE))))
@SOME
def test_output_cut_anywhere_gives_what_is_there(size: int, tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(lines(WHOLE)[:size])
    assert all(trace.header.source_id.startswith(ID) for trace in stored(path, codex))


@needs_shared
def test_the_real_output_has_the_calls_the_error_and_the_last_words(tmp_path: Path) -> None:
    source, tally = Source(DATA / "clients" / "codex" / "exec.jsonl"), Tally()
    (batch,) = load(source, tally)
    assert [call.error for call in tools(batch)] == [None, None, "exit code 1"]
    last = models(batch)[-1].response.message
    assert last is not None
    assert last.body["content"] == "Order 1039 was refunded, all done."
    assert tally.counts["command_execution"] == 3
