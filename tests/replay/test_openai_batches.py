"""Batches of OpenAI's APIs: files up and down, half the price, and no request sent twice whatever
happens between.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from replay.budget import Budget, Limits
from replay.convert import Converter
from replay.errors import ModelRefused, RequestRefused, Stopped
from replay.models import cached
from replay.models.cached import Answered, Ask, Cached, request_id
from replay.models.choose import choose
from replay.models.line import max_cost
from replay.models.openai import CHAT as CHAT_WIRE
from replay.models.openai import RESPONSES as RESPONSES_WIRE
from replay.models.openai_batches import BatchingOpenAI
from replay.models.protocol import Sending
from replay.models.servers import ModelConfig
from replay.providers import Rates
from replay.store import answers
from replay.store.handle import Store
from replay.trace import Message, Request, extend
from tests.messages_api.batches import LIFETIME_S, Fate
from tests.openai_servers import CHAT, FAULTS, RESPONSES, Body, Fault, OpenaiApi, Said, said
from tests.openai_servers.typed import departure
from tests.replay.live_case import Waits, clean_environment
from tests.replay.openai_client import client as sdk_client
from tests.replay.openai_client import refusal

MODELS = {"openai:gpt-4o": CHAT_WIRE, "openai-responses:gpt-4o": RESPONSES_WIRE}
BATCHES, FILES = "/v1/batches", "/v1/files"
ONE_BATCH, CONTENT = "/v1/batches/.+", "/v1/files/.+/content"


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    clean_environment(monkeypatch, tmp_path)
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def api() -> Iterator[OpenaiApi]:
    with OpenaiApi(echo) as running:
        yield running


@pytest.fixture
def store() -> Iterator[Store]:
    with Store.open(":memory:") as opened:
        yield opened


@pytest.fixture(params=MODELS, ids=["chat", "responses"])
def model(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def echo(body: Body) -> Said:
    (*_, last) = body.get("messages") or body["input"]
    return said(f"You said {last['content']}.")


def ask(words: str, model: str, **params: Any) -> Ask:
    body = {"role": "user", "content": words}
    context = extend(None, [Message(dialect="openai", body=body)])
    params = {"max_tokens": 100, **params}
    return Ask(Converter(model).sent(Request(model=model, params=params, context=context)), 0)


def asks(model: str) -> list[Ask]:
    return [ask(str(number), model) for number in range(6)]


class Run:
    """One run of the command: a live model of its own in front of the store."""

    def __init__(self, api: OpenaiApi, store: Store, model: str, **beside: Any) -> None:
        self.waits = Waits()
        url = f"{api.base_url}/v1"
        given: dict[str, Any] = {"budget": Budget(Limits(calls=1000)), "attempts": 3, **beside}
        self.live = BatchingOpenAI(
            model,
            wire=MODELS[model],
            base_url=url,
            sleep=given.pop("sleep", self.waits),
            jitter=lambda: 0.0,
            clock=lambda: 1e9,
            **given,
        )
        self.model = Cached(store, model, self.live, source="live", price=self.live.cost,
                            server=url)  # fmt: skip

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        self.live.close()

    def batch(self, wanted: list[Ask] | None = None, **beside: Any) -> dict[int, Any]:
        asked = asks(self.model.name) if wanted is None else wanted
        return dict(self.model.answers(asked, batch=True, **beside))


def created(api: OpenaiApi) -> list[Body]:
    """The batches that were asked for."""
    return [each.body for each in api.received if (each.method, each.path) == ("POST", BATCHES)]


def lines(api: OpenaiApi) -> list[list[Body]]:
    """The files that went up, line by line."""
    files = [each.raw for each in api.received if (each.method, each.path) == ("POST", FILES)]
    return [
        [json.loads(line) for line in raw.splitlines() if line.startswith(b'{"custom_id"')]
        for raw in files
    ]


# --- one batch


def test_a_batch_answers_every_request_under_its_own_key_at_half_the_price(
    api: OpenaiApi, store: Store, model: str
) -> None:
    with Run(api, store, model) as run:
        found = run.batch()
        texts = {place: each.body["content"][0]["text"] for place, each in found.items()}
        assert texts == {place: f"You said {place}." for place in range(6)}
        (file,), (batch,) = lines(api), created(api)
        assert [each["custom_id"] for each in file] == [
            request_id(each.sent.key(0)) for each in asks(model)
        ]
        path = CHAT if model == "openai:gpt-4o" else RESPONSES
        assert {(each["method"], each["url"]) for each in file} == {("POST", path)}
        assert batch["endpoint"] == path
        assert ("store" in file[0]["body"]) == (path == RESPONSES)
        assert [each.batch for each in api.answered] == [True] * 6
        usd = sum(cost.usd for each in found.values() if (cost := run.live.cost(each.body)))
        assert usd > 0
        assert run.live.budget.usd == pytest.approx(usd / 2) == run.model.usd
        answer = answers.get(store, found[0].key, run.model.server)
        assert run.batch() == found
    assert answer is not None
    assert answer.source == "batch"
    assert answer.cost_usd == pytest.approx(usd / 12)
    assert api.asked == 0
    assert len(created(api)) == 1


def test_what_is_created_is_what_the_types_of_the_sdk_say(
    api: OpenaiApi, store: Store, model: str
) -> None:
    from openai.types.batch_create_params import BatchCreateParams

    with Run(api, store, model) as run:
        run.batch()
    assert departure(created(api)[0], BatchCreateParams) is None


def test_a_long_answer_is_not_streamed_in_a_batch(api: OpenaiApi, store: Store, model: str) -> None:
    with Run(api, store, model) as run:
        found = run.batch([ask("long", model, max_tokens=16_300)], marked=True)
    assert isinstance(found[0], Answered)
    assert "stream" not in lines(api)[0][0]["body"]


def test_the_wait_for_a_batch_grows_to_a_minute(api: OpenaiApi, store: Store, model: str) -> None:
    api.batches.fate = Fate(polls=9)
    with Run(api, store, model) as run:
        run.batch()
    assert run.waits.seconds == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0]


def test_a_request_that_a_batch_declines_is_a_value(
    api: OpenaiApi, store: Store, model: str
) -> None:
    wanted = [*asks(model)[:5], ask("5", model, temperature=9.0)]
    with Run(api, store, model) as run:
        found = run.batch(wanted)
        assert isinstance(found[5], RequestRefused)
        assert "temperature" in str(found[5])
        assert "in a batch" in str(found[5])
        assert sum(isinstance(each, Answered) for each in found.values()) == 5
        assert run.live.budget.calls == 5
        assert answers.pending(store, run.model.server, model) == []


def test_what_expired_or_failed_is_asked_again_by_the_next_run_alone(
    api: OpenaiApi, store: Store, model: str
) -> None:
    api.batches.fate = Fate(expires=[1, 4], fails=[2])
    with Run(api, store, model) as run, pytest.raises(ModelRefused) as error:
        run.batch()
    assert "3 of 6 requests got no response: 1 HTTP 500, 2 expired" in error.value.message
    assert "run it again" in error.value.hint
    assert run.live.budget.calls == 3
    api.batches.fate = Fate()
    with Run(api, store, model) as run:
        assert len(run.batch()) == 6
        assert (run.model.hits, run.model.asks) == (3, 3)
    assert [len(each) for each in lines(api)] == [6, 3]


def test_a_day_is_as_long_as_a_batch_may_take(store: Store, model: str) -> None:
    now = [1e9]
    with OpenaiApi(echo, clock=lambda: now[0]) as api:
        api.batches.fate = Fate(polls=10**6)

        async def a_day(_: float) -> None:
            now[0] += LIFETIME_S

        with (
            Run(api, store, model, sleep=a_day) as run,
            pytest.raises(ModelRefused, match="6 of 6 requests got no response: 6 expired"),
        ):
            run.batch()
        assert run.live.budget.calls == 0
        assert answers.pending(store, run.model.server, model) == []


def test_a_batch_that_somebody_cancelled_is_sent_again_by_the_next_run(
    api: OpenaiApi, store: Store, model: str
) -> None:
    api.batches.fate = Fate(polls=5)

    async def cancel(_: float) -> None:
        api.batches.cancel("batch_1")

    with (
        Run(api, store, model, sleep=cancel) as run,
        pytest.raises(ModelRefused, match="6 of 6 requests got no response: 6 cancelled"),
    ):
        run.batch()
    api.batches.fate = Fate()
    with Run(api, store, model) as run:
        assert len(run.batch()) == 6
    assert len(created(api)) == 2


def test_a_batch_that_is_refused_as_a_whole_says_why_and_costs_nothing(
    api: OpenaiApi, store: Store, model: str
) -> None:
    api.batches.most_requests = 5
    with Run(api, store, model) as run, pytest.raises(ModelRefused) as error:
        run.batch()
    assert "6 of 6 requests got no response" in error.value.message
    assert "contains too many requests. The limit is 5." in error.value.message
    assert (run.live.budget.calls, run.live.budget.usd) == (0, 0.0)
    api.batches.most_requests = 50
    with Run(api, store, model) as run:
        assert len(run.batch()) == 6


def test_many_requests_are_sent_in_several_batches(
    api: OpenaiApi, store: Store, model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cached, "MOST_REQUESTS", 4)
    with Run(api, store, model) as run:
        assert len(run.batch()) == 6
    assert [len(each) for each in lines(api)] == [4, 2]


# --- who takes batches


def test_a_server_that_is_not_said_to_take_batches_is_not_sent_any(
    api: OpenaiApi, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", f"{api.base_url}/v1")
    budget = Budget(Limits(calls=50))
    with (
        choose("openai:gpt-4o", store, live=True, budget=budget) as plain,
        pytest.raises(ModelRefused, match=r"does not accept batches\. Try: another") as error,
    ):
        list(plain.answers(asks(plain.name), batch=True))
    assert "`batches = true` in a section [models.NAME]" in error.value.hint
    assert api.received == []
    api.batches.fate = Fate(polls=0)
    mine = ModelConfig(
        model="qwen3:8b", batches=True, base_url=f"{api.base_url}/v1",
        prices=Rates(input=2.0, output=8.0),
    )  # fmt: skip
    with choose("mine", store, live=True, budget=budget, models={"mine": mine}) as said_so:
        found = dict(said_so.answers(asks(said_so.name), batch=True))
    usage = [each.usage for each in api.answered]
    usd = sum(each["prompt_tokens"] * 2.0 + each["completion_tokens"] * 8.0 for each in usage)
    assert len(found) == 6
    assert said_so.usd == pytest.approx(usd / 2e6) == budget.usd


@pytest.mark.parametrize("path", [FILES, BATCHES])
def test_a_server_without_batches_says_so(
    api: OpenaiApi, store: Store, model: str, path: str
) -> None:
    api.fault(Fault(status=404, path=path))
    with Run(api, store, model) as run:
        with pytest.raises(ModelRefused, match=r"does not accept batches\. Try: another"):
            run.batch()
        assert run.live.budget.calls == 0
    with Run(api, store, model) as run:
        assert len(run.batch()) == 6


# --- money


def test_a_batch_that_could_exceed_the_budget_is_not_sent(
    api: OpenaiApi, store: Store, model: str
) -> None:
    most = sum(max_cost(each.sent.body(), model).usd or 0.0 for each in asks(model)) / 2
    with Run(api, store, model, budget=Budget(Limits(usd=most * 0.99))) as run:
        with pytest.raises(ModelRefused, match="6 requests as a batch: limit of"):
            run.batch()
        assert (run.live.budget.calls, run.live.budget.usd) == (0, 0.0)
    assert api.received == []
    with Run(api, store, model, budget=Budget(Limits(usd=most * 1.01))) as run:
        assert len(run.batch()) == 6


# --- whatever happens in between


def test_a_stopped_wait_leaves_the_batch_which_the_same_command_fetches(
    api: OpenaiApi, store: Store, model: str
) -> None:
    async def stop(_: float) -> None:
        run.model.stop()

    with Run(api, store, model, sleep=stop) as run, pytest.raises(Stopped) as error:
        run.batch()
    assert "batch batch_1 continues on the server" in error.value.hint
    with Run(api, store, model, budget=Budget(Limits(calls=1))) as run:
        assert len(run.batch([*asks(model), ask("new", model)])) == 7
    assert [len(each) for each in lines(api)] == [6, 1]


@pytest.mark.parametrize("cut", ["reset", "truncated"])
def test_a_batch_whose_id_was_lost_on_the_way_is_found_again_and_not_paid_twice(
    api: OpenaiApi, store: Store, model: str, cut: str
) -> None:
    api.fault(Fault(cut=cut, path=BATCHES))
    with Run(api, store, model) as run:
        assert len(run.batch()) == 6
        assert run.live.budget.calls == 6
    assert len(created(api)) == 1
    assert len(api.answered) == 6


def test_a_batch_whose_sender_died_before_it_wrote_the_id_is_found_by_the_next_run(
    api: OpenaiApi, store: Store, model: str
) -> None:
    bodies = {request_id(each.sent.key(0)): each.sent.body() for each in asks(model)}
    with Run(api, store, model) as run:
        keys = {request_id(each.sent.key(0)): (each.sent.key(0), 0) for each in asks(model)}
        intent = answers.intend(store, run.model.server, model, keys)
        others = {name: (f"{key}0", sample) for name, (key, sample) in keys.items()}
        other = answers.intend(store, run.model.server, model, others)
        for mark in (other.mark, intent.mark):  # as large, and sent a moment before
            run.live.send_batch(bodies, Sending(6, intent.sent_ns, frozenset(), mark))
        answers.forget(store, run.model.server, other)
    with Run(api, store, model) as run:
        assert len(run.batch()) == 6
    assert len(created(api)) == 2
    assert next(each.path for each in api.received if "/batch_" in each.path).endswith("batch_2")


@pytest.mark.parametrize("path", [FILES, BATCHES])
def test_a_batch_that_never_left_is_sent_by_the_next_run(
    api: OpenaiApi, store: Store, model: str, path: str
) -> None:
    fault = FAULTS["no key"]
    api.fault(Fault(status=fault.status, body=fault.body, path=path))
    with Run(api, store, model) as run, pytest.raises(ModelRefused, match="HTTP 401"):
        run.batch()
    assert run.live.budget.calls == 0
    assert [each.is_intent for each in answers.pending(store, run.model.server, model)] == [True]
    with Run(api, store, model) as run:
        assert len(run.batch()) == 6
        assert answers.pending(store, run.model.server, model) == []


@pytest.mark.parametrize("path", [FILES, ONE_BATCH, CONTENT])
def test_what_is_free_is_repeated_where_it_fails(
    api: OpenaiApi, store: Store, model: str, path: str
) -> None:
    api.fault(Fault(status=503, path=path), Fault(status=429, headers={"retry-after": "3"},
                                                  path=path))  # fmt: skip
    with Run(api, store, model) as run:
        assert len(run.batch()) == 6
    assert 3.0 in run.waits.seconds
    assert len(created(api)) == 1


def test_results_that_are_no_longer_there_are_asked_for_again_by_the_next_run(
    api: OpenaiApi, store: Store, model: str
) -> None:
    async def late(_: float) -> None:
        run.model.stop()

    with Run(api, store, model, sleep=late) as run, pytest.raises(Stopped):
        run.batch()
    api.batches.retrieve("batch_1")
    api.batches.forget_files()
    with (
        Run(api, store, model) as run,
        pytest.raises(ModelRefused, match="6 no longer on the server"),
    ):
        run.batch()
    with Run(api, store, model) as run:
        assert len(run.batch()) == 6
    assert len(created(api)) == 2


def test_results_cut_short_leave_the_batch_to_the_next_run(
    api: OpenaiApi, store: Store, model: str
) -> None:
    error = {"code": "batch_expired", "message": "late"}
    line = {"custom_id": request_id(asks(model)[0].sent.key(0)), "response": None, "error": error}
    api.fault(Fault(body=f'{json.dumps(line)}\n{{"custom_id": "half', path=CONTENT))
    with Run(api, store, model) as run, pytest.raises(ModelRefused, match="1 expired, 5 missing"):
        run.batch()
    with Run(api, store, model) as run:
        assert len(run.batch()) == 6
    assert len(created(api)) == 1


@pytest.mark.parametrize(("name", "calls"), [("server error", 6), ("busy for a second", 0)])
def test_what_may_have_been_taken_stays_counted_and_what_was_not_is_released(
    api: OpenaiApi, store: Store, model: str, name: str, calls: int
) -> None:
    fault = FAULTS[name]
    api.fault(Fault(status=fault.status, body=fault.body, path=BATCHES))
    with Run(api, store, model, attempts=1) as run, pytest.raises(ModelRefused, match="HTTP"):
        run.batch()
    assert run.live.budget.calls == calls


def test_an_answer_that_is_none_is_asked_for_again(api: OpenaiApi, store: Store) -> None:
    api.policy = lambda _: said("", finish="failed")
    model = "openai-responses:gpt-4o"
    with Run(api, store, model) as run, pytest.raises(ModelRefused, match="6 server_error"):
        run.batch()


KILLED = """
import os, sys
from replay.budget import Budget, Limits
from replay.models.choose import choose
from replay.models.servers import ModelConfig
from replay.store.handle import Store
from tests.replay.test_openai_batches import asks
api = "chat" if sys.argv[3] == "openai:gpt-4o" else "responses"
mine = ModelConfig(model="gpt-4o", batches=True, base_url=sys.argv[2], api=api)
budget = Budget(Limits(calls=50))
with Store.open(sys.argv[1]) as store:
    with choose("mine", store, live=True, budget=budget, models={"mine": mine}) as model:
        print(len(dict(model.answers(asks(sys.argv[3]), batch=True))), model.asks)
