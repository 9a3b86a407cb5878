"""Failing checks of a run: where they were read, what wrote what they name, when they went red."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from replay.trace import SourceScore, Trace
from taxonomy.diagnosis import diagnose
from taxonomy.findings import CheckReport, FailedCheck
from tests.build import Called, Part, call, step, trace

OUTPUTS = Path(__file__).parent / "check_output"
RED = (OUTPUTS / "pytest.txt").read_text()
GREEN = "........                                  [100%]\n8 passed in 0.31s\n"


def report(made: Trace, *scores: SourceScore) -> CheckReport:
    return diagnose(made, scores).checks


def run(command: str, output: str) -> Called:
    return call("Bash", output, command=command)


def write(path: str, content: str) -> Called:
    return call("Write", "File created successfully", file_path=path, content=content)


def edit(path: str, before: str, after: str) -> Called:
    return call("Edit", "The file was updated.", file_path=path, old_string=before,
                new_string=after)  # fmt: skip


def named(found: CheckReport, ending: str) -> FailedCheck:
    (only,) = [each for each in found.failed if each.name.endswith(ending)]
    return only


def cause(check: FailedCheck) -> tuple[int | None, str] | None:
    return None if check.cause is None else (check.cause.step, check.cause.text)


ORDERS = [
    step("I write it.", write("/w/orders.py", "def total(lines):\n    return 22\n")),
    step("And the label.", edit("/w/orders.py", "x", "def label(order):\n    return order['id']")),
    step(run("ls", "orders.py")),
]


class TestOfTheOutcome:
    def graded(self, parts: list[Part], **check: Any) -> CheckReport:
        return report(trace(parts, header={"reference": {"check": check}}))

    def test_what_the_verifier_printed_is_named_with_its_place(self) -> None:
        found = self.graded([*ORDERS, "Done."], printed=RED)
        assert len(found.failed) == 6
        first = named(found, "test_total_counts_each_piece")
        assert first.phrase == "test_total_counts_each_piece: expected 42, found 22"
        assert (first.read_at, first.place, first.location) == (
            None, "grader output", "test_orders.py:7")  # fmt: skip

    def test_a_check_is_joined_to_the_last_write_of_what_it_names(self) -> None:
        found = self.graded([*ORDERS, "Done."], printed=RED)
        assert cause(named(found, "without_id")) == (1, "/w/orders.py")  # the innermost file
        assert cause(named(found, "counts_each_piece")) == (0, "total in /w/orders.py")
        assert cause(named(found, "receipt_is_written")) is None  # nobody wrote that file

    def test_a_list_of_statuses_names_what_was_not_printed(self) -> None:
        parts: list[Part] = [step(write("/app/solution.txt", "x")), "Done."]
        found = self.graded(parts, tests={"test_solution_file": "failed", "test_b": "passed"})
        (only,) = found.failed
        assert only.phrase == "test_solution_file failed"
        assert cause(only) == (0, "/app/solution.txt")

    def test_what_is_printed_is_not_named_again_from_the_list(self) -> None:
        found = self.graded(["Done."], printed=RED, tests={"test_till": "failed"})
        assert len(found.failed) == 6

    def test_a_run_that_passed_has_none(self) -> None:
        header = {"reference": {"check": {"printed": RED}}}
        assert report(trace(ORDERS, outcome="passed", header=header)) == CheckReport()

    def test_a_value_that_was_found_is_joined_to_the_call_that_gave_it(self) -> None:
        printed = "E   AssertionError: assert 'order-7' == 'order-8'\n=== 1 failed in 0.1s ===\n"
        parts: list[Part] = [
            step(call("update_row", "ok", id=3, label="order-7")),
            step(call("get_row", "order-7", id=3)),
            "Done.",
        ]
        found = self.graded(parts, printed=f"___ test_row ___\n{printed}")
        assert cause(found.failed[0]) == (0, "order-7")


class TestOfScorers:
    def test_an_answer_that_differs_is_joined_to_where_it_was_said(self) -> None:
        made = trace(["I look.", "It is 41."], header={"reference": {"target": "42"}})
        scores = SourceScore(name="match", by="inspect", label="I", explanation="It is 41.")
        (found,) = report(made, scores).failed
        assert found.phrase == "match: expected 42, found It is 41."
        assert cause(found) == (1, "It is 41.")
        candidates = diagnose(made, (scores,)).candidates
        assert "failed check" not in {s.name for each in candidates for s in each.signals}

    def test_a_scorer_that_ran_tests_is_read_as_these(self) -> None:
        scores = SourceScore(name="verify", by="inspect", value=0.0, explanation=RED)
        found = report(trace([*ORDERS, "Done."]), scores)
        assert len(found.failed) == 6
        assert found.failed[0].place == "explanation of verify"

    def test_an_explanation_in_words_is_its_message(self) -> None:
        wrong = SourceScore(name="rubric", by="judge", value=0.0, explanation="No refund was made.")
        right = SourceScore(name="tone", by="judge", value=1.0, explanation="Polite.")
        (found,) = report(trace(["Done."]), wrong, right).failed
        assert found.phrase == "rubric: No refund was made."


class TestOfTheRunItself:
    def test_the_last_run_of_a_check_counts(self) -> None:
        found = report(trace([step(run("pytest -q", RED)), step(run("pytest -q", GREEN)), "Done."]))
        assert found == CheckReport()
        found = report(trace([step(run("pytest -q", GREEN)), step(run("pytest", RED)), "Done."]))
        assert len(found.failed) == 6
        assert {each.read_at for each in found.failed} == {1}

    def test_failures_without_a_name_are_counted(self) -> None:
        found = report(trace([step(run("pytest -q | tail -1", "5 failed, 2 passed in 0.66s"))]))
        assert (found.failed, found.unnamed) == ((), 5)

    def test_output_of_tests_in_a_file_is_no_run_of_them(self) -> None:
        assert report(trace([step(call("Read", RED, file_path="log.txt"))])) == CheckReport()


class TestRedEdit:
    WORK = [
        step(run("cd /w && pytest -q", GREEN)),
        step(edit("/w/orders.py", "a", "b")),
        step(edit("/w/label.py", "a", "b")),
        step(run("pytest -x 2>&1 | tail -40", RED)),
    ]

    def test_it_is_the_last_write_between_green_and_red(self) -> None:
        red = report(trace([*self.WORK, "Done."])).red_edit
        assert red is not None
        assert (red.step, red.path, red.green, red.red) == (2, "/w/label.py", 0, 3)
        assert red.phrase == (
            "pytest passed at step 0 and failed at step 3, after Edit wrote /w/label.py"
        )

    def test_a_check_that_passes_again_did_not_stay_red(self) -> None:
        made = trace([*self.WORK, step(run("pytest", GREEN)), "Done."])
        assert report(made).red_edit is None

    def test_another_check_is_not_the_same(self) -> None:
        parts = [step(run("pytest tests/test_a.py", GREEN)), *self.WORK[1:]]
        assert report(trace(parts)).red_edit is None

    def test_names_tell_the_same_check_of_another_command(self) -> None:
        verbose = "test_orders.py::test_till PASSED   [100%]\n=== 1 passed in 0.1s ===\n"
        parts = [step(run("pytest -v test_orders.py", verbose)), *self.WORK[1:]]
        red = report(trace(parts)).red_edit
        assert red is not None
        assert red.step == 2

    def test_without_a_write_between_there_is_none(self) -> None:
        assert report(trace([self.WORK[0], self.WORK[3]])).red_edit is None


class TestCandidates:
    def test_the_step_that_went_red_is_the_first_and_says_why(self) -> None:
        said = diagnose(trace([*TestRedEdit.WORK, "Done."]))
        assert said.candidates[0].step == 2
        assert said.candidates[0].why.startswith("pytest passed at step 0 and failed at step 3")
        assert said.candidates[0].band is None

    def test_the_write_that_most_failing_checks_name_comes_before_others(self) -> None:
        header = {"reference": {"check": {"printed": RED}}}
        said = diagnose(trace([*ORDERS, "Done."], header=header))
        assert said.candidates[0].step in (0, 1)
        assert said.candidates[0].signals[0].name == "failed check"

    def test_a_passed_run_gets_none_of_checks(self) -> None:
        assert diagnose(trace(TestRedEdit.WORK, outcome="passed")).candidates == ()
