"""Batches: half the price, answers in any order, and no request sent twice whatever happens."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from replay.budget import Budget, Limits
from replay.errors import ModelRefused, OfflineMiss, RequestRefused, Stopped
from replay.models import cached
from replay.models.cached import Answered, Ask, Cached, request_id
from replay.models.line import max_cost
from replay.models.protocol import Sending
from replay.store import answers
from replay.store.handle import Store
from tests.messages_api import (
    BATCH_RESULTS,
    BATCHES,
    FAULTS,
    ONE_BATCH,
    Body,
    Fault,
    MessagesApi,
    message,
    text,
)
from tests.replay.live_case import Waits, ask, client, echo, kept
from tests.replay.locked_case import Fixed

pytestmark = pytest.mark.usefixtures("clean")

PRICED = "claude-sonnet-4-5"
ASKS = [ask(str(number), model=PRICED) for number in range(6)]


class Run:
    """One run of the command: a live model of its own in front of the store."""

    def __init__(self, api: MessagesApi, store: Store, **beside: Any) -> None:
        self.waits = Waits()
        self.claude = client(api, self.waits, **{"name": PRICED, **beside})
        self.model = kept(store, self.claude, api)

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        self.claude.close()

    def batch(self, asks: list[Ask] = ASKS) -> dict[int, Any]:
        return dict(self.model.answers(asks, batch=True))


def sent(api: MessagesApi) -> list[Body]:
    """The batches that were sent, by what was in them."""
    return [each.body for each in api.received if (each.method, each.path) == ("POST", BATCHES)]


# --- one batch


def test_a_batch_answers_every_request_under_its_own_key_at_half_the_price(
    api: MessagesApi, store: Store
) -> None:
    with Run(api, store) as run:
        found = run.batch()
        assert {place: each.body["content"] for place, each in found.items()} == {
            place: [text(f"You said {place}.")] for place in range(6)
        }
        (body,) = sent(api)
        assert [each["custom_id"] for each in body["requests"]] == [
            request_id(each.sent.key(0)) for each in ASKS
        ]
        alone = 100 * 3e-6 + 10 * 15e-6
        assert run.claude.budget.usd == pytest.approx(6 * alone / 2) == run.model.usd
        answer = answers.get(store, found[0].key, run.model.server)
    assert answer is not None
    assert answer.source == "batch"
    assert answer.cost_usd == pytest.approx(alone / 2)
    assert api.asked == 0


def test_a_fetched_batch_is_stored_like_any_answer(api: MessagesApi, store: Store) -> None:
    with Run(api, store) as run:
        found = run.batch()
        assert run.batch() == found
    assert dict(Cached(store, PRICED, server=run.model.server).answers(ASKS)) == found
    assert len(sent(api)) == 1


def test_the_wait_for_a_batch_grows_to_a_minute(api: MessagesApi, store: Store) -> None:
    api.batch_polls = 9
    with Run(api, store) as run:
        run.batch()
    assert run.waits.seconds == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0]


def test_a_request_that_a_batch_declines_is_a_value(api: MessagesApi, store: Store) -> None:
    api.policy = _declining_two
    with Run(api, store) as run:
        found = run.batch()
        assert isinstance(found[2], RequestRefused)
        assert "in a batch" in str(found[2])
        assert sum(isinstance(each, Answered) for each in found.values()) == 5
        assert run.claude.budget.calls == 5
        assert answers.pending(store, run.model.server, PRICED) == []


def _declining_two(body: Body) -> Body:
    if body["messages"][-1]["content"] == "2":
        raise ModelRefused("not this one")
    return echo(body)


def test_what_expired_or_failed_is_asked_again_by_the_next_run_alone(
    api: MessagesApi, store: Store
) -> None:
    api.batch_expires, api.batch_fails = [1, 4], [2]
    with Run(api, store) as run, pytest.raises(ModelRefused) as error:
        run.batch()
    assert "3 of 6 requests got no response: 1 api_error, 2 expired" in error.value.message
    assert "run it again" in error.value.hint
    assert run.claude.budget.calls == 3
    api.batch_expires = api.batch_fails = []
    with Run(api, store) as run:
        assert len(run.batch()) == 6
        assert (run.model.hits, run.model.asks) == (3, 3)
    assert [len(body["requests"]) for body in sent(api)] == [6, 3]


def test_half_an_answer_in_a_batch_is_no_answer(api: MessagesApi, store: Store) -> None:
    api.policy = lambda body: {**message(text("cut")), "stop_reason": None}
    with Run(api, store) as run, pytest.raises(ModelRefused, match="6 broken"):
        run.batch()
    assert not any(run.model.stored(*each) for each in ASKS)


def test_a_model_without_batches_says_so(store: Store, api: MessagesApi) -> None:
    plain = Cached(store, "tiny", Fixed(message(text("ok"))))
    with pytest.raises(
        ModelRefused, match=r"tiny does not accept batches\. Try: another --schedule"
    ):
        list(plain.answers(ASKS, batch=True))
    api.fault(Fault(status=404))
    with Run(api, store) as run, pytest.raises(ModelRefused, match="does not accept batches"):
        run.batch()
    with Run(api, store) as run:
        assert len(run.batch()) == 6


def test_many_requests_are_sent_in_several_batches(
    api: MessagesApi, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cached, "MOST_REQUESTS", 4)
    with Run(api, store) as run:
        assert len(run.batch()) == 6
    assert [len(body["requests"]) for body in sent(api)] == [4, 2]
    monkeypatch.setattr(cached, "MOST_BYTES", 250)
    more = [ask("x" * 50 + str(number), model=PRICED) for number in range(3)]
    with Run(api, store) as run:
        assert len(run.batch(more)) == 3
    assert [len(body["requests"]) for body in sent(api)][2:] == [1, 1, 1]


# --- asked ahead, more than fit into memory


def test_what_is_asked_ahead_is_sent_while_the_rest_is_still_being_made(
    api: MessagesApi, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cached, "MOST_REQUESTS", 4)
    monkeypatch.setattr(cached, "TOGETHER", 2)
    sent_by_then: list[int] = []

    def made() -> Iterator[Ask]:
        for number in range(20):
            sent_by_then.append(len(sent(api)))
            yield ask(str(number), model=PRICED)

    with Run(api, store) as run:
        assert run.model.ask_ahead(made()) is None
        assert (run.model.asks, run.model.hits) == (20, 0)
        found = dict(run.model.answers([ask(str(number), model=PRICED) for number in range(20)]))
        assert all(isinstance(each, Answered) for each in found.values())
        assert run.model.hits == 0, "what was asked a moment ago was not there before"
    assert [len(body["requests"]) for body in sent(api)] == [4, 4, 4, 4, 4]
    assert sent_by_then[-1] >= 3
    assert api.asked == 0
    with Run(api, store) as run:
        assert run.model.ask_ahead(made()) is None
        assert run.model.asks == 0
    assert len(sent(api)) == 5


def test_what_a_batch_declined_or_lost_is_not_asked_again_alone(
    api: MessagesApi, store: Store
) -> None:
    api.policy = _declining_two
    api.batch_expires = [1, 4]
    with Run(api, store) as run:
        refusal = run.model.ask_ahead(ASKS)
        assert refusal is not None
        assert "2 of 6 requests got no response: 2 expired" in refusal.message
        found = dict(run.model.answers(ASKS))
    assert isinstance(found[2], RequestRefused)
    assert [isinstance(found[at], OfflineMiss) for at in (1, 4)] == [True, True]
    assert sum(isinstance(each, Answered) for each in found.values()) == 3
    assert api.asked == 0


def test_asked_ahead_beyond_the_budget_keeps_what_was_sent(
    api: MessagesApi, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cached, "MOST_REQUESTS", 4)
    with Run(api, store, budget=Budget(Limits(calls=5))) as run:
        refusal = run.model.ask_ahead(ASKS)
        assert refusal is not None
        assert "limit of 5 calls" in refusal.message
        found = dict(run.model.answers(ASKS))
    assert sum(isinstance(each, Answered) for each in found.values()) == 4
    assert (len(sent(api)), api.asked) == (1, 0)


def test_offline_nothing_is_asked_ahead(store: Store) -> None:
    assert Cached(store, PRICED).ask_ahead(ASKS) is None


def test_asked_ahead_after_a_stop_goes_on_with_what_was_sent(
    api: MessagesApi, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cached, "MOST_REQUESTS", 2)

    async def stop(_: float) -> None:
        run.model.stop()

    with Run(api, store, sleep=stop) as run, pytest.raises(Stopped):
        run.model.ask_ahead(ASKS)
    assert len(sent(api)) == 3
    with Run(api, store) as run:
        assert run.model.ask_ahead(reversed(ASKS)) is None
        assert run.model.asks == 6
    assert len(sent(api)) == 3


# --- money


def test_a_batch_that_could_exceed_the_budget_is_not_sent(api: MessagesApi, store: Store) -> None:
    most = sum(max_cost(each.sent.body(), PRICED).usd or 0.0 for each in ASKS) / 2
    with Run(api, store, budget=Budget(Limits(usd=most * 0.99))) as run:
        with pytest.raises(ModelRefused, match="6 requests as a batch: limit of"):
            run.batch()
        assert (run.claude.budget.calls, run.claude.budget.usd) == (0, 0.0)
    with Run(api, store, budget=Budget(Limits(usd=most * 1.01))) as run:
        assert len(run.batch()) == 6
    assert len(sent(api)) == 1


def test_a_second_batch_beyond_the_budget_takes_nothing_from_the_first(
    api: MessagesApi, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cached, "MOST_REQUESTS", 4)
    found: list[Any] = []
    with (
        Run(api, store, budget=Budget(Limits(calls=5))) as run,
        pytest.raises(ModelRefused, match="limit of 5 calls"),
    ):
        found.extend(run.model.answers(ASKS, batch=True))
    assert len(found) == 4
    assert len(sent(api)) == 1


def test_the_minutes_allowed_end_the_wait_and_not_the_batch(api: MessagesApi, store: Store) -> None:
    now = [0.0]

    async def pass_time(seconds: float) -> None:
        now[0] += seconds

    api.batch_polls = 10
    budget = Budget(Limits(minutes=0.5), clock=lambda: now[0])
    with (
        Run(api, store, budget=budget, sleep=pass_time) as run,
        pytest.raises(ModelRefused, match="batch msgbatch_1 is still in process"),
    ):
        run.batch()
    assert now == [30.0]
    with Run(api, store) as run:
        assert len(run.batch()) == 6
    assert len(sent(api)) == 1


# --- whatever happens in between


def test_a_stopped_wait_leaves_the_batch_which_the_same_command_fetches(
    api: MessagesApi, store: Store
) -> None:
    async def stop(_: float) -> None:
        run.model.stop()

    with Run(api, store, sleep=stop) as run, pytest.raises(Stopped) as error:
        run.batch()
    assert "batch msgbatch_1 continues on the server" in error.value.hint
    with Run(api, store, budget=Budget(Limits(calls=1))) as run:
        assert len(run.batch([*ASKS, ask("new", model=PRICED)])) == 7
    assert [len(body["requests"]) for body in sent(api)] == [6, 1]
    with Run(api, store) as run:
        assert len(run.batch()) == 6
    assert len(sent(api)) == 2


def test_a_batch_under_way_is_fetched_whole_though_only_some_of_it_is_wanted(
    api: MessagesApi, store: Store
) -> None:
    async def stop(_: float) -> None:
        run.model.stop()

    with Run(api, store, sleep=stop) as run, pytest.raises(Stopped):
        run.batch()
    with Run(api, store) as run:
        assert set(run.batch(ASKS[:2])) == {0, 1}
        assert all(run.model.stored(*each) for each in ASKS)


@pytest.mark.parametrize("cut", ["reset", "truncated"])
def test_a_batch_whose_id_was_lost_on_the_way_is_found_again_and_not_paid_twice(
    api: MessagesApi, store: Store, cut: str
) -> None:
    api.fault(Fault(cut=cut, path=BATCHES))
    with Run(api, store) as run:
        assert len(run.batch()) == 6
        assert run.claude.budget.calls == 6
    assert len(sent(api)) == 1
    assert api.usage_total(batch=True)["output_tokens"] == 60


def test_a_batch_whose_sender_died_before_it_wrote_the_id_is_found_by_the_next_run(
    api: MessagesApi, store: Store
) -> None:
    with Run(api, store) as run:
        asks = {request_id(each.sent.key(0)): (each.sent.key(0), 0) for each in ASKS}
        intent = answers.intend(store, run.model.server, PRICED, asks)
        bodies = {request_id(each.sent.key(0)): each.sent.body() for each in ASKS}
        now = Sending(6, intent.sent_ns, frozenset({intent.id}))
        run.claude.send_batch(bodies, now)
    with Run(api, store) as run:
        assert len(run.batch()) == 6
    assert len(sent(api)) == 1


def test_a_batch_that_never_left_is_sent_by_the_next_run(api: MessagesApi, store: Store) -> None:
    api.fault(FAULTS["no key"])
    with Run(api, store) as run, pytest.raises(ModelRefused, match="HTTP 401"):
        run.batch()
    assert [each.is_intent for each in answers.pending(store, run.model.server, PRICED)] == [True]
    with Run(api, store) as run:
        assert len(run.batch()) == 6
        assert answers.pending(store, run.model.server, PRICED) == []
    assert len(sent(api)) == 2


@pytest.mark.slow
def test_a_batch_of_somebody_else_is_not_taken_for_ours_for_good(
    api: MessagesApi, store: Store
) -> None:
    with Store.open(":memory:") as foreign, Run(api, foreign) as run:
        run.batch([ask(f"other {number}", model=PRICED) for number in range(6)])
    api.fault(FAULTS["no key"])
    with Run(api, store) as run, pytest.raises(ModelRefused):
        run.batch()
    with Run(api, store) as run, pytest.raises(ModelRefused, match="6 no longer on the server"):
        run.batch()
    with Run(api, store) as run:
        assert len(run.batch()) == 6


def test_a_failed_poll_and_a_failed_fetch_are_repeated(api: MessagesApi, store: Store) -> None:
    api.fault(
        Fault(status=503, path=ONE_BATCH),
        Fault(status=429, headers={"retry-after": "3"}, path=BATCH_RESULTS),
    )
    with Run(api, store) as run:
        assert len(run.batch()) == 6
    assert 3.0 in run.waits.seconds
    assert len(sent(api)) == 1


def test_results_cut_short_leave_the_batch_to_the_next_run(api: MessagesApi, store: Store) -> None:
    api.batch_polls = 0
    line = f'{{"custom_id": "{request_id(ASKS[0].sent.key(0))}", "result": {{"type": "expired"}}}}'
    api.fault(Fault(body=f'{line}\n{{"custom_id": "half', path=BATCH_RESULTS))
    with Run(api, store) as run, pytest.raises(ModelRefused, match="1 expired, 5 missing"):
        run.batch()
    with Run(api, store) as run:
        assert len(run.batch()) == 6
    assert len(sent(api)) == 1


@pytest.mark.parametrize("body", ["<html>Sign in</html>", '{"custom_id": "ha'])
def test_a_page_in_the_place_of_results_does_not_make_a_batch_be_sent_again(
    api: MessagesApi, store: Store, body: str
) -> None:
    api.fault(Fault(body=body, path=BATCH_RESULTS))
    with Run(api, store) as run:
        with pytest.raises(ModelRefused, match="results of batch msgbatch_1 are empty"):
            run.batch()
        assert run.claude.budget.calls == 6
        assert len(run.batch()) == 6
        assert run.claude.budget.calls == 6
    assert len(sent(api)) == 1


@pytest.mark.parametrize(("name", "calls"), [("server error", 6), ("overloaded", 0)])
def test_what_may_have_been_taken_stays_counted_and_what_was_not_is_released(
    api: MessagesApi, store: Store, name: str, calls: int
) -> None:
    api.fault(FAULTS[name])
    with Run(api, store, attempts=1) as run, pytest.raises(ModelRefused, match="HTTP 5"):
        run.batch()
    assert run.claude.budget.calls == calls


def test_a_batch_that_the_server_forgot_is_sent_again_by_the_next_run(
    api: MessagesApi, store: Store
) -> None:
    api.fault(Fault(status=404, path=ONE_BATCH))
    with Run(api, store) as run, pytest.raises(ModelRefused, match="no longer on the server"):
        run.batch()
    with Run(api, store) as run:
        assert len(run.batch()) == 6
    assert len(sent(api)) == 2


def test_a_kill_file_ends_the_wait_for_a_batch(
    api: MessagesApi, store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "enough"
    monkeypatch.setenv("ARC_KILL", str(file))

    async def touch(_: float) -> None:
        file.touch()

    api.batch_polls = 5
    with Run(api, store, sleep=touch, poll_s=0.0) as run, pytest.raises(Stopped) as error:
        run.batch()
    assert str(file) in error.value.message
    assert "the same command later, to fetch it" in error.value.hint