"""


@pytest.mark.process
@pytest.mark.parametrize("path", [FILES, BATCHES, ONE_BATCH, CONTENT])
def test_a_killed_run_is_gone_on_with_and_nothing_is_paid_twice(
    api: OpenaiApi, model: str, path: str, tmp_path: Path
) -> None:
    """Killed while it waits for the reply to each of its requests."""
    Store.open(tmp_path / "arc.db").close()
    api.batches.fate = Fate(polls=0)
    words = [sys.executable, "-c", KILLED, str(tmp_path / "arc.db"), f"{api.base_url}/v1", model]
    api.fault(Fault(cut="slow", path=path))
    root = Path(__file__).resolve().parents[2]
    with subprocess.Popen(words, cwd=root, stdout=subprocess.PIPE) as victim:
        deadline = time.monotonic() + 30
        while not any(re.fullmatch(path, each.path) for each in api.received):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        victim.kill()
    done = subprocess.run(words, cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["6", "6"]
    assert len(api.answered) == 6
    assert len(created(api)) == 1


# --- what the server refuses, as the real one does

LINE: Body = {
    "custom_id": "a", "method": "POST", "url": CHAT,
    "body": {"model": "gpt-4o", "messages": [{"role": "user", "content": "Hi"}]},
}  # fmt: skip

FAILS: dict[str, tuple[list[Any], str, int | None]] = {
    "no JSON": (["{"], "invalid_json_line", 1),
    "nothing": ([], "empty_file", None),
    "no id": ([{n: v for n, v in LINE.items() if n != "custom_id"}],
              "missing_required_parameter", 1),
    "another method": ([{**LINE, "method": "GET"}], "invalid_method", 1),
    "another endpoint": ([LINE, {**LINE, "custom_id": "b", "url": RESPONSES}], "url_mismatch", 2),
    "an id twice": ([LINE, LINE], "duplicate_custom_id", 2),
    "two models": ([LINE, {**LINE, "custom_id": "b", "body": {**LINE["body"], "model": "o3"}}],
                   "model_mismatch", 2),
    "too many": ([{**LINE, "custom_id": str(at)} for at in range(4)], "too_many_tasks", None),
}  # fmt: skip


@pytest.mark.parametrize("name", FAILS)
def test_a_batch_whose_file_is_wrong_fails(api: OpenaiApi, name: str) -> None:
    wrong, code, line = FAILS[name]
    api.batches.most_requests = 3
    api.batches.fate = Fate(polls=0)
    with sdk_client(api) as sdk:
        for requests, status in ((wrong, "failed"), ([LINE], "completed")):
            text = "\n".join(each if isinstance(each, str) else json.dumps(each) for each in
                             requests)  # fmt: skip
            file = sdk.files.create(file=("a.jsonl", text.encode()), purpose="batch")
            made = sdk.batches.create(
                input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h"
            )
            assert made.status == "validating"
            found = sdk.batches.retrieve(made.id)
            assert found.status == status
            if status == "failed":
                assert found.errors is not None
                assert found.errors.data is not None
                assert (found.errors.data[0].code, found.errors.data[0].line) == (code, line)
                assert found.output_file_id is None


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"endpoint": "/v1/chat"}, "endpoint"),
        ({"completion_window": "48h"}, "completion_window"),
        ({"metadata": {"arc": 1}}, "metadata.arc"),
        ({"requests": []}, "requests"),
        ({"input_file_id": None}, "input_file_id"),
    ],
)
def test_a_batch_that_is_asked_for_wrongly_is_refused(
    api: OpenaiApi, change: Body, param: str
) -> None:
    body = {"endpoint": CHAT, "completion_window": "24h", "input_file_id": "file-1", **change}
    with sdk_client(api) as sdk:
        error = refusal(sdk, "/batches", body)
    assert (error.status_code, error.param) == (400, param)


def test_files_and_batches_are_refused_where_they_are_none(api: OpenaiApi) -> None:
    import openai

    api.batches.most_bytes = 100
    with sdk_client(api) as sdk:
        for name, size, why in (("a.txt", 9, "Must be .jsonl"), ("a.jsonl", 101, "too large")):
            with pytest.raises(openai.BadRequestError, match=why):
                sdk.files.create(file=(name, b"x" * size), purpose="batch")
        purpose: Any = "batches"
        with pytest.raises(openai.BadRequestError, match="is not one of"):
            sdk.files.create(file=("a.jsonl", b"{}"), purpose=purpose)
        with pytest.raises(openai.NotFoundError, match="No such File"):
            sdk.files.content("file-9")
        with pytest.raises(openai.NotFoundError, match="No batch found"):
            sdk.batches.retrieve("batch_9")
        file = sdk.files.create(file=("a.jsonl", b"{}"), purpose="assistants")
        made = sdk.batches.create(
            input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h"
        )
        assert sdk.batches.retrieve(made.id).status == "failed"
        with pytest.raises(openai.ConflictError, match="Cannot cancel a batch with status"):
            sdk.batches.cancel(made.id)


def test_a_line_that_streams_is_refused_alone(api: OpenaiApi) -> None:
    api.batches.fate = Fate(polls=0)
    streamed = {**LINE, "custom_id": "b", "body": {**LINE["body"], "stream": True}}
    text = f"{json.dumps(LINE)}\n{json.dumps(streamed)}\n"
    with sdk_client(api) as sdk:
        file = sdk.files.create(file=("a.jsonl", text.encode()), purpose="batch")
        made = sdk.batches.create(
            input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h"
        )
        found = sdk.batches.retrieve(made.id)
        assert found.request_counts is not None
        assert (found.request_counts.completed, found.request_counts.failed) == (1, 1)
        assert found.error_file_id is not None
        assert "Streaming is not supported" in sdk.files.content(found.error_file_id).text
