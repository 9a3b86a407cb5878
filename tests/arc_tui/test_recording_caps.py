"""Caps and stops at `arc record`, met by the real SDKs: a refused call raises at once, and what is
in flight is neither cut nor lost."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anthropic
import click
import openai
import pytest
from click.testing import CliRunner, Result
from textual.pilot import Pilot

from arc_tui.app import ArcApp
from arc_tui.commands import cli
from arc_tui.features.record import recording
from arc_tui.features.record.proxy import Provider, Proxy
from arc_tui.views.columns import BY_ID
from arc_tui.views.runs import run_rows
from replay.budget import Limits
from replay.errors import ArcError
from replay.recorder.caps import NO_CAPS, CallGuard
from replay.recorder.exchange import RecordedExchange
from replay.recorder.recording import About
from replay.stop_order import stop, stop_file, stop_order
from replay.store import read
from replay.store.handle import Store
from replay.store.rows import trace_rows
from replay.trace import CAP_LABEL, CAPS_LABEL, STOP_LABEL, Trace
from taxonomy.judgements.schema import open_ledger
from tests import openai_api
from tests.messages_api import MessagesApi, message, text
from tests.replay.live_case import clean_environment
from tests.screen import settle
from tests.screen import text as text_of
from tests.upstream import Answer, Asked, Reply, Upstream

REFUSED = (anthropic.PermissionDeniedError, openai.PermissionDeniedError)
ASKED: Any = {
    "model": "claude-test", "max_tokens": 100, "messages": [{"role": "user", "content": "hello"}]
}  # fmt: skip
USED = 12
"""Tokens of an answer."""


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    clean_environment(monkeypatch, tmp_path)


def message_events(words: str = "Hello.") -> list[bytes]:
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {
            "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-test",
            "content": [], "stop_reason": None, "usage": {"input_tokens": 10, "output_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": words}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"},
         "usage": {"output_tokens": 2}},
        {"type": "message_stop"},
    ]  # fmt: skip
    return [
        b"event: %s\ndata: %s\n\n" % (each["type"].encode(), json.dumps(each).encode())
        for each in events
    ]


def answer(asked: Asked) -> Reply:
    """What any of the three APIs answers, streamed where that is asked for."""
    if not asked.path.endswith("/messages"):
        return openai_api.answer(asked)
    if json.loads(asked.body).get("stream"):
        return Reply(pieces=message_events(), headers=openai_api.EVENTS, chunked=True)
    said = {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-test",
        "content": [{"type": "text", "text": "Hello."}], "stop_reason": "end_turn",
        "usage": {"input_tokens": 10, "output_tokens": 2},
    }  # fmt: skip
    return Reply(pieces=[json.dumps(said).encode()])


class Capped:
    """A recording proxy with a guard before a server; real SDK clients that ask through it."""

    def __init__(self, proxy: Proxy, guard: CallGuard, upstream: Upstream) -> None:
        environment = proxy.environment()
        self.guard = guard
        self.upstream = upstream
        self.heard: list[RecordedExchange] = []
        self.anthropic = anthropic.AsyncAnthropic(
            api_key="local", base_url=environment["ANTHROPIC_BASE_URL"], timeout=60
        )
        self.openai = openai.AsyncOpenAI(
            api_key="local", base_url=environment["OPENAI_BASE_URL"], timeout=60
        )

    async def ask(self, api: str = "messages", *, stream: bool = False) -> None:
        """One call, its answer read to the end."""
        match api:
            case "messages":
                found: Any = await self.anthropic.messages.create(**ASKED, stream=stream)
            case "chat":
                found = await self.openai.chat.completions.create(
                    model="gpt-test", messages=ASKED["messages"], stream=stream
                )
            case _:
                found = await self.openai.responses.create(
                    model="gpt-test", input="hello", stream=stream
                )
        if stream:
            async for _ in found:
                pass


@asynccontextmanager
async def capped(
    db: Path, caps: Limits = NO_CAPS, answering: Answer = answer
) -> AsyncIterator[Capped]:
    guard = CallGuard(db, caps)
    it: Capped

    def take(each: RecordedExchange) -> asyncio.Future[None]:
        it.heard.append(each)
        kept: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        kept.set_result(None)
        return kept

    with Upstream(answering) as upstream:
        providers = (
            Provider("anthropic", "ANTHROPIC_BASE_URL", upstream.url),
            Provider("openai", "OPENAI_BASE_URL", f"{upstream.url}/v1"),
        )
        async with Proxy(providers, take, guard) as proxy:
            it = Capped(proxy, guard, upstream)
            async with it.anthropic, it.openai:
                yield it


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return tmp_path / "arc.db"


# --- a refused call


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("api", ["messages", "chat", "responses"])
@pytest.mark.pilot
async def test_the_sdk_raises_at_the_first_refusal_and_does_not_retry(
    db: Path, api: str, stream: bool
) -> None:
    async with capped(db, Limits(calls=1)) as it:
        await it.ask(api, stream=stream)
        with pytest.raises(REFUSED) as raised:
            await it.ask(api, stream=stream)
        assert it.guard.refused == 1  # requests that came, with retries
    assert len(it.upstream.received) == 1
    assert "arc record: cap hit: 1 of 1 step" in str(raised.value)
    assert isinstance(raised.value, anthropic.APIStatusError | openai.APIStatusError)
    assert raised.value.response.headers["x-should-retry"] == "false"
    kept, refusal = it.heard
    assert (kept.status, kept.broken, kept.refused) == (200, None, None)
    assert refusal.refused is not None
    assert (refusal.status, refusal.refused.what) == (403, "1 of 1 step")
    assert json.loads(refusal.request or b"")["model"]


def test_the_synchronous_client_raises_at_once_too(db: Path) -> None:
    async def run() -> None:
        async with capped(db, Limits(calls=1)) as it:
            await it.ask()
            client = anthropic.Anthropic(api_key="local", base_url=it.anthropic.base_url)
            with client, pytest.raises(anthropic.PermissionDeniedError):
                await asyncio.to_thread(lambda: client.messages.create(**ASKED))
            assert it.guard.refused == 1

    asyncio.run(run())


@pytest.mark.parametrize(
    ("caps", "passed"),
    [(Limits(calls=3), 3), (Limits(tokens=2 * USED + 1), 3), (Limits(tokens=2 * USED), 2)],
    ids=["steps", "tokens", "tokens reached"],
)
@pytest.mark.pilot
async def test_calls_at_once_pass_a_cap_no_further_than_one_after_another(
    db: Path, caps: Limits, passed: int
) -> None:
    async with capped(db, caps) as it:
        done = await asyncio.gather(*(it.ask() for _ in range(12)), return_exceptions=True)
    assert sum(each is None for each in done) == len(it.upstream.received) == passed
    assert sum(isinstance(each, REFUSED) for each in done) == it.guard.refused == 12 - passed


async def test_calls_far_from_a_cap_go_out_at_once(db: Path) -> None:
    together = threading.Barrier(6)

    def slow(asked: Asked) -> Reply:
        together.wait(60)
        return answer(asked)

    async with capped(db, Limits(tokens=100_000), slow) as it:
        await asyncio.gather(*(it.ask() for _ in range(6)))


async def test_a_model_without_a_price_is_refused_under_a_cap_of_usd(db: Path) -> None:
    async with capped(db, Limits(usd=1)) as it:
        with pytest.raises(REFUSED, match="price of claude-test unknown"):
            await it.ask()
    assert it.upstream.received == []


async def test_a_stream_without_figures_ends_a_run_whose_tokens_are_capped(db: Path) -> None:
    def silent(asked: Asked) -> Reply:
        outer = {"id": "c", "object": "chat.completion", "created": 1, "model": "gpt-test"}
        said = {"role": "assistant", "content": "So."}
        pieces = openai_api.chunks(outer, said, "stop", usage=None)
        return Reply(pieces=pieces, headers=openai_api.EVENTS, chunked=True)

    async with capped(db, Limits(tokens=1000), silent) as it:
        await it.ask("chat", stream=True)
        with pytest.raises(REFUSED, match="tokens of an earlier call unknown"):
            await it.ask("chat", stream=True)


async def test_a_batch_is_refused_before_it_is_sent(db: Path) -> None:
    async with capped(db, Limits(calls=5)) as it:
        requests: Any = [{"custom_id": "a", "params": ASKED}]
        with pytest.raises(REFUSED, match="batches are not counted"):
            await it.anthropic.messages.batches.create(requests=requests)
    assert it.upstream.received == []
    assert it.guard.refused == 1


@pytest.mark.pilot
async def test_a_client_that_leaves_while_its_call_waits_is_not_sent(db: Path) -> None:
    goes_on = threading.Event()

    def held(asked: Asked) -> Reply:
        goes_on.wait(60)
        return answer(asked)

    async with capped(db, Limits(tokens=150), held) as it:
        first = asyncio.create_task(it.ask())
        while not it.upstream.received:
            await asyncio.sleep(0.01)
        with pytest.raises(anthropic.APITimeoutError):
            await it.anthropic.with_options(timeout=0.5, max_retries=0).messages.create(**ASKED)
        goes_on.set()
        await first
        while len(it.heard) < 2:
            await asyncio.sleep(0.01)
    assert len(it.upstream.received) == 1
    assert {each.broken for each in it.heard} == {
        None, "the client disconnected while the call waited for calls in flight"
    }  # fmt: skip


# --- a stop


@pytest.mark.pilot
async def test_a_stop_while_an_answer_streams_lets_it_come_whole(db: Path) -> None:
    goes_on = threading.Event()

    def slow(asked: Asked) -> Reply:
        def pieces() -> Iterator[bytes]:
            for at, piece in enumerate(message_events("Every word of it.")):
                yield piece
                if at == 2:
                    assert goes_on.wait(60)

        return Reply(pieces=pieces(), headers=openai_api.EVENTS, chunked=True)

    async with capped(db, answering=slow) as it, it.anthropic.messages.stream(**ASKED) as stream:
        async for event in stream:
            if event.type == "text":
                break
        stop(db, by="ann", because="refunds went out twice", at_once=True)
        with pytest.raises(REFUSED, match=r"stopped by ann at .* UTC: refunds went out twice"):
            await it.ask()
        goes_on.set()
        whole = await stream.get_final_message()
    assert [each.text for each in whole.content if each.type == "text"] == ["Every word of it."]
    assert len(it.upstream.received) == 1
    refusal, kept = it.heard
    assert refusal.refused is not None
    assert (kept.status, kept.broken) == (200, None)
    assert b"message_stop" in (kept.answer or b"")


@pytest.mark.pilot
async def test_a_run_under_way_goes_on_under_a_stop_and_a_new_one_is_refused(db: Path) -> None:
    async with capped(db) as under_way, capped(db) as new:
        await under_way.ask()
        stop(db, by="ann", because=None, at_once=False)
        await under_way.ask()
        with pytest.raises(REFUSED, match="stopped by ann"):
            await new.ask()


# --- a recorded command

AGENT = """
import anthropic, sys
client, said = anthropic.Anthropic(api_key="local"), [{"role": "user", "content": "hello"}]
for turn in range(5):
    answer = client.messages.create(model="claude-test", max_tokens=100, messages=said)
    said += [{"role": "assistant", "content": answer.content}, {"role": "user", "content": "on"}]
