"""The test server's prompt cache: who reads what, for how long, and what it costs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.messages_api import Body, MessagesApi, message, text
from tests.messages_api.cache import LOOK_BACK_BLOCKS, PrefixCache, Reading
from tests.messages_api.prefix import MEDIA_TOKENS, row, tokens
from tests.replay.messages_client import ask, results_of

MARK = {"type": "ephemeral"}
HOUR = {"type": "ephemeral", "ttl": "1h"}
TOOL: Body = {"name": "get_order", "input_schema": {"type": "object"}, "description": "x" * 4000}


class Clock:
    """Time that stands still until it is moved."""

    def __init__(self) -> None:
        self.seconds = 1_000_000_000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def cache(clock: Clock) -> PrefixCache:
    return PrefixCache(clock, floor_tokens=1024)


def said(*turns: str, **beside: Any) -> Body:
    """A conversation of one-block turns, user first, its last block marked."""
    roles = ("user", "assistant")
    messages = [{"role": roles[at % 2], "content": [text(turn)]} for at, turn in enumerate(turns)]
    return {
        "model": "claude-test", "max_tokens": 100, "messages": messages, "cache_control": MARK,
        **beside,
    }  # fmt: skip


def asked(cache: PrefixCache, body: Body) -> Reading:
    """Read and, as if the answer went out at once, write."""
    reading = cache.read(body)
    cache.write(reading)
    return reading


def whole(body: Body) -> int:
    return tokens(sum(block.characters for block in row(body)))


LONG = "a" * 6000


def test_what_one_request_writes_the_next_reads_and_adds_to(cache: PrefixCache) -> None:
    first = asked(cache, said(LONG))
    assert (first.read_tokens, first.fresh_tokens) == (0, 0)
    assert first.written_5m_tokens == whole(said(LONG))
    again = asked(cache, said(LONG))
    assert (again.read_tokens, again.written_5m_tokens) == (first.written_5m_tokens, 0)
    longer = said(LONG, "ok", "and then?")
    grown = asked(cache, longer)
    assert grown.read_tokens == first.written_5m_tokens
    assert grown.written_5m_tokens == whole(longer) - whole(said(LONG))


def test_nothing_is_cached_without_a_marker_or_below_the_floor(cache: PrefixCache) -> None:
    for body in (said(LONG, cache_control=None), said("a" * 3000)):
        for _ in range(2):
            found = asked(cache, body)
            assert (found.read_tokens, found.written_5m_tokens) == (0, 0)
            assert found.fresh_tokens == whole(body)


def test_what_follows_the_last_breakpoint_is_paid_in_full(cache: PrefixCache) -> None:
    marked = {**text(LONG), "cache_control": MARK}
    body = said("the question", system=[marked], cache_control=None)
    asked(cache, body)
    found = asked(cache, {**body, "messages": [{"role": "user", "content": "another"}]})
    assert found.read_tokens == whole({**body, "messages": []})
    assert found.written_5m_tokens == 0
    assert 0 < found.fresh_tokens < 20


def test_a_marker_is_no_part_of_what_it_marks(cache: PrefixCache) -> None:
    automatic = asked(cache, said(LONG))
    marked = {"role": "user", "content": [{**text(LONG), "cache_control": MARK}]}
    by_block = asked(cache, said(cache_control=None, messages=[marked]))
    plain = asked(cache, said(messages=[{"role": "user", "content": LONG}]))
    assert by_block.read_tokens == plain.read_tokens == automatic.written_5m_tokens


@pytest.mark.parametrize(
    ("changed", "kept"),
    [
        ({}, "all"),
        ({"model": "claude-other"}, "none"),
        ({"tools": [{**TOOL, "description": "y" * 4000}]}, "none"),
        ({"system": [{**text("b" * 6000), "cache_control": MARK}]}, "tools"),
        ({"messages": [{"role": "user", "content": "c" * 6000}]}, "system"),
        ({"tool_choice": {"type": "none"}}, "system"),
        ({"thinking": {"type": "adaptive"}}, "system"),
        ({"max_tokens": 7, "stream": True, "metadata": {"user_id": "x"}}, "all"),
    ],
)
def test_a_change_rebuilds_everything_from_where_it_stands(
    cache: PrefixCache, changed: Body, kept: str
) -> None:
    body = said(
        LONG,
        tools=[{**TOOL, "cache_control": MARK}, {**TOOL, "name": "b", "cache_control": MARK}],
        system=[{**text(LONG), "cache_control": MARK}],
    )
    asked(cache, body)
    if "tools" in changed:
        changed = {"tools": [*changed["tools"], body["tools"][1]]}
    found = asked(cache, {**body, **changed})
    parts = {
        "none": 0,
        "tools": whole({**body, "system": None, "messages": []}),
        "system": whole({**body, "messages": []}),
        "all": whole(body),
    }
    assert found.read_tokens == parts[kept]
    assert found.read_tokens + found.written_5m_tokens == whole({**body, **changed})


def test_a_breakpoint_looks_back_over_so_many_blocks_and_no_more(cache: PrefixCache) -> None:
    asked(cache, said(LONG))
    near = [LONG, *map(str, range(LOOK_BACK_BLOCKS - 1))]
    assert cache.read(said(*near)).read_tokens > 0
    assert cache.read(said(*near, "one more")).read_tokens == 0


def test_a_second_breakpoint_bridges_what_one_cannot(cache: PrefixCache) -> None:
    asked(cache, said(LONG))
    far = said(LONG, *map(str, range(LOOK_BACK_BLOCKS + 4)))
    far["messages"][5]["content"][0]["cache_control"] = MARK
    assert cache.read(far).read_tokens == whole(said(LONG))


def test_an_entry_lives_five_minutes_after_its_last_use(cache: PrefixCache, clock: Clock) -> None:
    asked(cache, said(LONG))
    for _ in range(3):
        clock.seconds += 299
        assert cache.read(said(LONG)).read_tokens > 0
    clock.seconds += 300
    assert cache.read(said(LONG)).read_tokens == 0


def test_reading_a_long_prefix_keeps_the_short_ones_in_it(cache: PrefixCache, clock: Clock) -> None:
    asked(cache, said(LONG))
    asked(cache, said(LONG, "b", "c"))
    clock.seconds += 299
    asked(cache, said(LONG, "b", "c"))
    clock.seconds += 299
    assert cache.read(said(LONG, "x", "y")).read_tokens == whole(said(LONG))


def test_an_hour_is_an_hour_and_is_billed_apart(cache: PrefixCache, clock: Clock) -> None:
    body = said("b" * 400, system=[{**text(LONG), "cache_control": HOUR}])
    first = asked(cache, body)
    assert first.written_1h_tokens == whole({**body, "messages": []})
    assert first.written_5m_tokens == whole(body) - first.written_1h_tokens
    clock.seconds += 3599
    assert cache.read(body).read_tokens == first.written_1h_tokens
    clock.seconds += 3600
    assert cache.read(body).read_tokens == 0


def test_media_count_the_same_whatever_their_size() -> None:
    def shown(size: int) -> Body:
        source = {"type": "base64", "media_type": "image/png", "data": "A" * size}
        return said(messages=[{"role": "user", "content": [{"type": "image", "source": source}]}])

    assert whole(shown(4)) == whole(shown(400_000))
    assert MEDIA_TOKENS < whole(shown(4)) < MEDIA_TOKENS + 50


@given(
    st.lists(
        st.tuples(st.integers(1, 6), st.integers(0, 400), st.sampled_from([None, MARK, HOUR])),
        max_size=12,
    )
)
def test_the_figures_always_add_up_and_nothing_is_read_that_was_not_written(
    requests: list[tuple[int, int, Body | None]],
) -> None:
    clock = Clock()
    cache = PrefixCache(clock, floor_tokens=10)
    written: set[int] = set()
    for turns, wait_s, marker in requests:
        clock.seconds += wait_s
        body = said(*("turn " * 5 for _ in range(turns)), cache_control=marker)
        found = asked(cache, body)
        new = found.written_5m_tokens + found.written_1h_tokens
        assert found.fresh_tokens + found.read_tokens + new == whole(body)
        assert found.read_tokens in {0, *written}
        if new:
            written.add(found.read_tokens + new)


# --- over the wire


def _profile_cost_usd(api: MessagesApi, marked: bool) -> float:
    """Twenty steps of 6 000 tokens and 1 200 more each, at the table's Opus prices."""
    turns: list[str] = []
    for step in range(20):
        turns += ["a" * (24_000 if step == 0 else 4_200)]
        body = said(*turns, cache_control=MARK if marked else None)
        assert ask(api, {**body, "max_tokens": 1000})[0] == 200
        turns.append("b" * 500)
    total = api.usage_total()
    return float(
        total["input_tokens"] * 4e-6
        + total["cache_creation_input_tokens"] * 5e-6
        + total["cache_read_input_tokens"] * 0.2e-6
        + total["output_tokens"] * 20e-6
    )


