"""mini-swe-agent trajectories: the conversation as requests, commands as calls, lost answers kept.

Files with whole answers of a provider, of the Responses API and with unusable answers were not at
hand; they are written here after the agent's own models.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from replay.errors import BadTrace
from replay.formats import load, mini_swe_agent, sniff
from replay.formats.mini_swe_agent import BASH, NO_REASONING
from replay.formats.source import Source, Tally
from replay.messages import observed, text, thinking
from replay.trace import NO_SYSTEM, NO_TOOLS, Batch, Cost, Level, Usage
from tests.replay.foreign_case import mutated, stored
from tests.replay.kinds import agents, models, seen, tools
from tests.shared import DATA, needs_shared

Value = dict[str, Any]

SYSTEM: Value = {"role": "system", "content": "You help."}
TASK: Value = {
    "role": "user",
    "content": "<pr_description>\nConsider the following PR description:\nIt crashes.\n",
}


def answer(words: str, *calls: Value, stop: str = "tool_calls") -> Value:
    message = {"role": "assistant", "content": words, "tool_calls": list(calls) or None}
    return {
        "id": "r-1", "object": "chat.completion", "model": "gpt-5-mini-2025",
        "choices": [{"finish_reason": stop, "message": message}],
        "usage": {"prompt_tokens": 100, "completion_tokens": 20,
                  "prompt_tokens_details": {"cached_tokens": 60},
                  "completion_tokens_details": {"reasoning_tokens": 5}},
    }  # fmt: skip


def bash(command: str, call_id: str) -> Value:
    function = {"name": "bash", "arguments": json.dumps({"command": command})}
    return {"id": call_id, "type": "function", "function": function}


def said(words: str, at: float, *calls: Value) -> Value:
    whole = answer(words, *calls)
    actions = [
        {"command": json.loads(c["function"]["arguments"])["command"], "tool_call_id": c["id"]}
        for c in calls
    ]
    extra = {"actions": actions, "response": whole, "cost": 0.5, "timestamp": at}
    return {**whole["choices"][0]["message"], "extra": extra}


def result(words: str, call_id: str, at: float, code: int = 0, **extra: Any) -> Value:
    more = {"raw_output": words, "returncode": code, "timestamp": at, **extra}
    return {"role": "tool", "tool_call_id": call_id, "content": words, "extra": more}


def ended(status: str = "Submitted", submission: str = "diff", **extra: Any) -> Value:
    more = {"exit_status": status, "submission": submission, **extra}
    return {"role": "exit", "content": submission, "extra": more}


MESSAGES = [
    SYSTEM,
    TASK,
    said("I look.", 1_700_000_002.5, bash("ls", "c1"), bash("pwd", "c2")),
    result("a.py", "c1", 1_700_000_003.0),
    result("no such", "c2", 1_700_000_004.0, code=2),
    said("Done.", 1_700_000_006.0, bash("echo COMPLETE", "c3")),
    ended(),
]
CONFIG: Value = {
    "model": {"model_name": "openai/gpt-5-mini", "model_kwargs": {"temperature": 0.0}},
    "model_type": "minisweagent.models.litellm_model.LitellmModel",
}
RUN: Value = {
    "info": {"model_stats": {"instance_cost": 1.0, "api_calls": 2}, "config": CONFIG,
             "mini_version": "2.4.6", "exit_status": "Submitted", "submission": "diff"},
    "messages": MESSAGES,
    "trajectory_format": "mini-swe-agent-1.1",
}  # fmt: skip


def read(folder: Path, run: Any = RUN, *, name: str = "run.traj.json") -> tuple[Batch, Tally]:
    path = folder / name
    path.write_text(json.dumps(run, indent=2))
    tally = Tally()
    source = Source(path)
    assert sniff(source) is mini_swe_agent
    (batch,) = load(source, tally)
    return batch, tally


def of(*messages: Value, **info: Any) -> Value:
    return {**RUN, "messages": list(messages), "info": {**RUN["info"], **info}}


# --- calls of tools


def test_an_answer_is_a_model_call_with_what_the_provider_said_of_it(tmp_path: Path) -> None:
    batch, tally = read(tmp_path)
    first, second = models(batch)
    assert first.usage == Usage(
        input_tokens=100, output_tokens=20, reasoning_tokens=5, cache_read_tokens=60
    )
    assert first.cost == Cost(usd=0.5, source="recorded")
    assert (first.response.model, first.response.stop) == ("gpt-5-mini-2025", "tool")
    assert (first.request.model, first.request.params) == (
        "openai/gpt-5-mini",
        {"temperature": 0.0},
    )
    assert (first.start_ns, first.end_ns) == (None, 1_700_000_002_500_000_000)
    assert (second.start_ns, second.time_quality) == (1_700_000_004_000_000_000, "derived")
    assert tally.problems == []


def test_results_answer_their_calls_and_a_failing_command_is_an_error(tmp_path: Path) -> None:
    look, place, _ = tools(read(tmp_path)[0])
    assert (look.status, place.status, place.error) == ("ok", "error", "exit code 2")
    assert place.observation is not None
    assert observed(place.observation).text == "no such"
    assert look.end_ns == 1_700_000_003_000_000_000


@pytest.mark.slow
def test_the_request_is_every_message_before_without_the_harness_s_notes(tmp_path: Path) -> None:
    _, second = models(read(tmp_path)[0])
    assert second.request.system is not None
    assert [role for role, _ in seen(second)] == ["user", "assistant", "tool", "tool"]
    assert second.request.context is not None
    assert not any("extra" in m.body for m in second.request.context.messages())
    assert second.request.tools == (BASH,)
    assert second.fidelity.level is Level.REBUILT


def test_the_tool_is_not_claimed_for_a_model_that_is_not_the_agent_s_own(tmp_path: Path) -> None:
    own = {**CONFIG, "model_type": "mine.Model"}
    (first, _) = models(read(tmp_path, of(*MESSAGES, config=own))[0])
    assert first.request.tools is None
    assert NO_TOOLS in first.fidelity.reasons


def test_what_was_handed_in_is_the_last_command_s_result(tmp_path: Path) -> None:
    last = tools(read(tmp_path)[0])[-1]
    assert last.observation is not None
    assert observed(last.observation).text == "diff"
    stopped = [*MESSAGES[:-1], ended("LimitsExceeded", "")]
    assert tools(read(tmp_path, of(*stopped))[0])[-1].observation is None


def test_an_unusable_answer_is_paid_for_and_joins_no_context(tmp_path: Path) -> None:
    lost = {
        "role": "user",
        "content": "Unknown tool 'rm'.",
        "extra": {"interrupt_type": "FormatError", "cost": 0.25,
                  "response": answer("I remove.", bash("rm -r /", "c0"))},
    }  # fmt: skip
    batch, _ = read(tmp_path, of(SYSTEM, TASK, lost, *MESSAGES[2:]))
    first, second, _ = models(batch)
    assert first.response.message is not None
    assert text(first.response.message) == "I remove."
    assert first.cost == Cost(usd=0.25, source="recorded")
    assert first.extra == {"interrupt": "FormatError"}
    refused = tools(batch)[0]
    assert (refused.status, refused.error, refused.observation) == (
        "error",
        "Unknown tool 'rm'.",
        None,
    )
    assert seen(second) == [("user", TASK["content"]), ("user", "Unknown tool 'rm'.")]


# --- commands written as text


def fenced(words: str, command: str, mark: str = "bash") -> Value:
    return {"role": "assistant", "content": f"{words}\n\n```{mark}\n{command}\n```"}


V1 = [
    SYSTEM,
    TASK,
    fenced("I look.", "ls"),
    {"role": "user", "content": "<returncode>1</returncode>\n<output>\nno</output>"},
    {"role": "assistant", "content": "I think."},
    {"role": "user", "content": "Please always provide EXACTLY ONE action."},
    fenced("Done.", "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT", "mswea_bash_command"),
    {"role": "user", "content": "diff"},
]


def test_a_fenced_command_is_a_call_and_the_next_message_its_result(tmp_path: Path) -> None:
    batch, _ = read(tmp_path, V1)
    look, done = tools(batch)
    first, silent, last = models(batch)
    assert [look.asked_by, done.asked_by] == [first.id, last.id]
    assert (look.name, look.arguments, look.error) == ("bash", {"command": "ls"}, "exit code 1")
    assert look.observation is not None
    assert "no</output>" in observed(look.observation).text
    assert silent.request.tools == ()
    assert silent.fidelity.level is Level.REBUILT
    assert batch.header.outcome.value is None


def test_several_fences_are_no_command(tmp_path: Path) -> None:
    two = fenced("a", "ls")["content"] + fenced("b", "pwd")["content"]
    run = [SYSTEM, TASK, {"role": "assistant", "content": two}, *V1[2:]]
    assert len(tools(read(tmp_path, run)[0])) == 2


def test_a_command_may_stand_between_tags(tmp_path: Path) -> None:
    tagged = {"role": "assistant", "content": "<mswea_bash_command>ls</mswea_bash_command>"}
    (look,) = tools(read(tmp_path, [SYSTEM, TASK, tagged, V1[3]])[0])
    assert look.arguments == {"command": "ls"}


def test_fences_that_never_close_are_looked_at_once(tmp_path: Path) -> None:
    words = "<mswea_bash_command>" * 100_000
    run = [SYSTEM, TASK, {"role": "assistant", "content": words}, V1[3]]
    assert tools(read(tmp_path, run)[0]) == []


def test_the_harness_s_own_reading_of_a_text_goes_before_ours(tmp_path: Path) -> None:
    noted = {**fenced("I look.", "ls"), "extra": {"actions": [{"command": "ls -la"}]}}
    (look,) = tools(read(tmp_path, of(SYSTEM, TASK, noted))[0])
    assert look.arguments == {"command": "ls -la"}
    assert look.observation is None


# --- the Responses API

RESPONSE: Value = {
    "id": "resp-1", "object": "response", "status": "completed", "model": "gpt-5",
    "output": [
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Where?"}]},
        {"type": "message", "content": [{"type": "output_text", "text": "I look."}]},
        {"type": "function_call", "call_id": "c1", "name": "bash",
         "arguments": "{\"command\": \"ls\"}"},
    ],
    "usage": {"input_tokens": 50, "output_tokens": 9, "input_tokens_details": {"cached_tokens": 8},
              "output_tokens_details": {"reasoning_tokens": 4}},
    "extra": {"actions": [{"command": "ls", "tool_call_id": "c1"}], "cost": 0.125,
              "timestamp": 1_700_000_000.0},
}  # fmt: skip
RETURNED: Value = {
    "type": "function_call_output", "call_id": "c1", "output": "a.py",
    "extra": {"returncode": 0, "timestamp": 1_700_000_001.0},
}  # fmt: skip


def test_an_object_of_the_responses_api_is_told_as_a_chat_message(tmp_path: Path) -> None:
    batch, _ = read(tmp_path, of(SYSTEM, TASK, RESPONSE, RETURNED, said("Done.", 1.0)))
    first, second = models(batch)
    assert first.response.message is not None
    assert text(first.response.message) == "I look."
    assert thinking(first.response.message) == "Where?"
    assert (first.response.id, first.response.stop) == ("resp-1", "tool")
    assert first.usage == Usage(
        input_tokens=50, output_tokens=9, reasoning_tokens=4, cache_read_tokens=8
    )
    (look,) = tools(batch)
    assert look.observation is not None
    assert (look.call_id, observed(look.observation).text) == ("c1", "a.py")
    assert first.fidelity.level is Level.REBUILT
    assert second.fidelity.reasons == (NO_REASONING,)


# --- the run as a whole


def test_the_header_names_the_issue_the_instance_and_the_cost(tmp_path: Path) -> None:
    header = read(tmp_path, name="org__repo-12.traj.json")[0].header
    assert (header.title, header.task, header.variant) == (
        "It crashes.",
        "org__repo-12",
        "openai/gpt-5-mini",
    )
    assert header.reported_cost_usd == 1.0
    assert read(tmp_path)[0].header.task is None


@pytest.mark.parametrize(
    ("status", "submission", "outcome"),
    [("Submitted", "", "unknown"), ("LimitsExceeded", "", "failed"), (None, None, "unknown")],
)
def test_an_ending_without_a_submission_is_a_failure(
    status: str | None, submission: str | None, outcome: str, tmp_path: Path
) -> None:
    run = of(*MESSAGES[:-1], exit_status=status, submission=submission)
    header = read(tmp_path, run)[0].header
    assert (header.outcome.status, header.outcome.value) == (outcome, status)


def test_an_exception_that_ended_the_run_is_its_error(tmp_path: Path) -> None:
    last = ended("RuntimeError", "", exception_str="no such model", traceback="Traceback …")
    (agent,) = agents(read(tmp_path, of(*MESSAGES[:-1], last, exit_status=None, submission=""))[0])
    assert (agent.status, agent.error) == ("error", "no such model")


def test_a_run_without_a_system_prompt_says_so(tmp_path: Path) -> None:
    (first, _) = models(read(tmp_path, of(*MESSAGES[1:]))[0])
    assert first.fidelity.reasons == (NO_SYSTEM,)


@pytest.mark.parametrize("whole", [{"info": {}}, {"messages": 1}, 7, None])
def test_a_document_without_messages_is_refused_with_a_sentence(whole: Any, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(json.dumps(whole))
    with pytest.raises(BadTrace, match="no list of `messages`"):
        list(load(Source(path), Tally(), format=mini_swe_agent))


WHOLE = of(SYSTEM, TASK, RESPONSE, RETURNED, *MESSAGES[2:-1], *V1[2:4], ended())


@given(run=mutated(WHOLE))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_anything_anywhere_gives_a_trace_or_a_sentence(run: Value, tmp_path: Path) -> None:
    path = tmp_path / "x.traj.json"
    path.write_text(json.dumps(run))
    for trace in stored(path, mini_swe_agent):
        assert len({span.id for span in trace.spans}) == len(trace.spans)


@given(size=st.integers(0, len(json.dumps(WHOLE))))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_a_file_cut_anywhere_gives_a_trace_or_a_sentence(size: int, tmp_path: Path) -> None:
    path = tmp_path / "x.traj.json"
    path.write_text(json.dumps(WHOLE)[:size])
    stored(path, mini_swe_agent)


# --- real files


@needs_shared
@pytest.mark.parametrize(
    ("name", "calls", "errors"),
    [
        ("generated_v2_toolcall.traj.json", 3, 1),
        ("github_issue.traj.json", 10, 2),
        ("local.traj.json", 2, 0),
    ],
)
def test_real_runs_are_read_whole(name: str, calls: int, errors: int) -> None:
    source, tally = Source(DATA / "formats" / "mini-swe-agent" / name), Tally()
    assert sniff(source) is mini_swe_agent
    (batch,) = load(source, tally)
    assert len(models(batch)) == len(tools(batch)) == calls
    assert sum(call.status == "error" for call in tools(batch)) == errors
    assert all(call.observation is not None for call in tools(batch))
    assert tally.problems == []
