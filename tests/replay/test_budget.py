"""No limit is ever exceeded, and none refuses what it could have allowed."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.budget import Budget, Limits, Worst
from replay.errors import ModelRefused, Stopped
from replay.formats.common import anthropic_usage
from replay.models.line import Arrival, max_cost
from replay.prices import price
from replay.trace import Usage
from tests.messages_api import FAULTS, Body, MessagesApi
from tests.replay.live_case import BODY, client, echo, saying

pytestmark = pytest.mark.usefixtures("clean")

PRICED = "claude-sonnet-4-5"


@pytest.fixture
def api() -> Iterator[MessagesApi]:
    with MessagesApi(echo, reckons=True) as running:
        yield running


# --- the ledger


def test_the_ledger_settles_releases_and_keeps_the_unknown_at_its_worst() -> None:
    now = [0.0]
    budget = Budget(Limits(usd=1.0, minutes=1.0), clock=lambda: now[0])
    worst_case = Worst(tokens=500, usd=0.4)
    budget.settle(budget.reserve(worst_case), None, None)
    budget.settle(budget.reserve(worst_case), Usage(input_tokens=90, output_tokens=10), 0.1)
    budget.release(budget.reserve(worst_case))
    assert (budget.calls, budget.tokens) == (2, 600)
    assert budget.usd == pytest.approx(0.5)
    reserved = budget.reserve(worst_case)
    with pytest.raises(ModelRefused, match="limit of 1 USD"):
        budget.reserve(worst_case)
    budget.release(reserved)
    assert budget.usd_complete
    budget.settle(budget.reserve(Worst(tokens=1)), None, None)
    assert not budget.usd_complete
    now[0] = 61.0
    with pytest.raises(ModelRefused, match="time limit of 1 minutes reached"):
        budget.reserve(worst_case)
    with pytest.raises(ModelRefused, match="needs a limit"):
        Budget(Limits()).reserve(worst_case)


def test_what_fits_beside_open_calls_what_may_fit_later_and_what_never_will() -> None:
    budget = Budget(Limits(usd=1.0))
    reserved = budget.reserve(Worst(tokens=1, usd=0.6))
    assert budget.fits(Worst(tokens=1, usd=0.4))
    assert not budget.fits(Worst(tokens=1, usd=0.5))
    with pytest.raises(ModelRefused, match="limit of 1 USD could be exceeded: 0 spent"):
        budget.fits(Worst(tokens=1, usd=1.1))
    budget.settle(reserved, None, 0.5)
    assert budget.fits(Worst(tokens=1, usd=0.5))
    budget.settle(budget.reserve(Worst(tokens=1, usd=0.1)), None, 0.1)
    with pytest.raises(ModelRefused, match=r"0\.6 spent, next call ≤ 0\.5"):
        budget.fits(Worst(tokens=1, usd=0.5))


def test_a_limit_is_used_to_the_last_cent() -> None:
    budget = Budget(Limits(usd=0.3))
    for _ in range(3):
        budget.settle(budget.reserve(Worst(tokens=1, usd=0.1)), None, 0.1)
    assert budget.usd == 0.3
    with pytest.raises(ModelRefused):
        budget.reserve(Worst(tokens=1, usd=1e-9))


@given(
    st.lists(
        st.tuples(
            st.integers(0, 400),
            st.floats(0, 0.4),
            st.sampled_from(["open", "settle", "release", "unknown"]),
            st.floats(0, 1),
        ),
        max_size=40,
    )
)
def test_no_order_of_calls_exceeds_a_limit(
    steps: list[tuple[int, float, str, float]],
) -> None:
    budget = Budget(Limits(usd=1.0, calls=10, tokens=1000))
    reserved: list[Worst] = []
    spent_tokens, spent_usd = 0, 0.0
    for tokens, usd, what, share in steps:
        worst_case = Worst(tokens=tokens, usd=usd)
        try:
            if budget.fits(worst_case):
                reserved.append(budget.reserve(worst_case))
        except ModelRefused:
            assert spent_usd + usd > 1 - 1e-9 or spent_tokens + tokens > 1000 or budget.calls >= 10
        if reserved and what != "open":
            last = reserved.pop()
            if what == "release":
                budget.release(last)
            elif what == "unknown":
                budget.settle(last, None, None)
                spent_tokens, spent_usd = spent_tokens + last.tokens, spent_usd + (last.usd or 0.0)
            else:
                real, cost = int(last.tokens * share), (last.usd or 0.0) * share
                budget.settle(last, Usage(input_tokens=real, output_tokens=0), cost)
                spent_tokens, spent_usd = spent_tokens + real, spent_usd + cost
        assert budget.calls <= 10
        assert budget.tokens <= 1000
        assert budget.usd <= 1.0
    for each in reserved:
        budget.release(each)
    assert budget.tokens == spent_tokens
    assert budget.usd == pytest.approx(spent_usd, abs=1e-9)


# --- the server counts


FREE = ("overloaded", "busy for a second", "server error", "bad gateway")
PAID = ("truncated", "reset", "web page")


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "limits",
    [Limits(calls=9), Limits(tokens=1700), Limits(usd=0.012), Limits(calls=12, usd=0.02)],
    ids=["calls", "tokens", "usd", "both"],
)
def test_eight_at_once_and_failures_among_them_exceed_no_limit(
    api: MessagesApi, limits: Limits, seed: int
) -> None:
    chance = random.Random(seed)
    for _ in range(20):
        if chance.random() < 0.5:
            api.fault(FAULTS[chance.choice(FREE + PAID[:2])])
    bodies = [{**saying("word " * chance.randrange(1, 40)), "model": PRICED} for _ in range(40)]
    arrived: list[Arrival] = []
    with client(api, name=PRICED, budget=Budget(limits), attempts=8) as made:
        with pytest.raises(ModelRefused, match="could be exceeded"):
            arrived.extend(made.complete_all(bodies))
        budget = made.budget
    billed = api.answered
    tokens = sum(bill.usage["input_tokens"] + bill.usage["output_tokens"] for bill in billed)
    costs = [price(anthropic_usage(bill.usage), bill.model) for bill in billed]
    usd = sum(cost.usd for cost in costs if cost is not None)
    assert all(cost is not None for cost in costs)
    for real, counted, limit in (
        (len(billed), budget.calls, limits.calls),
        (tokens, budget.tokens, limits.tokens),
        (usd, budget.usd, limits.usd),
    ):
        assert real <= counted + 1e-12
        assert limit is None or counted <= limit


def test_a_call_waits_for_room_that_others_will_leave(api: MessagesApi) -> None:
    bodies = [{**saying(str(number)), "model": PRICED} for number in range(12)]
    most = max_cost(bodies[0], PRICED)
    spent = most.tokens // 4
    limits = Limits(tokens=2 * most.tokens + 12 * spent)
    api.flights.gather = 2
    with client(api, name=PRICED, budget=Budget(limits)) as made:
        assert len(list(made.complete_all(bodies))) == 12
        assert made.budget.tokens <= 12 * spent
    assert 2 <= api.most_at_once < 8


def test_a_call_is_refused_once_nothing_is_open_that_could_leave_room(api: MessagesApi) -> None:
    body = {**BODY, "model": PRICED}
    with client(api, name=PRICED, budget=Budget(Limits(calls=3))) as made:
        arrivals: list[Arrival] = []
        with pytest.raises(ModelRefused, match="limit of 3 calls"):
            arrivals.extend(made.complete_all([body] * 10))
    assert (len(arrivals), api.asked) == (3, 3)


def test_room_that_a_free_failure_leaves_is_used(api: MessagesApi) -> None:
    api.fault(*[FAULTS["overloaded"]] * 5)
    with client(api, budget=Budget(Limits(calls=2)), attempts=9) as made:
        assert len(list(made.complete_all([BODY, BODY]))) == 2
    assert (api.asked, made.budget.calls) == (7, 2)


def test_a_request_with_tools_leaves_room_for_the_providers_own_words_about_them() -> None:
    tool = {"name": "a", "description": "b", "input_schema": {"type": "object"}}
    assert max_cost({**BODY, "tools": [tool]}, "x").tokens > max_cost(BODY, "x").tokens + 500


# --- time


def test_no_wait_goes_beyond_the_minutes_allowed(api: MessagesApi) -> None:
    now = [0.0]
    budget = Budget(Limits(minutes=1.0), clock=lambda: now[0])

    async def pass_time(seconds: float) -> None:
        now[0] += seconds

    api.fault(FAULTS["overloaded"], FAULTS["busy for a second"])
    with client(api, budget=budget, sleep=pass_time) as made:
        assert made.complete(BODY, 0)["type"] == "message"
        now[0] = 59.5
        api.fault(FAULTS["busy for a second"])
        with pytest.raises(ModelRefused, match="HTTP 429"):
            made.complete(BODY, 0)
        now[0] = 60.0
        with pytest.raises(ModelRefused, match="time limit of"):
            made.complete(BODY, 0)
    assert api.asked == 4


def test_the_unknown_cost_of_a_cancelled_call_stays_at_its_worst(api: MessagesApi) -> None:
    def stop_before_the_answer(body: Body) -> Body:
        made.stop()
        api.left.wait()
        return echo(body)

    api.policy = stop_before_the_answer
    with (
        client(api, budget=Budget(Limits(tokens=100_000))) as made,
        pytest.raises(Stopped),
    ):
        made.complete(BODY, 0)
    assert made.budget.tokens == max_cost(BODY, "claude-test").tokens
