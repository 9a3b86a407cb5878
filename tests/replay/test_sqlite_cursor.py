"""Cursor's `state.vscdb`: bubbles as answers, calls and what they returned. The database is written
as public readers of the format expect it."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from replay.errors import BadTrace
from replay.formats import load, sniff, sqlite
from replay.formats.cursor import NO_BORDERS
from replay.formats.source import Source, Tally
from replay.messages import observed, thinking
from replay.trace import NO_SYSTEM, NO_TOOLS, Batch
from tests.replay.kinds import models, seen, tools

Value = dict[str, Any]


def at(second: int) -> str:
    return f"2026-03-01T09:00:{second:02}.000Z"


def call(name: str, command: str, result: Any, of: str | None, status: str = "completed") -> Value:
    return {
        "toolCallId": name, "name": "run_terminal_command_v2", "status": status,
        "rawArgs": json.dumps({"command": command}), "params": "{}", "result": result,
        **({"modelCallId": of} if of else {}),
    }  # fmt: skip


def bubbles(of: str | None) -> list[Value]:
    fine, failed = json.dumps({"output": "a.json"}), json.dumps({"output": "no b", "exitCode": 1})
    return [
        {"type": 1, "text": "Refund my orders", "createdAt": at(0),
         "modelInfo": {"modelName": "gpt-5"}},
        {"type": 2, "text": "", "thinking": {"text": "I look."}, "createdAt": at(1)},
        {"type": 2, "text": "", "toolFormerData": call("t1", "ls", fine, of), "createdAt": at(2)},
        {"type": 2, "text": "", "toolFormerData": call("t2", "cat b", failed, of)},
        {"type": 2, "text": "Done.", "createdAt": at(4),
         "tokenCount": {"inputTokens": 300, "outputTokens": 22}},
    ]  # fmt: skip


def database(tmp_path: Path, told: list[Value], **composer: Any) -> Path:
    path = tmp_path / "state.vscdb"
    headers = [{"bubbleId": f"b{n}", "type": each["type"]} for n, each in enumerate(told)]
    about = {"composerId": "c1", "fullConversationHeadersOnly": headers, **composer}
    with closing(sqlite3.connect(path)) as db:
        for table in ("ItemTable", "cursorDiskKV"):
            db.execute(f"CREATE TABLE {table} (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB)")
        rows = {"composerData:c1": json.dumps(about), "composerData:c2": "{}", "x": None}
        rows |= {f"bubbleId:c1:b{n}": json.dumps(each) for n, each in enumerate(told)}
        db.executemany("INSERT INTO cursorDiskKV VALUES (?, ?)", rows.items())
        db.commit()
    return path


def read(path: Path) -> tuple[Batch, Tally]:
    source, tally = Source(path), Tally()
    assert sniff(source) is sqlite
    (batch,) = load(source, tally)
    return batch, tally


def test_the_calls_of_one_response_are_of_one_answer(tmp_path: Path) -> None:
    where = {"workspaceIdentifier": {"uri": {"fsPath": "/w"}}, "name": "Orders"}
    costs = {"usageData": {"gpt-5": {"costInCents": 3, "amount": 2}}}
    batch, tally = read(database(tmp_path, bubbles("m1"), **where, **costs))
    first, last = models(batch)
    assert first.response.message is not None
    assert thinking(first.response.message) == "I look."
    fine, failed = tools(batch)
    assert (fine.asked_by, failed.asked_by) == (first.id, first.id)
    assert (fine.arguments, fine.status) == ({"command": "ls"}, "ok")
    assert failed.observation is not None
    assert "no b" in observed(failed.observation).text
    assert (failed.status, failed.error) == ("error", "exit code 1")
    assert last.usage is not None
    assert (last.usage.input_tokens, last.usage.output_tokens, first.usage) == (300, 22, None)
    assert (first.request.model, first.start_ns is not None) == ("gpt-5", True)
    assert first.fidelity.reasons == (NO_SYSTEM, NO_TOOLS)
    assert seen(first) == [("user", "Refund my orders")]
    assert (batch.header.format, batch.header.title) == ("cursor", "Orders")
    assert (batch.header.labels, batch.header.reported_cost_usd) == ({"cwd": "/w"}, 0.03)
    assert (tally.problems, dict(tally.unknown)) == ([], {})


def test_without_the_responses_id_each_call_is_an_answer_and_that_is_said(tmp_path: Path) -> None:
    batch, _ = read(database(tmp_path, bubbles(None)))
    assert len(models(batch)) == 3
    assert NO_BORDERS in models(batch)[0].fidelity.reasons


def test_early_releases_keep_the_bubbles_with_the_conversation(tmp_path: Path) -> None:
    path = database(tmp_path, [], conversation=bubbles("m1"))
    assert len(tools(read(path)[0])) == 2


def test_a_call_without_a_result_and_a_lost_bubble_are_told(tmp_path: Path) -> None:
    told = bubbles("m1")
    told[2]["toolFormerData"] = call("t1", "ls", None, "m1", "running")
    told[3]["toolFormerData"] = call("t2", "rm", None, "m1", "cancelled")
    path = database(tmp_path, told)
    with closing(sqlite3.connect(path)) as db:
        db.execute("DELETE FROM cursorDiskKV WHERE key = 'bubbleId:c1:b4'")
        db.commit()
    batch, tally = read(path)
    assert [(each.status, each.error) for each in tools(batch)] == [
        ("unset", None), ("error", "cancelled"),
    ]  # fmt: skip
    assert len(tally.problems) == 2


def test_a_database_in_which_no_model_spoke_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadTrace, match="no run with a model call"):
        read(database(tmp_path, bubbles(None)[:1]))
