"""SWE-agent trajectories: what was asked at a step, commands as calls, endings in their own words.

Files of 1.1 and of several attempts were not at hand; they are written here after the agent's own
code that saves them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from replay.errors import BadTrace
from replay.formats import formats, load, sniff, swe_agent
from replay.formats.source import Source, Tally
from replay.formats.swe_agent.spans import ASKED_AGAIN, MAYBE_SHORTENED
from replay.messages import observed, text, thinking
from replay.trace import NO_TOOLS, Batch, Level, OtherSpan, ToolCall
from tests.replay.foreign_case import mutated, stored
from tests.replay.kinds import agents, models, seen, tools
from tests.shared import DATA, needs_shared

Value = dict[str, Any]

SYSTEM: Value = {
    "role": "system", "content": "You fix bugs.", "agent": "main", "message_type": "system_prompt",
}  # fmt: skip
TASK: Value = {
    "role": "user", "content": "Here's the issue text:\nISSUE:\nIt crashes.\n\nINSTRUCTIONS: fix",
    "agent": "main", "message_type": "observation",
}  # fmt: skip


def answered(words: str, action: str, *calls: Value, **more: Any) -> Value:
    return {
        "role": "assistant", "content": words, "thought": words, "action": action, "agent": "main",
        "tool_calls": list(calls) or None, "message_type": "action", **more,
    }  # fmt: skip


def saw(words: str, call_id: str | None = None, **more: Any) -> Value:
    told = {"content": words, "agent": "main", "message_type": "observation", **more}
    if call_id is None:
        return {"role": "user", **told}
    return {"role": "tool", "tool_call_ids": [call_id], **told}


def call(name: str, call_id: str, **arguments: Any) -> Value:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"function": function, "id": call_id, "type": "function"}


def step(words: str, action: str, observation: str = "", **more: Any) -> Value:
    return {
        "action": action, "observation": observation, "response": words, "thought": words,
        "execution_time": 0.5, "state": {"working_dir": "/repo"}, "extra_info": {}, **more,
    }  # fmt: skip


LS, CAT, SUBMIT = "ls\n", "cat a.py\n", "submit\n"
HISTORY = [
    SYSTEM, TASK,
    answered("I look.\n```\nls\n```", LS), saw("a.py"),
    answered("I read.\n```\ncat a.py\n```", CAT), saw("1/0"),
    answered("Done.\n```\nsubmit\n```", SUBMIT), saw("diff"),
]  # fmt: skip
STEPS = [
    step("I look.\n```\nls\n```", LS, "a.py", query=HISTORY[:2]),
    step("I read.\n```\ncat a.py\n```", CAT, "1/0", query=HISTORY[:4]),
    step("Done.\n```\nsubmit\n```", SUBMIT, "diff", query=HISTORY[:6]),
]
SETTINGS: Value = {
    "agent": {
        "model": {"name": "gpt-4o", "temperature": 0.0, "top_p": 1.0, "api_key": "sk-none"},
        "tools": {"parse_function": {"type": "thought_action"}},
        "history_processors": [{"type": "cache_control", "last_n_messages": 2}],
    },
    "problem_statement": {"id": "org__repo-1"},
}
STATS = {"instance_cost": 0.25, "tokens_sent": 900, "tokens_received": 60, "api_calls": 3}
RUN: Value = {
    "trajectory": STEPS, "history": HISTORY,
    "info": {"exit_status": "submitted", "submission": "diff", "model_stats": STATS},
    "replay_config": json.dumps(SETTINGS), "environment": "main",
}  # fmt: skip


def read(folder: Path, run: Value = RUN, **changed: Any) -> tuple[Batch, Tally]:
    path = folder / "org__repo-1.traj"
    path.write_text(json.dumps({**run, **changed}, indent=2))
    tally = Tally()
    source = Source(path)
    assert sniff(source) is swe_agent
    (batch,) = load(source, tally)
    return batch, tally


def without_queries(steps: list[Value]) -> list[Value]:
    return [{name: value for name, value in each.items() if name != "query"} for each in steps]


# --- steps and commands


def test_a_step_is_a_model_call_and_the_command_it_wrote(tmp_path: Path) -> None:
    batch, tally = read(tmp_path)
    first, second, third = models(batch)
    assert [each.name for each in tools(batch)] == ["ls", "cat", "submit"]
    look = tools(batch)[0]
    assert (look.asked_by, look.arguments) == (first.id, {"command": "ls"})
    assert look.observation is not None
    assert observed(look.observation).text == "a.py"
    assert look.extra == {"execution_s": 0.5}
    assert [each.place.message for each in (first, second, third)] == [0, 1, 2]
    assert all(span.start_ns is None for span in batch.spans)
    assert tally.counts["steps"] == 3
    assert tally.problems == []


def test_a_recorded_query_is_the_request_word_for_word(tmp_path: Path) -> None:
    query = [SYSTEM, TASK, answered("I look.\n```\nls\n```", LS), saw("(elided)")]
    steps = [STEPS[0], {**STEPS[1], "query": query}, STEPS[2]]
    _, second, _ = models(read(tmp_path, trajectory=steps)[0])
    assert second.fidelity.level is Level.EXACT
    assert seen(second)[-1] == ("user", "(elided)")
    assert second.request.system is not None
    assert text(second.request.system) == "You fix bugs."
    assert second.request.tools == ()
    assert (second.request.model, second.request.params) == (
        "gpt-4o",
        {"temperature": 0.0, "top_p": 1.0},
    )
    assert second.request.context is not None
    assert all(m.body.keys() <= {"role", "content"} for m in second.request.context.messages())


def test_steps_share_what_their_requests_have_in_common(tmp_path: Path) -> None:
    first, second, _ = models(read(tmp_path)[0])
    assert second.request.context is not None
    assert second.request.context.nodes()[0] is first.request.context


def test_without_queries_the_request_is_the_history_before_the_answer(tmp_path: Path) -> None:
    batch, _ = read(tmp_path, trajectory=without_queries(STEPS))
    assert seen(models(batch)[1])[-2:] == [
        ("assistant", "I look.\n```\nls\n```"),
        ("user", "a.py"),
    ]
    assert {each.fidelity.level for each in models(batch)} == {Level.REBUILT}


def test_observations_that_the_settings_shorten_are_shortened_in_the_request(
    tmp_path: Path,
) -> None:
    agent = {**SETTINGS["agent"], "history_processors": [{"type": "last_n_observations", "n": 1}]}
    config = {**SETTINGS, "agent": agent}
    batch, _ = read(tmp_path, trajectory=without_queries(STEPS), replay_config=config)
    assert [words for role, words in seen(models(batch)[2]) if role == "user"] == [
        TASK["content"],
        "Old environment output: (1 lines omitted)",
        "1/0",
    ]


def test_where_no_settings_say_how_the_history_was_shortened_that_is_said(tmp_path: Path) -> None:
    batch, _ = read(tmp_path, trajectory=without_queries(STEPS), replay_config=None)
    assert {each.fidelity.reasons for each in models(batch)} == {(MAYBE_SHORTENED,)}


def test_a_kind_of_shortening_that_is_no_word_is_an_unknown_one(tmp_path: Path) -> None:
    agent = {**SETTINGS["agent"], "history_processors": [{"type": [False]}]}
    config = {**SETTINGS, "agent": agent}
    batch, _ = read(tmp_path, trajectory=without_queries(STEPS), replay_config=config)
    assert {each.fidelity.reasons for each in models(batch)} == {(MAYBE_SHORTENED,)}


def test_a_function_call_is_the_history_s_with_its_result(tmp_path: Path) -> None:
    look = answered(
        "I look.",
        "bash ls",
        call("bash", "c1", command="ls"),
        thinking_blocks=[{"type": "thinking", "thinking": "Where?", "signature": "s"}],
    )
    history = [SYSTEM, TASK, look, saw("a.py", "c1")]
    batch, _ = read(tmp_path, trajectory=[step("I look.", "bash ls", "a.py")], history=history)
    (made,) = tools(batch)
    assert (made.name, made.arguments, made.call_id) == ("bash", {"command": "ls"}, "c1")
    assert made.observation is not None
    assert observed(made.observation).call_id == "c1"
    (asked,) = models(batch)
    assert asked.request.tools is None
    assert NO_TOOLS in asked.fidelity.reasons
    assert asked.response.message is not None
    assert thinking(asked.response.message) == "Where?"


def test_an_answer_that_was_asked_for_again_is_a_step_of_its_own(tmp_path: Path) -> None:
    unusable = step("No command here.", "", query=HISTORY[:2])
    told = [*HISTORY[:2], answered("No command here.", ""), saw("Please write one command.")]
    steps = [unusable, {**STEPS[0], "query": told}, *STEPS[1:]]
    batch, _ = read(tmp_path, trajectory=steps)
    first, second, *_ = models(batch)
    assert first.extra["unused"] is True
    assert next(each.asked_by for each in tools(batch)) == second.id
    assert seen(second)[-1] == ("user", "Please write one command.")
    older = read(tmp_path, trajectory=without_queries(steps))[0]
    assert [ASKED_AGAIN in each.fidelity.reasons for each in models(older)] == [
        False, True, False, False,
    ]  # fmt: skip


def test_the_harness_s_own_ending_is_no_answer_of_the_model(tmp_path: Path) -> None:
    ending = step("Exit due to cost limit", "", "Exited (autosubmitted)", query=[{}])
    info = {"exit_status": "submitted (exit_cost)", "submission": "diff"}
    batch, _ = read(tmp_path, trajectory=[*STEPS[:2], ending], info=info)
    assert len(models(batch)) == 2
    (closed,) = [span for span in batch.spans if isinstance(span, OtherSpan)]
    assert (closed.operation, closed.error) == ("exit", "Exit due to cost limit")
    assert batch.header.outcome.value == "submitted (exit_cost)"
    assert batch.header.outcome.status == "unknown"


def test_a_demonstration_that_is_a_history_alone_is_read(tmp_path: Path) -> None:
    path = tmp_path / "demo.traj"
    path.write_text(json.dumps({"history": HISTORY}))
    assert sniff(Source(path)) is swe_agent
    (batch,) = load(Source(path), Tally())
    assert [each.name for each in tools(batch)] == ["ls", "cat", "submit"]


def test_demonstrations_in_the_history_are_shown_and_are_no_steps(tmp_path: Path) -> None:
    shown = [
        {**answered("So one does it.", "ls\n"), "is_demo": True},
        {**saw("b"), "is_demo": True},
    ]
    history = [SYSTEM, *shown, TASK, *HISTORY[2:]]
    batch, _ = read(tmp_path, trajectory=without_queries(STEPS), history=history)
    assert len(models(batch)) == 3
    assert seen(models(batch)[0])[0] == ("assistant", "So one does it.")


# --- attempts, outcomes, identity


def test_attempts_are_threads_and_the_one_handed_in_is_told_once(tmp_path: Path) -> None:
    second = {**RUN, "info": {**RUN["info"], "review": {"accept": 0.75, "outputs": ["good"]}}}
    first = {
        **RUN,
        "trajectory": STEPS[:1],
        "history": HISTORY[:4],
        "info": {"exit_status": "exit_format"},
    }
    batch, tally = read(tmp_path, {**second, "attempts": [first, second]})
    root, *tries = agents(batch)
    assert [each.name for each in tries] == ["attempt 0", "attempt 1"]
    assert {each.parent for each in tries} == {root.id}
    assert [each.parent for each in models(batch)] == [tries[0].id] + 3 * [tries[1].id]
    assert tries[0].error == "exit_format"
    assert len({span.id for span in batch.spans}) == len(batch.spans)
    (score,) = batch.scores
    assert (score.name, score.value, score.span) == ("review", 0.75, tries[1].id)
    assert tally.counts["attempts"] == 2


@pytest.mark.parametrize(
    ("info", "status"),
    [
        ({"exit_status": "submitted", "submission": "diff"}, "unknown"),
        ({"exit_status": "exit_forfeit", "submission": None}, "failed"),
        ({"exit_status": "exit_cost"}, "failed"),
        ({}, "unknown"),
    ],
)
def test_an_ending_without_a_patch_is_a_failure_and_one_with_it_is_open(
    info: Value, status: str, tmp_path: Path
) -> None:
    outcome = read(tmp_path, info=info)[0].header.outcome
    assert (outcome.status, outcome.value) == (status, info.get("exit_status"))


def test_the_header_names_the_instance_its_issue_and_the_cost(tmp_path: Path) -> None:
    header = read(tmp_path)[0].header
    assert (header.title, header.task, header.variant) == ("It crashes.", "org__repo-1", "gpt-4o")
    assert header.reported_cost_usd == 0.25
    replayed = {**RUN["info"], "model_stats": dict.fromkeys(STATS, 0)}
    assert read(tmp_path, info=replayed)[0].header.reported_cost_usd is None


def test_nothing_of_the_settings_but_the_model_s_reaches_the_trace(tmp_path: Path) -> None:
    assert "sk-none" not in repr(read(tmp_path)[0].spans)


@pytest.mark.slow
def test_two_runs_of_an_instance_are_two_and_one_read_twice_is_one(tmp_path: Path) -> None:
    first = read(tmp_path)[0].header.source_id
    other = [*HISTORY[:-1], saw("another diff")]
    assert read(tmp_path)[0].header.source_id == first
    assert read(tmp_path, history=other)[0].header.source_id != first


# --- odd and broken files


@pytest.mark.parametrize("whole", [{"info": {}}, [], 7, {"trajectory": {}}, {"attempts": 1}])
def test_a_document_without_steps_is_refused_with_a_sentence(whole: Any, tmp_path: Path) -> None:
    path = tmp_path / "x.traj"
    path.write_text(json.dumps(whole))
    with pytest.raises(BadTrace, match="no trajectory and no history"):
        list(load(Source(path), Tally(), format=swe_agent))


@pytest.mark.slow
def test_what_cannot_be_used_is_named_and_the_rest_is_read(tmp_path: Path) -> None:
    batch, tally = read(tmp_path, trajectory=[*STEPS, 7], history=[*HISTORY, "x"], mood=1)
    assert len(models(batch)) == 3
    assert {problem.where for problem in tally.problems} == {"step 3", "history 8"}
    assert tally.unknown == {"mood": 1}


ATTEMPTS: Value = {**RUN, "attempts": [RUN, {**RUN, "info": {"review": {"accept": True}}}]}


@given(run=mutated(ATTEMPTS) | mutated(RUN))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_anything_anywhere_gives_a_trace_or_a_sentence(run: Value, tmp_path: Path) -> None:
    path = tmp_path / "x.traj"
    path.write_text(json.dumps(run))
    for trace in stored(path, swe_agent):
        assert len({span.id for span in trace.spans}) == len(trace.spans)


@given(size=st.integers(0, len(json.dumps(RUN))))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_a_file_cut_anywhere_gives_a_trace_or_a_sentence(size: int, tmp_path: Path) -> None:
    path = tmp_path / "x.traj"
    path.write_text(json.dumps(RUN)[:size])
    stored(path, swe_agent)


# --- real files

FILES = sorted((DATA / "swe_agent").rglob("*.traj"))


@needs_shared
def test_the_real_runs_give_the_counts_taken_independently() -> None:
    expected = json.loads((DATA / "expected.json").read_text())
    rows = {name: row for name, row in expected.items() if name.startswith("swe_agent/")}
    assert rows
    for name, row in rows.items():
        tally = Tally()
        (batch,) = load(Source(DATA / name), tally)
        assert tally.counts["steps"] == row["steps"] == len(models(batch))
        assert batch.header.outcome.value == row["exit_status"]
        for total in ("tokens_sent", "tokens_received", "api_calls", "instance_cost"):
            assert tally.counts[total] == row["model_stats"][total]
        assert tally.problems == []


@pytest.mark.data
@needs_shared
def test_every_real_run_is_claimed_by_this_format_and_all_its_commands_are_answered() -> None:
    assert len(FILES) == 22
    for path in FILES:
        source = Source(path)
        assert sniff(source) is swe_agent
        claimed = {found.NAME for found in formats() if found.sniff(source.head)}
        assert claimed <= {"swe-agent", "chat"}
        (batch,) = load(source, Tally())
        made = [span for span in batch.spans if isinstance(span, ToolCall)]
        assert len(made) == len(models(batch))
        assert all(each.observation is not None and each.asked_by for each in made)
        assert batch.header.title
