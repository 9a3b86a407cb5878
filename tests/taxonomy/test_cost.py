"""What runs and resolved tasks cost: the article's example, and what is said of the unknown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.trace import Usage
from taxonomy.metrics.cost import (
    NOTHING_KNOWN,
    Money,
    Prices,
    call_usd,
    per,
    per_resolved_at,
    spent,
    times_cheaper,
    total,
)

FRONTIER = Prices(input_usd=3.0, output_usd=15.0, cache_read_usd=0.3)
SMALL = Prices(input_usd=0.15, output_usd=0.60, cache_read_usd=0.015)
STEP = Usage(input_tokens=12_000, output_tokens=700, cache_read_tokens=7_200)

amounts = st.builds(Money, cost_usd=st.none() | st.floats(0, 1e6), cost_complete=st.booleans())


def known(usd: float) -> Money:
    return Money(cost_usd=usd, cost_complete=True)


def test_the_article_s_run_costs_541_and_a_resolved_task_83() -> None:
    run = spent(call_usd(STEP, FRONTIER) for _ in range(20))
    assert run.cost_complete
    assert run.cost_usd == pytest.approx(0.541, abs=5e-4)
    assert per_resolved_at(0.5412, 0.65) == pytest.approx(0.83, abs=5e-3)


def test_a_hundred_such_runs_of_which_65_pass_cost_the_same_a_resolved_task() -> None:
    run = spent(call_usd(STEP, FRONTIER) for _ in range(20))
    found = per(total([run] * 100), 65)
    assert found.cost_usd == pytest.approx(0.83, abs=5e-3)


def test_the_article_s_routed_run_costs_18() -> None:
    steps = [call_usd(STEP, SMALL)] * 14 + [call_usd(STEP, FRONTIER)] * 6
    assert spent(steps).cost_usd == pytest.approx(0.18, abs=5e-3)


def test_cheaper_runs_that_resolve_less_are_dearer() -> None:
    """Navigation at 60 % resolved pays, at 20 % it does not: $.30 and $.90 against $.83."""
    assert per_resolved_at(0.18, 0.60) == pytest.approx(0.30)
    assert per_resolved_at(0.18, 0.20) == pytest.approx(0.90)
    assert times_cheaper(known(0.83), known(0.30)) == pytest.approx(0.83 / 0.30)
    assert (times_cheaper(known(0.83), known(0.90)) or 0) < 1


def test_cache_writes_have_a_price_of_their_own() -> None:
    prices = Prices(input_usd=4, output_usd=20, cache_read_usd=0.2, cache_write_usd=5)
    usage = Usage(
        input_tokens=1_000_000,
        output_tokens=0,
        cache_read_tokens=500_000,
        cache_write_tokens=300_000,
    )
    assert call_usd(usage, prices) == pytest.approx(0.5 * 0.2 + 0.3 * 5 + 0.2 * 4)


@pytest.mark.parametrize(
    "usage",
    [
        Usage(input_tokens=10),
        Usage(output_tokens=10),
        Usage(input_tokens=10, output_tokens=1, cache_read_tokens=11),
        Usage(input_tokens=10, output_tokens=1, cache_write_tokens=5),
    ],
)
def test_a_call_whose_price_cannot_be_known_has_none(usage: Usage) -> None:
    assert call_usd(usage, FRONTIER) is None


def test_a_total_that_lacks_a_part_is_a_lower_bound() -> None:
    assert total([known(1.0), NOTHING_KNOWN]) == Money(cost_usd=1.0, cost_complete=False)
    assert spent([0.5, None]) == Money(cost_usd=0.5, cost_complete=False)
    assert total([]) == total([NOTHING_KNOWN]) == NOTHING_KNOWN
    assert spent([None, None]) == NOTHING_KNOWN
    assert spent([]) == known(0.0)


def test_nothing_resolved_has_no_price_a_resolved_task() -> None:
    assert per(known(3.0), 0) == NOTHING_KNOWN
    assert per_resolved_at(3.0, 0.0) is None


def test_a_bound_decides_nothing() -> None:
    bound = Money(cost_usd=1.0, cost_complete=False)
    assert times_cheaper(known(2.0), bound) is times_cheaper(bound, known(2.0)) is None
    assert times_cheaper(known(2.0), known(0.0)) is None


@given(st.lists(amounts), st.integers(-2, 9))
def test_a_total_never_claims_more_than_its_parts(parts: list[Money], count: int) -> None:
    whole = total(parts)
    assert (whole.cost_usd is None) == all(part.cost_usd is None for part in parts)
    if whole.cost_complete:
        assert all(part.cost_complete and part.cost_usd is not None for part in parts)
    shared = per(whole, count)
    assert shared.cost_usd is None or shared.cost_complete == whole.cost_complete
