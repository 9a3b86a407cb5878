"""The same tokens at another model's price."""

from __future__ import annotations

import pytest

from replay.trace import Trace
from taxonomy.stats.routing import REMEASURE, SHORT_TOKENS, everything, read_only, short, what_if
from tests.build import call, step
from tests.taxonomy.waste_case import paid, usage

MINI = "gpt-4o-mini"
"""$0.15 in, $0.075 read, $0.60 out a million tokens."""


def run_of_twenty() -> Trace:
    """Twenty steps of 12 000 tokens in, 60 % of them cached, fourteen with a short answer."""
    usages = [usage(12_000, 100 if n < 14 else 700, read=7_200) for n in range(20)]
    return paid(["So."] * 20, usages)


def test_only_the_steps_named_move_to_the_other_price() -> None:
    found = what_if(run_of_twenty(), MINI, short, "short answers")
    stay = 6 * (4_800 * 3 + 7_200 * 0.30 + 700 * 15) / 1e6
    assert found.routed == tuple(range(14))
    assert found.now_usd == pytest.approx(stay + 14 * (4_800 * 3 + 7_200 * 0.30 + 1_500) / 1e6)
    assert found.cached_usd == pytest.approx(stay + 14 * (4_800 * 0.15 + 7_200 * 0.075 + 60) / 1e6)


def test_a_cache_that_did_not_follow_is_the_other_end_of_the_range() -> None:
    found = what_if(run_of_twenty(), MINI, everything)
    assert found.fresh_usd == pytest.approx((20 * 12_000 * 0.15 + (14 * 100 + 6 * 700) * 0.6) / 1e6)
    assert found.cached_usd is not None
    assert found.fresh_usd is not None
    assert found.cached_usd < found.fresh_usd


def test_it_is_said_that_resolution_must_be_measured_again() -> None:
    assert what_if(run_of_twenty(), MINI, everything).caveat == REMEASURE
    assert "resolution must be re-measured" in REMEASURE


def test_a_model_without_a_price_has_no_answer() -> None:
    found = what_if(run_of_twenty(), "no-such-model", everything)
    assert (found.now_usd, found.cached_usd, found.fresh_usd) == (None, None, None)
    assert found.unknown == tuple(range(20))


def test_a_step_of_unknown_cost_is_left_out_of_both_sides() -> None:
    found = what_if(paid(["So."] * 2, [usage(1_000, 10), None]), MINI, everything)
    assert (found.routed, found.unknown) == ((0,), (1,))
    assert found.now_usd == pytest.approx(0.00315)


def test_an_answer_of_unknown_length_is_not_short() -> None:
    usages = [usage(9, SHORT_TOKENS), usage(9, SHORT_TOKENS + 1), usage(9, None), None]
    steps = paid(["So."] * 4, usages).steps
    assert [short(each) for each in steps] == [True, False, False, False]


def test_reading_steps_call_tools_that_change_nothing() -> None:
    run = paid(
        [
            step(call("get_order", id=1)),
            step(call("get_order", id=1), call("cancel_order", id=1)),
            step(call("bash", command="make")),
            "Done.",
        ],
        [usage(9)] * 4,
    )
    wanted = read_only(run)
    assert [wanted(each) for each in run.steps] == [True, False, False, False]
