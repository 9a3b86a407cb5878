"""What test runners printed, as they really printed it: each file of `check_output` is the output
of one small project's tests, run once, with the paths of that machine made neutral."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taxonomy.evidence.check_output import may_hold_checks, read_checks
from taxonomy.evidence.check_runs import CheckRun
from taxonomy.findings import FailedCheck
from tests.shared import DATA, needs_shared

OUTPUTS = Path(__file__).parent / "check_output"


def only(name: str) -> CheckRun:
    (run,) = read_checks((OUTPUTS / f"{name}.txt").read_text())
    return run


def named(run: CheckRun, ending: str) -> FailedCheck:
    (found,) = [each for each in run.failures if each.name.endswith(ending)]
    return found


@pytest.mark.parametrize(
    ("name", "runner", "failed", "passed", "named"),
    [
        ("pytest", "pytest", 6, 2, 6),
        ("pytest_verbose_line", "pytest", 6, 2, 6),
        ("pytest_quiet", "pytest", 6, 2, 0),  # it was told to name none
        ("pytest_collect", "pytest", 1, 0, 1),
        ("pytest_missing", "pytest", 0, 0, 0),
        ("unittest", "unittest", 4, 1, 4),
        ("unittest_verbose", "unittest", 4, 1, 4),
        ("go", "go test", 3, None, 3),  # what passed it says only when asked
        ("go_verbose", "go test", 3, 2, 3),
        ("go_build", "go test", 1, None, 1),
        ("cargo", "cargo test", 3, 1, 3),
        ("cargo_build", "cargo test", 1, 0, 1),
        ("jest", "jest", 3, 1, 3),
        ("vitest", "vitest", 3, 1, 3),
        ("vitest_verbose", "vitest", 3, 1, 3),
        ("mocha", "mocha", 2, 2, 2),
        ("node_tap", "TAP", 3, 2, 3),  # a test that failed by its subtest is not one more
        ("node_spec", "node --test", 3, 2, 3),
    ],
)
def test_each_runner_is_known_and_its_checks_are_counted(
    name: str, runner: str, failed: int, passed: int | None, named: int
) -> None:
    run = only(name)
    assert (run.runner, run.failed, run.passed) == (runner, failed, passed)
    assert len(run.failures) == named
    assert not run.is_green


@pytest.mark.parametrize(
    ("name", "check", "file", "line"),
    [
        ("pytest", "test_total_counts_each_piece", "test_orders.py", 7),
        ("unittest", "test_total_counts_each_piece", "/home/dev/shop/test_unit.py", 8),
        ("go", "TestTotalCountsEachPiece", "orders_test.go", 7),
        ("cargo", "counts_each_piece", "src/lib.rs", 11),
        ("jest", "orders › counts each piece", "j/orders.test.js", 6),
        ("vitest", "counts each piece", "v/orders.test.js", 6),
        ("mocha", "counts each piece", "/home/dev/shop/m/orders.test.mjs", 6),
        ("node_tap", "counts each piece", "/home/dev/shop/n/orders.test.js", 5),
        ("node_spec", "counts each piece", "n/orders.test.js", 5),
    ],
)
def test_what_was_expected_and_found_and_where(name: str, check: str, file: str, line: int) -> None:
    found = named(only(name), check)
    assert (found.expected, found.found) == ("42", "22")
    assert (found.file, found.line) == (file, line)
    assert found.at is not None
    assert "22" in found.detail


def test_the_place_is_the_innermost_of_the_project() -> None:
    assert named(only("pytest"), "without_id").file == "orders.py"
    assert named(only("unittest"), "without_id").line == 6
    assert named(only("jest"), "without an order").file == "src/orders.js"


def test_messages_say_what_went_wrong() -> None:
    receipt = "FileNotFoundError: [Errno 2] No such file or directory: 'receipt.txt'"
    assert named(only("pytest"), "receipt_is_written").message == receipt
    assert named(only("go"), "TestPanics").message.startswith("panic: runtime error: index out of")
    assert named(only("cargo"), "label").message == "a total is more than nothing"
    assert named(only("go_build"), "(build)").message == "undefined: zero"
    assert named(only("cargo_build"), "orders").file == "src/lib.rs"
    assert named(only("pytest_collect"), "test_coll.py").message.startswith("ImportError: cannot")


def test_the_entry_that_differs_says_more_than_the_two_lists() -> None:
    found = named(only("pytest"), "lines_of_a_receipt")
    assert (found.expected, found.found) == ("'total 44'", "'total 42'")


def test_a_value_that_the_runner_cut_off_is_not_known() -> None:
    found = named(only("pytest_verbose_line"), "test_label[7]")
    assert (found.expected, found.found) == (None, "'order-7'")


def test_a_constant_on_the_left_is_what_was_expected() -> None:
    block = "____ test_it ____\n\n>   assert {}\nE   assert {}\n\ntest_a.py:3: AssertionError\n"
    for source, compared in (("42 == total()", "42 == 22"), ("total() == 42", "22 == 42")):
        (run,) = read_checks(f"{block.format(source, compared)}=== 1 failed in 0.10s ===\n")
        (found,) = run.failures
        assert (found.expected, found.found) == ("42", "22")


@pytest.mark.parametrize(
    "text",
    [
        "..                                     [100%]\n2 passed in 0.01s\n",
        "..\n----------------------------------------\nRan 2 tests in 0.000s\n\nOK\n",
        "ok  \texample.com/orders\t0.002s\n",
        "running 1 test\ntest nothing ... ok\n\ntest result: ok. 1 passed; 0 failed; 0 ignored\n",
        "Test Suites: 1 passed, 1 total\nTests:       3 passed, 3 total\nTime:        0.4 s\n",
        "TAP version 13\n1..2\nok 1 - a\nnot ok 2 - b # TODO later\n",
        "\x1b[32m\x1b[1m3 passed\x1b[0m, \x1b[33m1 skipped\x1b[0m\x1b[32m in 0.12s\x1b[0m",
    ],
)
def test_all_checks_passed(text: str) -> None:
    (run,) = read_checks(text)
    assert run.is_green
    assert run.failures == ()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "The tests failed in 3 places.",
        "I fixed it and 5 passed, which is 1 more in 2 days.",
        "def test_it():\n    assert total() == 42\n",
        "not ok",
        "ok 1 is what he said",
        "ERROR could not reach the server",
    ],
)
def test_other_texts_are_no_output_of_a_runner(text: str) -> None:
    assert read_checks(text) == ()


@needs_shared
def test_every_verifier_that_printed_a_summary_is_counted_as_it_says() -> None:
    """(red, green) of the verifiers of real trials, and every check of theirs that failed named."""
    runs = {
        path.parent.parent.name: read_checks(path.read_text(errors="replace"))
        for path in sorted((DATA / "terminal_bench").glob("*/verifier/test-stdout.txt"))
    }
    counted = {name: found[0] for name, found in runs.items() if found}
    assert all(len(run.failures) == run.failed for run in counted.values())
    red = {name.partition("__")[0]: run.failed for name, run in counted.items() if run.failed}
    assert red["db-wal-recovery"] == 7
    assert sum(run.is_green for run in counted.values()) > 3


WHOLE = "\n".join(path.read_text() for path in sorted(OUTPUTS.glob("*.txt"))).split("\n")


@given(lines=st.lists(st.sampled_from(WHOLE) | st.text(max_size=20), max_size=30))
def test_lines_in_any_order_are_read_and_counted_as_far_as_they_go(lines: list[str]) -> None:
    for run in read_checks("\n".join(lines)):
        assert run.failed >= 0
        assert run.passed is None or run.passed >= 0
        assert not (run.is_green and run.failed)


RUNNER_WORDS = re.compile(
    r"\b(?:passed|failed|errors?|skipped|deselected|xfailed|xpassed|warnings?) in \d"
    r"|no tests ran|short test summary|^(?:FAILED|ERROR) \S"
    r"|^Ran \d+ tests? in|--- (?:FAIL|PASS): |^(?:ok|FAIL)\s+\S+\s+(?:\(cached\)|[\d.]+s)"
    r"|\[(?:build|setup) failed\]|^test result: |could not compile|^Tests: +\d"
    r"|^ *Tests  ?\d|^ +\d+ passing|^TAP version|^(?:not )?ok \d|^ℹ tests \d",
    re.M,
)
"""What a runner prints, as one pattern: right by being read, and slow."""

COUNTED = "passed failed error errors skipped deselected xfailed xpassed warning warnings".split()
OPENED = (
    *("FAILED", "ERROR", "Ran 3 tests in", "Ran 1 test", "ok", "not ok", "FAIL", "test result: "),
    *("Tests:", "Tests", "   2 passing", "TAP version", "ℹ tests ", "x", "no tests ran"),
    *("short test summary", "--- FAIL: ", "--- PASS: ", "[build failed]", "[setup failed]"),
)
PIECES = (*COUNTED, *OPENED, " in ", " in 3", "7", "(cached)", "0.1s", " ", "  ", "\n", "\t", "_")


@pytest.mark.parametrize("before", ["", "\n", " ", "x", "_", "3 "])
@pytest.mark.parametrize("after", ["", " ", " in", " in 3", "\n in 3", " 3", "  3", "\tx 0.1s"])
def test_each_word_of_a_runner_is_found_where_one_pattern_finds_it(before: str, after: str) -> None:
    for word in (*COUNTED, *OPENED, "could not compile"):
        text = f"{before}{word}{after}"
        assert may_hold_checks(text) == (RUNNER_WORDS.search(text) is not None), text


@given(
    st.lists(st.sampled_from(PIECES), max_size=8).map("".join)
    | st.lists(st.sampled_from(WHOLE), max_size=4).map("\n".join)
)
def test_the_words_of_runners_are_found_wherever_one_pattern_finds_them(text: str) -> None:
    assert may_hold_checks(text) == (RUNNER_WORDS.search(text) is not None)


@pytest.mark.parametrize(
    "text",
    [
        "1 failed in 0.1s\nTAP version 13\n" + "\n" * 100_000,
        "".join(f"--- FAIL: T{n} (0.0s)\n" for n in range(5_000)),
        "  1 passing (1s)\n  1 failing\n" + "  1) a\n" * 10_000,
        "=" * 100_000,
        "passe in 7" * 20_000,
    ],
    ids=["empty lines", "tests of Go", "names of Mocha", "rules", "no words of a runner"],
)
def test_time_grows_with_the_text_and_no_faster(text: str) -> None:
    def took(text: str) -> float:
        start = time.process_time()
        read_checks(text)
        return time.process_time() - start

    assert took(text) < 20 * took(text[: len(text) // 4]) + 0.2
