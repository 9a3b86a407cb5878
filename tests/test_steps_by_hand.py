"""One step of each format that has a real file, as a person reads it in the raw file.

Each row was held against the file itself, beside what the importer made of it: what the model had
been shown, what it answered, which tools it called and what came back. Texts are their beginnings.
"""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import Struct

from replay import formats
from replay.formats.source import Source, Tally
from replay.messages import calls, observed, text
from replay.trace import Batch, Level, Message, ModelCall, ToolCall
from tests.shared import DATA, needs_shared

pytestmark = needs_shared

Called = tuple[str, Any, str | None]
"""A tool, its arguments, and how its result begins."""


class Step(Struct, frozen=True, kw_only=True):
    """A model call: its place among those of the file's first trace, the system prompt, what it
    was shown after that by (role, text), the answer and its calls."""

    file: str
    at: int
    level: Level
    system: str | None = None
    shown: tuple[tuple[str, str], ...] = ()
    said: str = ""
    called: tuple[Called, ...] = ()
    input_tokens: int | None = None


MIT = "Certainly! I'll add the MIT license to the repository in /workspace."
LOOKS = "Executing bash with args: {'cmd': 'ls'}"
FILES = "bin\nboot\ndev\netc\n"
SWE = ("swe_agent/tests/test_data/trajectories/gpt4__swe-agent-test-repo__default_from_url__t-0.00"
       "__p-0.95__c-3.00__install-1/6e44b9__sweagenttestrepo-1c2844.traj")  # fmt: skip

