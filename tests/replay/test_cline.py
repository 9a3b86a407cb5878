"""Tasks of Cline's and Roo Code's extensions: calls in the text and by the API, requests that are
shown beside, summaries. They are written after the source code of the two."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from replay.errors import BadTrace
from replay.formats import cline, load, part_of, sniff
from replay.formats.cline import CONDENSED
from replay.formats.source import Source, Tally
from replay.messages import observed
from replay.trace import Batch
from tests.replay.kinds import models, seen, tools

Value = dict[str, Any]
WHERE = "<environment_details>\n# Current Working Directory (/w) Files\n</environment_details>"


def said(role: str, *texts: str, **more: Any) -> Value:
    return {"role": role, "content": [{"type": "text", "text": each} for each in texts], **more}


def ask(second: int, **told: Any) -> Value:
    model = {"providerId": "anthropic", "modelId": "claude-sonnet-4-5"}
    at_ms = 1_790_000_000_000 + second * 1000
    text = json.dumps({"request": "…", **told})
    return {"ts": at_ms, "type": "say", "say": "api_req_started", "text": text, "modelInfo": model}


READ = "<thinking>I look.</thinking>\n<read_file>\n<path>a.py</path>\n</read_file>"
TASK = [
    said("user", "<task>\nFix a.py\n</task>", WHERE),
    said("assistant", READ),
    said("user", "[read_file for 'a.py'] Result:", "Error: no such file", WHERE),
    said("assistant", "<attempt_completion>\n<result>Done.</result>\n</attempt_completion>"),
]
COSTS = {"tokensIn": 100, "tokensOut": 20, "cacheWrites": 30, "cacheReads": 400, "cost": 0.01}
ASKS = [{"ts": 1, "type": "say", "say": "task"}, ask(0, **COSTS), ask(9, tokensIn=5, tokensOut=7)]


def read(tmp_path: Path, messages: Any, asks: list[Value] | None = None) -> tuple[Batch, Tally]:
    path = tmp_path / "1790000000000" / "api_conversation_history.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(messages))
    beside = path.with_name("ui_messages.json")
    if asks is not None:
        beside.write_text(json.dumps(asks))
        assert part_of(beside) == path
    source, tally = Source(path), Tally()
    assert sniff(source) is cline
    (batch,) = load(source, tally)
    return batch, tally


def test_calls_in_the_text_and_what_came_back_are_told(tmp_path: Path) -> None:
    batch, tally = read(tmp_path, TASK, ASKS)
    looked, done = tools(batch)
    assert (looked.name, looked.arguments) == ("read_file", {"path": "a.py"})
    assert looked.observation is not None
    assert observed(looked.observation).text == "Error: no such file"
    assert (looked.status, done.status, done.observation) == ("error", "unset", None)
    assert [call.asked_by for call in tools(batch)] == [each.id for each in models(batch)]
    assert (batch.header.title, batch.header.source_id) == ("Fix a.py", "1790000000000")
    assert batch.header.labels == {"cwd": "/w"}
    assert tally.problems == []


def test_the_requests_beside_have_times_tokens_models_and_costs(tmp_path: Path) -> None:
    first, last = models(read(tmp_path, TASK, ASKS)[0])
    assert first.usage is not None
    assert (first.usage.input_tokens, first.usage.cache_read_tokens) == (530, 400)
    assert (first.cost and first.cost.usd, last.cost) == (0.01, None)
    assert (first.request.model, first.start_ns) == ("claude-sonnet-4-5", 1_790_000_000 * 10**9)
    assert (last.start_ns, last.end_ns) == (1_790_000_009 * 10**9, None)


def test_the_input_of_roo_code_counts_the_cache_in(tmp_path: Path) -> None:
    costs = {**COSTS, "tokensIn": 530, "apiProtocol": "anthropic"}
    used = models(read(tmp_path, TASK, [ask(0, **costs), ask(9)])[0])[0].usage
    assert used is not None
    assert (used.input_tokens, used.cache_write_tokens) == (530, 30)


def test_a_cancelled_request_is_of_no_answer(tmp_path: Path) -> None:
    asks = [ask(0, cancelReason="user_cancelled"), *ASKS[1:]]
    assert [bool(each.usage) for each in models(read(tmp_path, TASK, asks)[0])] == [True, True]


def test_requests_that_match_no_answers_are_left_out_and_said(tmp_path: Path) -> None:
    batch, tally = read(tmp_path, TASK, [*ASKS, ask(10, tokensOut=3)])
    assert [each.usage for each in models(batch)] == [None, None]
    (problem,) = tally.problems
    assert problem.why.startswith("3 requests of 2 answers")


def test_calls_by_the_api_and_a_summary(tmp_path: Path) -> None:
    call = {"type": "tool_use", "id": "t1", "name": "read_file", "input": {"path": "a.py"}}
    back = {"type": "tool_result", "tool_use_id": "t1", "content": "print(1)"}
    batch, tally = read(
        tmp_path,
        [
            said("user", "<user_message>\nWhat is it?\n</user_message>", WHERE),
            {"role": "assistant", "content": [call], "ts": 1_790_000_001_000},
            {"role": "user", "content": [back], "ts": 1_790_000_002_000},
            said("user", "They read a.py.", isSummary=True),
            said("assistant", "It prints 1."),
            {"type": "reasoning", "summary": []},
        ],
    )
    (looked,) = tools(batch)
    assert looked.observation is not None
    assert (looked.call_id, looked.status, looked.duration_ns) == ("t1", "ok", 10**9)
    assert seen(models(batch)[1]) == [("user", "They read a.py.")]
    assert CONDENSED in models(batch)[1].fidelity.reasons
    assert dict(tally.unknown) == {"reasoning": 1}


def test_a_task_without_an_answer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadTrace, match="no message of a model"):
        read(tmp_path, TASK[:1])
