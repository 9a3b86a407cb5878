"""Messages of the Claude Agent SDK as other programs write them: with the name of their class, and
of early releases, whose answers have neither session, id nor usage."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from replay.formats import claude_code, load, sniff
from replay.formats.source import Source, Tally
from replay.trace import Batch
from tests.replay.foreign_case import SOME, lines, mutated, stored
from tests.replay.kinds import models, tools
from tests.replay.recorded import RECORDED

Value = dict[str, Any]
RECORD = [*map(json.loads, (RECORDED / "claude-agent-sdk.jsonl").read_text().splitlines())]
CLASSES = ("SystemMessage", *["AssistantMessage"] * 2, *["UserMessage"] * 2, "AssistantMessage")
CLASSES = (*CLASSES, "UserMessage", "AssistantMessage", "ResultMessage")


def read(tmp_path: Path, records: list[Value]) -> Batch:
    path = tmp_path / "messages.jsonl"
    path.write_bytes(lines(records))
    source, tally = Source(path), Tally()
    assert sniff(source) is claude_code
    (batch,) = load(source, tally)
    assert (tally.problems, dict(tally.unknown)) == ([], {})
    return batch


def test_the_name_of_the_class_changes_nothing(tmp_path: Path) -> None:
    named = [{"type": name, **each} for name, each in zip(CLASSES, RECORD, strict=True)]
    whole, batch = read(tmp_path, RECORD), read(tmp_path, named)
    assert [ask.usage for ask in models(batch)] == [ask.usage for ask in models(whole)]
    assert batch.header.reported_cost_usd == 0.003999
    assert len(tools(batch)) == 3


def test_early_releases_told_less(tmp_path: Path) -> None:
    known = {
        "content", "model", "parent_tool_use_id", "subtype", "data", "duration_ms",
        "duration_api_ms", "is_error", "num_turns", "session_id", "total_cost_usd",
    }  # fmt: skip
    early = [
        {name: value for name, value in each.items() if name in known and value is not None}
        | ({"parent_tool_use_id": None} if "content" in each else {})
        for each in RECORD
    ]
    for each in early[1:-1]:
        each.pop("session_id", None)
    batch = read(tmp_path, early)
    assert batch.header.run == RECORD[0]["data"]["session_id"]
    assert [call.name for call in tools(batch)] == ["Read", "Bash", "Read"]
    assert {ask.usage for ask in models(batch)} == {None}


@pytest.mark.slow
@given(value=mutated(RECORD))
@SOME
def test_messages_with_anything_anywhere_are_kept_or_refused_with_a_sentence(
    value: Any, tmp_path: Path
) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(lines(value))
    assert all(trace.header.format == "claude-code" for trace in stored(path, claude_code))
