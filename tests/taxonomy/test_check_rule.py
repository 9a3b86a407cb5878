"""A run that failed by its check: what the rule needs to see, and what it must not excuse."""

from __future__ import annotations

from typing import Any

import pytest

from replay.trace import Json, Trace
from taxonomy.classes import Attribution, FailureClass
from taxonomy.diagnosis import diagnose
from taxonomy.findings import Finding
from taxonomy.rules import check
from tests.build import call, error, step, trace
from tests.taxonomy.rule_case import findings

NO_NETWORK = """Reading package lists...
curl: (7) Failed to connect to github.com port 443: Couldn't connect to server
/tests/test.sh: line 19: uvx: command not found"""


def report(*errors: str) -> str:
    """What pytest prints of tests that end with these errors."""
    blocks = [
        f"____ test_{at} ____\n\n>   look()\n\ntest_outputs.py:{at}: \nE       {error}"
        for at, error in enumerate(errors)
    ]
    listed = [f"FAILED test_outputs.py::test_{at}" for at in range(len(errors))]
    head = [f"collected {len(errors)} items", "==== FAILURES ===="]
    tail = [
        "==== short test summary info ====",
        *listed,
        f"==== {len(errors)} failed in 0.12s ====",
    ]
    return "\n".join((*head, *blocks, *tail))


def no_file(path: str) -> str:
    return f"FileNotFoundError: [Errno 2] No such file or directory: '/app/{path}'"


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
    return [finding for finding in findings(made) if finding.rule == check.NAME]


class TestACheckThatNeverRan:
    def test_is_not_the_agent_s_doing_and_no_step_is_to_blame(self) -> None:
        made = checked(NO_NETWORK)
        (finding,) = of_check(made)
        assert (finding.failure, finding.sub) == (FailureClass.OTHER, "grader never ran")
        assert (finding.attribution, finding.confidence) == (Attribution.GRADER, None)
        assert finding.why == "grader ran no test: /tests/test.sh: line 19: uvx: command not found"
        assert [(each.role, each.text, each.place) for each in finding.evidence] == [
            ("stated", line, "grader output") for line in NO_NETWORK.splitlines()[1:]
        ]
        signals = {s.phrase for each in diagnose(made).candidates for s in each.signals}
        assert finding.why not in signals

    def test_it_stands_at_the_last_step(self) -> None:
        parts = [step("I look.", call("Bash", "a.txt", command="ls"))] * 3 + [step("It is done.")]
        (finding,) = of_check(checked(NO_NETWORK, parts=parts))
        assert (finding.step, finding.span) == (3, "step-3")

    def test_a_runner_that_is_only_missing_may_have_been_removed_by_the_run(self) -> None:
        (finding,) = of_check(checked("test.sh: line 3: pytest: command not found"))
        assert finding.confidence == check.RUNNER_MISSING

    def test_a_long_line_of_its_output_is_cut_in_the_phrase_and_not_in_the_evidence(self) -> None:
        line = f"curl: (7) Failed to connect to {'mirror.' * 8}test port 443 after 3 ms"
        (finding,) = of_check(checked(line))
        assert finding.why == f"grader ran no test: {line[:59]}…"
        assert finding.evidence[0].text == line

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
        (finding,) = of_check(checked(report(no_file("total.csv"))))
        assert (finding.sub, finding.attribution) == (
            "grader requires the unstated",
            Attribution.GRADER,
        )
        assert "total.csv" in finding.why

        assert finding.why == "grader requires total.csv; not in task"

    def test_unittest_says_it_in_its_own_way(self) -> None:
        line = "-" * 70
        printed = (
            f"E\n{'=' * 70}\nERROR: test_it (test_outputs.Outputs)\n{line}\n"
            'Traceback (most recent call last):\n  File "/tests/test_outputs.py", line 4, in it\n'
            f"{no_file('total.csv')}\n\n{line}\nRan 1 test in 0.001s\n\nFAILED (errors=1)\n"
        )
        (finding,) = of_check(checked(printed))
        assert finding.why == "grader requires total.csv; not in task"
        assert finding.is_hint

    @pytest.mark.parametrize("path", ["sum.txt", "sum.txt/", "out/"])
    def test_a_file_of_the_task_or_a_mere_folder_is_the_agent_s_to_write(self, path: str) -> None:
        assert not of_check(checked(report(no_file(path))))

    def test_a_file_of_the_check_s_own_says_nothing_of_the_task(self) -> None:
        printed = report(no_file("total.csv")).replace("/app/", "/tests/")
        assert not of_check(checked(printed))

    def test_a_file_that_the_run_had_read_of_is_no_surprise(self) -> None:
        parts = [
            step("I look.", call("Read", "then write total.csv", file_path="/app/README.md")),
            step("Done."),
        ]
        assert not of_check(checked(report(no_file("total.csv")), parts=parts))

    def test_one_error_of_another_kind_and_the_check_is_not_to_blame(self) -> None:
        printed = report(no_file("total.csv"), "ValueError: 3 rows missing")
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
        assert of_check(checked(report(wants)))

    def test_an_answer_need_not_stand_in_the_question(self) -> None:
        assert not of_check(checked(report("assert '42' == '41'")))

    @pytest.mark.parametrize("end", ["", "I cannot solve this task with the tools here."])
    def test_a_run_that_gave_up_has_not_earned_the_excuse(self, end: str) -> None:
        parts = [step("I look.", call("Bash", error("denied"), command="ls")), step(end)]
        assert not of_check(checked(report(no_file("total.csv")), parts=parts))

    def test_the_one_test_of_several_that_is_named_for_it_is_a_hint(self) -> None:
        tests: dict[str, Json] = {
            "test_sum_exists": "passed",
            "test_sum_value": "passed",
            "test_sum_executable": "failed",
        }
        (finding,) = of_check(checked(tests=tests))
        assert finding.is_hint
        assert finding.why == (
            "only test_sum_executable failed; the task does not mention executable"
        )
        assert [each.text for each in finding.evidence] == ["test_sum_executable"]
        said = {**tests, "test_sum_value": "failed"}
        assert not of_check(checked(tests=said)), "the task says what the sum is"
        told = "Write /app/sum.txt, executable for all."
        assert not of_check(checked(tests=tests, task=told))

    def test_a_short_word_of_the_name_tells_as_much(self) -> None:
        tests: dict[str, Json] = {"test_sum": "passed", "test_rows": "passed"}
        (finding,) = of_check(checked(tests={**tests, "test_sum_gzip": "failed"}))
        assert finding.why == "only test_sum_gzip failed; the task does not mention gzip"
        assert not of_check(checked(tests={**tests, "test_sum_utf": "failed"}))

    def test_where_most_tests_failed_their_names_are_no_excuse(self) -> None:
        failed: dict[str, Json] = {"test_executable": "failed", "test_owner": "failed"}
        assert not of_check(checked(tests={"test_sum": "passed", **failed}))
        passed: dict[str, Json] = dict.fromkeys(("test_sum", "test_rows", "test_app"), "passed")
        assert of_check(checked(tests={**passed, **failed}))

    def test_long_names_of_tests_are_cut_in_the_phrase(self) -> None:
        name = "test_sum_executable_for_groups_owners_others_strangers"
        tests: dict[str, Json] = {"test_sum": "passed", "test_rows": "passed", name: "failed"}
        (finding,) = of_check(checked(tests=tests))
        assert finding.why == (
            f"only {name[:39]}… failed; the task does not mention executable, groups, owners, o…"
        )
