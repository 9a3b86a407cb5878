"""Answers are kept the moment they came, by the server that gave them, and asked for once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest

from replay.budget import Budget, Limits
from replay.errors import ModelRefused, OfflineMiss, RequestRefused, Stopped
from replay.models.cached import Answered, Cached
from replay.models.choose import choose
from replay.store import answers
from replay.store.handle import Store
from tests.messages_api import FAULTS, Body, Fault, MessagesApi, message, text
from tests.replay.live_case import MODEL, ask, client, echo, kept, words
from tests.replay.locked_case import Fixed

pytestmark = pytest.mark.usefixtures("clean")

ASKS = [ask(str(number)) for number in range(10)]
ELEVEN = [ask(str(number)) for number in range(11)]
"""Of which the last is sent, eight at a time, once three have come."""


class Plain:
    """A model that answers one request at a time, and declines what says "no"."""

    name = MODEL

    def __init__(self) -> None:
        self.asked: list[str] = []

    def complete(self, body: Body, sample: int) -> Body:
        self.asked.append(words(body))
        if words(body) == "no":
            raise RequestRefused("declined")
        return echo(body)


# --- several at once


def test_what_is_stored_comes_first_and_equal_requests_are_asked_once(
    api: MessagesApi, store: Store
) -> None:
    with client(api) as claude:
        model = kept(store, claude, api)
        first = model.answer(*ASKS[3])
        same = [ask("0"), ask("3"), ask("0"), ask("0", 1)]
        found = list(model.answers(same))
    assert found[0] == (1, first)
    by_place = dict(found)
    assert by_place[0] == by_place[2] != by_place[3]
    assert (api.asked, model.asks, model.hits) == (3, 3, 1)


def test_many_are_asked_at_once_and_again_by_nobody(api: MessagesApi, store: Store) -> None:
    api.flights.gather = 8
    with client(api) as claude:
        model = kept(store, claude, api)
        first = dict(model.answers(ASKS))
        assert dict(model.answers(ASKS)) == first
    offline = Cached(store, MODEL, server=model.server)
    assert dict(offline.answers(ASKS)) == first
    assert (api.asked, api.most_at_once, model.hits, offline.hits) == (10, 8, 10, 10)


def test_a_declined_request_is_a_value_beside_the_answers(api: MessagesApi, store: Store) -> None:
    api.fault(FAULTS["bad request"])
    with client(api) as claude:
        outcomes = [each for _, each in kept(store, claude, api).answers(ASKS)]
    assert sum(isinstance(each, RequestRefused) for each in outcomes) == 1
    assert sum(isinstance(each, Answered) for each in outcomes) == 9


def test_offline_every_miss_is_a_value_beside_what_is_stored(store: Store) -> None:
    Cached(store, MODEL, Plain()).answer(*ASKS[1])
    outcomes = dict(Cached(store, MODEL).answers(ASKS[:3]))
    assert isinstance(outcomes[1], Answered)
    assert isinstance(outcomes[0], OfflineMiss)
    assert isinstance(outcomes[2], OfflineMiss)


def test_a_model_that_answers_one_at_a_time_is_asked_in_order(store: Store) -> None:
    plain = Plain()
    model = Cached(store, MODEL, plain)
    outcomes = dict(model.answers([ask("a"), ask("no"), ask("b"), ask("a")]))
    assert plain.asked == ["a", "no", "b"]
    assert isinstance(outcomes[1], RequestRefused)
    assert outcomes[0] == outcomes[3]


def test_a_model_that_is_closed_early_was_asked_for_no_more(store: Store) -> None:
    plain = Plain()
    with closing(Cached(store, MODEL, plain).answers(ASKS)) as coming:
        next(coming)
    assert plain.asked == ["0"]


def test_what_came_before_the_model_declined_altogether_is_kept(
    api: MessagesApi, store: Store
) -> None:
    with client(api, budget=Budget(Limits(calls=4))) as claude:
        model = kept(store, claude, api)
        with pytest.raises(ModelRefused, match="limit of 4 calls"):
            list(model.answers(ASKS))
    assert sum(model.stored(*each) for each in ASKS) == 4
    with client(api, budget=Budget(Limits(calls=6))) as claude:
        assert len(list(kept(store, claude, api).answers(ASKS))) == 10
    assert api.asked == 10


def test_what_is_no_message_is_not_kept(store: Store) -> None:
    model = Cached(store, MODEL, Fixed({"type": "message", "content": [], "stop_reason": None}))
    with pytest.raises(ModelRefused, match="no stop reason"):
        list(model.answers(ASKS[:1]))
    assert not model.stored(*ASKS[0])


def test_an_answer_is_given_as_it_is_kept_its_secrets_masked(
    api: MessagesApi, store: Store
) -> None:
    secret = "sk-ant-api03-" + "a1B2" * 20
    api.policy = lambda _: message(text(f"the key is {secret}"))
    with client(api) as claude:
        ((_, given),) = kept(store, claude, api).answers(ASKS[:1])
    assert isinstance(given, Answered)
    assert secret not in str(given.body)
    assert "[[SECRET" in str(given.body)


def test_a_marker_for_the_providers_cache_is_sent_and_in_no_key(
    api: MessagesApi, store: Store
) -> None:
    with client(api) as claude:
        model = kept(store, claude, api)
        ((_, marked),) = model.answers(ASKS[:1], marked=True)
        ((_, plain),) = model.answers(ASKS[:1])
    assert marked == plain
    assert "cache_control" in str(api.received[0].body)
    assert api.asked == 1


@pytest.mark.slow
def test_what_an_answer_cost_is_kept_beside_it(api: MessagesApi, store: Store) -> None:
    name = "claude-sonnet-4-5"
    wanted = ask("a", 3, model=name)
    with client(api, name=name) as claude:
        model = kept(store, claude, api)
        answered = model.answer(*wanted)
    found = answers.get(store, answered.key, model.server)
    assert found is not None
    assert (found.model, found.sample, found.source) == (name, 3, "claude")
    assert found.cost_usd == pytest.approx(100 * 3e-6 + 10 * 15e-6) == model.usd
    assert str(found.prices).startswith("genai-prices")


# --- by server


def test_an_answer_belongs_to_the_server_that_gave_it(store: Store) -> None:
    with MessagesApi(lambda _: message(text("one"))) as one, client(one) as claude:
        given = kept(store, claude, one).answer(*ASKS[0])
    with MessagesApi(lambda _: message(text("two"))) as two, client(two) as claude:
        other = kept(store, claude, two).answer(*ASKS[0])
    assert given.key == other.key
    assert given.body["content"] == [text("one")]
    assert other.body["content"] == [text("two")]
    assert answers.others(store, given.key) == sorted([one.base_url, two.base_url])


def test_a_miss_names_the_server_whose_answer_is_stored(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(OfflineMiss) as error:
        choose(MODEL, store).answer(*ASKS[0])
    assert "--live" in error.value.hint
    with MessagesApi(echo) as api, client(api) as claude:
        kept(store, claude, api).answer(*ASKS[0])
    with pytest.raises(OfflineMiss) as error:
        choose(MODEL, store).answer(*ASKS[0])
    assert error.value.hint == (
        f"a cached response of {api.base_url} exists. Try: set ANTHROPIC_BASE_URL to it"
    )
    monkeypatch.setenv("ANTHROPIC_BASE_URL", api.base_url + "/")
    assert choose(MODEL, store).answer(*ASKS[0]).body["type"] == "message"
    monkeypatch.delenv("ANTHROPIC_BASE_URL")
    Cached(store, MODEL, Plain()).answer(*ASKS[1])
    monkeypatch.setenv("ANTHROPIC_BASE_URL", api.base_url)
    with pytest.raises(OfflineMiss, match="unset ANTHROPIC_BASE_URL"):
        choose(MODEL, store).answer(*ASKS[1])


def test_the_demo_model_is_the_same_whatever_server_is_named(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://localhost:1")
    assert choose("demo", store).server == ""
    assert choose(MODEL, store).server == "http://localhost:1"


# --- ended from outside


class ThreeOf:
    """A policy that answers three requests and holds all others; `last` is set by the eleventh."""

    def __init__(self, api: MessagesApi) -> None:
        self.last = threading.Event()
        self._api = api

    def __call__(self, body: Body) -> Body:
        number = int(words(body))
        if number == 10:
            self.last.set()
        if number >= 3:
            self._api.left.wait()
        return echo(body)


def test_stopping_keeps_what_came(api: MessagesApi, store: Store) -> None:
    policy = ThreeOf(api)
    api.policy = policy
    with client(api) as claude:
        model = kept(store, claude, api)

        def stop_after_three() -> None:
            policy.last.wait()
            model.stop()

        thread = threading.Thread(target=stop_after_three)
        thread.start()
        with pytest.raises(Stopped):
            list(model.answers(ELEVEN))
        thread.join()
    assert [model.stored(*each) for each in ELEVEN] == [True] * 3 + [False] * 8


INTERRUPTED = """
import signal
import sys
from pathlib import Path
from replay.errors import Stopped
from replay.store.handle import Store
from tests.replay.live_case import ask, client, kept

