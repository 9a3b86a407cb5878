"""Caps and the kill file: what a guard admits, what it refuses and in which words."""

from __future__ import annotations

import json
import os
from pathlib import Path

import msgspec
import pytest

from replay.budget import Limits
from replay.errors import ArcError
from replay.models.protocol import VARIABLE
from replay.providers import Rates
from replay.recorder.caps import CallGuard, Ticket, caps_text, refusal_body
from replay.recorder.exchange import Api, RecordedExchange, Refusal
from replay.stop_order import StopOrder, resume, stop, stop_file, stop_order
from replay.trace import Json

MODEL = "claude-sonnet-4-5"


@pytest.fixture(autouse=True)
def unstopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return tmp_path / "arc.db"


def body(*, most: int | None = 100, model: str = MODEL, **beside: Json) -> bytes:
    asked: dict[str, Json] = {"model": model, "messages": [{"role": "user", "content": "hello"}]}
    return json.dumps(asked | beside | ({} if most is None else {"max_tokens": most})).encode()


def heard(
    used: tuple[int, int] | None, *, status: int = 200, broken: str | None = None
) -> RecordedExchange:
    """An answer of the Messages API that used so many tokens in and out."""
    said: dict[str, Json] = {
        "type": "message", "role": "assistant", "model": MODEL, "content": [],
        "stop_reason": "end_turn",
    }  # fmt: skip
    if used is not None:
        said["usage"] = {"input_tokens": used[0], "output_tokens": used[1]}
    return RecordedExchange(
        api="messages", path="/v1/messages", start_ns=0, end_ns=1, request=body(),
        answer=json.dumps(said).encode(), status=status, broken=broken,
    )  # fmt: skip


def admitted(guard: CallGuard, request: bytes | None = None) -> Ticket:
    found = guard.ask(guard.read_call(request) if request is not None else None)
    assert isinstance(found, Ticket), found
    return found


def refused(guard: CallGuard, request: bytes | None = None) -> Refusal:
    found = guard.ask(guard.read_call(request) if request is not None else None)
    assert isinstance(found, Refusal), found
    return found


# --- caps


def test_a_cap_of_steps_counts_what_is_in_flight(db: Path) -> None:
    guard = CallGuard(db, Limits(calls=3))
    first, *_ = (admitted(guard) for _ in range(3))
    assert refused(guard).why == "cap hit: 3 of 3 steps"
    guard.settle(first, heard((10, 2)))
    assert refused(guard).why == "cap hit: 3 of 3 steps"
    assert guard.refused == 2


def test_a_call_that_failed_is_a_step_all_the_same(db: Path) -> None:
    guard = CallGuard(db, Limits(calls=1))
    guard.settle(admitted(guard), heard(None, status=529))
    assert refused(guard).what == "1 of 1 step"


def test_the_call_that_reaches_a_cap_of_tokens_is_the_last(db: Path) -> None:
    guard = CallGuard(db, Limits(tokens=1000))
    for used in ((400, 99), (400, 100), (1, 2000)):
        guard.settle(admitted(guard, body()), heard(used))
    assert refused(guard, body()).why == "cap hit: 3 000 of 1 000 tokens"


def test_a_call_waits_while_those_in_flight_could_reach_the_cap(db: Path) -> None:
    guard = CallGuard(db, Limits(tokens=1000))
    first = admitted(guard, body(most=600))
    second = admitted(guard, body(most=600))
    third = guard.read_call(body(most=600))
    assert guard.ask(third) is None
    guard.settle(first, heard((10, 20)))
    assert isinstance(guard.ask(third), Ticket)
    assert guard.ask(third) is None
    guard.settle(second, heard((500, 500)))
    assert isinstance(guard.ask(third), Refusal)


