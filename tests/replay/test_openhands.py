"""OpenHands runs: actions and results of both generations of events, figures, sub-agents.

Events of the SDK, delegations and condensations were not at hand; they are written here after the
tool's own event classes.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from replay.errors import BadTrace
from replay.formats import load, openhands, part_of, sniff
from replay.formats.openhands.runs import NO_SCHEMAS, RECALLED, RECAST, UNWORDED
from replay.formats.source import Source, Tally
from replay.messages import calls, observed, text, thinking
from replay.trace import NO_SYSTEM, NO_TOOLS, Batch, Cost, OtherSpan, Usage
from tests.replay.foreign_case import lines, mutated, stored
from tests.replay.kinds import agents, models, seen, tools
from tests.shared import DATA, needs_shared

Value = dict[str, Any]

TOOL: Value = {
    "type": "function",
    "function": {"name": "execute_bash", "description": "Run.", "parameters": {"type": "object"}},
}


def at(second: float) -> str:
    return f"2025-04-30T16:32:{second:09.6f}"


def whole(words: str, *called: Value, name: str = "gen-1") -> Value:
    message = {"role": "assistant", "content": words, "tool_calls": list(called) or None}
    return {
        "id": name, "object": "chat.completion", "model": "llama-4",
        "choices": [{"finish_reason": "tool_calls", "message": message}],
        "usage": {"prompt_tokens": 50, "completion_tokens": 5},
    }  # fmt: skip


def bash(call_id: str, command: str) -> Value:
    function = {"name": "execute_bash", "arguments": json.dumps({"command": command})}
    return {"id": call_id, "type": "function", "function": function}


def act(number: int, second: float, call_id: str, answer: Value, **args: Any) -> Value:
    about = {"function_name": "execute_bash", "tool_call_id": call_id, "model_response": answer,
             "total_calls_in_response": 1}  # fmt: skip
    return {"id": number, "timestamp": at(second), "source": "agent", "action": "run",
            "args": args, "message": "Running", "tool_call_metadata": about}  # fmt: skip


def result(number: int, second: float, cause: int, words: str, code: int = 0) -> Value:
    return {"id": number, "timestamp": at(second), "source": "agent", "cause": cause,
            "observation": "run", "content": words, "message": "Ran",
            "extras": {"metadata": {"exit_code": code}}, "success": code == 0}  # fmt: skip


SYSTEM: Value = {"id": 0, "timestamp": at(0), "source": "agent", "action": "system",
                 "args": {"content": "You are OpenHands.", "tools": [TOOL]}}  # fmt: skip
TASK: Value = {"id": 1, "timestamp": at(1), "source": "user", "action": "message",
               "args": {"content": "<issue_description>\nIt crashes.\n"}}  # fmt: skip
BOTH = whole("I look.", bash("c1", "ls"), bash("c2", "make"))
ENDS = {"id": "c3", "type": "function", "function": {"name": "finish", "arguments": "{}"}}
FINISH = whole("Done.", ENDS, name="gen-2")
EVENTS = [
    SYSTEM,
    TASK,
    act(2, 4, "c1", BOTH, command="ls"),
    result(3, 5, 2, "a.c"),
    act(4, 6, "c2", BOTH, command="make"),
    result(5, 8, 4, "no rule", code=2),
    {**act(6, 10, "c3", FINISH), "action": "finish"},
]
RUN: Value = {
    "instance_id": "org__repo-1", "test_result": {"git_patch": "diff"}, "instruction": "fix",
    "metadata": {"agent_class": "CodeActAgent",
                 "llm_config": {"model": "openai/llama", "temperature": 0.0, "api_key": "sk-none"}},
    "history": EVENTS, "error": None,
    "metrics": {"accumulated_cost": 0.75, "costs": [{"cost": 0.5}, {"cost": 0.25}],
                "response_latencies": [{"latency": 2.5, "response_id": "gen-1"}],
                "token_usages": []},
}  # fmt: skip


def read(folder: Path, *runs: Value, name: str = "output.jsonl") -> tuple[list[Batch], Tally]:
    path = folder / name
    path.write_bytes(lines(list(runs or (RUN,))))
    tally = Tally()
    source = Source(path)
    assert sniff(source) is openhands
    return list(load(source, tally)), tally


def told(folder: Path, *events: Value, **changed: Any) -> tuple[Batch, Tally]:
    (batch,), tally = read(folder, {**RUN, "history": list(events), **changed})
    return batch, tally


# --- the runtime's events


def test_actions_of_one_answer_are_one_model_call_with_its_calls(tmp_path: Path) -> None:
    (batch,), tally = read(tmp_path)
    first, second = models(batch)
    assert first.response.message is not None
    assert len(calls(first.response.message)) == 2
    assert [each.asked_by for each in tools(batch)] == [first.id, first.id, second.id]
    assert (first.response.model, first.request.model) == ("llama-4", "openai/llama")
    assert [each.place.message for each in tools(batch)] == [2, 4, 6]
    assert tally.problems == []


def test_a_result_answers_the_action_it_names_and_tells_its_exit_code(tmp_path: Path) -> None:
    look, make, finish = tools(read(tmp_path)[0][0])
    assert look.observation is not None
    assert observed(look.observation).text == "a.c"
    assert (make.status, make.error) == ("error", "exit code 2")
    assert finish.observation is None
    assert look.duration_ns == 1_000_000_000


def test_latency_cost_and_tokens_come_to_the_call_they_are_of(tmp_path: Path) -> None:
    first, second = models(read(tmp_path)[0][0])
    assert first.duration_ns == 2_500_000_000
    assert first.usage == second.usage == Usage(input_tokens=50, output_tokens=5)
    assert [first.cost, second.cost] == [
        Cost(usd=0.5, source="recorded"),
        Cost(usd=0.25, source="recorded"),
    ]


def test_the_request_has_the_prompt_the_tools_and_all_before_it(tmp_path: Path) -> None:
    _, second = models(read(tmp_path)[0][0])
    assert second.request.system is not None
    assert [tool.name for tool in second.request.tools or ()] == ["execute_bash"]
    assert [role for role, _ in seen(second)] == ["user", "assistant", "tool", "tool"]
    assert second.fidelity.reasons == (UNWORDED,)


def test_what_was_recalled_stands_beside_and_weakens_the_requests(tmp_path: Path) -> None:
    facts = {"microagent_knowledge": [{"name": "git"}]}
    recall = {"id": 9, "source": "environment", "observation": "recall", "cause": 8,
              "content": "Added", "extras": {"recall_type": "workspace", **facts}}  # fmt: skip
    batch, _ = told(tmp_path, *EVENTS[:2], recall, *EVENTS[2:])
    assert RECALLED in models(batch)[0].fidelity.reasons
    (aside,) = [span for span in batch.spans if isinstance(span, OtherSpan)]
    assert aside.extra == facts


def test_a_condensation_takes_what_it_forgot_out_of_the_context(tmp_path: Path) -> None:
    condensed = {"id": 7, "timestamp": at(9), "source": "agent", "action": "condensation",
                 "args": {"forgotten_events_start_id": 2, "forgotten_events_end_id": 5,
                          "summary": "It looked.", "summary_offset": 2}}  # fmt: skip
    batch, _ = told(tmp_path, *EVENTS[:6], condensed, EVENTS[6])
    assert seen(models(batch)[-1]) == [
        ("user", "<issue_description>\nIt crashes.\n"),
        ("user", "It looked."),
    ]


def test_an_agent_that_was_sent_is_a_thread_until_it_returns(tmp_path: Path) -> None:
    sent = {**act(2, 4, "c1", whole("I send.", bash("c1", "browse"))), "action": "delegate",
            "args": {"agent": "BrowsingAgent", "inputs": {"task": "Look it up."}}}  # fmt: skip
    inner = act(3, 5, "b1", whole("I browse.", bash("b1", "open"), name="gen-b"))
    back = {"id": 5, "timestamp": at(8), "source": "agent", "observation": "delegate", "cause": 2,
            "content": "Found it.", "extras": {"outputs": {}}}  # fmt: skip
    batch, _ = told(tmp_path, *EVENTS[:2], sent, inner, result(4, 6, 3, "page"), back, EVENTS[6])
    root, browsing = agents(batch)
    assert browsing.name == "BrowsingAgent"
    assert browsing.parent == tools(batch)[0].id
    asked, browsed, last = models(batch)
    assert [asked.parent, browsed.parent, last.parent] == [root.id, browsing.id, root.id]
    assert seen(browsed) == [("user", "Look it up.")]
    assert seen(last)[-1] == ("tool", "Found it.")
    assert browsed.request.system is None


def test_a_file_the_editor_refused_to_change_is_an_error(tmp_path: Path) -> None:
    refused = {**result(3, 5, 2, "ERROR:\nNo replacement"), "observation": "edit", "extras": {}}
    (look, *_) = tools(told(tmp_path, *EVENTS[:3], refused)[0])
    assert look.status == "error"


def test_the_oldest_events_are_paired_by_their_order(tmp_path: Path) -> None:
    events = [
        {"action": "message", "content": "Fix it."},
        {"action": "run", "command": "ls", "thought": "I look.", "keep_prompt": True},
        {"observation": "run", "command": "ls", "content": "a.c", "exit_code": 0},
        {"action": "finish", "outputs": {}, "thought": "Done."},
    ]
    run = {"issue": {"owner": "o", "repo": "r", "number": 5, "title": "Add it"},
           "instruction": "Fix it.", "history": events, "success": True,
           "metrics": {"accumulated_cost": 0.3, "costs": [0.1, 0.2]},
           "result_explanation": "It did."}  # fmt: skip
    (batch,), tally = read(tmp_path, run)
    look, finish = tools(batch)
    assert (look.name, look.arguments) == ("run", {"command": "ls"})
    assert look.observation is not None
    assert observed(look.observation).text == "a.c"
    assert finish.observation is None
    first, second = models(batch)
    assert first.fidelity.reasons == (NO_SYSTEM, NO_TOOLS, UNWORDED, RECAST)
    assert second.cost == Cost(usd=0.2, source="recorded")
    assert (batch.header.title, batch.header.task) == ("Add it", "o/r#5")
    (score,) = batch.scores
    assert (score.name, score.value, score.explanation) == ("success", 1.0, "It did.")
    assert batch.header.outcome.status == "unknown"
    assert tally.problems == []


# --- the SDK's events


def sdk(kind: str, name: str, second: float, source: str = "agent", **fields: Any) -> Value:
    return {"id": name, "timestamp": at(second), "source": source, "kind": kind, **fields}


def words(content: str) -> Value:
    return {"type": "text", "text": content}


def sdk_act(name: str, second: float, call_id: str, thought: str, answer: str) -> Value:
    return sdk(
        "ActionEvent", name, second,
        thought=[words(thought)] if thought else [], reasoning_content="Hm.",
        action={"kind": "TerminalAction", "command": call_id}, tool_name="terminal",
        tool_call_id=call_id, llm_response_id=answer,
        tool_call={"id": call_id, "name": "terminal",
                   "arguments": json.dumps({"command": call_id})},
    )  # fmt: skip


def sdk_saw(name: str, second: float, call_id: str, content: str, code: int = 0) -> Value:
    return sdk(
        "ObservationEvent", name, second, "environment",
        tool_name="terminal", tool_call_id=call_id, action_id="?",
        observation={"kind": "TerminalObservation", "content": [words(content)],
                     "exit_code": code},
    )  # fmt: skip


SDK = [
    sdk("SystemPromptEvent", "s", 0, system_prompt=words("You are OpenHands."),
        tools=[{"kind": "TerminalTool", "title": "terminal", "description": "Run."}]),
    sdk("MessageEvent", "m", 1, "user",
        llm_message={"role": "user", "content": [words("Fix it.")]},
        extended_content=[words("Use git.")]),
    sdk_act("a1", 3, "t1", "I look.", "resp-1"),
    sdk_act("a2", 3, "t2", "", "resp-1"),
    sdk_saw("o1", 4, "t1", "a.c"),
    sdk_saw("o2", 5, "t2", "no rule", code=2),
    sdk("AgentErrorEvent", "e", 6, tool_name="terminal", tool_call_id="t3", error="No such tool."),
    sdk("MessageEvent", "z", 8, llm_message={"role": "assistant", "content": [words("Done.")]},
        llm_response_id="resp-2"),
]  # fmt: skip


def sdk_run(*events: Value) -> Value:
    return {
        "instance_id": "org__repo-2", "attempt": 3, "test_result": {"git_patch": "diff"},
        "instruction": "fix", "metadata": {"llm": {"model": "claude"}}, "history": list(events),
        "metrics": {"accumulated_cost": 0.0, "costs": [],
                    "token_usages": [{"response_id": "resp-2", "prompt_tokens": 70,
                                      "completion_tokens": 7, "cache_read_tokens": 30}]},
    }  # fmt: skip


def test_events_of_the_sdk_are_read_the_same(tmp_path: Path) -> None:
    (batch,), tally = read(tmp_path, sdk_run(*SDK[:6], SDK[7]))
    first, second = models(batch)
    assert first.response.message is not None
    assert [call.id for call in calls(first.response.message)] == ["t1", "t2"]
    assert thinking(first.response.message) == "Hm."
    assert [each.status for each in tools(batch)] == ["ok", "error"]
    assert seen(first) == [("user", "Fix it.\nUse git.")]
    assert second.usage == Usage(input_tokens=70, output_tokens=7, cache_read_tokens=30)
    assert first.usage is None
    assert second.response.message is not None
    assert text(second.response.message) == "Done."
    assert NO_SCHEMAS in first.fidelity.reasons
    assert [tool.name for tool in first.request.tools or ()] == ["terminal"]
    assert (batch.header.trial, batch.header.variant) == ("3", "claude")
    assert batch.header.reported_cost_usd is None
    assert tally.problems == []


def test_an_error_that_answers_no_call_is_kept_and_named(tmp_path: Path) -> None:
    (batch,), tally = read(tmp_path, sdk_run(*SDK))
    orphan = tools(batch)[-1]
    assert (orphan.name, orphan.error) == ("terminal", "No such tool.")
    assert orphan.extra == {"orphan": "result"}
    assert [problem.why for problem in tally.problems] == ["a result of 't3' belongs to no call"]


def test_a_list_of_events_is_a_run(tmp_path: Path) -> None:
    path = tmp_path / "trajectory.json"
    path.write_text(json.dumps(EVENTS, indent=1))
    assert sniff(Source(path)) is openhands
    (batch,) = load(Source(path), Tally())
    assert len(models(batch)) == 2
    assert models(batch)[0].request.model is None


def test_an_event_a_line_is_one_run(tmp_path: Path) -> None:
    (batch,), _ = read(tmp_path, *SDK[:6], name="events.jsonl")
    assert len(tools(batch)) == 2


def test_a_folder_of_events_is_read_through_its_first_file(tmp_path: Path) -> None:
    folder = tmp_path / "conversation" / "events"
    folder.mkdir(parents=True)
    for index, event in enumerate(SDK[:6]):
        (folder / f"event-{index:05}-{event['id']}.json").write_text(json.dumps(event))
    state = {"agent": {"llm": {"model": "claude"}}}
    (folder.parent / "base_state.json").write_text(json.dumps(state))
    first, *others = sorted(folder.iterdir())
    assert part_of(first) is None
    assert {part_of(path) for path in others} == {first}
    assert sniff(Source(first)) is openhands
    (batch,) = load(Source(first), Tally())
    assert len(tools(batch)) == 2
    assert models(batch)[0].request.model == "claude"


# --- runs as wholes


def test_the_report_in_a_run_is_its_outcome(tmp_path: Path) -> None:
    report = {"resolved": True, "tests_status": {"FAIL_TO_PASS": {"success": ["t"], "failure": []}}}
    (batch,), _ = read(tmp_path, {**RUN, "test_result": {"git_patch": "d", "report": report}})
    assert batch.header.outcome.status == "passed"
    assert batch.header.reference == {"check": {"tests": {"t": "passed"}}}


def test_every_line_is_a_trace_and_a_broken_one_is_named(tmp_path: Path) -> None:
    path = tmp_path / "output.jsonl"
    other = {**RUN, "instance_id": "org__repo-9"}
    path.write_bytes(b"\n".join([lines([RUN]), b'{"instance_id": 1, "histo', lines([other]), b"7"]))
    tally = Tally()
    found = list(load(Source(path), tally))
    assert [batch.header.task for batch in found] == ["org__repo-1", "org__repo-9"]
    assert [problem.where for problem in tally.problems] == ["line 2", "line 4"]
    assert [batch.spans[1].place.line for batch in found] == [1, 3]


def test_keys_of_the_settings_stay_in_the_file(tmp_path: Path) -> None:
    assert "sk-none" not in repr(read(tmp_path)[0])


@pytest.mark.parametrize("whole", [{}, [], {"history": 1}, 7, [{"history": None}]])
def test_a_document_without_runs_is_refused_with_a_sentence(whole: Any, tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(json.dumps(whole))
    with pytest.raises(BadTrace):
        list(load(Source(path), Tally(), format=openhands))


@given(run=mutated(RUN) | mutated(sdk_run(*SDK)))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_anything_anywhere_gives_a_trace_or_a_sentence(run: Value, tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(lines([run]))
    for trace in stored(path, openhands):
        assert len({span.id for span in trace.spans}) == len(trace.spans)


@given(size=st.integers(0, len(lines([RUN, sdk_run(*SDK)]))))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_a_file_cut_anywhere_gives_a_trace_or_a_sentence(size: int, tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(lines([RUN, sdk_run(*SDK)])[:size])
    stored(path, openhands)


# --- real files


@needs_shared
def test_the_real_runs_give_their_own_totals() -> None:
    (path,) = (DATA / "openhands").glob("evaluation*.jsonl")
    tally = Tally()
    found = list(load(Source(path), tally))
    for batch, line in zip(found, path.read_text().splitlines(), strict=True):
        run = json.loads(line)
        used = [each.usage for each in models(batch) if each.usage is not None]
        total = run["metrics"]["accumulated_token_usage"]
        assert len(models(batch)) == len(run["metrics"]["token_usages"])
        assert sum(each.input_tokens or 0 for each in used) == total["prompt_tokens"]
        assert sum(each.output_tokens or 0 for each in used) == total["completion_tokens"]
        assert batch.header.task == run["instance_id"]
    assert tally.problems == []


@needs_shared
def test_the_real_runs_of_the_resolver_have_a_cost_a_call() -> None:
    (path,) = (DATA / "openhands").glob("tests__*.jsonl")
    first, second = load(Source(path), Tally())
    for batch in (first, second):
        costs = [each.cost.usd for each in models(batch) if each.cost is not None]
        assert len(costs) == len(models(batch))
        assert sum(costs) == pytest.approx(batch.header.reported_cost_usd)