class Elsewhere:
    base_url = sys.argv[2]

signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where tests run behind a shell
with Store.open(Path(sys.argv[1])) as store, client(Elsewhere(), timeout_s=60.0) as claude:
    try:
        list(kept(store, claude, Elsewhere()).answers([ask(str(n)) for n in range(11)]))
    except Stopped as error:
        print(error)
"""


@pytest.mark.process
def test_ctrl_c_keeps_what_came_and_the_same_command_asks_only_for_the_rest(
    api: MessagesApi, tmp_path: Path
) -> None:
    policy = ThreeOf(api)
    api.policy = policy
    command = [sys.executable, "-W", "error", "-c", INTERRUPTED, str(tmp_path / "arc.db")]
    process = subprocess.Popen(
        [*command, api.base_url], cwd=Path(__file__).resolve().parents[2], text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert policy.last.wait(300)
    os.kill(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=300)
    assert (process.returncode, err) == (0, "")
    assert "stopped before the response. Completed calls are saved" in out
    api.policy = echo
    asked = api.asked
    with Store.open(tmp_path / "arc.db") as store, client(api) as claude:
        model = kept(store, claude, api)
        assert len(list(model.answers(ELEVEN))) == 11
        assert (model.hits, model.asks) == (3, 8)
    assert api.asked == asked + 8


@pytest.mark.slow
def test_a_file_stops_a_whole_replay_and_nothing_is_lost(
    api: MessagesApi, store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "enough"
    monkeypatch.setenv("ARC_KILL", str(file))
    api.fault(Fault(status=429))

    async def touch(_: float) -> None:
        file.touch()

    with client(api, sleep=touch, most_at_once=1) as claude:
        model = kept(store, claude, api)
        with pytest.raises(Stopped) as error:
            list(model.answers(ASKS))
        assert str(file) in str(error.value)
        file.unlink()
        assert len(list(model.answers(ASKS))) == 10
    assert api.asked == 11
