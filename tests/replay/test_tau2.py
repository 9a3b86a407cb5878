"""tau2 results: the agent's view, what its simulated user did, reward and reviews.

No real results were at hand; these are written after the benchmark's own data model.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from replay.errors import BadTrace
from replay.formats import load, part_of, sniff, tau2
from replay.formats.source import Source, Tally
from replay.formats.tau2 import POLICY_ALONE, TRUNCATED
from replay.messages import observed, text
from replay.trace import NO_SYSTEM, NO_TOOLS, Batch, Cost, Usage
from tests.replay.foreign_case import mutated, stored
from tests.replay.kinds import agents, models, seen, tools

Value = dict[str, Any]


def at(second: int) -> str:
    return f"2025-06-01T10:00:{second:02}.500000"


def said(turn: int, words: str | None, *calls: Value, **more: Any) -> Value:
    return {
        "role": "assistant", "content": words, "tool_calls": list(calls) or None, "turn_idx": turn,
        "timestamp": at(turn), "cost": 0.01, "usage": {"prompt_tokens": 40, "completion_tokens": 4},
        "raw_data": {"finish_reason": "tool_calls" if calls else "stop", "message": {}},
        "generation_time_seconds": 0.5, **more,
    }  # fmt: skip


def call(name: str, call_id: str, requestor: str = "assistant", **arguments: Any) -> Value:
    return {"id": call_id, "name": name, "arguments": arguments, "requestor": requestor}


def result(turn: int, call_id: str, words: str, requestor: str = "assistant", **more: Any) -> Value:
    return {"id": call_id, "role": "tool", "content": words, "requestor": requestor, "error": False,
            "turn_idx": turn, "timestamp": at(turn), **more}  # fmt: skip


def user(turn: int, words: str | None, *calls: Value) -> Value:
    return {"role": "user", "content": words, "tool_calls": list(calls) or None, "turn_idx": turn,
            "timestamp": at(turn)}  # fmt: skip


GREETING: Value = {"role": "assistant", "content": "Hi! How can I help?", "tool_calls": None,
                   "turn_idx": 0, "timestamp": at(0), "cost": 0.0, "usage": None,
                   "raw_data": None}  # fmt: skip
MESSAGES = [
    GREETING,
    user(1, "My data is slow."),
    said(2, None, call("get_customer", "c1", phone="555")),
    result(3, "c1", "Error: no such line", error=True),
    said(4, "Please look at your phone."),
    user(5, None, call("check_status", "u1", "user")),
    result(6, "u1", "Airplane mode is on", "user"),
    user(7, "It says airplane mode."),
    said(8, "Turn it off."),
    user(9, "###STOP###"),
]
SIMULATION: Value = {
    "id": "sim-1", "task_id": "slow_data", "trial": 2, "seed": 7, "timestamp": at(0),
    "start_time": at(0), "end_time": at(10), "duration": 10.0, "termination_reason": "user_stop",
    "agent_cost": 0.03, "user_cost": 0.02, "messages": MESSAGES,
    "reward_info": {"reward": 0.0, "reward_breakdown": {"DB": 1.0, "COMMUNICATE": 0.0}},
    "review": {"has_errors": True, "errors": [
        {"source": "agent", "turn_idx": 4, "severity": "minor", "error_tags": ["guess"],
         "reasoning": "It did not look first."}]},
}  # fmt: skip
INFO: Value = {
    "git_commit": "abc", "num_trials": 4, "max_steps": 100, "max_errors": 10,
    "user_info": {"implementation": "user_simulator", "llm": "gpt-4.1"},
    "agent_info": {"implementation": "llm_agent", "llm": "claude-sonnet-4",
                   "llm_args": {"temperature": 0.0}},
    "environment_info": {"domain_name": "telecom", "policy": "Be kind.", "tool_defs": None},
}  # fmt: skip
TASKS = [{"id": "slow_data", "evaluation_criteria": {"actions": [{"name": "toggle"}]},
          "user_scenario": {"instructions": "You are cross."}}]  # fmt: skip
RESULTS: Value = {"timestamp": at(0), "info": INFO, "tasks": TASKS, "simulations": [SIMULATION]}


def read(folder: Path, results: Value = RESULTS, **changed: Any) -> tuple[Batch, Tally]:
    path = folder / "results.json"
    simulation = {**SIMULATION, **changed}
    path.write_text(json.dumps({**results, "simulations": [simulation]}, indent=2))
    tally = Tally()
    source = Source(path)
    assert sniff(source) is tau2
    (batch,) = load(source, tally)
    return batch, tally


def test_an_answer_is_a_model_call_with_its_figures_and_time(tmp_path: Path) -> None:
    batch, tally = read(tmp_path)
    first, second, third = models(batch)
    assert first.usage == Usage(input_tokens=40, output_tokens=4)
    assert first.cost == Cost(usd=0.01, source="recorded")
    assert (first.duration_ns, first.time_quality) == (500_000_000, "derived")
    assert (first.response.stop, second.response.stop) == ("tool", "end")
    assert [each.place.message for each in (first, second, third)] == [2, 4, 8]
    assert (first.request.model, first.request.params) == ("claude-sonnet-4", {"temperature": 0.0})
    assert tally.problems == []


def test_the_canned_greeting_is_heard_and_no_call(tmp_path: Path) -> None:
    first, *_ = models(read(tmp_path)[0])
    assert seen(first) == [("assistant", "Hi! How can I help?"), ("user", "My data is slow.")]


def test_a_call_s_arguments_and_its_failure_are_told(tmp_path: Path) -> None:
    look = tools(read(tmp_path)[0])[0]
    assert (look.name, look.arguments) == ("get_customer", {"phone": "555"})
    assert (look.status, look.error) == ("error", "Error: no such line")
    assert look.observation is not None


def test_the_user_s_own_calls_stand_on_a_thread_that_the_agent_never_saw(tmp_path: Path) -> None:
    batch, _ = read(tmp_path)
    root, person = agents(batch)
    assert (person.name, person.parent) == ("simulated user", root.id)
    did = tools(batch)[-1]
    assert (did.name, did.parent, did.asked_by) == ("check_status", person.id, None)
    assert did.observation is not None
    assert observed(did.observation).text == "Airplane mode is on"
    assert "Airplane mode is on" not in [words for _, words in seen(models(batch)[-1])]


def test_the_policy_stands_for_the_prompt_and_is_said_to(tmp_path: Path) -> None:
    (first, *_) = models(read(tmp_path)[0])
    assert first.request.system is not None
    assert text(first.request.system) == "Be kind."
    assert first.fidelity.reasons == (POLICY_ALONE, NO_TOOLS)


def test_a_conversation_cut_to_fit_is_said_to_be(tmp_path: Path) -> None:
    cut = said(2, "Hm.", context_truncation={"messages_dropped": 3})
    first, second = models(read(tmp_path, messages=[*MESSAGES[:2], cut, said(3, "Yes.")])[0])
    assert TRUNCATED in first.fidelity.reasons
    assert TRUNCATED not in second.fidelity.reasons


def test_task_trial_variant_and_reward_are_the_source_s(tmp_path: Path) -> None:
    header = read(tmp_path)[0].header
    assert (header.task, header.trial, header.variant) == ("slow_data", "2", "claude-sonnet-4")
    assert (header.outcome.status, header.outcome.by) == ("failed", "tau2 reward")
    assert header.title == "My data is slow."
    assert header.labels == {"domain": "telecom"}
    assert (header.source_id, header.reported_cost_usd) == ("sim-1", 0.03)


def test_criteria_and_the_user_s_instructions_are_kept_where_no_judge_looks(
    tmp_path: Path,
) -> None:
    batch, _ = read(tmp_path)
    assert batch.header.reference is not None
    assert batch.header.reference.keys() == {"evaluation_criteria", "user_scenario", "reward_info"}
    assert "You are cross." not in repr(batch.spans)


def test_parts_of_the_reward_and_reviews_are_scores_at_their_turns(tmp_path: Path) -> None:
    batch, _ = read(tmp_path)
    parts = {score.name: score.value for score in batch.scores if score.by == "tau2"}
    assert parts == {"reward DB": 1.0, "reward COMMUNICATE": 0.0}
    (review,) = [score for score in batch.scores if score.name == "review"]
    assert review.span == models(batch)[1].id
    assert (review.label, review.explanation) == ("agent, minor, guess", "It did not look first.")


@pytest.mark.parametrize(
    ("reason", "status", "error"),
    [
        ("user_stop", "failed", None),
        ("max_steps", "failed", "max_steps"),
        ("infrastructure_error", "unknown", "infrastructure_error"),
    ],
)
def test_how_a_simulation_ended(
    reason: str, status: str, error: str | None, tmp_path: Path
) -> None:
    batch, _ = read(tmp_path, termination_reason=reason)
    assert (batch.header.outcome.status, agents(batch)[0].error) == (status, error)


# --- files and folders


def test_one_simulation_alone_is_read_without_what_the_results_say(tmp_path: Path) -> None:
    path = tmp_path / "sim-1.json"
    path.write_text(json.dumps(SIMULATION))
    assert sniff(Source(path)) is tau2
    (batch,) = load(Source(path), Tally())
    assert models(batch)[0].fidelity.reasons == (NO_SYSTEM, NO_TOOLS)
    assert batch.header.task == "slow_data"


def test_a_folder_of_simulations_is_read_through_its_results(tmp_path: Path) -> None:
    main = tmp_path / "results.json"
    index = [{"id": "sim-1", "task_id": "slow_data", "trial": 2}]
    main.write_text(json.dumps({**RESULTS, "simulations": [], "simulation_index": index}))
    (tmp_path / "simulations").mkdir()
    for name in ("sim-1", "sim-2"):
        path = tmp_path / "simulations" / f"{name}.json"
        path.write_text(json.dumps({**SIMULATION, "id": name}))
        assert part_of(path) == main
    (tmp_path / "simulations" / "broken.json").write_text("{")
    tally = Tally()
    found = list(load(Source(main), tally))
    assert [batch.header.source_id for batch in found] == ["sim-1", "sim-2"]
    assert found[0].header.variant == "claude-sonnet-4"
    assert [problem.where for problem in tally.problems] == ["broken.json"]


def test_a_run_by_voice_is_named_and_left_out(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    voice = {**SIMULATION, "messages": None, "ticks": [{"tick_id": 0}]}
    path.write_text(json.dumps({**RESULTS, "simulations": [voice, 7, SIMULATION]}))
    tally = Tally()
    assert len(list(load(Source(path), tally))) == 1
    assert [problem.where for problem in tally.problems] == ["simulation 0", "simulation 1"]


def test_numbers_that_are_none_do_not_cost_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_text(json.dumps({**RESULTS, "x": float("nan")}))
    (batch,) = load(Source(path), Tally())
    assert batch.header.variant == "claude-sonnet-4"


@pytest.mark.parametrize("whole", [{}, [], {"simulations": 1}, 7, {"info": INFO}])
def test_a_document_without_simulations_is_refused(whole: Any, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(json.dumps(whole))
    with pytest.raises(BadTrace, match="simulations"):
        list(load(Source(path), Tally(), format=tau2))


@given(results=mutated(RESULTS))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_anything_anywhere_gives_traces_or_a_sentence(results: Value, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(json.dumps(results))
    for trace in stored(path, tau2):
        assert len({span.id for span in trace.spans}) == len(trace.spans)


@given(size=st.integers(0, len(json.dumps(RESULTS))))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_a_file_cut_anywhere_gives_traces_or_a_sentence(size: int, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(json.dumps(RESULTS)[:size])
    stored(path, tau2)
