"""What each rule costs grows as the run does, in the shapes of long sessions of coding and of
other agents; and what is found of the files that a run makes is what a plain look finds."""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.trace import Json, Trace
from taxonomy.evidence.file_edits import is_same_file
from taxonomy.evidence.written_files import FEW, WrittenFiles, first_steps
from taxonomy.rules import RULES
from taxonomy.rules.rule import RuleContext
from tests.bench.corpus import WORDS
from tests.build import Gives, Part, error, heard, step, trace
from tests.build import call as called


def call(name: str, gives: Gives | Json = "ok", /, **arguments: Json) -> Part:
    """A step of one call."""
    return step(called(name, gives, **arguments))


TASK = "Fix the bug. Do not modify any tests. Do not edit other.py."


def _own_files(size: int) -> list[Part]:
    return [call("Write", "ok", file_path=f"tests/test_{at}.py", content="x") for at in range(size)]


def _one_name(size: int) -> list[Part]:
    """A file of the same name in many folders."""
    return [call("Write", "ok", file_path=f"tests/p{at}/a.py", content="x") for at in range(size)]


def _one_file(size: int) -> list[Part]:
    return [
        call("Edit", "The file was updated.", file_path="tests/test_a.py", old_string=f"{at}",
             new_string=f"{at + 1}")
        for at in range(size)
    ]  # fmt: skip


def _checks(size: int) -> list[Part]:
    failed = "===== 2 failed, 8 passed in 0.31s ====\nFAILED tests/test_a.py::test_x"
    edits = [call("Edit", file_path=f"src/a{at % 7}.py", old_string="a", new_string=f"b{at}")
             for at in range(size // 2)]  # fmt: skip
    return [part for edit in edits for part in (edit, call("Bash", failed, command="pytest"))]


def _lookups(size: int) -> list[Part]:
    """Answers with ids, which later calls use."""
    chance = random.Random(1)
    return [
        call("get_order", {"id": f"ORD-{at}", "total": at, "says": " ".join(chance.choices(WORDS))},
             order=f"ORD-{chance.randrange(at + 1)}")
        for at in range(size)
    ]  # fmt: skip


def _errors(size: int) -> list[Part]:
    return [call("get_order", error(f"Error: no order {at}"), order=at) for at in range(size)]


def _words(size: int) -> list[Part]:
    return [f"I now believe order {at} has been refunded: {at * 7} dollars." for at in range(size)]


def _people(size: int) -> list[Part]:
    asked = [heard(f"Please do not touch file{at}.py, but fix order {at}.") for at in range(size)]
    return [part for each in asked for part in (each, call("get_order", {"ok": True}))]


SHAPES: dict[str, Callable[[int], list[Part]]] = {
    "own files": _own_files,
    "files of one name": _one_name,
    "edits of one file": _one_file,
    "checks": _checks,
    "lookups": _lookups,
    "errors": _errors,
    "words": _words,
    "people": _people,
}
SIZE, MOST_GROWTH = 120, 2.7
LARGE, MOST_TIMES, TRIES = 2_000, 3.2, 3


def _made(shape: str, size: int) -> Trace:
    return trace([*SHAPES[shape](size), "Done."], task=TASK)


def _costs(made: Trace, cost: Callable[[Callable[[], object]], float]) -> dict[str, float]:
    """What each rule costs, what rules share being made by the first that needs it."""
    case = RuleContext(made)
    return {
        f"{rule.name} ({rule.find.__module__})": cost(lambda: list(rule.find(case)))  # noqa: B023
        for rule in RULES
    }


def _calls(work: Callable[[], object]) -> float:
    found = 0

    def count(*event: object) -> None:
        nonlocal found
        found += event[1] in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(before)
    return found


def _seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_twice_the_run_costs_each_rule_twice_as_much(shape: str) -> None:
    one, two, four = (_costs(_made(shape, SIZE * times), _calls) for times in (1, 2, 4))
    found = {rule: (four[rule] - two[rule]) / max(500, two[rule] - one[rule]) for rule in one}
    assert {rule: grown for rule, grown in found.items() if grown > MOST_GROWTH} == {}


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_a_large_run_takes_each_rule_as_long_as_its_size_is_worth(shape: str) -> None:
    """Loops inside of what Python calls; a busy machine slows one reading or the other."""
    best: dict[str, float] = {}
    for _ in range(TRIES):
        one, two = (_costs(_made(shape, size), _seconds) for size in (LARGE, 2 * LARGE))
        for rule, took in two.items():
            best[rule] = min(best.get(rule, inf), took / max(one[rule], 0.05))
        slow = {rule: grown for rule, grown in best.items() if grown > MOST_TIMES}
        if not slow:
            return
    assert slow == {}


# --- the files that a run makes, held against a plain look


PATHS = st.sampled_from(["a.py", "src/a.py", "/work/src/a.py", "b.py", "lib/b.py", "./b.py", "x/y"])
WRITES = st.lists(
    st.tuples(PATHS, st.sampled_from(["Write", "Edit", "made", "restored", "removed", "Read"])),
    min_size=1,
    max_size=12,
)


def _write(path: str, how: str) -> Part:
    match how:
        case "Edit":
            return call("Edit", "ok", file_path=path, old_string="a", new_string="b")
        case "made":
            return call("Write", "File created successfully", file_path=path, content="x")
        case "restored":
            return call("Bash", "", command=f"git checkout {path}")
        case "removed":
            return call("Bash", "", command=f"rm {path}")
        case "Read":
            return call("Read", f"see {path}", file_path="other")
        case _:
            return call("Write", "ok", file_path=path, content="x")


@given(WRITES)
def test_which_files_are_its_own_is_what_a_plain_look_says(written: list[tuple[str, str]]) -> None:
    case = RuleContext(trace([_write(*each) for each in written]))
    files = WrittenFiles(case.writes, case.reading.acts)
    for place, each in enumerate(case.writes):
        path = each.edit.path
        later = case.writes[place:]
        again = any(w.edit.restored and is_same_file(w.edit.path, path) for w in later)
        assert files.is_put_back(path, place) == again
        assert files.are_own(each) == _is_own_plainly(case, place)


def _is_own_plainly(case: RuleContext, place: int) -> bool:
    write = case.writes[place]
    path = write.edit.path
    if write.edit.restored:
        return True
    same = [w for w in case.writes if w.step < write.step and is_same_file(w.edit.path, path)]
    first = same[0] if same else write
    if first.edit.before or first.edit.removed:
        return False
    if "created" in first.act.reply.text:
        return True
    name = path.rpartition("/")[2]
    before = [act for act in case.reading.acts if act.step < first.step]
    return first.edit.whole and not any(name in f"{a.reply.text}\n{a.key}" for a in before)


NAMES = st.text("ab._-/ é", max_size=4)


@given(
    st.sets(NAMES),
    st.lists(st.tuples(st.integers(0, 9), st.lists(st.text("ab._-/ é\n", max_size=12)))),
    st.booleans(),
)
def test_the_first_step_that_holds_a_name(
    names: set[str], texts: list[tuple[int, list[str]]], many: bool
) -> None:
    asked = names | ({f"name{at}" for at in range(FEW + 1)} if many else set())
    found = first_steps(asked, texts)
    for name in names:
        holding = [step for step, said in texts if any(name in text for text in said)]
        assert found[name] == min(holding, default=inf)