"""


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[MessagesApi]:
    with MessagesApi(lambda body: message(text(f"{len(body['messages'])} messages"))) as running:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", running.base_url)
        yield running


def only(db: Path) -> Trace:
    with Store.open(db) as store:
        (row,) = trace_rows(store)
        return read.load(store, row.trace)


def arc(db: Path, *words: str) -> Result:
    return CliRunner().invoke(cli, ["--db", str(db), *words], standalone_mode=False)


@pytest.mark.process
async def test_a_run_that_hit_a_cap_says_which_everywhere(api: MessagesApi, db: Path) -> None:
    command = [sys.executable, "-c", AGENT]
    done = await recording.record(db, command, About(), caps=Limits(calls=3, minutes=60))
    assert (done.code, done.refused, done.unrecorded, done.trouble) == (1, 1, 0, None)
    assert done.refusal == "cap hit: 3 of 3 steps"
    assert api.asked == 3
    trace = only(db)
    assert len(trace.steps) == 4
    assert trace.header.labels[CAPS_LABEL] == "3 steps · 60 minutes"
    assert trace.header.labels[CAP_LABEL] == "3 of 3 steps"
    assert STOP_LABEL not in trace.header.labels
    refused = trace.steps[-1].ask
    assert refused.error == "HTTP 403: permission_error: arc record: cap hit: 3 of 3 steps"
    with open_ledger(db) as store:
        (row,) = run_rows(store)
    assert BY_ID["outcome"].text_of(row) == "cap hit"
    assert BY_ID["cap"].value_of(row) == "3 of 3 steps"
    for query in ("tag:cap-hit", "label:arc.cap"):
        (listed,) = json.loads(arc(db, "ls", query, "--json").stdout)
        assert listed["cap"] == "3 of 3 steps"
    assert "· unknown  cap hit: 3 of 3 steps\n" in arc(db, "show", "last").stdout
    found = arc(db, "diagnose", "last").stdout
    assert "other / cap hit: stopped by a cap of arc record: 3 of 3 steps" in found
    assert "outcome unknown, cap hit: 3 of 3 steps\n" in arc(db, "brief", "last").stdout
    assert "| cap | `cap hit: 3 of 3 steps` |" in arc(db, "brief", "last", "--md").stdout


@pytest.mark.process
async def test_a_stopped_database_starts_no_run_until_it_is_resumed(
    api: MessagesApi, db: Path
) -> None:
    assert arc(db, "stop", "--because", "refunds went out twice").exit_code == 0
    with pytest.raises(ArcError, match=r"is stopped by .*: refunds went out twice") as refused:
        await recording.record(db, ["true"], About())
    assert refused.value.hint == "Try: arc stop --off"
    assert not db.exists()
    assert arc(db, "stop", "--off").exit_code == 0
    assert (await recording.record(db, [sys.executable, "-c", AGENT], About())).code == 0
    assert len(only(db).steps) == 5


@pytest.mark.process
async def test_a_program_that_goes_on_asking_does_not_fill_the_database(
    api: MessagesApi, db: Path
) -> None:
    stubborn = """