@pytest.mark.parametrize(
    "request_",
    [
        body(most=None),
        body(n=2),
        body(tools=[{"type": "web_search_20250305", "name": "web_search"}]),
        body(previous_response_id="resp_1"),
        body(
            messages=[{"role": "user", "content": [{"type": "image", "source": {"type": "url"}}]}]
        ),
        body(max_completion_tokens="many"),
    ],
    ids=["no limit", "several answers", "server's tool", "stored", "image elsewhere", "no number"],
)
def test_one_call_at_a_time_where_a_request_does_not_say_the_most_it_uses(
    db: Path, request_: bytes
) -> None:
    guard = CallGuard(db, Limits(tokens=10**9))
    first = admitted(guard, request_)
    assert guard.ask(guard.read_call(body())) is None
    guard.settle(first, heard((1, 1)))
    admitted(guard, body())


def test_a_cap_of_usd_holds_by_the_price_of_the_model(db: Path) -> None:
    guard = CallGuard(db, Limits(usd=0.02))
    guard.settle(admitted(guard, body()), heard((1000, 1000)))  # $3 and $15 a million: $0.018
    guard.settle(admitted(guard, body()), heard((1000, 0)))
    assert refused(guard, body()).why == "cap hit: $0.0210 of $0.0200"


def test_a_model_without_a_price_is_refused_and_never_free(db: Path) -> None:
    guard = CallGuard(db, Limits(usd=5, calls=10))
    why = refused(guard, body(model="house-model")).why
    assert why.startswith("cap hit: price of house-model unknown: a cap in USD cannot hold.")
    assert refused(guard, b"not JSON").what == "price of the model unknown"
    rates = {"house-model": Rates(input=1e6, output=1e6)}
    guard = CallGuard(db, Limits(usd=5), rates=rates)
    guard.settle(admitted(guard, body(model="house-model", most=1)), heard((2, 4)))
    assert refused(guard, body(model="house-model")).what == "$6.00 of $5.00"


@pytest.mark.parametrize("broken", [None, "the client disconnected before the end"])
def test_a_call_whose_tokens_nobody_knows_counts_at_the_most_it_could_use(
    db: Path, broken: str | None
) -> None:
    guard = CallGuard(db, Limits(tokens=1000))
    used = None if broken is None else (1, 1)
    guard.settle(admitted(guard, body(most=900)), heard(used, broken=broken))
    guard.settle(admitted(guard, body(most=10)), heard((90, 10)))
    assert refused(guard, body()).what == "≤ 1 046 of 1 000 tokens"


def test_nothing_passes_where_what_was_used_can_no_longer_be_told(db: Path) -> None:
    guard = CallGuard(db, Limits(tokens=1000))
    guard.settle(admitted(guard, body(most=None)), heard(None))
    assert refused(guard, body()).what == "tokens of an earlier call unknown"


def test_a_call_that_never_left_or_was_declined_uses_nothing(db: Path) -> None:
    guard = CallGuard(db, Limits(tokens=1000))
    guard.settle(admitted(guard, body(most=None)), None)
    guard.settle(admitted(guard, body(most=5000)), heard(None, status=429))
    admitted(guard, body())


def test_minutes_count_from_the_first_call(db: Path) -> None:
    now = 100.0
    guard = CallGuard(db, Limits(minutes=2), clock=lambda: now)
    now = 1000.0
    guard.settle(admitted(guard), heard((1, 1)))
    now = 1119.9
    admitted(guard)
    now = 1120.0
    assert refused(guard).what == "2 of 2 minutes"


def test_a_batch_is_refused_where_calls_are_counted(db: Path) -> None:
    assert CallGuard(db).refuse_batch() is None
    found = CallGuard(db, Limits(calls=9)).refuse_batch()
    assert found is not None
    assert found.why == "cap hit: batches are not counted: a run with caps cannot send one"


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), 0.0, -1.0])
def test_a_cap_that_is_no_number_above_0_is_refused(db: Path, bad: float) -> None:
    with pytest.raises(ArcError, match="no number above 0"):
        CallGuard(db, Limits(usd=bad))


