"""A run that failed by its check: what the rule needs to see, and what it must not excuse."""

from __future__ import annotations

from typing import Any

import pytest

from replay.trace import Json, Trace
from taxonomy.classes import Attribution, FailureClass
from taxonomy.diagnosis import diagnose
from taxonomy.findings import Finding
from taxonomy.rules import check, findings
from taxonomy.rules.rule import RuleContext
from tests.build import call, error, step, trace

NO_NETWORK = """Reading package lists...
curl: (7) Failed to connect to github.com port 443: Couldn't connect to server
/tests/test.sh: line 19: uvx: command not found"""

REPORT = """collected 2 items
test_outputs.py FF
E       FileNotFoundError: [Errno 2] No such file or directory: '/app/{0}'
FAILED test_outputs.py::test_it - FileNotFoundError
2 failed in 0.12s"""


def checked(
    printed: str = "",
    tests: dict[str, Json] | None = None,
    parts: Any = None,
    task: str = "Write the sum of the rows into /app/sum.txt.",
    **known: Any,
) -> Trace:
    told: dict[str, Json] = {"printed": printed} if printed else {}
    if tests:
        told["tests"] = tests
    parts = parts or [
        step("I add them up.", call("Write", "File created", file_path="/app/sum.txt")),
        step("The sum is in /app/sum.txt."),
    ]
    return trace(parts, task=task, header={"reference": {"check": told}}, **known)


def of_check(made: Trace) -> list[Finding]:
    return [finding for finding in findings(RuleContext(made)) if finding.rule == check.NAME]


class TestACheckThatNeverRan:
    def test_is_not_the_agent_s_doing_and_no_step_is_to_blame(self) -> None:
        made = checked(NO_NETWORK)
        (finding,) = of_check(made)
        assert (finding.failure, finding.sub) == (FailureClass.OTHER, "grader never ran")
        assert (finding.attribution, finding.confidence) == (Attribution.GRADER, None)
        assert [each.place for each in finding.evidence] == ["grader output"] * 2
        signals = {s.phrase for each in diagnose(made).candidates for s in each.signals}
        assert finding.why not in signals

    def test_a_runner_that_is_only_missing_may_have_been_removed_by_the_run(self) -> None:
        (finding,) = of_check(checked("test.sh: line 3: pytest: command not found"))
        assert finding.confidence == check.RUNNER_MISSING

    @pytest.mark.parametrize(
        "ran",
        [
            "==== 1 failed, 4 passed in 0.15s ====",
            "Ran 3 tests in 0.1s",
            "test result: FAILED. 0 passed; 1 failed",
            "not ok 1 - writes the file",
            "--- FAIL: TestSum (0.00s)",
            "FAILED ../tests/test_outputs.py::test_sum",
            "AssertionError: sum.txt holds 3",
        ],
    )
    def test_one_result_of_a_test_and_it_ran(self, ran: str) -> None:
        assert not of_check(checked(f"{NO_NETWORK}\n{ran}"))
        assert not of_check(checked(NO_NETWORK, {"test_sum": "failed"}))

    def test_silence_is_no_evidence(self) -> None:
        assert not of_check(checked("Reading package lists..."))
        assert not of_check(checked(""))

    def test_where_the_run_did_not_fail_it_does_not_matter(self) -> None:
        assert not of_check(checked(NO_NETWORK, outcome="passed"))
        assert not of_check(checked(NO_NETWORK, outcome="unknown"))


class TestACheckThatWantsTheUnsaid:
    def test_a_file_that_nobody_named(self) -> None:
        (finding,) = of_check(checked(REPORT.format("total.csv")))
        assert (finding.sub, finding.attribution) == (
            "grader requires the unstated",
            Attribution.GRADER,
        )
        assert "total.csv" in finding.why

    def test_a_file_of_the_task_is_the_agent_s_to_write(self) -> None:
        assert not of_check(checked(REPORT.format("sum.txt")))

    def test_a_file_that_the_run_had_read_of_is_no_surprise(self) -> None:
        parts = [
            step("I look.", call("Read", "then write total.csv", file_path="/app/README.md")),
            step("Done."),
        ]
        assert not of_check(checked(REPORT.format("total.csv"), parts=parts))

    def test_one_error_of_another_kind_and_the_check_is_not_to_blame(self) -> None:
        printed = REPORT.format("total.csv") + "\nE       ValueError: 3 rows missing"
        assert not of_check(checked(printed))

    @pytest.mark.parametrize(
        "wants",
        [
            "ImportError: cannot import name 'totals' from 'run'",
            "AttributeError: module 'run' has no attribute 'totals'",
            "TypeError: add() got an unexpected keyword argument 'totals'",
        ],
    )
    def test_a_name_that_nobody_said(self, wants: str) -> None:
        assert of_check(checked(f"collected 1 item\nE   {wants}\n1 failed"))

    def test_an_answer_need_not_stand_in_the_question(self) -> None:
        assert not of_check(checked("collected 1 item\nE   assert '42' == '41'\n1 failed"))

    def test_a_run_that_gave_up_has_not_earned_the_excuse(self) -> None:
        parts = [step("I look.", call("Bash", error("denied"), command="ls")), step("")]
        assert not of_check(checked(REPORT.format("total.csv"), parts=parts))

    def test_the_one_test_of_several_that_is_named_for_it_is_half_sure(self) -> None:
        tests: dict[str, Json] = {
            "test_sum_exists": "passed",
            "test_sum_value": "passed",
            "test_sum_executable": "failed",
        }
        (finding,) = of_check(checked(tests=tests))
        assert finding.confidence == check.BY_NAME
        assert "executable" in finding.why
        said = {**tests, "test_sum_value": "failed"}
        assert not of_check(checked(tests=said)), "the task says what the sum is"
        told = "Write /app/sum.txt, executable for all."
        assert not of_check(checked(tests=tests, task=told))
