"""Codex rollouts: answers put together, counts given to them, compactions, sub-agents.

No real rollout was at hand: these are written after the client's own protocol types, in the order
in which its releases write them.
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
from replay.formats import codex, load, part_of, sniff
from replay.formats.codex.thread import ENCRYPTED, NO_HISTORY
from replay.formats.source import Source, Tally
from replay.messages import text, thinking
from replay.trace import NO_SYSTEM, NO_TOOLS, AgentSpan, Batch, Level
from tests.replay.foreign_case import SOME, lines, mutated, stored
from tests.replay.kinds import agents, models, seen, tools

Value = dict[str, Any]
ID = "0199a213-81c0-7800-8aa1-bbab2a035a53"
SUB = "0199a213-81c0-7800-8aa1-bbab2a035a54"
PROMPT = "You are Codex."


class Clock:
    """A second passes with every line."""

    def __init__(self) -> None:
        self.second = 0

    def __call__(self, kind: str, payload: Value) -> Value:
        self.second += 1
        moment = f"2026-01-02T10:00:{self.second:02}.000Z"
        return {"timestamp": moment, "type": kind, "payload": payload}


def meta(name: str = ID, **more: Any) -> Value:
    return {
        "id": name, "timestamp": "2026-01-02T10:00:00.000Z", "cwd": "/w", "originator": "codex_cli",
        "cli_version": "0.80.0", "source": "cli", "model_provider": "openai",
        "base_instructions": {"text": PROMPT}, "git": {"branch": "main"}, **more,
    }  # fmt: skip


def message(role: str, words: str) -> Value:
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": words}]}


def thought(words: str, **more: Any) -> Value:
    return {"type": "reasoning", "summary": [{"type": "summary_text", "text": words}], **more}


def call(call_id: str, name: str = "shell", **arguments: Any) -> Value:
    given = json.dumps(arguments)
    return {"type": "function_call", "name": name, "arguments": given, "call_id": call_id}


def output(call_id: str, words: Any) -> Value:
    return {"type": "function_call_output", "call_id": call_id, "output": words}


def counted(total: int, last: int) -> Value:
    def of(given: int) -> Value:
        return {
            "input_tokens": given, "cached_input_tokens": given // 2, "output_tokens": 10,
            "reasoning_output_tokens": 4, "total_tokens": given + 10,
        }  # fmt: skip

    return {
        "type": "token_count",
        "info": {"total_token_usage": of(total), "last_token_usage": of(last)},
    }


def rollout(*told: tuple[str, Value]) -> list[Value]:
    clock = Clock()
    return [clock(kind, payload) for kind, payload in told]


ITEM, EVENT = "response_item", "event_msg"
TURN = ("turn_context", {"cwd": "/w", "model": "gpt-5-codex", "effort": "high"})
BEGIN = [
    ("session_meta", meta()),
    (ITEM, message("user", "<environment_context>\n  <cwd>/w</cwd>\n</environment_context>")),
    (EVENT, {"type": "task_started"}),
    TURN,
    (ITEM, message("user", "Mend the test")),
    (EVENT, {"type": "user_message", "message": "Mend the test"}),
    (EVENT, {"type": "token_count", "info": None, "rate_limits": {}}),
]
WORK = [
    (ITEM, thought("I look.", encrypted_content="gAAA")),
    (ITEM, call("c1", command=["ls"])),
    (ITEM, call("c2", command=["false"])),
    (EVENT, counted(100, 100)),
    (ITEM, output("c1", "a.py")),
    (ITEM, output("c2", json.dumps({"output": "", "metadata": {"exit_code": 1}}))),
    (EVENT, counted(100, 100)),
    (ITEM, message("assistant", "Done.")),
    (EVENT, counted(300, 200)),
    (EVENT, {"type": "task_complete", "last_agent_message": "Done."}),
]
WHOLE = rollout(*BEGIN, *WORK)


def written(tmp_path: Path, records: list[Value], name: str = "rollout.jsonl") -> Path:
    path = tmp_path / name
    path.write_bytes(lines(records))
    return path


def read(tmp_path: Path, *told: tuple[str, Value]) -> tuple[Batch, Tally]:
    source, tally = Source(written(tmp_path, rollout(*told))), Tally()
    assert sniff(source) is codex
    (batch,) = load(source, tally)
    return batch, tally


def root(batch: Batch) -> AgentSpan:
    return agents(batch)[0]


def test_the_items_of_an_answer_are_one_call_with_its_tools(tmp_path: Path) -> None:
    batch, tally = read(tmp_path, *BEGIN, *WORK)
    first, last = models(batch)
    assert first.response.message is not None
    assert thinking(first.response.message) == "I look."
    assert [(each.name, each.arguments) for each in tools(batch)] == [
        ("shell", {"command": ["ls"]}),
        ("shell", {"command": ["false"]}),
    ]
    assert {each.asked_by for each in tools(batch)} == {first.id}
    assert [role for role, _ in seen(last)] == ["user", "user", "assistant", "tool", "tool"]
    assert (first.request.model, last.response.model) == ("gpt-5-codex", "gpt-5-codex")
    assert first.request.params == {"reasoning": {"effort": "high"}}
    assert first.request.system is not None
    assert text(first.request.system) == PROMPT
    assert batch.header.title == "Mend the test"
    assert batch.header.labels["git_branch"] == "main"
    assert root(batch).status == "ok"
    assert tally.problems == []


def test_a_call_is_known_but_for_the_tools_and_the_encrypted_thoughts_before_it(
    tmp_path: Path,
) -> None:
    first, last = models(read(tmp_path, *BEGIN, *WORK)[0])
    assert first.fidelity.level is Level.PARTIAL
    assert first.fidelity.reasons == (NO_TOOLS,)
    assert last.fidelity.reasons == (NO_TOOLS, ENCRYPTED)


def test_each_count_is_given_once_to_the_answer_before_it(tmp_path: Path) -> None:
    used = [ask.usage for ask in models(read(tmp_path, *BEGIN, *WORK)[0])]
    assert [usage.input_tokens for usage in used if usage] == [100, 200]
    assert [usage.cache_read_tokens for usage in used if usage] == [50, 100]
    assert [usage.reasoning_tokens for usage in used if usage] == [4, 4]


def test_counts_of_the_first_releases_stand_before_their_answer(tmp_path: Path) -> None:
    early = [WORK[3], *WORK[:3], *WORK[4:6], WORK[8], WORK[7]]
    used = [ask.usage for ask in models(read(tmp_path, *BEGIN, *early)[0])]
    assert [usage.input_tokens for usage in used if usage] == [100, 200]


def test_an_interrupted_answer_takes_no_count_of_the_next(tmp_path: Path) -> None:
    batch, _ = read(
        tmp_path,
        *BEGIN,
        *WORK[:6],
        (ITEM, thought("Half")),
        (EVENT, {"type": "turn_aborted", "reason": "interrupted"}),
        (ITEM, message("user", "Go on")),
        *WORK[7:9],
    )
    assert [ask.usage and ask.usage.input_tokens for ask in models(batch)] == [100, None, 200]
    assert [each["kind"] for each in root(batch).extra["signals"]] == ["interrupt"]


def test_a_command_that_ends_with_an_error_is_a_failed_call_whose_text_stays(
    tmp_path: Path,
) -> None:
    fine, failed = tools(read(tmp_path, *BEGIN, *WORK)[0])
    assert (fine.status, failed.status, failed.error) == ("ok", "error", "exit code 1")
    assert failed.observation is not None
    assert "is_error" not in failed.observation.message.body


@pytest.mark.parametrize(
    ("words", "status"),
    [
        ("Exit code: 2\nWall time: 0.1 seconds\nOutput:\nno", "error"),
        ("Chunk ID: 1\nProcess exited with code 127\nOutput:\n", "error"),
        ("Exit code: 0\nOutput:\nExit code: 1", "ok"),
        ({"content": "denied", "success": False}, "error"),
        ([{"type": "input_text", "text": "fine"}], "ok"),
        (None, "ok"),
    ],
)
def test_outputs_of_every_release_say_whether_the_call_failed(
    words: Any, status: str, tmp_path: Path
) -> None:
    batch, _ = read(tmp_path, *BEGIN, *WORK[:3], (ITEM, output("c1", words)))
    assert tools(batch)[0].status == status


def test_a_tool_that_takes_a_text_has_no_broken_arguments(tmp_path: Path) -> None:
    patch = {
        "type": "custom_tool_call",
        "call_id": "p",
        "name": "apply_patch",
        "input": "*** Begin",
    }
    done = {"type": "custom_tool_call_output", "call_id": "p", "output": "Exit code: 0"}
    (call_,) = tools(read(tmp_path, *BEGIN, (ITEM, patch), (ITEM, done))[0])
    assert (call_.name, call_.arguments) == ("apply_patch", {"input": "*** Begin"})
    assert call_.status == "ok"


def test_a_search_that_the_provider_ran_is_beside_the_conversation(tmp_path: Path) -> None:
    search = {"type": "web_search_call", "status": "completed",
              "action": {"type": "search", "query": "rust"}}  # fmt: skip
    batch, tally = read(tmp_path, *BEGIN, (ITEM, search), (ITEM, message("assistant", "So.")))
    (found,) = tools(batch)
    assert (found.name, found.extra) == ("web_search", {"run_by": "provider"})
    assert found.asked_by == models(batch)[0].id
    assert tally.problems == []


def test_a_compaction_begins_again_with_what_it_kept(tmp_path: Path) -> None:
    kept = [message("user", "Mend the test"), message("user", "Summary: looked.")]
    batch, _ = read(
        tmp_path,
        *BEGIN,
        *WORK[:6],
        (EVENT, counted(400, 300)),
        ("compacted", {"message": "looked", "replacement_history": kept}),
        *WORK[7:8],
        (EVENT, counted(450, 50)),
    )
    _, compaction, last = models(batch)
    assert (compaction.name, compaction.fidelity.level) == ("compaction", Level.NONE)
    assert [ask.usage and ask.usage.input_tokens for ask in models(batch)] == [100, 300, 50]
    assert [words for _, words in seen(last)] == ["Mend the test", "Summary: looked."]
    assert last.fidelity.reasons == (NO_TOOLS,)


def test_a_compaction_that_kept_nothing_says_so(tmp_path: Path) -> None:
    batch, _ = read(tmp_path, *BEGIN, *WORK[:6], ("compacted", {"message": "looked"}), *WORK[7:9])
    last = models(batch)[-1]
    assert [words for _, words in seen(last)] == ["looked"]
    assert NO_HISTORY in last.fidelity.reasons


def test_turns_that_were_rolled_back_are_not_seen_later(tmp_path: Path) -> None:
    batch, _ = read(
        tmp_path,
        *BEGIN,
        (ITEM, message("assistant", "Mended.")),
        (ITEM, message("user", "Break it")),
        (ITEM, message("assistant", "Broken.")),
        (EVENT, {"type": "thread_rolled_back", "num_turns": 1}),
        (ITEM, message("user", "Thanks")),
        (ITEM, message("assistant", "Welcome.")),
    )
    assert [words for _, words in seen(models(batch)[-1])][1:] == [
        "Mend the test", "Mended.", "Thanks",
    ]  # fmt: skip


def test_a_question_without_an_answer_is_kept(tmp_path: Path) -> None:
    batch, _ = read(tmp_path, *BEGIN, *WORK, (ITEM, message("user", "And now?")))
    assert [body["content"] for body in root(batch).extra["unanswered"]] == ["And now?"]


def test_rollouts_without_the_envelope_are_read(tmp_path: Path) -> None:
    bare = [
        {"id": ID, "timestamp": "2025-08-01T10:00:00.000Z", "instructions": None},
        {"record_type": "state"},
        *(record["payload"] for record in WHOLE if record["type"] == ITEM),
    ]
    source = Source(written(tmp_path, bare))
    assert sniff(source) is codex
    (batch,) = load(source, Tally())
    assert (batch.header.source_id, len(models(batch))) == (ID, 2)
    assert models(batch)[0].fidelity.reasons == (NO_SYSTEM, NO_TOOLS)


@pytest.mark.parametrize("indent", [None, 2])
def test_the_document_of_the_first_codex_is_read(indent: int | None, tmp_path: Path) -> None:
    items = [record["payload"] for record in WHOLE if record["type"] == ITEM]
    about = {"timestamp": "2025-05-01T10:00:00.000Z", "id": ID, "instructions": "Be brief."}
    path = tmp_path / "rollout-2025-05-01.json"
    path.write_text(json.dumps({"session": about, "items": items}, indent=indent))
    source = Source(path)
    assert sniff(source) is codex
    (batch,) = load(source, Tally())
    assert (batch.header.source_id, len(models(batch)), len(tools(batch))) == (ID, 2, 2)


def test_a_request_is_rebuilt_and_asks_for_the_tools_alone(tmp_path: Path) -> None:
    last = models(read(tmp_path, *BEGIN, *WORK)[0])[-1]
    sent = Converter("m").sent(last.request)
    assert sent.system == PROMPT
    assert sent.refusal is not None
    assert "arc attach" in sent.refusal
    assert [turn["role"] for turn in sent.conversation.messages()] == ["user", "assistant", "user"]


# --- sub-agents


def spawning(tmp_path: Path, *, named: bool = True) -> tuple[Path, Path]:
    """A session and the sub-agent that it sent, in one folder."""
    told = json.dumps({"agent_id": SUB if named else "elsewhere"})
    above = [
        *BEGIN,
        (ITEM, call("s", "spawn_agent", message="Look into a.py")),
        (ITEM, output("s", told)),
        (ITEM, message("assistant", "It looks.")),
    ]
    source = {"subagent": {"thread_spawn": {"parent_thread_id": ID, "depth": 1}}}
    below = [
        ("session_meta", meta(SUB, source=source, agent_role="explorer")),
        TURN,
        (ITEM, message("user", "Look into a.py")),
        (ITEM, message("assistant", "It is short.")),
    ]
    return (
        written(tmp_path, rollout(*above), f"rollout-2026-01-02T10-00-00-{ID}.jsonl"),
        written(tmp_path, rollout(*below), f"rollout-2026-01-02T10-00-05-{SUB}.jsonl"),
    )


def test_a_sub_agent_is_a_thread_below_the_call_that_sent_it(tmp_path: Path) -> None:
    above, below = spawning(tmp_path)
    assert (part_of(above), part_of(below)) == (None, above)
    (batch,) = load(Source(above), Tally())
    _, sub = agents(batch)
    assert (sub.name, sub.parent) == ("explorer", tools(batch)[0].id)
    assert [ask.parent for ask in models(batch)] == [ID, ID, SUB]


def test_a_sub_agent_that_nobody_names_stands_alone(tmp_path: Path) -> None:
    above, below = spawning(tmp_path, named=False)
    assert part_of(below) is None
    (batch,) = load(Source(above), Tally())
    assert len(agents(batch)) == 1
    (alone,) = load(Source(below), Tally())
    assert alone.header.labels["parent"] == ID


def test_rollouts_that_claim_to_have_sent_each_other_stand_alone(tmp_path: Path) -> None:
    paths = []
    for own, other in ((ID, SUB), (SUB, ID)):
        told = [("session_meta", meta(own, parent_thread_id=other)), *BEGIN[4:5], *WORK[7:8]]
        paths.append(written(tmp_path, rollout(*told), f"rollout-2026-01-02-{own}.jsonl"))
    assert [part_of(path) for path in paths] == [None, None]
    assert [len(agents(batch)) for path in paths for batch in load(Source(path), Tally())] == [1, 1]


def test_copied_history_is_counted_and_said(tmp_path: Path) -> None:
    _, tally = read(tmp_path, ("session_meta", meta(forked_from_id=SUB)),
                    ("session_meta", meta(SUB)), *BEGIN[1:], *WORK)  # fmt: skip
    assert [problem.why for problem in tally.problems] == [
        f"history copied from session {SUB} is counted here too"
    ]


# --- odd files


def test_kinds_that_are_not_known_are_counted(tmp_path: Path) -> None:
    _, tally = read(tmp_path, *BEGIN, (ITEM, {"type": "hologram"}), ("weather", {}), *WORK)
    assert tally.unknown == {"hologram": 1, "weather": 1}


def test_ids_that_stand_twice_and_results_without_a_call_are_told(tmp_path: Path) -> None:
    batch, tally = read(
        tmp_path, *BEGIN, *WORK[:2], *WORK[1:2], (ITEM, output("c1", "x")), (ITEM, output("z", "y"))
    )
    assert len({span.id for span in batch.spans}) == len(batch.spans)
    assert [each.extra for each in tools(batch)][-1] == {"orphan": "result"}
    assert len(tally.problems) == 2


@pytest.mark.parametrize("records", [WHOLE[:1], [WHOLE[0], WHOLE[2]]])
def test_a_session_in_which_nothing_was_said_is_refused(
    records: list[Value], tmp_path: Path
) -> None:
    with pytest.raises(BadTrace, match="no item"):
        list(load(Source(written(tmp_path, records)), Tally()))


@pytest.mark.slow
@given(value=mutated(WHOLE))
@SOME
def test_a_rollout_with_anything_anywhere_is_kept_or_refused_with_a_sentence(
    value: Any, tmp_path: Path
) -> None:
    assert all(t.header.format == "codex" for t in stored(written(tmp_path, value), codex))


@given(size=st.integers(0, len(lines(WHOLE))))
@SOME
def test_a_file_cut_anywhere_gives_what_is_there(size: int, tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(lines(WHOLE)[:size])
    assert all(trace.header.source_id == ID for trace in stored(path, codex))
