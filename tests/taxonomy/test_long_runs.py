"""What must not degenerate where a run is long: likelihood, first things, loops, garbled calls."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from replay.trace import Trace
from taxonomy.audit import gaming
from taxonomy.classes import Attribution
from taxonomy.evidence.checks import report_checks
from taxonomy.evidence.claims import assumes
from taxonomy.findings import Candidate
from taxonomy.localiser.candidates import RIVALS, RunSignals, ranking, shown
from taxonomy.localiser.features import (
    ASSUMPTION,
    FIRST_ACTION,
    FIRST_ERROR,
    GROWTH,
    UNFOUNDED,
    StepSignal,
)
from taxonomy.localiser.run_structure import RunStructure
from taxonomy.localiser.signals import step_signals, strongest
from taxonomy.localiser.weights import MODEL
from taxonomy.rules import findings, hallucinated_state, loop, malformed
from taxonomy.rules.rule import RuleContext
from tests.build import Called, Part, call, error, heard, step, trace


def features(made: Trace, feature: str) -> list[int]:
    return sorted(
        {sign.step for sign in step_signals(RuleContext(made), (), ()) if sign.feature == feature}
    )


class TestLikelihood:
    def candidates(self, steps: int) -> tuple[Candidate, ...]:
        against = strongest(
            [StepSignal(3, UNFOUNDED, "made it up"), StepSignal(1, FIRST_ERROR, "failed")]
        )
        return shown(RunSignals(choices=tuple(range(steps)), against=against), MODEL)

    def test_steps_with_nothing_against_them_do_not_drown_the_one_that_has(self) -> None:
        few, many = self.candidates(RIVALS), self.candidates(300)
        assert [each.step for each in many] == [each.step for each in few] == [3, 1]
        assert [each.band for each in many] == [each.band for each in few]

    def test_rivals_with_as_much_against_them_do(self) -> None:
        def likelihood(steps: int) -> float:
            against = strongest([StepSignal(at, FIRST_ERROR, "failed") for at in range(steps)])
            return ranking(against, range(steps), MODEL.weights)[0][1]

        assert likelihood(2) > likelihood(10) > likelihood(RIVALS) == likelihood(300)


class TestFirstThings:
    def test_where_every_step_acts_the_first_of_them_says_nothing(self) -> None:
        acting: list[Part] = [step(call("write_file", "ok", path=f"{at}.txt")) for at in range(6)]
        assert features(trace(acting), FIRST_ACTION) == []
        thinking: list[Part] = [step("I think.") for _ in range(3)]
        assert features(trace([*thinking, *acting]), FIRST_ACTION) == [3]
        assert features(trace([acting[0], *thinking]), FIRST_ACTION) == [0]

    def test_who_speaks_at_length_is_held_against_himself(self) -> None:
        brief, wordy = "Go on.", "This is a plan of what everybody is to do next. " * 3
        parts: list[Part] = [
            step(wordy if at % 2 else brief, agent="planner" if at % 2 else "worker")
            for at in range(8)
        ]
        assert features(trace(parts), GROWTH) == []
        parts.append(step(wordy, agent="worker"))
        assert features(trace(parts), GROWTH) == [8]


class TestAssuming:
    def test_a_word_of_the_task_is_the_task_s(self) -> None:
        said = "I replace the keys by placeholder values."
        assert assumes(said) == said
        assert assumes(said, ["put in placeholders for the keys"]) is None

    def test_another_word_of_the_same_text_is_not(self) -> None:
        said = "I put in a placeholder. Let us assume that there is one key."
        found = assumes(said, ["put in placeholders"])
        assert found is not None
        assert found.startswith("Let us assume")

    def test_in_a_trace(self) -> None:
        parts: list[Part] = ["I replace it by a placeholder."]
        assert features(trace(parts, task="Hide the key."), ASSUMPTION) == [0]
        assert features(trace(parts, task="Put placeholders for keys."), ASSUMPTION) == []


class TestLoops:
    def tries(self, times: int, message: str) -> list[Part]:
        return [step(call("open", error(message), key=f"k{'abcdefghij'[at % 10]}"))
                for at in range(times)]  # fmt: skip

    def found(self, parts: list[Part]) -> list[int]:
        return [each.step for each in findings(RuleContext(trace(parts))) if each.rule == loop.NAME]

    def test_one_that_the_run_got_out_of_gives_way_to_one_many_times_as_long(self) -> None:
        message = "Data error in encrypted file, wrong key"
        short = self.tries(4, message)
        away: list[Part] = [step(call(f"look_{at}", f"thing {at}")) for at in range(6)]
        assert self.found([*short, *away, *self.tries(30, message)]) == [11]
        assert self.found([*short, *away, *self.tries(8, message)]) == [1]


class TestAStraySign:
    def garbled(self, *calls: Called) -> list[Attribution | None]:
        made = trace([step(each) for each in calls])
        return [
            each.attribution for each in findings(RuleContext(made)) if each.rule == malformed.NAME
        ]

    def test_that_opens_argument_after_argument_is_the_harness_s(self) -> None:
        calls = [
            call("Bash", error("--version: command not found"), command=">python3 --version"),
            call("Write", "created", content=">import asyncio", path="/app/run.py"),
            call("Bash", error("hello: command not found"), command=">echo hello"),
        ]
        assert self.garbled(*calls) == [Attribution.ENVIRONMENT]

    def test_in_one_argument_alone_it_may_be_its_syntax(self) -> None:
        keys = [call("vim", f"line {at}", keys=f">{at}j") for at in range(4)]
        assert self.garbled(*keys) == []

    @pytest.mark.parametrize("value", ["}pip install build{", "} }", ": ", ", "])
    def test_no_program_begins_so(self, value: str) -> None:
        calls = [call("Bash", f"out {at}", command=value) for at in range(3)]
        assert self.garbled(*calls) == [Attribution.ENVIRONMENT]

    def test_a_template_may(self) -> None:
        calls = [call("render", f"out {at}", template="}} {{ name") for at in range(3)]
        assert self.garbled(*calls) == []


SPEAKERS = "a group in which each agent speaks twice"
ANSWERS = "answers handed in again and again"
CONDITIONS = "conditions, another thing asked before each"
CHECKS = "a file and its failing test, thousands of times"
EDITS = "a failing test that is edited again and again"

RED = (Path(__file__).parent / "check_output" / "pytest.txt").read_text()


def parts(shape: str, size: int) -> list[Part]:
    if shape == SPEAKERS:
        return [step(f"I look at place {at}.", agent=f"agent {at // 2}") for at in range(size)]
    if shape == ANSWERS:
        return [step(call("final_answer", "ok", answer="Brest")) for _ in range(size)]
    if shape == CHECKS:
        return [
            part
            for at in range(size // 8)
            for part in (
                step(call("Write", "ok", file_path=f"/w/m{at}.py", content="def f():\n    pass")),
                step(call("Bash", RED.replace("test_till", f"test_{at}"), command=f"pytest m{at}")),
            )
        ]
    if shape == EDITS:
        given = {"file_path": "/w/test_orders.py", "old_string": "assert total() == 42"}
        edit = call("Edit", "ok", **given, new_string="assert total() == 22")
        return [step(edit), step(call("Bash", RED, command="pytest"))] * (size // 8)
    told = "Is it the one that was ordered in spring, or that of the summer before? " * 8
    return [
        part
        for at in range(size // 2)
        for part in (heard(f"{told} {at}"), step(f"If we assume that list {at} is right, it is."))
    ]


READ_BY: dict[str, Callable[[RuleContext], object]] = {
    SPEAKERS: lambda case: RunStructure(case.reading).idle,
    ANSWERS: lambda case: list(hallucinated_state.find(case)),
    CONDITIONS: lambda case: list(hallucinated_state.find(case)),
    EDITS: gaming.audit,
    CHECKS: lambda case: report_checks(case.reading, case.check_runs, case.writes),
}


@pytest.mark.slow
@pytest.mark.parametrize("shape", READ_BY)
def test_twice_the_run_is_read_in_twice_the_time(shape: str) -> None:
    """A busy machine slows one reading or the other: what grows with the square is too slow in
    each of a few."""
    grown = []
    for _ in range(3):
        spent = []
        for size in (3_000, 6_000):
            case = RuleContext(trace(parts(shape, size)))
            assert case.index.sources is not None
            before = time.process_time()
            READ_BY[shape](case)
            spent.append(time.process_time() - before)
        grown.append(spent[1] / max(0.02, spent[0]))
        if grown[-1] < 3.2:
            return
    assert min(grown) < 3.2, grown
