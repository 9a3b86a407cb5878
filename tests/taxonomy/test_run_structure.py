"""The structure of a run: who only coordinates, where the answer comes from, what points where."""

from __future__ import annotations

import pytest

from taxonomy.evidence.reading import Reading
from taxonomy.localiser.features import (
    COORDINATES,
    FIRST_WORK,
    FIRST_WRITE,
    LATE,
    THIN,
)
from taxonomy.localiser.run_structure import RunStructure, marked_answer, structure_signals
from tests.build import Part, call, step, trace


def structure_of(parts: list[Part], task: str = "How high is the tower in metres?") -> RunStructure:
    return RunStructure(Reading(trace(parts, task=task)))


def signs(made: RunStructure, feature: str) -> dict[int, float | None]:
    return {each.step: each.strength for each in structure_signals(made) if each.feature == feature}


class TestAnswer:
    SEARCHED: list[Part] = [
        step(call("search", "The tower is 324 metres high.", q="tower")),
        step("I think that it is 330 metres.", call("search", "nothing", q="height")),
        step(call("final_answer", "", answer="330 metres")),
        "330 metres",
    ]

    @pytest.mark.parametrize(
        ("said", "answer"),
        [
            ("So: <answer> Beijing </answer>", "Beijing"),
            ("We get \\boxed{42}.", "42"),
            ("FINAL ANSWER: 80GSFC21M0002", "80GSFC21M0002"),
            ("The result is:\n```\nHarbinger\n```\nAll agree.", "Harbinger"),
            ("The answer to the question is **Lyon**.", "Lyon"),
            ("```python\nprint(x)\n```", ""),
            ("It is done.", ""),
        ],
    )
    def test_an_answer_is_what_is_marked_as_one(self, said: str, answer: str) -> None:
        (turn,) = Reading(trace([said])).turns
        assert marked_answer(turn) == answer

    def test_it_comes_from_the_step_that_states_it_first(self) -> None:
        made = structure_of(self.SEARCHED)
        assert made.origin == 1
        assert list(signs(made, LATE)) == [1, 2, 3]

    def test_or_from_the_program_that_computed_it(self) -> None:
        parts: list[Part] = [
            step(call("python", "330.2", code="print(h * 0.3048)")),
            "The final answer is 330.2",
        ]
        assert structure_of(parts).origin == 0

    def test_an_answer_that_the_task_holds_has_no_origin(self) -> None:
        parts: list[Part] = ["<answer>Paris</answer>"]
        assert structure_of(parts, task="Which is larger, Paris or Lyon?").origin is None

    def test_it_is_thin_where_nothing_shown_holds_it(self) -> None:
        assert list(signs(structure_of([*self.SEARCHED[:2], "<answer>330</answer>"]), THIN)) == [1]
        held: list[Part] = [self.SEARCHED[0], "<answer>324 metres</answer>"]
        assert signs(structure_of(held), THIN) == {}

    def test_where_nothing_was_asked_nothing_is_answered(self) -> None:
        parts: list[Part] = [step(call("look", "ok", at=1)), "It is done."]
        made = structure_of(parts, task="Tidy the folder.")
        assert (made.origin, signs(made, THIN), signs(made, LATE)) == (None, {}, {})

    def test_a_step_that_still_calls_tools_gives_no_answer(self) -> None:
        parts: list[Part] = [step("I look.", call("search", "x", q="a")), step("")]
        assert structure_of(parts).answer is None


class TestWho:
    def chat(self) -> list[Part]:
        said = [
            ("chief", "Plan: ask the reader, then the counter."),
            ("reader", "I read the page: the tower was built by Eiffel."),
            ("chief", "Now the counter."),
            ("counter", "```python\nprint(300 + 24)\n```"),
            ("chief", "Reader, check it."),
            ("reader", "It is right."),
        ]
        return [step(words, agent=name) for name, words in said]

    def test_who_leads_the_others_and_never_acts_coordinates(self) -> None:
        made = structure_of(self.chat())
        assert made.idle == {0, 2, 4}
        assert list(signs(made, FIRST_WORK)) == [1]
        assert list(signs(made, COORDINATES)) == [0, 2, 4]

    def test_a_leader_that_acts_is_one_of_them(self) -> None:
        parts = self.chat()
        parts[2] = step("```python\nprint(1)\n```", agent="chief")
        assert structure_of(parts).idle == frozenset()

    def test_who_quotes_the_whole_task_passes_it_on(self) -> None:
        task = "How high is the tower that was built in Paris in 1889?"
        parts: list[Part] = [
            step(f"General task: {task} Be careful.", agent="expert"),
            step("It is 330 metres high.", agent="critic"),
        ]
        assert structure_of(parts, task=task).work == (1,)

    def test_a_plan_in_a_thread_that_works_by_calls_is_no_work(self) -> None:
        parts: list[Part] = ["First I list facts.", step(call("search", "x", q="a")), "It is 324."]
        assert structure_of(parts).work == (1, 2)


def test_the_first_of_many_writes_says_less() -> None:
    write = step(call("write_file", "ok", path="a.txt"))
    look = step(call("look", "ok", at=1))
    few, many = structure_of([look, write, look, look]), structure_of([look, write, write, write])
    assert signs(few, FIRST_WRITE) == {1: 1.0}
    assert signs(many, FIRST_WRITE) == {1: 0.5}