STEPS = {
    "inspect": Step(
        file="inspect_ai/tests/log/test_eval_log/log_message_deduplication.eval", at=1,
        level=Level.EXACT,
        shown=(("user", "Guess the number"), ("assistant", LOOKS), ("tool", FILES)),
        said=LOOKS, called=(("bash", {"cmd": "ls"}, FILES),),
    ),
    "atif": Step(
        file="terminal_bench/pypi-server__XLnvB86/agent/trajectory.json", at=1,
        level=Level.PARTIAL,  # the answer before it is empty
        shown=(("user", "Create a python package called vectorops, then build"),),
        said="I'll create the vectorops package, build it, and set up a local PyPI server.",
        called=(("Bash", {"command": "}pip install pypiserver build twine --quiet{"},
                 "Exit code 127\n/bin/bash: line 1: }pip: command not found"),),
        input_tokens=21_417,
    ),
    "claude-code": Step(
        file="claude_code_runs/claude_code_c4__hello-world.jsonl.gz", at=1,
        level=Level.PARTIAL,  # what was asked is not in the stream
        shown=(("assistant", "I'll create a file called hello.txt"),
               ("user", "File created successfully at: /app/hello.txt")),
        said="Perfect! I've created the hello.txt file in the current directory",
    ),
    "openclaw": Step(
        file="openclaw/b3db607f-7ae8-4089-b806-44800e961672.jsonl", at=1,
        level=Level.PARTIAL,
        shown=(("assistant", "✅ New session started"),
               ("user", "A new session was started via /new or /reset."),
               ("assistant", ""), ("user", '{\n  "status": "error",\n  "tool": "read"'),
               ("user", "🦞 OpenClaw 2026.2.23 (a6ceb5b)")),
        called=(("exec", {"command": "ls -la /home/node/.openclaw/workspace/memory/"},
                 "ls: cannot access '/home/node/.openclaw/workspace/memory/'"),),
        input_tokens=13_963,
    ),
    "anthropic": Step(
        file="formats/anthropic-messages/pairs.jsonl", at=1, level=Level.EXACT,
        system="You are a support agent.",
        shown=(("user", "Where is W123?"), ("assistant", "Let me check."),
               ("user", '{"status":"shipped"}')),
        said="It shipped.", input_tokens=1_590,
    ),
    "otlp": Step(  # the request holds the results alone and goes on with the thread before it
        file="formats/otlp/anthropic_sdk_2.11_tool_runner.jsonl", at=1, level=Level.PARTIAL,
        system="You are a support agent.",
        shown=(("user", "Where is W123?"), ("assistant", ""), ("tool", '{"status":"shipped"}'),
               ("tool", "ValueError('no such order')")),
        said="It shipped.", input_tokens=1_590,
    ),
    "openinference": Step(
        file="trail_swe/0e6f7928953ab5a568bae640ce915cc3.json", at=1, level=Level.PARTIAL,
        system="You are an expert assistant who can solve any task using code blobs.",
        shown=(("user", "New task:\nYou will be provided with a partial code base"),
               ("assistant", "I'll solve this issue by carefully analyzing the code"),
               ("tool-call", "Calling tools:\n[{'id': 'call_1', 'type': 'function'"),
               ("tool-response", "Call id: call_1\nObservation:\nExecution logs:\nSummary:")),
        said="I need to better parse the tree structure.\n\nThought: Let me try a different",
        called=(("python_interpreter", "import re\n\ndef print_tree_structure(tree):",
                 "Call id: call_2\nObservation:\nExecution logs:\nDirectory structure:"),),
        input_tokens=4_833,
    ),
    "langfuse": Step(  # the input of the observation is a slip: {"content": "role"}
        file="langfuse/chatml/claude-agent-2025-12-22.trace.json", at=1, level=Level.NONE,
        called=(("mcp__weather__get_weather", {"city": "Berlin"},
                 '{"content":[{"type":"text","text":"Weather in Berlin: Cloudy, 59°F"}]}'),),
        input_tokens=5,
    ),
    "swe-agent": Step(
        file=SWE, at=1, level=Level.PARTIAL,
        system="SETTING: You are an autonomous programmer",
        shown=(("user", "We're currently solving the following issue within our repository."),
               ("assistant", "To start addressing this issue, I will first search for the"),
               ("tool", 'Found 1 matches for "missing_colon.py"')),
        said="The file `missing_colon.py` is located in the `tests` directory.",
        called=(("open", {"path": "/SWE-agent__test-repo/tests/missing_colon.py"},
                 "[File: /SWE-agent__test-repo/tests/missing_colon.py (10 lines total)]"),),
    ),
    "mini-swe-agent": Step(
        file="mini_swe_agent/tests/test_data/local.traj.json", at=0, level=Level.REBUILT,
        system="You are a helpful assistant that can interact with a computer.",
        shown=(("user", "Please solve this issue: Blah blah blah"),),
        said="Here be some dummy command:",
        called=(("bash", {"command": "echo 'hello world'"}, "<returncode>0</returncode>"),),
    ),
    "openhands": Step(
        file="openhands/tests__unit__resolver__mock_output__output.jsonl", at=0,
        level=Level.PARTIAL,
        shown=(("user", "Please fix the following issue for the repository in /workspace."),),
        said=MIT,
        called=(("run", {"command": "touch LICENSE"}, "\r\nroot@bcd3959393a1:/workspace # "),),
    ),
    "whowhen": Step(  # a group chat: roles as recorded, whoever speaks
        file="whowhen/Algorithm-Generated/17.json", at=1, level=Level.PARTIAL,
        system="## Your role\nAs Verification_Expert",
        shown=(("user", "The longest-lived vertebrate is named after an island."),
               ("assistant", "You are given: (1) a task and advises from your manager")),
        said="To verify the provided information on the 2020 estimated population of Greenland",
    ),
    "toolbench": Step(  # both calls stand in turns without a word before them
        file="toolbench/G1_tool.json", at=1, level=Level.NONE,
        shown=(("user", "Retrieve all the quizzes available on MoodRing"), ("assistant", ""),
               ("tool", '{"error": "", "response": "[{')),
        called=(("responses_for_moodring", {}, '{"error": "", "response": "[{'),),
    ),
    "tau-bench": Step(
        file="tau_bench/gpt-4o-airline.json", at=2, level=Level.PARTIAL,
        system="# Airline Agent Policy\n\nThe current time is 2024-05-15 15:00:00 EST.",
        shown=(("user", "Hi! I'm looking to book a flight from New York to Seattle on May 20th."),
               ("assistant", "To assist you with booking a flight, I'll need your user ID."),
               ("user", "Sure, my user ID is mia_li_3668."),
               ("assistant", "Thank you, Mia."), ("user", "1. One-way\n2. Economy")),
        called=(("get_user_details", {"user_id": "mia_li_3668"},
                 '{"name": {"first_name": "Mia", "last_name": "Li"}'),),
    ),
    "chat": Step(
        file="formats/inspect/generated_react_subagent.sample.json", at=1, level=Level.PARTIAL,
        system="\nYou are a helpful assistant attempting to submit the best possible answer.",
        shown=(("user", "Where is order W123?"), ("assistant", "let me look"), ("tool", "")),
        said="retry",
        called=(("get_order", {"order_id": "W123"}, '{"order_id":"W123","status":"shipped"}'),),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", STEPS)
def test_a_step_is_read_as_a_person_reads_it(name: str) -> None:
    told = STEPS[name]
    source = Source(DATA / told.file)
    found = formats.sniff(source)
    assert found is not None
    assert name == found.NAME
    batch = next(formats.load(source, Tally()))
    ask = [span for span in batch.spans if isinstance(span, ModelCall)][told.at]
    assert ask.fidelity.level is told.level
    assert (ask.request.system is None) == (told.system is None)
    if ask.request.system is not None and told.system is not None:
        assert text(ask.request.system).startswith(told.system)
    shown = ask.request.context.messages() if ask.request.context is not None else []
    assert [message.role for message in shown] == [role for role, _ in told.shown]
    for message, (_, words) in zip(shown, told.shown, strict=True):
        assert begins(text(message), words)
    answer = ask.response.message
    assert answer is not None
    assert begins(text(answer), told.said)
    assert_called(batch, ask, answer, told.called)
    if told.input_tokens is not None:
        assert ask.usage is not None
        assert ask.usage.input_tokens == told.input_tokens


def begins(said: str, words: str) -> bool:
    """A text that is told to be empty has to be."""
    return said.startswith(words) if words else not said


def assert_called(batch: Batch, ask: ModelCall, answer: Message, told: tuple[Called, ...]) -> None:
    """The calls that ran, with their results; where the answer holds calls, they are these."""
    ran = [span for span in batch.spans if isinstance(span, ToolCall) and span.asked_by == ask.id]
    assert [span.name for span in ran] == [name for name, _, _ in told]
    assert [call.name for call in calls(answer)] in ([], [name for name, _, _ in told])
    for span, (_, arguments, result) in zip(ran, told, strict=True):
        if isinstance(arguments, str):
            assert str(span.arguments).startswith(arguments)
        else:
            assert span.arguments == arguments
        if result is not None:
            assert span.observation is not None
            assert observed(span.observation).text.startswith(result)
