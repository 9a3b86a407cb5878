"""Finding the step where it went wrong: by halves where the detector allows, else by all."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.bisection.scan import SPOTS, Bad, Located, locate


def asked(
    pattern: Sequence[Bad], *, monotone: bool, most: int | None = None
) -> tuple[Located, list[int]]:
    """What comes of a run whose steps answer so, and the steps that were asked, in their order."""
    going = locate(range(len(pattern)), monotone=monotone, max_steps=most)
    order: list[int] = []
    try:
        step = next(going)
        while True:
            order.append(step)
            step = going.send(pattern[step])
    except StopIteration as ended:
        located = ended.value
    assert isinstance(located, Located)
    return located, order


def boundary(steps: int, first_bad: int) -> list[Bad]:
    return [step >= first_bad for step in range(steps)]


@pytest.mark.parametrize("steps", [1, 2, 3, 7, 16, 33])
def test_every_boundary_is_found_by_halves(steps: int) -> None:
    for first_bad in range(steps):
        located, order = asked(boundary(steps, first_bad), monotone=True)
        assert (located.status, located.first_bad, located.among) == (
            "found",
            first_bad,
            (first_bad,),
        )
        assert len(order) == len(set(order)), "no step is asked twice"
        assert len(order) <= 2 + steps.bit_length() + SPOTS


def test_a_run_that_is_nowhere_bad_is_asked_at_its_ends_and_a_few_spots() -> None:
    located, order = asked([False] * 40, monotone=True)
    assert (located.status, located.first_bad) == ("none", None)
    assert {0, 39} < set(order)
    assert len(order) <= 2 + SPOTS


def test_a_scan_asks_every_step_in_order_and_takes_the_first_bad() -> None:
    located, order = asked([False, True, False, True], monotone=False)
    assert order == [0, 1, 2, 3]
    assert (located.status, located.first_bad, located.scanned) == ("found", 1, True)


def test_an_order_that_is_none_is_taken_back_and_every_step_asked() -> None:
    pattern = [False, True] + [False] * 20 + [True] * 20
    located, order = asked(pattern, monotone=True)
    if located.status == "found":  # a single bad step may hide between the spots
        assert located.first_bad == 22
    pattern = [False] + [True] * 12 + [False] * 12 + [True] * 7
    located, order = asked(pattern, monotone=True)
    assert (located.status, located.first_bad) == ("non-monotone", 1)
    assert sorted(order) == list(range(len(pattern)))


def test_steps_without_an_answer_before_the_first_bad_one_may_be_it_too() -> None:
    located, _ = asked([False, False, None, None, True, True], monotone=True)
    assert (located.first_bad, located.among) == (4, (2, 3, 4))


def test_silent_ends_are_gone_around() -> None:
    located, _ = asked([None, False, False, True, True, None], monotone=True)
    assert (located.status, located.first_bad) == ("found", 3)


def test_a_run_that_never_answers_is_censored() -> None:
    for monotone in (True, False):
        located, _ = asked([None] * 5, monotone=monotone)
        assert (located.status, located.first_bad) == ("censored", None)


def test_when_the_questions_run_out_what_is_known_is_said() -> None:
    located, order = asked(boundary(100, 60), monotone=True, most=4)
    assert (located.status, len(order)) == ("budget", 4)
    assert located.first_bad is not None
    assert 60 in located.among
    located, order = asked([False] * 10, monotone=False, most=3)
    assert (located.status, located.first_bad, order) == ("budget", None, [0, 1, 2])


def test_a_run_without_steps_says_nothing() -> None:
    located, order = asked([], monotone=True)
    assert (located.status, order) == ("censored", [])


def test_no_answer_pattern_is_misreported() -> None:
    """Of every short run: what is called the first bad step is one, and a scan's is the first."""
    for length in range(1, 7):
        for pattern in product((False, True, None), repeat=length):
            scanned, _ = asked(pattern, monotone=False)
            first = next((at for at, bad in enumerate(pattern) if bad), None)
            assert scanned.first_bad == first
            halved, _ = asked(pattern, monotone=True)
            assert halved.first_bad is None or pattern[halved.first_bad] is True
            told = [bad for bad in pattern if bad is not None]
            if told == sorted(told):
                assert halved.first_bad == first
                assert halved.status != "non-monotone"


@given(st.integers(1, 60), st.data())
def test_a_boundary_with_silent_steps_lies_among_those_named(
    steps: int, data: st.DataObject
) -> None:
    truth = boundary(steps, data.draw(st.integers(0, steps - 1)))
    silent = data.draw(st.sets(st.integers(0, steps - 1)))
    pattern = [None if at in silent else bad for at, bad in enumerate(truth)]
    located, _ = asked(pattern, monotone=True)
    if located.status == "found":
        assert truth.index(True) in located.among
