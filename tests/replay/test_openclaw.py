"""OpenClaw sessions: the tree of entries, compactions, what the gateway said in the model's name.

The small sessions here are written after pi's description of its files; the real ones are read
where the shared folder is.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.errors import BadTrace
from replay.formats import load, openclaw, sniff
from replay.formats.source import Source, Tally
from replay.messages import observed, thinking
from replay.trace import AgentSpan, Batch, ModelCall
from tests.replay.foreign_case import SOME, lines, mutated, stored
from tests.replay.kinds import models, seen, tools
from tests.shared import DATA, needs_shared

Value = dict[str, Any]
MS = 1_772_116_178_000
ID = "b3db607f-7ae8-4089-b806-44800e961672"


def clock(second: float) -> str:
    return f"2026-02-26T14:29:{38 + second:06.3f}Z"


def header(**more: Any) -> Value:
    return {"type": "session", "version": 3, "id": ID, "timestamp": clock(0), "cwd": "/app", **more}


def entry(name: str, above: str | None, kind: str = "message", **more: Any) -> Value:
    return {"type": kind, "id": name, "parentId": above, "timestamp": clock(5), **more}


def said(name: str, above: str | None, *blocks: Value, **more: Any) -> Value:
    usage = {"input": 100, "output": 20, "cacheRead": 700, "cacheWrite": 50,
             "cost": {"total": 0.25}}  # fmt: skip
    message = {
        "role": "assistant", "content": list(blocks), "api": "anthropic-messages",
        "provider": "anthropic", "model": "claude-sonnet-4-5", "usage": usage,
        "stopReason": "stop", "timestamp": MS, **more,
    }  # fmt: skip
    return entry(name, above, message=message)


def words(text: str) -> Value:
    return {"type": "text", "text": text}


def thought(text: str) -> Value:
    return {"type": "thinking", "thinking": text}


def call(name: str, **arguments: Any) -> Value:
    return {"type": "toolCall", "id": f"call-{name}", "name": name, "arguments": arguments}


def asked(name: str, above: str | None, text: str) -> Value:
    return entry(name, above, message={"role": "user", "content": [words(text)]})


def gave(name: str, above: str, tool: str, text: str, **more: Any) -> Value:
    message = {"role": "toolResult", "toolCallId": f"call-{tool}", "toolName": tool,
               "content": [words(text)], "isError": False, "timestamp": MS + 9_000}  # fmt: skip
    return entry(name, above, message=message | more)


def session(tmp_path: Path, *lines: Value | bytes) -> tuple[Batch, Tally]:
    raw = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines]
    path = tmp_path / "x.jsonl"
    path.write_bytes(b"\n".join(raw))
    tally, source = Tally(), Source(path)
    assert sniff(source) is openclaw
    (batch,) = load(source, tally)
    return batch, tally


def heard(ask: ModelCall) -> list[str]:
    return [words for _, words in seen(ask)]


def root(batch: Batch) -> AgentSpan:
    assert isinstance(batch.spans[0], AgentSpan)
    return batch.spans[0]


CHAT = [
    header(),
    asked("u1", None, "Which day is it?"),
    said("a1", "u1", thought("I look."), call("date"), stopReason="toolUse"),
    gave("r1", "a1", "date", "Thursday"),
    said("a2", "r1", words("Thursday.")),
]  # fmt: skip


def test_an_answer_its_call_and_its_result_are_told_with_their_figures(tmp_path: Path) -> None:
    batch, tally = session(tmp_path, *CHAT)
    first, second = models(batch)
    assert first.response.message is not None
    assert thinking(first.response.message) == "I look."
    assert (first.response.stop, second.response.stop) == ("tool", "end")
    assert first.usage is not None
    assert (first.usage.input_tokens, first.usage.cache_read_tokens) == (850, 700)
    assert first.cost is not None
    assert first.cost.usd == 0.25
    assert first.start_ns == MS * 1_000_000
    assert first.duration_ns == 5_000_000_000
    assert heard(second) == ["Which day is it?", "", "Thursday"]
    (date,) = tools(batch)
    assert date.observation is not None
    assert (observed(date.observation).text, date.status) == ("Thursday", "ok")
    assert date.time_quality == "derived"
    assert batch.header.title == "Which day is it?"
    assert tally.problems == []


def test_a_price_of_zero_is_no_price(tmp_path: Path) -> None:
    usage = {"input": 9, "output": 2, "cost": {"total": 0}}
    batch, _ = session(tmp_path, header(), asked("u", None, "Hi"), said("a", "u", usage=usage))
    assert models(batch)[0].cost is None


def test_noise_before_the_first_line_does_not_cost_the_session_its_name(tmp_path: Path) -> None:
    first = b"/spec" + json.dumps(header(), separators=(",", ":")).encode()
    batch, tally = session(tmp_path, first, *CHAT[1:])
    assert batch.header.source_id == ID
    assert [problem.where for problem in tally.problems] == ["line 1"]


def test_going_back_leaves_a_branch_that_the_thread_does_not_see(tmp_path: Path) -> None:
    batch, _ = session(
        tmp_path,
        *CHAT,
        asked("u2", "a2", "And the week?"),
        said("a3", "u2", words("Week 9.")),
        asked("u3", "a2", "And the month?"),
        said("a4", "u3", words("February.")),
    )
    (branch,) = (span for span in batch.spans if span.name == "abandoned branch")
    left = [ask for ask in models(batch) if ask.parent == branch.id]
    assert [heard(ask)[-1] for ask in left] == ["And the week?"]
    last = models(batch)[2]
    assert last.parent == ID
    assert heard(last)[-2:] == ["Thursday.", "And the month?"]
    assert [each["kind"] for each in root(batch).extra["signals"]] == ["rewind"]


def test_a_compaction_keeps_what_it_says_it_keeps(tmp_path: Path) -> None:
    batch, _ = session(
        tmp_path,
        *CHAT,
        entry("c", "a2", "compaction", summary="They asked for the day.", firstKeptEntryId="r1"),
        asked("u2", "c", "Thanks"),
        said("a3", "u2", words("Welcome.")),
    )
    assert heard(models(batch)[-1]) == [
        "They asked for the day.", "Thursday", "Thursday.", "Thanks",
    ]  # fmt: skip
    assert "some messages not recorded as the model saw them" in models(batch)[-1].fidelity.reasons


def test_an_answer_that_failed_was_not_sent_again(tmp_path: Path) -> None:
    failed = {"stopReason": "error", "errorMessage": "overloaded", "usage": {}}
    batch, _ = session(
        tmp_path,
        *CHAT,
        said("e", "a2", words("Half an"), **failed),
        said("a3", "e", words("Whole.")),
    )
    broken, whole = models(batch)[-2:]
    assert (broken.status, broken.error, broken.usage) == ("error", "overloaded", None)
    assert heard(whole)[-1] == "Thursday."
    assert [each["kind"] for each in root(batch).extra["signals"]] == ["failed_call"]


def test_what_the_gateway_says_in_the_model_s_name_is_no_call(tmp_path: Path) -> None:
    zero = {"input": 0, "output": 0}
    greeting = said("g", None, words("New session"), provider="openclaw", usage=zero)
    batch, _ = session(tmp_path, header(), greeting, asked("u", "g", "Hi"), said("a", "u"))
    assert [heard(ask) for ask in models(batch)] == [["New session", "Hi"]]


def test_a_tool_s_own_word_of_failure_counts(tmp_path: Path) -> None:
    details = {"status": "error", "error": "ENOENT"}
    batch, _ = session(tmp_path, *CHAT[:3], gave("r", "a1", "date", "{}", details=details))
    (date,) = tools(batch)
    assert (date.status, date.error) == ("error", "ENOENT")


def test_a_session_without_ids_is_in_the_order_of_its_lines(tmp_path: Path) -> None:
    flat = [
        {n: v for n, v in line.items() if n not in ("id", "parentId")} if i else line
        for i, line in enumerate(CHAT)
    ]
    batch, _ = session(tmp_path, *flat)
    assert [len(heard(ask)) for ask in models(batch)] == [1, 3]


def test_odd_trees_are_told_all_the_same(tmp_path: Path) -> None:
    batch, tally = session(
        tmp_path,
        header(),
        asked("u", "nowhere", "Hi"),
        said("a", "a", words("One")),
        said("a", "a", words("Two")),
        entry("z", "a", "telepathy"),
    )
    assert len(models(batch)) == 2
    assert len({span.id for span in batch.spans}) == len(batch.spans)
    assert tally.unknown == {"telepathy": 1}
    assert len(tally.problems) == 3


def test_a_file_without_messages_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(json.dumps(header()))
    with pytest.raises(BadTrace, match="no message"):
        list(load(Source(path), Tally()))


@given(value=mutated(CHAT))
@SOME
def test_a_session_with_anything_anywhere_is_kept_or_refused_with_a_sentence(
    value: Any, tmp_path: Path
) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(lines(value))
    assert all(trace.header.format == "openclaw" for trace in stored(path, openclaw))


@given(size=st.integers(0, len(lines(CHAT))))
@SOME
def test_a_file_cut_anywhere_gives_what_is_there(size: int, tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(lines(CHAT)[:size])
    assert all(trace.header.source_id == ID for trace in stored(path, openclaw))


# --- real files


@needs_shared
def test_every_answer_of_the_real_sessions_is_a_call_but_the_gateway_s_greeting() -> None:
    for path in sorted((DATA / "openclaw").glob("*.jsonl")):
        tally, source = Tally(), Source(path)
        assert sniff(source) is openclaw
        (batch,) = load(source, tally)
        lines = [line for line in path.read_text().splitlines() if line.startswith("{")]
        spoken = [json.loads(line).get("message", {}) for line in lines]
        own = [m for m in spoken if m.get("role") == "assistant" and m["provider"] != "openclaw"]
        used = [ask.usage for ask in models(batch)]
        assert [u.output_tokens for u in used if u] == [m["usage"]["output"] for m in own]
        assert batch.header.source_id == path.stem
        assert all(each.observation is not None for each in tools(batch))
        assert tally.unknown == {}
