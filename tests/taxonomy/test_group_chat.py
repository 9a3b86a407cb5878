"""A group chat as the rules read it: whose words are whose, what code gave, who decides nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from arc_tui import importing
from replay.store import read
from replay.store.rows import trace_rows
from replay.trace import Trace
from taxonomy.calibration.labels import place, read_labels
from taxonomy.diagnosis import diagnose
from taxonomy.evidence.context_index import Index
from taxonomy.evidence.reading import Reading
from taxonomy.judgements.schema import open_ledger
from taxonomy.localiser.run_structure import RunStructure
from taxonomy.rules.rule import RuleContext
from tests.build import step, trace

HISTORY = [
    ("human", "Which of the two ports is older?"),
    ("Orchestrator (thought)", "Initial plan: find both ports, then compare them."),
    ("Orchestrator (-> Coder)", "Please print the age of the ports."),
    ("Coder", "```python\nprint(ages['Brest'])\n```"),
    ("Orchestrator (thought)", "Next speaker ComputerTerminal"),
    ("Orchestrator (-> ComputerTerminal)", "Please run the code."),
    ("ComputerTerminal", "exitcode: 1 (execution failed)\nKeyError: 'Brest'"),
    (
        "WebSurfer",
        "I opened a page.\nAutomatic OCR of the page screenshot shows the following text:\n\n"
        "Harbours of Brittany: Brest 1631, Lorient 1666, Roscoff 1869",
    ),
    ("Orchestrator (-> Assistant)", "Which one is older?"),
    ("Assistant", "The port of Lorient is the older one, founded by Colbert in 1664."),
]
BLAMED = 9


@pytest.fixture
def chat(tmp_path: Path) -> tuple[Path, Trace]:
    """A chat in the form in which people wrote them by hand, imported."""
    told = {
        "question": HISTORY[0][1],
        "question_ID": "q-1",
        "history": [{"content": content, "role": role} for role, content in HISTORY],
        "mistake_agent": "Assistant",
        "mistake_step": str(BLAMED),
        "is_corrected": False,
    }
    (tmp_path / "Hand-Crafted").mkdir()
    path = tmp_path / "Hand-Crafted" / "1.json"
    path.write_text(json.dumps(told))
    store = open_ledger(tmp_path / "arc.db")
    for _ in importing.import_paths(store, [path]):
        pass
    (row,) = trace_rows(store)
    return tmp_path, read.load(store, row.trace)


def test_every_message_is_a_step_and_a_label_finds_its_own(chat: tuple[Path, Trace]) -> None:
    folder, made = chat
    assert [each.ask.agent for each in made.steps] == [role for role, _ in HISTORY]
    assert made.header.outcome.status == "failed"
    label = {"trace": "Hand-Crafted/1.json", "at": {"message": BLAMED}, "decisive": True, "by": "h"}
    (folder / "labels.jsonl").write_text(json.dumps(label))
    labels, _ = read_labels(folder / "labels.jsonl")
    (placed,), _ = place(open_ledger(folder / "arc.db"), labels)
    assert placed.step == BLAMED


def test_the_person_who_asks_and_the_terminal_decide_nothing(chat: tuple[Path, Trace]) -> None:
    reading = Reading(chat[1])
    assert [turn.index for turn in reading.turns if turn.observer] == [0, 6]
    shown = {candidate.step for candidate in diagnose(chat[1]).candidates}
    assert shown
    assert not shown & {0, 6}


def test_who_only_routes_and_quotes_is_not_the_first_to_work(chat: tuple[Path, Trace]) -> None:
    structure = RunStructure(Reading(chat[1]))
    assert structure.idle == {1, 2, 4, 5, 8}
    assert structure.work == (3, 7, 9)
    assert {each.step for each in diagnose(chat[1]).candidates}.isdisjoint(structure.idle)


def test_others_are_overheard_people_heard_and_nobody_hears_themselves(
    chat: tuple[Path, Trace],
) -> None:
    turns = Reading(chat[1]).turns
    assert [(each.role, each.text) for each in turns[1].heard] == [("user", HISTORY[0][1])]
    assert [each.role for each in turns[3].overheard] == ["Orchestrator (-> Coder)"]
    assert not any(turn.heard for turn in turns[2:])
    assert turns[2].overheard == (), "an orchestrator's thought is its own"


def test_what_another_said_was_seen(chat: tuple[Path, Trace]) -> None:
    index = Index(Reading(chat[1]))
    origin = index.origin(9, "1869")
    assert origin is not None
    assert origin.place == "words of WebSurfer"
    assert index.origin(9, "1664") is None


def test_code_failed_although_others_spoke_before_the_terminal(chat: tuple[Path, Trace]) -> None:
    ((turn, reply),) = Reading(chat[1]).reports()
    assert (turn.index, reply.failed) == (3, True)


def test_a_page_that_is_read_out_is_no_speech_from_memory(chat: tuple[Path, Trace]) -> None:
    facts = RuleContext(chat[1]).new_facts
    assert 7 not in facts
    assert facts[9] == ("Colbert", "1664")


def test_a_run_of_one_speaker_overhears_nothing() -> None:
    turns = Reading(trace([step("One.", agent="solver"), step("Two.", agent="solver")])).turns
    assert [turn.overheard for turn in turns] == [(), ()]
    assert [len(turn.heard) for turn in turns] == [1, 0]
