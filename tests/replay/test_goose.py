"""goose sessions: the database, lines, exports. They are written after goose's source code."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from replay.errors import BadTrace
from replay.formats import Format, goose, load, sniff, sqlite
from replay.formats.goose import SUMMARY
from replay.formats.source import Source, Tally
from replay.messages import observed
from replay.trace import NO_SYSTEM, NO_TOOLS, Batch
from tests.replay.foreign_case import lines
from tests.replay.kinds import agents, models, seen, tools

Value = dict[str, Any]
ABOUT = {"working_dir": "/w", "description": "Orders", "message_count": 6, "total_tokens": 920}


def said(role: str, second: int, *blocks: Value, **metadata: bool) -> Value:
    made = {"role": role, "created": 1_790_000_000 + second, "content": [*blocks]}
    return made | ({"metadata": metadata} if metadata else {})


def words(shown: str) -> Value:
    return {"type": "text", "text": shown}


def asks(name: str, tool: str, **arguments: Any) -> Value:
    value = {"name": tool, "arguments": arguments}
    return {"type": "toolRequest", "id": name, "toolCall": {"status": "success", "value": value}}


def back(name: str, value: Any, **more: Any) -> Value:
    result = {"status": "success", "value": value, **more}
    return {"type": "toolResponse", "id": name, "toolResult": result}


TALK = [
    said("user", 0, words("Refund my orders")),
    said("assistant", 1, words("I look.")),
    said("assistant", 1, asks("c1", "developer__shell", command="ls")),
    said("user", 2, back("c1", {"content": [words("a.json")], "isError": False})),
    said("assistant", 3, asks("c2", "developer__shell", command="cat b")),
    said("user", 4, back("c2", {"content": [words("no such file")], "isError": True})),
    said("assistant", 5, words("Done.")),
]  # fmt: skip


def database(tmp_path: Path, messages: list[Value]) -> Path:
    path = tmp_path / "sessions.db"
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE schema_version (version INTEGER PRIMARY KEY)")
        db.execute(
            "CREATE TABLE sessions (id TEXT PRIMARY KEY, name TEXT, working_dir TEXT,"
            " created_at TIMESTAMP, total_tokens INTEGER, model_config_json TEXT)"
        )
        db.execute(
            "CREATE TABLE messages (id INTEGER PRIMARY KEY, session_id TEXT, role TEXT,"
            " content_json TEXT, created_timestamp INTEGER, metadata_json TEXT)"
        )
        model = json.dumps({"model_name": "gpt-4o"})
        row = ("20260920_1", "Orders", "/w", "2026-09-20 10:00:00", 920, model)
        db.execute("INSERT INTO sessions VALUES (?, ?, ?, ?, ?, ?)", row)
        db.execute("INSERT INTO sessions (id) VALUES ('20260920_2')")
        for each in messages:
            db.execute(
                "INSERT INTO messages (session_id, role, content_json, created_timestamp,"
                " metadata_json) VALUES ('20260920_1', ?, ?, ?, ?)",
                (each["role"], json.dumps(each["content"]), each["created"],
                 json.dumps(each.get("metadata", {}))),
            )  # fmt: skip
        db.commit()
    return path


def read(path: Path, claimed: Format) -> tuple[Batch, Tally]:
    source, tally = Source(path), Tally()
    assert sniff(source) is claimed
    (batch,) = load(source, tally)
    return batch, tally


def written(tmp_path: Path, shape: str, messages: list[Value]) -> tuple[Path, Format]:
    if shape == "database":
        return database(tmp_path, messages), sqlite
    path = tmp_path / f"20260920_1.{shape}"
    if shape == "jsonl":
        path.write_bytes(lines([ABOUT, *messages]))
    else:
        whole = {"id": "20260920_1", **ABOUT, "extension_data": {}, "conversation": messages}
        path.write_text(json.dumps(whole, indent=2))
    return path, goose


@pytest.mark.parametrize("shape", ["database", "jsonl", "json"])
def test_a_session_is_the_same_in_every_file(shape: str, tmp_path: Path) -> None:
    batch, tally = read(*written(tmp_path, shape, TALK))
    first, second, last = models(batch)
    assert [(call.asked_by, call.name) for call in tools(batch)] == [
        (first.id, "developer__shell"), (second.id, "developer__shell"),
    ]  # fmt: skip
    fine, failed = tools(batch)
    assert fine.observation is not None
    assert observed(fine.observation).text == "a.json"
    assert (fine.status, failed.status, failed.error) == ("ok", "error", "no such file")
    assert seen(first) == [("user", "Refund my orders")]
    assert (last.usage, last.response.stop) == (None, None)
    assert last.fidelity.reasons == (NO_SYSTEM, NO_TOOLS)
    assert (batch.header.source_id, batch.header.title) == ("20260920_1", "Orders")
    assert batch.header.labels == {"cwd": "/w"}
    assert agents(batch)[0].extra["session_tokens"] == {"total_tokens": 920}
    assert [each.why for each in tally.problems] == [
        "its tokens are of the whole session, not of each call"
    ]
    assert dict(tally.unknown) == {}


def test_a_summary_takes_the_place_of_what_was_said(tmp_path: Path) -> None:
    notice = {"type": "systemNotification", "msg": "Compacting"}
    summary = said("user", 6, words("They looked."), userVisible=False, agentVisible=True)
    more = [said("assistant", 6, notice), summary, said("assistant", 7, words("Go on."))]
    batch, _ = read(*written(tmp_path, "database", [*TALK, *more]))
    last = models(batch)[-1]
    assert (last.request.model, seen(last)) == ("gpt-4o", [("user", "They looked.")])
    assert SUMMARY in last.fidelity.reasons


def test_a_refused_call_and_other_results_are_told(tmp_path: Path) -> None:
    refused = {"type": "toolResponse", "id": "c1", "toolResult": {"status": "error", "error": "no"}}
    batch, tally = read(*written(tmp_path, "jsonl", [*TALK[:3], said("user", 2, refused)]))
    (call,) = tools(batch)
    assert (call.status, call.error) == ("error", "no")
    assert len(tally.problems) == 1


def test_sessions_in_which_no_model_spoke_are_left_out(tmp_path: Path) -> None:
    path, _ = written(tmp_path, "jsonl", TALK[:1])
    with pytest.raises(BadTrace, match="no message of a model"):
        list(load(Source(path), Tally()))
