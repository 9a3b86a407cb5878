"""May the answers to an item be used? Where κ is high, surely over chance, on yes and on no."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taxonomy.calibration.approval import (
    LEAST_KAPPA,
    OVER_KAPPA,
    Answers,
    ItemGate,
    item_agreement,
    item_gate,
)
from taxonomy.step_scores import GROUNDED

answers = st.lists(
    st.builds(Answers, st.booleans(), st.one_of(st.booleans(), st.none())), max_size=60
)


def held_against(tp: int, fn: int, tn: int, fp: int) -> ItemGate:
    """The gate of a judge with so many answers of each kind."""
    given = [
        *[Answers(True, True)] * tp,
        *[Answers(True, False)] * fn,
        *[Answers(False, False)] * tn,
        *[Answers(False, True)] * fp,
    ]
    return item_gate(item_agreement("judge", "judge:window:m:1", GROUNDED, given))


def test_an_item_that_is_answered_as_people_do_passes() -> None:
    found = held_against(tp=18, fn=2, tn=9, fp=1)
    assert found.passed
    assert (found.kappa.value or 0) > LEAST_KAPPA
    assert found.kappa.low > OVER_KAPPA


def test_a_weak_kappa_does_not_pass() -> None:
    assert held_against(tp=15, fn=5, tn=7, fp=3).missing == ("κ 0.43 is under 0.60",)


def test_a_kappa_that_may_be_luck_does_not_pass() -> None:
    found = held_against(tp=9, fn=1, tn=7, fp=3)
    assert found.kappa.value == pytest.approx(0.6)
    assert len(found.missing) == 1
    assert found.missing[0].startswith("κ may be as low as 0.2")


def test_who_always_says_yes_passes_nothing_however_often_that_is_right() -> None:
    missing = held_against(tp=95, fn=0, tn=0, fp=5).missing
    assert missing == ("κ is not defined on 100 labels",)


def test_a_rate_of_nine_in_ten_on_rare_noes_is_not_enough() -> None:
    """TPR and TNR are both .9, and most of its noes are false alarms."""
    found = held_against(tp=180, fn=20, tn=9, fp=1)
    assert not found.passed


def test_too_few_of_either_answer_are_counted() -> None:
    assert held_against(tp=20, fn=0, tn=3, fp=0).missing[0] == "3 of at least 5 labels say no"
    assert held_against(tp=2, fn=0, tn=20, fp=0).missing[0] == "2 of at least 5 labels say yes"


@given(answers)
def test_a_verdict_is_total_and_passes_only_what_its_own_words_ask(given: list[Answers]) -> None:
    figures = item_agreement("judge", "judge:window:m:1", GROUNDED, given)
    assert figures.labels == len(given) == figures.undecided + figures.agreed.n
    found = item_gate(figures)
    if found.passed:
        assert found.kappa.value is not None
        assert found.kappa.value >= LEAST_KAPPA
        assert found.kappa.low > OVER_KAPPA
        assert min(figures.held.recall.n, figures.held.specificity.n) >= 5
