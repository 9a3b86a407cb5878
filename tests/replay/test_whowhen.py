"""Who&When group chats: every message a step, blame kept where nobody looks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from replay.errors import BadTrace
from replay.formats import load, sniff, whowhen
from replay.formats.source import HEAD_BYTES, Source, Tally
from replay.messages import text
from replay.steps import build
from replay.trace import NO_SYSTEM, Batch
from tests.replay.kinds import models
from tests.shared import DATA, needs_shared

CHAT: dict[str, Any] = {
    "is_correct": False,
    "question": "How many clients\nface west?",
    "question_ID": "q-1",
    "ground_truth": "8",
    "history": [
        {"content": "Here is code.", "role": "assistant", "name": "Excel_Expert"},
        {"content": "exitcode: 0\n4", "role": "user", "name": "Computer_terminal"},
        {"content": "It is 4.", "role": "user", "name": "Check_Expert"},
    ],
    "mistake_agent": "Excel_Expert",
    "mistake_step": "0",
    "mistake_reason": "Missed some addresses.",
    "system_prompt": {"Excel_Expert": "You know Excel."},
}


def read(path: Path, chat: Any = None) -> tuple[Batch, Tally]:
    if chat is not None:
        path.write_text(json.dumps(chat))
    tally = Tally()
    source = Source(path)
    assert sniff(source) is whowhen
    (batch,) = load(source, tally)
    return batch, tally


def test_every_message_is_a_step_of_its_speaker_the_terminal_s_too(tmp_path: Path) -> None:
    batch, _ = read(tmp_path / "1.json", CHAT)
    steps, _, _ = build(batch.spans)
    assert [step.ask.agent for step in steps] == [
        "Excel_Expert",
        "Computer_terminal",
        "Check_Expert",
    ]
    assert [step.ask.place.message for step in steps] == [step.index for step in steps]
    assert {step.thread for step in steps} == {steps[0].thread}


def test_a_speaker_is_shown_the_question_and_all_said_before(tmp_path: Path) -> None:
    last = models(read(tmp_path / "1.json", CHAT)[0])[-1]
    assert last.request.context is not None
    assert [text(message) for message in last.request.context.messages()] == [
        CHAT["question"],
        "Here is code.",
        "exitcode: 0\n4",
    ]


def test_a_question_that_opens_the_history_is_not_asked_twice(tmp_path: Path) -> None:
    asked = {"content": CHAT["question"], "role": "human"}
    chat = {**CHAT, "history": [asked, *CHAT["history"]]}
    first, second, *_ = models(read(tmp_path / "1.json", chat)[0])
    assert first.request.context is None
    assert second.request.context is not None
    assert second.request.context.depth == 1


def test_a_speaker_s_own_system_prompt_is_its_request_s(tmp_path: Path) -> None:
    expert, terminal, _ = models(read(tmp_path / "1.json", CHAT)[0])
    assert expert.request.system is not None
    assert text(expert.request.system) == "You know Excel."
    assert NO_SYSTEM not in expert.fidelity.reasons
    assert terminal.request.system is None
    assert NO_SYSTEM in terminal.fidelity.reasons


def test_the_blame_is_kept_as_reference_and_stands_in_no_span(tmp_path: Path) -> None:
    batch, _ = read(tmp_path / "1.json", CHAT)
    assert batch.header.reference == {
        "ground_truth": "8",
        "mistake_agent": "Excel_Expert",
        "mistake_step": "0",
        "mistake_reason": "Missed some addresses.",
    }
    assert batch.scores == ()
    assert not any("Missed some" in repr(span) for span in batch.spans)


@pytest.mark.parametrize(
    ("verdict", "status"),
    [({"is_correct": True}, "passed"), ({"is_corrected": False}, "failed"), ({}, "unknown")],
)
def test_the_outcome_is_what_the_file_says(
    verdict: dict[str, bool], status: str, tmp_path: Path
) -> None:
    chat = {name: value for name, value in CHAT.items() if name != "is_correct"}
    assert read(tmp_path / "1.json", {**chat, **verdict})[0].header.outcome.status == status


def test_a_history_longer_than_the_head_is_known_by_its_roles(tmp_path: Path) -> None:
    history = [
        {"content": "Where?", "role": "human"},
        {"content": "x" * HEAD_BYTES, "role": "Orchestrator (-> WebSurfer)"},
    ]
    chat = {"history": history, "question": "Where?", "mistake_step": "1"}
    batch, _ = read(tmp_path / "1.json", chat)
    assert models(batch)[1].agent == "Orchestrator (-> WebSurfer)"


def test_fields_that_nobody_knows_are_counted(tmp_path: Path) -> None:
    _, tally = read(tmp_path / "1.json", {**CHAT, "mood": 1, "history": [*CHAT["history"], 7]})
    assert tally.unknown == {"mood": 1}
    assert [problem.where for problem in tally.problems] == ["message 3"]


@given(
    history=st.none()
    | st.integers()
    | st.lists(
        st.dictionaries(
            st.sampled_from(["role", "name", "content"]),
            st.none() | st.integers() | st.text(max_size=3),
        )
    )
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_history_gives_a_trace_or_a_sentence(history: Any, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(json.dumps({**CHAT, "history": history}))
    if not isinstance(history, list):
        with pytest.raises(BadTrace, match="no `history`"):
            list(load(Source(path), Tally(), format=whowhen))
        return
    (batch,) = load(Source(path), Tally(), format=whowhen)
    assert len(models(batch)) == len(history)


# --- real files

FOLDER = DATA / "whowhen" / "Algorithm-Generated"


@pytest.mark.data
@needs_shared
def test_the_real_chats_give_the_counts_taken_independently() -> None:
    tally = Tally()
    found = [b for path in FOLDER.glob("*.json") for b in load(Source(path), tally)]
    row = json.loads((DATA / "expected.json").read_text())["whowhen/Algorithm-Generated"]
    assert {name: tally.counts[name] for name in ("traces", "steps")} == {
        name: row[name] for name in ("traces", "steps")
    }
    assert len({batch.header.source_id for batch in found}) == row["traces"]
    assert sum(len(models(batch)) for batch in found) == row["steps"]
    assert tally.problems == []


BLAMED_ANOTHER = {"14", "15", "59"}
"""Chats whose label names a step at which somebody else than the agent blamed spoke: the terminal
twice, another expert once."""


@pytest.mark.data
@needs_shared
def test_every_label_of_the_chats_names_a_step_and_who_spoke_at_it() -> None:
    lines = (DATA / "labels" / "whowhen_ag.jsonl").read_text().splitlines()
    another = set()
    for label in map(json.loads, lines):
        batch, _ = read(DATA / label["trace"])
        steps, _, _ = build(batch.spans)
        at = {step.ask.place.message: step for step in steps}
        step = at[label["at"]["message"]]
        assert step.index == label["at"]["message"]
        assert batch.header.reference is not None
        if step.ask.agent != batch.header.reference["mistake_agent"]:
            another.add(Path(label["trace"]).stem)
    assert len(lines) == 126
    assert another == BLAMED_ANOTHER
