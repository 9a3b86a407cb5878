"""Amazon Q Developer CLI and Kiro CLI: the database, saved conversations, Kiro's lines. They are
written after the source code of the former, and what readers of the latter expect."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from replay.errors import BadTrace
from replay.formats import Format, amazon_q, load, sniff, sqlite
from replay.formats.amazon_q import REMOVED
from replay.formats.source import Source, Tally
from replay.messages import observed
from replay.trace import NO_SYSTEM, NO_TOOLS, Batch
from tests.replay.foreign_case import lines
from tests.replay.kinds import models, seen, tools

Value = dict[str, Any]
ID = "bf73e1f5-0000-4000-8000-000000000003"


def user(kind: str, second: int | None, **content: Any) -> Value:
    at = None if second is None else f"2026-10-01T10:00:{second:02}.000+00:00"
    state = {"operating_system": "linux", "current_working_directory": "/w"}
    return {
        "additional_context": "", "env_context": {"env_state": state}, "timestamp": at,
        "content": {kind: content}, "images": None,
    }  # fmt: skip


def use(name: str, command: str) -> Value:
    return {"id": name, "name": "execute_bash", "args": {"command": command}}


def result(name: str, status: str, **content: Any) -> Value:
    return {"tool_use_id": name, "content": [content], "status": status}


SPEC = {"name": "execute_bash", "description": "Run", "input_schema": {"json": {"type": "object"}}}
FAILED = {"exit_status": "1", "stdout": "", "stderr": "no b"}
HISTORY = [
    {
        "user": user("Prompt", 0, prompt="Refund my orders"),
        "assistant": {"ToolUse": {"message_id": "m1", "content": "I look.",
                                  "tool_uses": [use("t1", "ls"), use("t2", "cat b")]}},
        "request_metadata": {"request_start_timestamp_ms": 1_790_848_800_000,
                             "stream_end_timestamp_ms": 1_790_848_801_000},
    },
    {
        "user": user("ToolUseResults", None, tool_use_results=[
            result("t1", "Success", Text="a"), result("t2", "Error", Json=FAILED)]),
        "assistant": {"Response": {"message_id": "m2", "content": "Done."}},
    },
]  # fmt: skip
CONVERSATION = {
    "conversation_id": ID, "next_message": None, "history": HISTORY, "valid_history_range": [0, 2],
    "transcript": ["> Refund my orders"], "tools": {"native___": [{"ToolSpecification": SPEC}]},
    "context_message_length": 0, "latest_summary": None, "model_info": {"model_id": "sonnet"},
}  # fmt: skip


def line(kind: str, second: int, *content: Value) -> Value:
    data = {"message_id": f"m{second}", "content": [*content]}
    return {"version": "v1", "kind": kind, "data": data | {"meta": {"timestamp": 1_790_848_800}}}


LINES = [
    line("Prompt", 0, {"kind": "text", "data": "Refund my orders"}),
    line("AssistantMessage", 1, {"kind": "thinking", "data": {"text": "So."}},
         {"kind": "text", "data": "I look."},
         {"kind": "toolUse", "data": {"toolUseId": "t1", "name": "shell", "input": {"c": "ls"}}}),
    line("ToolResults", 2, {"kind": "toolResult", "data": {"toolUseId": "t1", "status": "error",
         "content": [{"kind": "text", "data": "denied"}]}}),
    line("AssistantMessage", 3, {"kind": "text", "data": "Done."}),
]  # fmt: skip


def database(tmp_path: Path, table: str) -> Path:
    path = tmp_path / "data.sqlite3"
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE state (key TEXT PRIMARY KEY, value BLOB)")
        db.execute("CREATE TABLE auth_kv (key TEXT PRIMARY KEY, value TEXT)")
        db.execute(f"CREATE TABLE {table} (key TEXT, conversation_id TEXT, value TEXT)")
        rows = [("/w", ID, json.dumps(CONVERSATION)), ("/v", "x", '{"conversation_id": "x"}')]
        db.executemany(f"INSERT INTO {table} VALUES (?, ?, ?)", rows)
        db.commit()
    return path


def read(path: Path, claimed: Format) -> tuple[Batch, Tally]:
    source, tally = Source(path), Tally()
    assert sniff(source) is claimed
    (batch,) = load(source, tally)
    return batch, tally


@pytest.mark.parametrize("shape", ["conversations", "conversations_v2", "json"])
def test_a_conversation_is_the_same_in_every_file(shape: str, tmp_path: Path) -> None:
    path, claimed = tmp_path / "saved.json", amazon_q
    if shape == "json":
        path.write_text(json.dumps(CONVERSATION, indent=2))
        batch, tally = read(path, amazon_q)
    else:
        batch, tally = read(database(tmp_path, shape), sqlite)
    assert batch.header.format == claimed.NAME
    first, last = models(batch)
    fine, failed = tools(batch)
    assert fine.observation is not None
    assert (fine.asked_by, observed(fine.observation).text) == (first.id, "a")
    assert (failed.status, failed.error) == ("error", json.dumps(FAILED, separators=(",", ":")))
    assert (first.duration_ns, first.request.model, first.response.stop) == (10**9, "sonnet", None)
    assert [tool.name for tool in first.request.tools or ()] == ["execute_bash"]
    assert first.fidelity.reasons == (NO_SYSTEM,)
    assert seen(first) == [("user", "Refund my orders")]
    assert last.usage is None
    assert (batch.header.source_id, batch.header.title) == (ID, "Refund my orders")
    assert batch.header.labels == {"cwd": "/w"}
    assert (tally.problems, dict(tally.unknown)) == ([], {})


def test_pairs_of_early_releases_and_what_was_taken_out(tmp_path: Path) -> None:
    pairs = [[each["user"], each["assistant"]] for each in HISTORY]
    path = tmp_path / "saved.json"
    path.write_text(json.dumps({**CONVERSATION, "history": pairs, "valid_history_range": [1, 2]}))
    batch, _ = read(path, amazon_q)
    assert len(tools(batch)) == 2
    assert REMOVED in models(batch)[0].fidelity.reasons


def test_the_lines_of_kiro(tmp_path: Path) -> None:
    path = tmp_path / f"{ID}.jsonl"
    path.write_bytes(lines(LINES))
    state = {"rts_model_state": {"model_info": {"model_id": "sonnet"}}}
    path.with_suffix(".json").write_text(json.dumps({"cwd": "/w", "session_state": state}))
    batch, tally = read(path, amazon_q)
    (call,) = tools(batch)
    assert (call.name, call.arguments, call.error) == ("shell", {"c": "ls"}, "denied")
    assert models(batch)[0].fidelity.reasons == (NO_SYSTEM, NO_TOOLS)
    assert (models(batch)[0].request.model, batch.header.source_id) == ("sonnet", ID)
    assert batch.header.labels == {"cwd": "/w"}
    assert (tally.problems, dict(tally.unknown)) == ([], {})


def test_a_conversation_in_which_no_model_spoke_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(lines(LINES[:1]))
    with pytest.raises(BadTrace, match="no message of a model"):
        list(load(Source(path), Tally()))