def test_an_ascending_profile_costs_a_fifth_of_an_uncached_one() -> None:
    costs = []
    for marked in (False, True):
        with MessagesApi(lambda _: message(text("c" * 1200)), reckons=True) as api:
            costs.append(_profile_cost_usd(api, marked))
    assert costs[0] == pytest.approx(1.51, rel=0.02)
    assert costs[1] == pytest.approx(0.328, rel=0.02)


def _together(api: MessagesApi, *bodies: Body) -> Iterator[Body]:
    """The answers to requests that are all in flight before the first is answered."""
    answers: list[tuple[int, Body]] = []
    threads = [
        threading.Thread(target=lambda body=body: answers.append(ask(api, body))) for body in bodies
    ]
    api.flights.gate.clear()
    for thread in threads:
        thread.start()
    assert api.flights.holds(len(bodies))
    api.flights.gate.set()
    for thread in threads:
        thread.join(300)
    yield from (answer["usage"] for _, answer in answers)


def test_requests_in_flight_together_do_not_read_each_other() -> None:
    with MessagesApi(reckons=True) as api:
        for usage in _together(api, said(LONG), said(LONG), said(LONG)):
            assert usage["cache_read_input_tokens"] == 0
            assert usage["cache_creation_input_tokens"] == whole(said(LONG))
        assert api.most_at_once == 3
        assert ask(api, said(LONG))[1]["usage"]["cache_creation_input_tokens"] == 0


def test_items_of_a_batch_read_what_was_cached_before_and_not_each_other() -> None:
    with MessagesApi(reckons=True) as api:
        ask(api, said(LONG))
        items = {"a": said(LONG, "b", "c"), "b": said(LONG, "b", "c")}
        for result in results_of(api, items).values():
            usage = result["message"]["usage"]
            assert usage["cache_read_input_tokens"] == whole(said(LONG))
            assert usage["cache_creation_input_tokens"] > 0
            assert usage["service_tier"] == "batch"
