"""GitHub Copilot CLI beside what its own recording shows: sub-agents, chunks, compactions, going
back, old sessions. These events are written after the JSON Schema of the package."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from replay.errors import BadTrace
from replay.formats import copilot, load, sniff
from replay.formats.copilot import NO_HISTORY
from replay.formats.source import Source, Tally
from replay.trace import NO_SYSTEM, NO_TOOLS, Batch
from tests.replay.foreign_case import lines
from tests.replay.kinds import agents, models, seen, tools
from tests.replay.recorded import RECORDED

Value = dict[str, Any]
ID = "115159b1-9e81-4c62-b5ad-d887d0346eb2"


class Session:
    """Events a second apart, each after the one before."""

    def __init__(self) -> None:
        self.events: list[Value] = []
        context = {"cwd": "/w", "branch": "main", "repository": "a/b"}
        self.add("session.start", sessionId=ID, copilotVersion="1.0.2", context=context)

    def add(self, kind: str, *, agent: str | None = None, **data: Any) -> str:
        number = len(self.events)
        above = f"e{number - 1}" if number else None
        event = {"type": kind, "data": data, "id": f"e{number}", "parentId": above}
        event["timestamp"] = f"2026-03-01T09:00:{number:02}.000Z"
        self.events.append(event | ({"agentId": agent} if agent else {}))
        return f"e{number}"

    def read(self, tmp_path: Path) -> tuple[Batch, Tally]:
        path = tmp_path / "events.jsonl"
        path.write_bytes(lines(self.events))
        source, tally = Source(path), Tally()
        assert sniff(source) is copilot
        (batch,) = load(source, tally)
        return batch, tally


def call(name: str, tool: str, **arguments: Any) -> Value:
    return {"toolCallId": name, "name": tool, "arguments": arguments, "type": "function"}


def test_a_sub_agent_is_a_thread_below_the_call_that_sent_it(tmp_path: Path) -> None:
    own = Session()
    own.add("user.message", content="Fix it")
    own.add("assistant.message", content="", toolRequests=[call("t1", "task", prompt="Look")])
    own.add("subagent.started", agent="a1", toolCallId="t1", agentName="explore")
    own.add("user.message", agent="a1", content="Look")
    own.add("assistant.message", agent="a1", content="It is short.", outputTokens=7)
    own.add("tool.execution_complete", toolCallId="t1", success=True, result={"content": "Short."})
    own.add("assistant.message", content="Done.")
    batch, tally = own.read(tmp_path)
    root, sub = agents(batch)
    assert (sub.name, sub.parent) == ("explore", tools(batch)[0].id)
    assert [ask.parent for ask in models(batch)] == [root.id, root.id, sub.id]
    assert seen(models(batch)[2]) == [("user", "Look")]
    used = models(batch)[2].usage
    assert used is not None
    assert (used.input_tokens, used.output_tokens) == (None, 7)
    assert models(batch)[0].fidelity.reasons == (NO_SYSTEM, NO_TOOLS)
    assert batch.header.labels == {
        "cwd": "/w", "version": "1.0.2", "git_branch": "main", "repository": "a/b",
    }  # fmt: skip
    assert tally.problems == []


def test_chunks_of_one_response_are_one_answer(tmp_path: Path) -> None:
    own = Session()
    own.add("user.message", content="Go", transformedContent="<now>1</now> Go")
    own.add("assistant.message", content="One ", apiCallId="r1", reasoningText="So.")
    own.add("assistant.message", content="two.", apiCallId="r1", toolRequests=[call("t", "ls")])
    own.add("tool.execution_complete", toolCallId="t", success=False, error={"message": "denied"})
    own.add("weather.changed")
    batch, tally = own.read(tmp_path)
    (ask,) = models(batch)
    assert ask.response.message is not None
    assert ask.response.message.body["content"] == "One two."
    assert ask.response.message.body["reasoning_content"] == "So."
    assert seen(ask) == [("user", "<now>1</now> Go")]
    assert [(each.status, each.error) for each in tools(batch)] == [("error", "denied")]
    assert dict(tally.unknown) == {"weather.changed": 1}


def test_a_compaction_and_going_back_change_what_is_seen(tmp_path: Path) -> None:
    own = Session()
    own.add("user.message", content="One")
    own.add("assistant.message", content="1")
    back = own.add("user.message", content="Two")
    own.add("assistant.message", content="2")
    own.add("session.snapshot_rewind", upToEventId=back, eventsRemoved=2)
    own.add("user.message", content="Three")
    own.add("assistant.message", content="3")
    used = {"inputTokens": 50, "outputTokens": 5, "model": "gpt-5"}
    done: Value = {"success": True, "summaryContent": "They counted.", "compactionTokensUsed": used}
    own.add("session.compaction_complete", **done)
    own.add("user.message", content="Four")
    own.add("assistant.message", content="4")
    own.add("session.shutdown", shutdownType="error", errorReason="crash")
    batch, _ = own.read(tmp_path)
    three, summed, four = models(batch)[2:]
    assert [words for _, words in seen(three)] == ["One", "1", "Three"]
    assert [words for _, words in seen(four)] == ["They counted.", "Four"]
    assert NO_HISTORY in four.fidelity.reasons
    assert (summed.name, summed.fidelity.level) == ("compaction", "none")
    (root,) = agents(batch)
    assert (root.status, root.error) == ("error", "crash")
    assert [each["kind"] for each in root.extra["signals"]] == ["rewind", "compaction"]


def test_a_session_without_an_answer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadTrace, match="no message of a model"):
        Session().read(tmp_path)


def test_what_copilot_prints_is_a_session_without_the_tokens_of_its_input() -> None:
    source, tally = Source(RECORDED / "copilot-cli-output.jsonl"), Tally()
    assert sniff(source) is copilot
    (batch,) = load(source, tally)
    assert [call.name for call in tools(batch)] == ["view", "bash", "view"]
    assert [call.status for call in tools(batch)] == ["ok", "ok", "error"]
    assert len(models(batch)) == 3
    assert batch.header.run == "3afffa6f-b4d3-4aa6-aded-f1d8eba63777"
    assert batch.header.source_id == f"{batch.header.run} output"
    assert (tally.problems, dict(tally.unknown)) == ([], {})
