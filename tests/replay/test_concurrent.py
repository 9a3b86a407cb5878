"""Several requests in flight at once, and everything that can end them early."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from replay.budget import Budget, Limits, Worst
from replay.errors import ModelRefused, RequestRefused, Stopped
from replay.models.claude import Claude
from replay.models.line import Arrival
from replay.models.protocol import with_cache_marker
from tests.messages_api import FAULTS, MESSAGES, Body, Fault, MessagesApi, message, text, tool_use
from tests.replay.live_case import BODY, Waits, client, echo, saying, words

pytestmark = pytest.mark.usefixtures("clean")

MANY = [saying(str(number)) for number in range(20)]


@pytest.fixture
def claude(api: MessagesApi) -> Iterator[Claude]:
    with client(api) as made:
        yield made


def said(arrivals: list[Arrival]) -> dict[int, str]:
    """The words of each answer, by its place."""
    return {
        place: answer["content"][0]["text"]
        for place, answer in arrivals
        if not isinstance(answer, RequestRefused)
    }


# --- at once


def test_eight_are_in_flight_at_a_time_and_every_answer_finds_its_place(
    api: MessagesApi, claude: Claude
) -> None:
    api.flights.gather = 8
    arrivals = list(claude.complete_all(MANY))
    assert said(arrivals) == {place: f"You said {place}." for place in range(20)}
    assert (api.most_at_once, api.asked) == (8, 20)


def test_how_many_are_in_flight_can_be_chosen(api: MessagesApi) -> None:
    api.flights.gather = 3
    with client(api, most_at_once=3) as made:
        assert len(list(made.complete_all(MANY))) == 20
    assert api.most_at_once == 3


def test_bodies_are_built_when_they_are_sent(api: MessagesApi) -> None:
    built: list[int] = []

    def bodies() -> Iterator[Body]:
        for number in range(10):
            built.append(number)
            yield saying(str(number))

    with client(api, most_at_once=2) as made, closing(made.complete_all(bodies())) as arrivals:
        next(arrivals)
        assert len(built) == 2
        assert len(list(arrivals)) == 9


def test_a_request_that_is_declined_is_a_value_beside_the_answers(
    api: MessagesApi, claude: Claude
) -> None:
    wrong = {**BODY, "temperature": 0}
    found = dict(claude.complete_all([*MANY[:5], wrong, *MANY[5:]]))
    assert len(found) == 21
    assert isinstance(found[5], RequestRefused)
    assert "temperature" in str(found[5])


def test_failures_that_pass_are_tried_again_beside_the_others(api: MessagesApi) -> None:
    passing = ("busy for a second", "overloaded", "bad gateway", "truncated", "reset")
    api.fault(*[FAULTS[name] for name in passing])
    waits = Waits()
    with client(api, waits, attempts=6) as made:
        assert len(list(made.complete_all(MANY))) == 20
    assert api.asked == 25
    assert len(waits.seconds) == 5


def test_two_models_may_be_asked_in_turns_under_one_budget(api: MessagesApi) -> None:
    budget = Budget(Limits(calls=20))
    with client(api, budget=budget) as one, client(api, budget=budget, name="other") as two:
        both = zip(one.complete_all(MANY[:10]), two.complete_all(MANY[10:]), strict=True)
        assert len(list(both)) == 10
    assert (api.asked, budget.calls) == (20, 20)


def test_a_single_request_may_be_asked_between_the_answers_of_many(
    api: MessagesApi, claude: Claude
) -> None:
    with closing(claude.complete_all(MANY)) as arrivals:
        first = next(arrivals)
        assert claude.complete(saying("between"), 0)["content"] == [text("You said between.")]
        assert len({first[0], *(place for place, _ in arrivals)}) == 20


# --- the end of all


def test_a_model_that_declines_altogether_gets_no_other_request_and_loses_no_answer(
    api: MessagesApi,
) -> None:
    api.flights.gate.clear()
    api.fault(FAULTS["no key"])
    budget = Budget(Limits(calls=1000))

    def open_the_gate_once_one_was_declined() -> None:
        if budget.calls == 2:
            api.flights.gate.set()

    kept: list[int] = []

    def keep(place: int, answer: Body) -> Body:
        kept.append(place)
        return answer

    arrived: list[Arrival] = []
    with client(
        api, budget=budget, most_at_once=3, poll_s=0.01, killed=open_the_gate_once_one_was_declined
    ) as made:
        with pytest.raises(ModelRefused, match="HTTP 401"):
            arrived.extend(made.complete_all(MANY, keep=keep))
        assert api.asked == 3
        assert len(kept) == 2
        assert budget.calls == 2


def test_what_only_waits_for_another_attempt_is_dropped_when_the_model_declines(
    api: MessagesApi,
) -> None:
    async def forever(_: float) -> None:
        await asyncio.Event().wait()

    api.fault(FAULTS["overloaded"], FAULTS["no key"])
    with (
        client(api, sleep=forever, most_at_once=2) as made,
        pytest.raises(ModelRefused, match="HTTP 401"),
    ):
        list(made.complete_all(MANY))
    assert api.asked == 2
    assert made.budget.calls == 0


def test_what_is_at_the_server_when_the_model_declines_is_not_tried_again(
    api: MessagesApi,
) -> None:
    api.flights.gate.clear()
    api.fault(FAULTS["no key"], FAULTS["truncated"])
    budget = Budget(Limits(calls=1000))

    def open_the_gate_once_one_was_declined() -> None:
        if budget.calls == 1:
            api.flights.gate.set()

    with (
        client(
            api, budget=budget, most_at_once=2, poll_s=0.01,
            killed=open_the_gate_once_one_was_declined,
        ) as made,
        pytest.raises(ModelRefused, match="HTTP 401"),
    ):  # fmt: skip
        list(made.complete_all(MANY))
    assert (api.asked, budget.calls) == (2, 1)


def test_an_answer_is_kept_before_it_is_given_and_given_as_it_is_kept(claude: Claude) -> None:
    kept = {place: {"kept": place} for place in range(20)}
    assert dict(claude.complete_all(MANY, keep=lambda place, _: kept[place])) == kept


def test_closing_cancels_what_is_in_flight_and_the_model_can_be_asked_again(
    api: MessagesApi,
) -> None:
    def hold_all_but_one(body: Body) -> Body:
        if words(body) != "0":
            return _late(api, body)
        assert api.flights.reaches(4)
        return echo(body)

    api.policy = hold_all_but_one
    budget = Budget(Limits(calls=5))
    with client(api, most_at_once=4, budget=budget) as made:
        with closing(made.complete_all(MANY)) as arrivals:
            assert next(arrivals)[0] == 0
        assert made.complete(saying("0"), 0)["type"] == "message"
        assert (api.asked, budget.calls) == (5, 5)
        with pytest.raises(ModelRefused, match="5 spent"):  # none of them is open any more
            budget.fits(Worst(tokens=1))


def test_a_model_closed_over_open_requests_leaves_nothing_behind(api: MessagesApi) -> None:
    api.policy = lambda body: echo(body) if words(body) == "0" else _late(api, body)
    made = client(api, most_at_once=2)
    arrivals = made.complete_all(MANY)
    next(arrivals)
    made.close()
    arrivals.close()


def _late(api: MessagesApi, body: Body) -> Body:
    api.left.wait()
    return echo(body)


# --- stopping


def test_stop_from_another_thread_cancels_all_and_refuses_more(
    api: MessagesApi, claude: Claude
) -> None:
    api.flights.gate.clear()

    def stop_when_asked() -> None:
        api.flights.reaches(8)
        claude.stop()

    thread = threading.Thread(target=stop_when_asked)
    thread.start()
    with pytest.raises(Stopped, match="stopped before the response"):
        list(claude.complete_all(MANY))
    thread.join()
    with pytest.raises(Stopped):
        list(claude.complete_all(MANY))
    assert (api.asked, claude.budget.calls) == (8, 8)


def test_a_kill_file_ends_what_is_in_flight_and_is_named(
    api: MessagesApi, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "enough"
    monkeypatch.setenv("ARC_KILL", str(file))
    api.flights.gate.clear()

    def touch_when_asked() -> None:
        api.flights.reaches(8)
        file.touch()

    thread = threading.Thread(target=touch_when_asked)
    thread.start()
    with client(api, poll_s=0.01) as made, pytest.raises(Stopped) as error:
        list(made.complete_all(MANY))
    thread.join()
    assert str(file) in error.value.message
    assert api.asked == 8


def test_under_a_kill_file_nothing_is_asked(
    api: MessagesApi, claude: Claude, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "enough").touch()
    monkeypatch.setenv("ARC_KILL", str(tmp_path / "enough"))
    with pytest.raises(Stopped, match="ARC_KILL"):
        claude.complete(BODY, 0)
    with pytest.raises(Stopped, match="ARC_KILL"):
        list(claude.complete_all(MANY))
    assert api.asked == 0
    monkeypatch.setenv("ARC_KILL", str(tmp_path / "does not exist"))
    assert claude.complete(BODY, 0)["type"] == "message"


def test_a_wait_for_a_busy_server_is_stopped_too(api: MessagesApi) -> None:
    async def forever(_: float) -> None:
        made.stop()
        await asyncio.Event().wait()

    api.fault(FAULTS["overloaded"])
    with client(api, sleep=forever) as made, pytest.raises(Stopped):
        made.complete(BODY, 0)


# --- the marker of the prefix cache


def test_the_marker_stands_on_the_last_block_that_may_carry_it() -> None:
    here = {"cache_control": {"type": "ephemeral"}}
    result = {"type": "tool_result", "tool_use_id": "a", "content": "1"}
    thought = {"type": "thinking", "thinking": "so", "signature": "x"}
    for content, expected in (
        ("Hi", [{**text("Hi"), **here}]),
        ([text("a"), text("b")], [text("a"), {**text("b"), **here}]),
        ([result], [{**result, **here}]),
        ([text("a"), text(" ")], [{**text("a"), **here}, text(" ")]),
        ([text("a"), thought], [{**text("a"), **here}, thought]),
    ):
        before = [{"role": "user", "content": "x"}]
        body = {**BODY, "messages": [*before, {"role": "user", "content": content}]}
        assert with_cache_marker(body)["messages"] == [
            *before,
            {"role": "user", "content": expected},
        ]
        assert body["messages"][-1]["content"] == content
    bare = {**BODY, "messages": [{"role": "user", "content": [thought]}]}
    assert with_cache_marker(bare) == bare


def test_marked_steps_asked_in_order_are_read_from_the_providers_cache() -> None:
    def conversation(steps: int) -> Body:
        turns: list[Body] = []
        for step in range(steps):
            turns.append({"role": "user", "content": f"{step}: {'what then? ' * 40}"})
            turns.append({"role": "assistant", "content": [text(f"step {step}")]})
        return {**BODY, "messages": turns[:-1]}

    steps = [conversation(count) for count in range(1, 6)]
    with MessagesApi(echo, reckons=True, cache_floor_tokens=50) as api:
        with client(api) as made:
            for body in steps:
                list(made.complete_all([body], marked=True))
        marked_usage = api.usage_total()
    with MessagesApi(echo, reckons=True, cache_floor_tokens=50) as api:
        with client(api) as made:
            for body in steps:
                list(made.complete_all([body]))
        plain_usage = api.usage_total()
    assert marked_usage["cache_read_input_tokens"] > marked_usage["input_tokens"]
    assert plain_usage.get("cache_read_input_tokens", 0) == 0
    assert plain_usage["input_tokens"] == sum(
        marked_usage[name]
        for name in ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    )


def test_a_fault_of_one_path_and_a_call_of_a_tool_go_through_unharmed(
    api: MessagesApi, claude: Claude
) -> None:
    api.policy = lambda _: message(tool_use("get_order", id=1042))
    api.fault(Fault(status=500, path=MESSAGES), Fault(status=429, path=MESSAGES))
    answers = dict(claude.complete_all(MANY[:3]))
    assert [answers[place] for place in range(3)] == [answers[0]] * 3
    assert api.asked == 5
