"""VS Code chat sessions: rounds of Copilot, what was shown without them, the journal of changes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from replay.errors import BadTrace
from replay.formats import load, sniff, vscode_chat
from replay.formats.source import Source, Tally
from replay.formats.vscode_chat import NO_ROUNDS
from replay.messages import observed, thinking
from replay.trace import NO_SYSTEM, NO_TOOLS, Batch
from tests.replay.foreign_case import lines
from tests.replay.kinds import agents, models, seen, tools

Value = dict[str, Any]
T0 = 1_790_000_000_000


def called(name: str, tool: str, **arguments: Any) -> Value:
    return {"id": name, "name": tool, "arguments": json.dumps(arguments)}


ROUNDS = [
    {"id": "r1", "timestamp": T0 + 2000, "response": "", "thinking": {"text": "I look."},
     "toolCalls": [called("t1", "read_file", filePath="a"), called("t2", "run", command="ls")]},
    {"id": "r2", "timestamp": T0 + 3000, "response": "Done.", "toolCalls": []},
]  # fmt: skip
NODE = {"node": {"type": 1, "children": [{"type": 2, "text": "no such file"}]}}
RESULTS = {"t1": {"content": [{"value": "print(1)"}]}, "t2": {"content": [{"value": NODE}]}}
METADATA = {
    "toolCallRounds": ROUNDS, "toolCallResults": RESULTS, "promptTokens": 900, "outputTokens": 50,
    "resolvedModel": "gpt-5", "renderedUserMessage": [{"type": 1, "text": "<req>Fix a</req>"}],
}  # fmt: skip
REQUEST = {
    "requestId": "q1", "timestamp": T0, "responseTimestamp": T0 + 4000,
    "message": {"text": "Fix a"}, "modelId": "copilot/auto", "response": [{"value": "Done."}],
    "result": {"metadata": METADATA},
}  # fmt: skip
SESSION = {
    "version": 3, "sessionId": "s1", "creationDate": T0, "responderUsername": "GitHub Copilot",
    "requests": [REQUEST],
}  # fmt: skip


def read(path: Path) -> tuple[Batch, Tally]:
    source, tally = Source(path), Tally()
    assert sniff(source) is vscode_chat
    (batch,) = load(source, tally)
    return batch, tally


def written(tmp_path: Path, *values: Value, name: str = "s1.json") -> Path:
    path = tmp_path / "chatSessions" / name
    path.parent.mkdir()
    path.write_bytes(lines([*values]))
    (tmp_path / "workspace.json").write_text('{"folder": "file:///w/my%20app"}')
    return path


def test_rounds_are_answers_with_their_calls(tmp_path: Path) -> None:
    batch, tally = read(written(tmp_path, SESSION))
    first, last = models(batch)
    assert first.response.message is not None
    assert thinking(first.response.message) == "I look."
    assert [(call.asked_by, call.name, call.arguments) for call in tools(batch)] == [
        (first.id, "read_file", {"filePath": "a"}), (first.id, "run", {"command": "ls"}),
    ]  # fmt: skip
    seen_by = [call.observation for call in tools(batch)]
    assert [observed(each).text for each in seen_by if each] == ["print(1)", "no such file"]
    assert seen(first) == [("user", "<req>Fix a</req>")]
    assert (first.duration_ns, last.duration_ns) == (2 * 10**9, 10**9)
    assert (first.request.model, first.usage, first.response.stop) == ("gpt-5", None, None)
    assert first.fidelity.reasons == (NO_SYSTEM, NO_TOOLS)
    assert agents(batch)[0].extra["request_tokens"] == [{"request": 0, "input": 900, "output": 50}]
    assert (batch.header.title, batch.header.labels) == ("Fix a", {"cwd": "/w/my app"})
    assert [each.where for each in tally.problems] == ["request 0"]


def test_the_tokens_of_one_round_are_its_own(tmp_path: Path) -> None:
    one = {**REQUEST, "result": {"metadata": {**METADATA, "toolCallRounds": ROUNDS[1:]}}}
    batch, tally = read(written(tmp_path, {**SESSION, "requests": [one]}))
    used = models(batch)[0].usage
    assert used is not None
    assert (used.input_tokens, used.output_tokens, tally.problems) == (900, 50, [])


def test_without_rounds_what_was_shown_is_told(tmp_path: Path) -> None:
    terminal = {
        "kind": "terminal", "commandLine": {"original": "make"},
        "terminalCommandState": {"exitCode": 2}, "terminalCommandOutput": {"text": "no rule"},
    }  # fmt: skip
    shown = [
        {"kind": "thinking", "value": "Hm."}, {"value": "I "}, {"value": "build."},
        {"kind": "toolInvocationSerialized", "toolCallId": "t1", "toolId": "run_in_terminal",
         "toolSpecificData": terminal},
        {"kind": "undoStop"}, {"value": "It failed."},
    ]  # fmt: skip
    request = {**REQUEST, "response": shown, "result": {"errorDetails": {"message": "net"}}}
    batch, _ = read(written(tmp_path, {**SESSION, "requests": [request]}))
    first, last = models(batch)
    (call,) = tools(batch)
    assert (call.arguments, call.error) == ({"command": "make"}, "exit code 2")
    assert first.response.message is not None
    assert first.response.message.body["content"] == "I build."
    assert NO_ROUNDS in last.fidelity.reasons
    assert agents(batch)[0].error == "net"


def test_a_journal_is_the_session_after_its_changes(tmp_path: Path) -> None:
    begun = {**SESSION, "requests": []}
    gone = {**REQUEST, "message": {"text": "No"}}
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
    whole, _ = read(written(tmp_path / "a", SESSION))
    path = written(
        tmp_path / "b",
        {"kind": 0, "v": begun},
        {"kind": 2, "k": ["requests"], "v": [gone]},
        {"kind": 2, "k": ["requests"], "v": [{**REQUEST, "result": None}], "i": 0},
        {"kind": 1, "k": ["requests", 0, "result"], "v": {"metadata": METADATA}},
        {"kind": 1, "k": ["customTitle"], "v": "Fixed"},
        {"kind": 1, "k": ["requests", 9, "result"], "v": {}},
        name="s1.jsonl",
    )
    batch, tally = read(path)
    assert [span.id for span in batch.spans] == [span.id for span in whole.spans]
    assert batch.header.title == "Fixed"
    assert tally.problems[0].why == "changes what is not there"


def test_a_session_without_an_answer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadTrace, match="no answer"):
        read(written(tmp_path, {**SESSION, "requests": []}))
