"""Qwen Code sessions beside what its own recording shows: branches, compression, odd input."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from replay.errors import BadTrace
from replay.formats import gemini_cli, load, sniff
from replay.formats.source import Source, Tally
from replay.trace import Batch
from tests.replay.foreign_case import SOME, lines, mutated, stored
from tests.replay.kinds import agents, models, seen, tools

Value = dict[str, Any]
ID = "75d5b707-d363-4306-ac99-091f8f1e3a25"
USAGE = {
    "promptTokenCount": 900, "candidatesTokenCount": 20, "thoughtsTokenCount": 5,
    "cachedContentTokenCount": 300,
}  # fmt: skip


def line(number: int, type_: str, *parts: Value, after: int | None = -1, **more: Any) -> Value:
    above = number - 1 if after == -1 else after
    content = {"role": "model" if type_ == "assistant" else "user", "parts": [*parts]}
    return {
        "uuid": f"u{number}", "parentUuid": f"u{above}" if above else None, "sessionId": ID,
        "timestamp": f"2026-03-01T09:00:{number:02}.000Z", "type": type_, "cwd": "/w",
        "version": "0.15.10", "message": content, **more,
    }  # fmt: skip


def said(number: int, words: str, **more: Any) -> Value:
    return line(number, "assistant", {"text": words}, model="qwen3", usageMetadata=USAGE, **more)


def system(number: int, subtype: str, **payload: Any) -> Value:
    return line(number, "system", subtype=subtype, systemPayload=payload)


CALL = {"functionCall": {"id": "c1", "name": "glob", "args": {"pattern": "*"}}}
BACK = {"functionResponse": {"id": "c1", "name": "glob", "response": {"output": "a.py"}}}
TALK = [
    line(1, "user", {"text": "Which files?"}),
    line(2, "assistant", {"text": "I look.", "thought": True}, CALL, model="qwen3"),
    line(3, "tool_result", BACK, toolCallResult={"callId": "c1", "status": "cancelled"}),
    said(4, "a.py"),
]


def read(tmp_path: Path, *records: Value) -> tuple[Batch, Tally]:
    path = tmp_path / "session.jsonl"
    path.write_bytes(lines([*records]))
    source, tally = Source(path), Tally()
    assert sniff(source) is gemini_cli
    (batch,) = load(source, tally)
    return batch, tally


def test_a_call_that_was_cancelled_is_an_error(tmp_path: Path) -> None:
    (call,) = tools(read(tmp_path, *TALK)[0])
    assert (call.status, call.error) == ("error", "cancelled")


@pytest.mark.parametrize(("total", "output"), [(920, 20), (925, 25), (None, 25)])
def test_thoughts_are_counted_once(total: int | None, output: int, tmp_path: Path) -> None:
    usage = {**USAGE, "totalTokenCount": total}
    used = models(read(tmp_path, *TALK[:3], said(4, "a.py") | {"usageMetadata": usage})[0])[1].usage
    assert used is not None
    assert (used.input_tokens, used.cache_read_tokens) == (900, 300)
    assert (used.output_tokens, used.reasoning_tokens) == (output, 5)


def test_going_back_leaves_a_branch_and_a_summary_takes_the_place_of_history(
    tmp_path: Path,
) -> None:
    kept = [{"role": "user", "parts": [{"text": "They saw a.py."}]}]
    batch, tally = read(
        tmp_path,
        *TALK,
        line(5, "user", {"text": "Delete it"}),
        said(6, "Gone."),
        line(7, "system", after=4, subtype="rewind", systemPayload={}),
        line(8, "user", {"text": "Keep it"}),
        said(9, "Kept."),
        system(10, "chat_compression", compressedHistory=kept, info={}),
        line(11, "user", {"text": "And now?"}),
        said(12, "Done."),
        system(13, "custom_title", customTitle="Files"),
        system(14, "weather"),
    )
    root, branch = agents(batch)
    on, gone = [ask for ask in models(batch) if ask.parent == ID], models(batch)[-1]
    assert gone.parent == branch.id
    assert seen(on[2])[-2:] == [("assistant", "a.py"), ("user", "Keep it")]
    assert seen(on[3]) == [("user", "They saw a.py."), ("user", "And now?")]
    assert [each["kind"] for each in root.extra["signals"]] == ["rewind", "compaction"]
    assert (batch.header.title, batch.header.agent) == ("Files", "qwen-code")
    assert dict(tally.unknown) == {"system weather": 1}


def test_a_session_in_which_nothing_was_said_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    path.write_bytes(lines([system(1, "ui_telemetry")]))
    with pytest.raises(BadTrace, match="no message of a Gemini CLI or Qwen Code session"):
        list(load(Source(path), Tally()))


@pytest.mark.slow
@given(value=mutated(TALK))
@SOME
def test_a_session_with_anything_anywhere_is_kept_or_refused_with_a_sentence(
    value: Any, tmp_path: Path
) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(lines(value))
    assert all(trace.header.format == "gemini-cli" for trace in stored(path, gemini_cli))
