"""Gemini CLI sessions and checkpoints: growing messages, going back, compression, sub-agents.

No real session was at hand: these are written after the recorder's own types and the order in
which it writes.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.convert import Converter
from replay.errors import BadTrace
from replay.formats import gemini_cli, load, part_of, sniff
from replay.formats.source import Source, Tally
from replay.messages import observed, thinking
from replay.trace import NO_SYSTEM, NO_TOOLS, Batch, Level
from tests.replay.foreign_case import SOME, lines, mutated, stored
from tests.replay.kinds import agents, models, seen, tools

Value = dict[str, Any]
ID = "6ae64e27-d9b1-4daf-a16b-3c7d0b14f8e5"
SUB = "codebase-investigator-1f2e"


def clock(second: int) -> str:
    return f"2026-03-01T09:00:{second:02}.000Z"


def about(**more: Any) -> Value:
    return {
        "sessionId": ID, "projectHash": "ab" * 32, "startTime": clock(0),
        "lastUpdated": clock(30), **more,
    }  # fmt: skip


def user(name: str, second: int, words: Any) -> Value:
    return {"id": name, "timestamp": clock(second), "type": "user", "content": words}


def gemini(name: str, second: int, words: Any, **more: Any) -> Value:
    tokens = {"input": 900, "output": 20, "cached": 300, "thoughts": 15, "tool": 5, "total": 940}
    return {
        "id": name, "timestamp": clock(second), "type": "gemini", "content": words,
        "model": "gemini-2.5-pro", "tokens": tokens, **more,
    }  # fmt: skip


def call(call_id: str, second: int, response: Value, **more: Any) -> Value:
    answer = {"id": call_id, "name": "read_file", "response": response}
    return {
        "id": call_id, "name": "read_file", "args": {"path": "a.py"}, "status": "success",
        "timestamp": clock(second), "result": [{"functionResponse": answer}], **more,
    }  # fmt: skip


THOUGHTS = [{"subject": "Plan", "description": "Read it.", "timestamp": clock(2)}]
READ = call("c1", 5, {"output": "print(1)"})
FAILED = call("c2", 6, {"error": "File not found"}, status="error")
TALK = [
    user("u1", 1, [{"text": "What does "}, {"text": "a.py do?"}]),
    gemini("g1", 4, "", thoughts=THOUGHTS, toolCalls=[READ, FAILED]),
    gemini("g2", 8, "It prints 1."),
]


def written(tmp_path: Path, value: Any, name: str = "session-2026-6ae64e27.json") -> Path:
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(value if isinstance(value, bytes) else json.dumps(value, indent=2).encode())
    return path


def read(path: Path) -> tuple[Batch, Tally]:
    source, tally = Source(path), Tally()
    assert sniff(source) is gemini_cli
    (batch,) = load(source, tally)
    return batch, tally


def document(tmp_path: Path, *messages: Value, **more: Any) -> tuple[Batch, Tally]:
    return read(written(tmp_path, about(messages=[*messages], **more)))


def log(tmp_path: Path, *records: Value) -> tuple[Batch, Tally]:
    return read(written(tmp_path, lines([about(), *records]), "session-2026-6ae64e27.jsonl"))


def words(batch: Batch, index: int) -> list[str]:
    return [text for _, text in seen(models(batch)[index])]


def test_an_answer_its_calls_and_what_came_back_are_told(tmp_path: Path) -> None:
    batch, tally = document(tmp_path, *TALK)
    first, last = models(batch)
    assert first.response.message is not None
    assert thinking(first.response.message) == "Plan\nRead it."
    fine, failed = tools(batch)
    assert fine.observation is not None
    assert (fine.arguments, observed(fine.observation).text) == ({"path": "a.py"}, "print(1)")
    assert (fine.status, failed.status, failed.error) == ("ok", "error", "File not found")
    assert fine.duration_ns == 1_000_000_000
    assert seen(last) == [
        ("user", "What does a.py do?"), ("assistant", ""), ("tool", "print(1)"),
        ("tool", '{"error":"File not found"}'),
    ]  # fmt: skip
    assert last.fidelity.level is Level.PARTIAL
    assert last.fidelity.reasons == (NO_SYSTEM, NO_TOOLS)
    assert batch.header.title == "What does a.py do?"
    assert batch.header.source_id == ID
    assert (tally.counts["messages"], tally.counts["tool_calls"]) == (3, 2)
    assert tally.problems == []


def test_thoughts_stand_beside_the_output_and_the_cache_in_the_input(tmp_path: Path) -> None:
    used = models(document(tmp_path, *TALK)[0])[0].usage
    assert used is not None
    assert (used.input_tokens, used.cache_read_tokens) == (905, 300)
    assert (used.output_tokens, used.reasoning_tokens) == (35, 15)


def test_the_summary_is_the_title(tmp_path: Path) -> None:
    assert document(tmp_path, *TALK, summary="Explain a.py")[0].header.title == "Explain a.py"


def test_a_message_that_grew_is_one_message(tmp_path: Path) -> None:
    batch, tally = log(
        tmp_path,
        TALK[0],
        gemini("g1", 4, "", thoughts=THOUGHTS),
        gemini("g1", 4, "", thoughts=THOUGHTS, toolCalls=[READ]),
        {"$set": {"lastUpdated": clock(9), "summary": "Explain"}},
        TALK[1],
        TALK[2],
    )
    whole, _ = document(tmp_path, *TALK)
    assert [seen(ask) for ask in models(batch)] == [seen(ask) for ask in models(whole)]
    assert tally.counts["tool_calls"] == 2
    assert batch.header.title == "Explain"
    assert [ask.place.line for ask in models(batch)] == [3, 7]


def test_going_back_leaves_a_branch_that_the_thread_does_not_see(tmp_path: Path) -> None:
    batch, _ = log(
        tmp_path,
        *TALK,
        user("u2", 10, "Delete it"),
        gemini("g3", 11, "Gone."),
        {"$rewindTo": "u2"},
        user("u3", 12, "Keep it"),
        gemini("g4", 13, "Kept."),
    )
    root, branch = agents(batch)
    assert [ask.parent for ask in models(batch)] == [ID, ID, ID, branch.id]
    kept, gone = models(batch)[2:]
    assert seen(kept)[-2:] == [("assistant", "It prints 1."), ("user", "Keep it")]
    assert seen(gone)[-2:] == [("assistant", "It prints 1."), ("user", "Delete it")]
    assert [each["kind"] for each in root.extra["signals"]] == ["rewind"]


def test_a_session_that_ends_with_going_back_keeps_what_was_said(tmp_path: Path) -> None:
    batch, _ = log(tmp_path, *TALK, {"$rewindTo": "u1"})
    assert {ask.parent for ask in models(batch)} == {agents(batch)[1].id}


def test_a_compressed_history_takes_the_place_of_what_was_said(tmp_path: Path) -> None:
    short = [user("s1", 9, "<state_snapshot>a.py prints 1"), gemini("s2", 9, "Got it.")]
    batch, _ = log(
        tmp_path,
        *TALK,
        {"$set": {"messages": short}},
        user("u2", 10, "And b.py?"),
        {"$set": {"messages": [*short, user("u2", 10, "And b.py?")]}},
        gemini("g3", 11, "It prints 2."),
    )
    assert words(batch, 2) == ["<state_snapshot>a.py prints 1", "Got it.", "And b.py?"]
    assert len(models(batch)) == 3
    assert [each["kind"] for each in agents(batch)[0].extra["signals"]] == ["compaction"]


def test_masked_results_change_nothing_that_was_seen_before(tmp_path: Path) -> None:
    masked = [TALK[0], {**TALK[1], "toolCalls": [call("c1", 5, {"output": "<masked>"})]}, TALK[2]]
    batch, _ = log(tmp_path, *TALK, {"$set": {"messages": masked}})
    assert tools(batch)[0].observation is not None
    assert words(batch, 1)[2] == "print(1)"


def test_results_in_the_history_are_not_told_twice(tmp_path: Path) -> None:
    answer = {"functionResponse": {"id": "c1", "name": "read_file", "response": {"output": "x"}}}
    own = {"functionCall": {"id": "c3", "name": "glob", "args": {}}}
    late = {"functionResponse": {"id": "c3", "name": "glob", "response": {"output": "a.py"}}}
    batch, tally = document(
        tmp_path, *TALK[:2], user("u2", 7, [answer]), gemini("g2", 8, [{"text": "So"}, own]),
        user("u3", 9, [late]), gemini("g3", 10, "Done."),
    )  # fmt: skip
    assert [each.name for each in tools(batch)] == ["read_file", "read_file", "glob"]
    assert all(each.observation is not None for each in tools(batch))
    assert words(batch, 2)[-2:] == ["So", "a.py"]
    assert tally.problems == []


@pytest.mark.parametrize("shape", [lambda c: c, lambda c: {"history": c, "authType": "oauth"}])
def test_a_checkpoint_is_the_history_alone(shape: Any, tmp_path: Path) -> None:
    contents = [
        {"role": "user", "parts": [{"text": "This is the Gemini CLI. We are setting up."}]},
        {"role": "model", "parts": [{"text": "Got it."}]},
        {"role": "user", "parts": [{"text": "Which files?"}]},
        {"role": "model", "parts": [{"functionCall": {"name": "ls", "args": {"path": "."}}}]},
        {"role": "user", "parts": [
            {"functionResponse": {"name": "ls", "response": {"output": "a.py"}}}]},
        {"role": "model", "parts": [{"text": "a.py"}]},
    ]  # fmt: skip
    batch, _ = read(written(tmp_path, shape(contents), "checkpoint-x.json"))
    assert batch.header.title == "Which files?"
    assert len(models(batch)) == 3
    (ls,) = tools(batch)
    assert ls.observation is not None
    assert observed(ls.observation).text == "a.py"
    assert [ask.usage for ask in models(batch)] == [None, None, None]


def test_a_request_is_rebuilt_and_asks_for_the_tools_alone(tmp_path: Path) -> None:
    sent = Converter("m").sent(models(document(tmp_path, *TALK)[0])[-1].request)
    assert sent.refusal is not None
    assert "arc attach" in sent.refusal
    turns = sent.conversation.messages()
    assert [turn["role"] for turn in turns] == ["user", "assistant", "user"]
    assert [block["type"] for block in turns[2]["content"]] == ["tool_result", "tool_result"]


# --- sub-agents


def with_sub_agent(tmp_path: Path) -> tuple[Path, Path]:
    sent = call("c1", 5, {"output": "It is short."}, name="agent", agentId=SUB)
    above = written(
        tmp_path,
        lines([about(), TALK[0], gemini("g1", 4, "", toolCalls=[sent])]),
        "chats/session-2026-03-01T09-00-6ae64e27.jsonl",
    )
    own = about(sessionId=SUB, kind="subagent")
    below = written(
        tmp_path,
        lines([own, user("x1", 4, "Look"), gemini("x2", 5, "It is short.")]),
        f"chats/{ID}/{SUB}.jsonl",
    )
    return above, below


def test_a_sub_agent_is_a_thread_below_the_call_that_sent_it(tmp_path: Path) -> None:
    above, below = with_sub_agent(tmp_path)
    assert (part_of(above), part_of(below)) == (None, above)
    batch, tally = read(above)
    _, sub = agents(batch)
    assert (sub.id, sub.parent) == (SUB, tools(batch)[0].id)
    assert [ask.parent for ask in models(batch)] == [ID, SUB]
    assert tally.counts["sub_agents"] == 1


def test_a_broken_file_of_a_sub_agent_costs_only_the_sub_agent(tmp_path: Path) -> None:
    above, below = with_sub_agent(tmp_path)
    below.write_bytes(lines([about(sessionId=ID, kind="subagent")]) + b"\n{broken")
    batch, tally = read(above)
    assert len(models(batch)) == 1
    assert any(SUB in problem.where for problem in tally.problems)


# --- odd files


@pytest.mark.parametrize("name", ["..", ".", "a/b"])
def test_a_session_s_name_leads_to_no_other_folder(name: str, tmp_path: Path) -> None:
    written(tmp_path, about(messages=TALK), "x.json")
    path = written(tmp_path, lines([about(sessionId=name), *TALK]), "chats/session-x-...jsonl")
    assert len(agents(read(path)[0])) == 1


def test_kinds_that_are_not_known_are_counted(tmp_path: Path) -> None:
    _, tally = log(tmp_path, *TALK, {"id": "x", "type": "poem"}, {"$drop": "x"})
    assert tally.unknown == {"poem": 1, "$drop": 1}


def test_ids_that_stand_twice_give_spans_of_their_own(tmp_path: Path) -> None:
    batch, _ = document(tmp_path, TALK[0], *[TALK[1]] * 3)
    assert len({span.id for span in batch.spans}) == len(batch.spans)


@pytest.mark.parametrize(
    "value", [about(messages=[]), about(messages=[{"type": "info"}]), {"a": 1}]
)
def test_a_file_without_a_conversation_is_refused(value: Value, tmp_path: Path) -> None:
    with pytest.raises(BadTrace, match="contains n"):
        list(load(Source(written(tmp_path, value)), Tally(), format=gemini_cli))


WHOLE = about(messages=TALK)
LOG = [
    about(), *TALK, {"$set": {"messages": TALK[:2]}}, user("u2", 10, "So?"), {"$rewindTo": "u2"},
    gemini("g3", 11, "Yes."),
]  # fmt: skip


@given(value=mutated(WHOLE) | mutated(LOG))
@SOME
def test_a_session_with_anything_anywhere_is_kept_or_refused_with_a_sentence(
    value: Any, tmp_path: Path
) -> None:
    path = written(tmp_path, lines(value) if isinstance(value, list) else value)
    assert all(trace.header.format == "gemini-cli" for trace in stored(path, gemini_cli))


@given(size=st.integers(0, len(lines(LOG))))
@SOME
def test_a_file_cut_anywhere_gives_what_is_there(size: int, tmp_path: Path) -> None:
    path = written(tmp_path, lines(LOG)[:size])
    assert all(trace.header.source_id == ID for trace in stored(path, gemini_cli))