import anthropic
client = anthropic.Anthropic(api_key="local")
for turn in range(40):
    said = [{"role": "user", "content": f"hello {turn}"}]
    try:
        client.messages.create(model="claude-test", max_tokens=100, messages=said)
    except anthropic.PermissionDeniedError:
        pass
"""
    done = await recording.record(
        db, [sys.executable, "-c", stubborn], About(), caps=Limits(calls=1)
    )
    assert (done.code, done.refused, done.unrecorded) == (0, 39, 19)
    assert len(only(db).steps) == 1 + recording.RECORDED_REFUSALS


# --- commands


@pytest.mark.parametrize("bad", ["0", "-1", "nan", "inf", "many", ""])
@pytest.mark.parametrize("option", ["--max-steps", "--max-tokens", "--max-usd", "--max-minutes"])
def test_a_cap_that_is_none_is_refused_before_anything_runs(
    db: Path, option: str, bad: str
) -> None:
    done = arc(db, "record", option, bad, "--", "touch", str(db))
    assert isinstance(done.exception, click.UsageError)
    assert f"Invalid value for '{option}'" in done.exception.format_message()
    assert f"'{bad}' is neither a" in done.exception.format_message()
    assert not db.exists()


@pytest.mark.slow
def test_caps_of_the_settings_hold_and_none_lifts_one(
    db: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARC_CONFIG_DIR", str(tmp_path))
    (tmp_path / "config.toml").write_text("[record]\nmax_steps = 2\nmax_usd = 1.5\n")
    with MessagesApi(lambda body: message(text("so"))) as running:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", running.base_url)
        given = ["--max-usd", "none", "--max-minutes", "5", "--", sys.executable, "-c", AGENT]
        done = arc(db, "record", *given)
        assert (done.return_value, running.asked) == (1, 2)
    assert only(db).header.labels[CAPS_LABEL] == "2 steps · 5 minutes"
    assert "1 call refused: cap hit: 2 of 2 steps\n" in done.stderr


@pytest.mark.parametrize(
    "bad", ["max_steps = 0", "max_usd = nan", "max_usd = -1", "max_tokens = inf"]
)
def test_a_cap_of_the_settings_that_is_none_is_said(
    db: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bad: str
) -> None:
    monkeypatch.setenv("ARC_CONFIG_DIR", str(tmp_path))
    (tmp_path / "config.toml").write_text(f"[record]\n{bad}\n")
    done = arc(db, "record", "--", "true")
    assert isinstance(done.exception, ArcError)
    assert "config.toml" in str(done.exception)


def test_stop_and_resume_say_who_when_and_why(db: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARC_USER", "ann")
    first = arc(db, "stop", "--because", "refunds went out twice")
    assert f"Recording into {db} is stopped by ann at 20" in first.stdout
    assert first.stdout.rstrip().endswith(f"Resume: arc stop --off --db {db}")
    assert "UTC: refunds went out twice. New runs are refused; runs under way" in first.stdout
    monkeypatch.setenv("ARC_USER", "bob")
    assert "is already stopped by ann" in arc(db, "stop").stdout
    found = json.loads(arc(db, "stop", "--now", "--json").stdout)
    assert (found["stopped"], found["changed"], found["stops"]) == (True, True, "every call")
    assert (found["by"], found["file"]) == ("bob", str(stop_file(db)))
    found = json.loads(arc(db, "stop", "--off", "--json").stdout)
    assert (found["stopped"], found["changed"], found["by"]) == (False, True, "bob")
    found = json.loads(arc(db, "stop", "--off", "--json").stdout)
    assert (found["stopped"], found["changed"], found["by"]) == (False, False, None)
    assert "was not stopped." in arc(db, "stop", "--off").stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--off", "--now"), "--off takes neither"),
        (("--off", "--because", "x"), "--off takes neither"),
        (("--because", " "), "--because needs a reason"),
    ],
)
def test_stop_refuses_what_means_nothing(db: Path, words: tuple[str, ...], said: str) -> None:
    assert said in str(arc(db, "stop", *words).exception)
    assert not stop_file(db).exists()


# --- the app


@asynccontextmanager
async def app_over(
    db: Path, size: tuple[int, int] = (120, 40)
) -> AsyncIterator[tuple[Pilot[None], ArcApp]]:
    app = ArcApp(db)
    async with app.run_test(size=size, notifications=True) as pilot:
        await settle(pilot)
        yield pilot, app


@pytest.mark.pilot
async def test_the_app_stops_recording_by_a_key_and_resumes_it(six_runs: Path, db: Path) -> None:
    shutil.copy(six_runs, db)
    async with app_over(db) as (pilot, app):
        assert "recording stopped" not in shown(app)
        await pilot.press("ctrl+k")
        await settle(pilot)
        assert "every call  runs under way too; calls in flight finish" in shown(app)
        await pilot.press("tab", *"twice", "enter")
        await settle(pilot)
        order = stop_order(db)
        assert order is not None
        assert (order.at_once, order.because) == (False, "twice")
        assert "recording stopped by " in shown(app)
        assert "New runs are refused; runs under way finish." in shown(app)
        for key in ("ctrl+k", "down", "enter"):
            await pilot.press(key)
            await settle(pilot)
        order = stop_order(db)
        assert order is not None
        assert order.at_once
        for key in ("ctrl+k", "enter"):
            await pilot.press(key)
            await settle(pilot)
        assert stop_order(db) is None
        assert "recording stopped" not in shown(app)
        assert "Recording goes on. It was stopped by" in shown(app)


@pytest.mark.pilot
async def test_the_app_shows_that_somebody_else_stopped_recording(six_runs: Path, db: Path) -> None:
    shutil.copy(six_runs, db)
    async with app_over(db, (80, 24)) as (pilot, app):
        stop(db, by="ann", because=None, at_once=False)
        async with asyncio.timeout(60):
            while "recording stopped by ann (^k)" not in shown(app):
                await asyncio.sleep(0.1)
                await settle(pilot)


@pytest.mark.pilot
async def test_a_run_shows_its_caps_and_then_which_it_hit(api: MessagesApi, db: Path) -> None:
    caps = Limits(calls=5, minutes=60)
    await recording.record(db, [sys.executable, "-c", AGENT], About(), caps=caps)
    async with app_over(db) as (pilot, app):
        await pilot.press("enter")
        await settle(pilot)
        assert "claude-test · caps: 5 steps · 60 minutes" in shown(app)
    await recording.record(
        db, [sys.executable, "-c", AGENT], About(title="b"), caps=Limits(calls=1)
    )
    assert "b  · unknown  cap hit: 1 of 1 step" in arc(db, "show", "last").stdout


def shown(app: ArcApp) -> str:
    return str(text_of(app))