def test_caps_are_told_in_one_line() -> None:
    caps = Limits(calls=1, tokens=100_000, usd=1.5, minutes=0.5)
    assert caps_text(caps) == "1 step · 100 000 tokens · $1.50 · 0.5 minutes"
    assert caps_text(Limits()) == ""


@pytest.mark.parametrize(
    ("api", "where"),
    [("messages", ("error", "message")), ("chat", ("error", "message"))],
)
def test_a_refusal_has_the_shape_of_the_api(api: Api, where: tuple[str, str]) -> None:
    refusal = Refusal(kind="cap", what="3 of 3 steps", why="cap hit: 3 of 3 steps")
    found = msgspec.json.decode(refusal_body(api, refusal))
    assert found[where[0]][where[1]] == "arc record: cap hit: 3 of 3 steps"
    assert (found.get("type") == "error") == (api == "messages")


# --- the kill file


def test_a_stop_refuses_runs_that_have_not_begun_and_lets_the_others_finish(db: Path) -> None:
    begun, new = CallGuard(db), CallGuard(db)
    admitted(begun)
    order = stop(db, by="ann", because="refunds went out twice", at_once=False)
    admitted(begun)
    assert refused(new).kind == "stop"
    assert refused(new).why == order.text
    assert order.text.startswith("stopped by ann at 20")
    assert order.text.endswith("UTC: refunds went out twice")
    stop(db, by="bob", because=None, at_once=True)
    assert refused(begun).why.startswith("stopped by bob at 20")
    ended = resume(db)
    assert ended is not None
    assert ended.by == "bob"
    admitted(begun)
    admitted(new)
    assert resume(db) is None


def test_who_stopped_first_stays_named(db: Path) -> None:
    first = stop(db, by="ann", because="first", at_once=True)
    assert stop(db, by="bob", because="second", at_once=False).text == first.text
    assert stop(db, by="bob", because="second", at_once=True).text == first.text


@pytest.mark.parametrize(
    "data",
    [b"{", b"\xff", b'{"by": "ann"}', b"[]", b"prod is down", b'{"by": 1, "at": 2}', b"x" * 70_000,
     b'{"by": "ann", "at": "2026-11-28T12:00:00Z", "stops": "nothing"}'],
    ids=["cut", "binary", "half", "list", "words", "types", "long", "unknown"],
)  # fmt: skip
def test_a_broken_kill_file_stops_at_once(db: Path, data: bytes) -> None:
    guard = CallGuard(db)
    admitted(guard)
    stop_file(db).write_bytes(data)
    why = refused(guard).why
    assert why.startswith(f"stopped, at once: {stop_file(db)} is not an order of arc stop (")


def test_a_kill_file_that_cannot_be_read_stops_at_once(db: Path) -> None:
    stop_file(db).mkdir()
    assert refused(CallGuard(db)).why.startswith(f"stopped, at once: {stop_file(db)} cannot be")
    with pytest.raises(ArcError, match="cannot be removed"):
        resume(db)


def test_an_empty_file_made_by_hand_stops_every_call(db: Path) -> None:
    stop_file(db).touch()
    assert stop_order(db) == StopOrder(because=f"{stop_file(db)} is there", at_once=True)


def test_the_file_that_stops_arcs_own_calls_stops_recorders_too(
    db: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = db.with_name("kill")
    monkeypatch.setenv(VARIABLE, str(named))
    assert stop_order(db) is None
    named.touch()
    assert refused(CallGuard(db)).why == f"stopped: by the file {named} (ARC_KILL)"
    with pytest.raises(ArcError, match="recorders are still stopped by the file"):
        resume(db)


def test_one_database_by_another_name_is_stopped_too(db: Path) -> None:
    db.touch()
    other = db.with_name("link.db")
    os.symlink(db, other)
    stop(other, by="ann", because=None, at_once=True)
    assert refused(CallGuard(db)).kind == "stop"


def test_an_order_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    with pytest.raises(ArcError, match="cannot be written"):
        stop(tmp_path / "nowhere" / "arc.db", by="ann", because=None, at_once=True)
