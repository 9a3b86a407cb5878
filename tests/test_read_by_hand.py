"""Real runs that we read by hand, and how far the rules come: found, missed, and why.

The decisive step, the class and the fault of every Terminal-Bench trial and of ten failed coding
runs chosen evenly, by the authors, from the transcript and what the check printed. Nobody outside
has looked at them and the rules were mended with some in sight: a list of what works and what does
not, no measure of accuracy. The same for the classes that people gave the TRAIL runs and the rules
do not find.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import Struct

from replay.store import read
from replay.store.handle import Store
from replay.store.rows import TraceRow
from taxonomy.calibration.labels import place, read_labels
from taxonomy.classes import Attribution, FailureClass
from taxonomy.diagnosis import diagnose
from taxonomy.judgements.schema import open_ledger
from tests.shared import DATA, Imported, needs_shared, runs_below

pytestmark = needs_shared

GAVE_UP, LOOP, OTHER = FailureClass.GAVE_UP, FailureClass.LOOP, FailureClass.OTHER
AGENT, HARNESS, CHECK = Attribution.AGENT, Attribution.ENVIRONMENT, Attribution.GRADER


class Read(Struct, frozen=True):
    """One run as we read it. `steps` are the decisive ones, any of them right; none where no step
    is to blame. `misses` names what the rules or the candidates do not see."""

    run: str
    steps: frozenset[int]
    failure: FailureClass
    attribution: Attribution
    reason: str
    misses: frozenset[str] = frozenset()


def run(name: str, steps: set[int], failure: FailureClass, attribution: Attribution, reason: str,
        *misses: str) -> Read:  # fmt: skip
    return Read(name, frozenset(steps), failure, attribution, reason, frozenset(misses))


READ = (
    run("cancel-async-tasks", {2, 5}, OTHER, HARNESS,
        "a stray `>` opens nearly every argument, the written program's first line too",
        "first"),  # the write that the failing checks name comes first: an effect
    run("db-wal-recovery", {1}, OTHER, HARNESS, "`: ` before every command makes it a no-op"),
    run("fix-git", {1}, OTHER, HARNESS, "the commands arrive as a lone colon or a brace", "first"),
    run("git-leak-recovery", {2, 8}, OTHER, HARNESS,
        "leaked serving text in the commands; the answer file is written full of it"),
    run("log-summary-date-ranges", {7}, GAVE_UP, HARNESS,
        "got over garbled calls, read a log, and ended without a word", "first"),
    run("polyglot-rust-c", {1}, OTHER, CHECK,
        "timed out after two steps, and no test ran: its runner could not be fetched"),
    run("pypi-server", {1}, OTHER, HARNESS,
        "every command empty; claims success all the same; no test ran either"),
    run("qemu-startup", {1}, OTHER, HARNESS, "both commands after the first empty; no test ran"),
    run("regex-log", set(), OTHER, CHECK, "no test ran: its runner could not be fetched"),
    run("sanitize-git-repo", {3}, GAVE_UP, AGENT,
        "found the keys, changed nothing and ended without a word", "first"),
    run("claude_code_c4__grid-pattern", {2, 3}, OTHER, AGENT,
        "takes the one example for a diagonal flip, verifies on that example alone", "class"),
    run("claude_code_c4__openssl", {14}, OTHER, AGENT,
        "writes the details anew in a layout of its own", "class"),
    run("claude_code_coder__crack", {8, 30, 36, 37}, LOOP, AGENT,
        "guesses passwords by hand, 270 times, until the time is out"),
    run("claude_code_coder__openssl", {6, 14}, OTHER, AGENT,
        "takes away an import that the task asks for", "class"),
    run("claude_code_gpt5__grid-pattern", {2}, OTHER, AGENT,
        "takes the one example for a rotation, verifies on that example alone", "class"),
    run("claude_code_gpt5__organization", {8}, OTHER, AGENT,
        "computes the statistics in a way of its own", "class"),
    run("claude_code_v3__crack", {0}, GAVE_UP, AGENT, "says what it will do and calls nothing"),
    run("claude_code_v3__grid-pattern", {0}, GAVE_UP, AGENT,
        "writes the program into its words, calls nothing and asks"),
    run("claude_code_v3__heterogeneous", {0}, GAVE_UP, AGENT,
        "says what it will do and calls nothing"),
    run("claude_code_v3__organization", {3}, GAVE_UP, AGENT,
        "ends with a scrap after a file that is not there", "first"),
)  # fmt: skip

PASSED = (
    "configure-git-webserver",
    "prove-plus-comm",
    "sqlite-db-truncate",
)


@pytest.fixture
def store(real: Imported) -> Iterator[Store]:
    with open_ledger(real.path) as opened:
        yield opened


def row_of(store: Store, name: str) -> TraceRow:
    listed = runs_below(store, "terminal_bench", "claude_code_runs", "trail_swe")
    (row,) = (row for row in listed if f"/{name}" in (row.path or ""))
    return row


@pytest.mark.parametrize("told", READ, ids=lambda told: told.run)
def test_the_rules_see_what_we_read_but_for_the_listed_misses(store: Store, told: Read) -> None:
    row = row_of(store, told.run)
    said = diagnose(read.load(store, row.trace))
    assert row.outcome == "failed"
    misses = set()
    sure = [each for each in said.findings if each.confidence is None or each.confidence >= 0.5]
    if told.failure not in {each.failure for each in sure}:
        misses.add("class")
    elif told.attribution not in {each.attribution or AGENT for each in sure}:
        misses.add("attribution")
    if told.steps and (not said.candidates or said.candidates[0].step not in told.steps):
        misses.add("first")
    assert misses == told.misses


@pytest.mark.parametrize("name", PASSED)
def test_a_run_that_passed_is_accused_of_nothing(store: Store, name: str) -> None:
    row = row_of(store, name)
    said = diagnose(read.load(store, row.trace))
    assert row.outcome == "passed"
    assert (said.findings, said.candidates) == ((), ())


def test_a_check_that_timed_out_decides_nothing(store: Store) -> None:
    assert row_of(store, "query-optimize").outcome == "unknown"


FROM_MEMORY = "states from memory how the code works, or that it has read it: no value to trace"
TRIED_TWICE = "called a waste of resources: another way to look for the same, tried once or twice"

TRAIL_MISSES = {
    "0e6f79": {FailureClass.HALLUCINATED_STATE: FROM_MEMORY,
               FailureClass.BAD_ARGS: "its own regular expression does not match: no call's fault"},
    "58bfe9": {FailureClass.HALLUCINATED_STATE: FROM_MEMORY},
    "81d7ec": {FailureClass.HALLUCINATED_STATE: FROM_MEMORY},
    "e7bdf7": {FailureClass.HALLUCINATED_STATE: FROM_MEMORY, LOOP: TRIED_TWICE},
    "f12834": {FailureClass.HALLUCINATED_STATE: FROM_MEMORY, LOOP: TRIED_TWICE},
    "2102ee": {LOOP: TRIED_TWICE},
    "790482": {LOOP: TRIED_TWICE},
    "8fa189": {LOOP: TRIED_TWICE},
    "da1783": {LOOP: TRIED_TWICE},
}  # fmt: skip
"""By run, the classes people gave that no rule finds. `other` is left out: people mean by it an
answer in the wrong form, an instruction not followed, a search badly made, which takes judgement.
"""


def test_the_classes_of_people_are_found_but_for_the_listed_misses(store: Store) -> None:
    labels, _ = read_labels(DATA / "labels" / "trail_swe_bench.jsonl")
    placed, _ = place(store, labels)
    wanted: dict[str, set[FailureClass]] = defaultdict(set)
    for each in placed:
        wanted[each.trace] |= {FailureClass(name) for name in each.label.classes or ()}
    missed: dict[str, set[FailureClass]] = {}
    for trace, classes in wanted.items():
        made = read.load(store, trace)
        found = {each.failure for each in diagnose(made).findings}
        assert found <= classes, "nothing is found that people did not see"
        if classes - found - {OTHER}:
            missed[Path(made.header.path or "").name[:6]] = classes - found - {OTHER}
    assert missed == {name: set(reasons) for name, reasons in TRAIL_MISSES.items()}
