"""The recorder for Python agents: what a program asks is kept as it was asked, and nothing of the
program changes."""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any

import anthropic
import httpx2
import pytest

from replay import messages
from replay.errors import StoreUnusable
from replay.formats import load
from replay.formats.source import Source, Tally
from replay.recorder import record
from replay.redact import rules as redact_rules
from replay.redact.rules import Policy
from replay.stop_order import resume, stop
from replay.store import read
from replay.store.handle import Store
from replay.store.rows import TraceRow, trace_rows
from replay.store.trouble import keeping_errors
from replay.trace import STOP_LABEL, Level, Message, ModelCall, Request, ToolCall, Trace
from tests import openai_api
from tests.messages_api import FAULTS, Body, MessagesApi, message, text, tool_use
from tests.replay.live_case import clean_environment
from tests.upstream import Upstream

ROOT = Path(__file__).resolve().parents[2]
KEY = "sk-ant-api03-ABCDEFGHIJKLMNOPQRSTUV0123456789"
TOOL: Body = {
    "name": "weather",
    "description": "The weather of a city",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}},
}
ASKED: Body = {"model": "claude-test", "max_tokens": 100, "system": "Be brief.", "tools": [TOOL]}


def policy(body: Body) -> Body:
    """Looks the weather up once."""
    said = body["messages"][-1]["content"]
    if isinstance(said, str) and "weather" in said:
        return message(text("I look."), tool_use("weather", city="Rome"))
    return message(text(f"After {len(body['messages'])} messages: fine."))


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[MessagesApi]:
    clean_environment(monkeypatch, tmp_path)
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    with MessagesApi(policy) as running:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", running.base_url)
        yield running


@pytest.fixture
def openai() -> Iterator[Upstream]:
    with Upstream(openai_api.answer) as running:
        yield running


def said(*words: str) -> list[Any]:
    return [{"role": "user", "content": each} for each in words]


def result(answer: anthropic.types.Message, given: str) -> list[Any]:
    """What an agent sends after a call: the answer as it came, and the result."""
    content: Any = answer.to_dict()["content"]
    (called,) = (block["id"] for block in content if block["type"] == "tool_use")
    back = {"type": "tool_result", "tool_use_id": called, "content": given}
    return [
        {"role": "assistant", "content": content},
        {"role": "user", "content": [back]},
    ]


def rows(path: Path) -> list[TraceRow]:
    with Store.open(path) as store:
        return trace_rows(store)


def only(path: Path) -> Trace:
    """The one trace of a database."""
    with Store.open(path) as store:
        (row,) = trace_rows(store)
        return read.load(store, row.trace)


def body_of(request: Request) -> Body:
    """A recorded request as the body that it was."""
    system = request.system.body["content"] if request.system is not None else None
    tools = [
        {"name": tool.name, "description": tool.description, "input_schema": tool.schema}
        for tool in request.tools or ()
    ]
    beside = {name: value for name, value in (("system", system), ("tools", tools)) if value}
    assert request.context is not None
    told = [each.body for each in request.context.messages()]
    return {"model": request.model, **request.params, **beside, "messages": told}


def asks(trace: Trace) -> list[ModelCall]:
    return [step.ask for step in trace.steps]


# --- the SDK of Anthropic


def test_what_was_asked_is_kept_to_the_last_field(api: MessagesApi, tmp_path: Path) -> None:
    client = anthropic.Anthropic()
    asked = said("What is the weather?")
    with record(tmp_path / "arc.db", task="rome", variant="b", labels={"by": "me"}) as recording:
        first = client.messages.create(**ASKED, messages=asked)
        client.messages.create(**ASKED, messages=asked + result(first, "25 degrees"))
    trace = only(tmp_path / "arc.db")
    assert recording.calls == 2
    assert [body_of(each.request) for each in asks(trace)] == [each.body for each in api.received]
    assert {each.fidelity.level for each in asks(trace)} == {Level.EXACT}
    assert trace.header.title == "What is the weather?"
    assert (trace.header.task, trace.header.variant) == ("rome", "b")
    assert trace.header.labels == {"by": "me"}
    (call,) = trace.steps[0].acts
    assert (call.name, call.arguments) == ("weather", {"city": "Rome"})
    assert call.observation is not None
    assert messages.observed(call.observation).text == "25 degrees"


def test_a_streamed_answer_is_put_together_and_its_first_token_timed(
    api: MessagesApi, tmp_path: Path
) -> None:
    with (
        record(tmp_path / "arc.db"),
        anthropic.Anthropic().messages.stream(**ASKED, messages=said("weather?")) as stream,
    ):
        whole: Any = stream.get_final_message().to_dict()["content"]
    (ask,) = asks(only(tmp_path / "arc.db"))
    assert ask.response.message is not None
    assert ask.response.message.body["content"] == [
        {"type": "text", "text": "I look."},
        {"type": "tool_use", "id": whole[1]["id"], "name": "weather",
         "input": {"city": "Rome"}},
    ]  # fmt: skip
    assert (ask.status, ask.response.stop, ask.request.params["stream"]) == ("ok", "tool", True)
    assert ask.duration_ns is not None
    assert 0 <= ask.extra["time_to_first_token_ns"] <= ask.duration_ns


async def test_what_is_asked_at_once_becomes_threads_of_one_run(
    api: MessagesApi, tmp_path: Path
) -> None:
    api.flights.gather = 2
    async with anthropic.AsyncAnthropic() as client:

        async def agent(name: str) -> None:
            asked = said(f"{name}: the weather?")
            first = await client.messages.create(**ASKED, messages=asked)
            async with client.messages.stream(
                **ASKED, messages=asked + result(first, "fine")
            ) as stream:
                await stream.get_final_message()

        with record(tmp_path / "arc.db"):
            await asyncio.gather(agent("one"), agent("two"))
    trace = only(tmp_path / "arc.db")
    threads: dict[str, list[str]] = {}
    for step in trace.steps:
        assert step.ask.request.context is not None
        first = messages.text(step.ask.request.context.messages()[0])
        threads.setdefault(step.thread, []).append(first)
    assert sorted(threads.values()) == [["one: the weather?"] * 2, ["two: the weather?"] * 2]


def test_conversations_one_after_another_are_one_thread_or_runs_of_their_own(
    api: MessagesApi, tmp_path: Path
) -> None:
    client = anthropic.Anthropic()
    for apart in (False, True):
        with record(tmp_path / f"{apart}.db", apart=apart):
            for words in ("one", "two", "three"):
                client.messages.create(**ASKED, messages=said(words))
    trace = only(tmp_path / "False.db")
    assert len({step.thread for step in trace.steps}) == 1
    assert sorted(str(row.title) for row in rows(tmp_path / "True.db")) == ["one", "three", "two"]


def test_no_key_is_written_wherever_it_stood(api: MessagesApi, tmp_path: Path) -> None:
    words = f"weather? my key is {KEY}"
    for name in ("arc.db", "run.jsonl"):
        with record(tmp_path / name):
            anthropic.Anthropic().messages.create(**ASKED, messages=said(words))
        written = b"".join(each.read_bytes() for each in tmp_path.glob(f"{name}*"))
        assert b"[[SECRET:anthropic_key:" in written
        assert KEY.encode() not in written


@pytest.mark.parametrize("name", ["arc.db", "run.jsonl"])
def test_what_one_calls_a_secret_is_masked_too(name: str, api: MessagesApi, tmp_path: Path) -> None:
    rules = redact_rules.rules({"badge": r"E-\d{1,6}"})
    with record(tmp_path / name, title="for E-4711", redact=Policy(rules=rules)):
        anthropic.Anthropic().messages.create(**ASKED, messages=said("weather? I am E-4711"))
    written = b"".join(each.read_bytes() for each in tmp_path.glob(f"{name}*"))
    assert b"[[SECRET:badge:" in written
    assert b"E-4711" not in written


def test_an_error_and_its_retry_are_steps(api: MessagesApi, tmp_path: Path) -> None:
    api.fault(FAULTS["overloaded"])
    client = anthropic.Anthropic(max_retries=1)
    client._calculate_retry_timeout = lambda *_: 0.0  # type: ignore[method-assign]
    with record(tmp_path / "arc.db"):
        client.messages.create(**ASKED, messages=said("hello"))
    failed, again = asks(only(tmp_path / "arc.db"))
    assert failed.status == "error"
    assert "529" in str(failed.error)
    assert (again.status, again.extra["retry"]) == ("ok", True)


@pytest.mark.parametrize("fault", ["dropped", "reset"])
def test_a_connection_that_breaks_is_an_error_of_its_step_and_of_the_agent(
    api: MessagesApi, tmp_path: Path, fault: str
) -> None:
    (broken,) = (each for each in FAULTS.values() if each.cut == fault)
    api.fault(broken)
    client = anthropic.Anthropic(max_retries=0)
    with record(tmp_path / "arc.db"):
        with (
            pytest.raises((anthropic.APIConnectionError, httpx2.HTTPError)),
            client.messages.stream(**ASKED, messages=said("weather?")) as stream,
        ):
            stream.get_final_message()
        assert client.messages.create(**ASKED, messages=said("hello")).content
    failed, _ = asks(only(tmp_path / "arc.db"))
    assert failed.status == "error"
    assert "connection lost" in str(failed.error)
    assert (failed.response.message is None) == (fault == "reset")


def test_a_client_that_leaves_in_the_middle_has_what_came_so_far(
    api: MessagesApi, tmp_path: Path
) -> None:
    client = anthropic.Anthropic(max_retries=0)
    with (
        record(tmp_path / "arc.db"),
        client.messages.stream(**ASKED, messages=said("weather?")) as stream,
    ):
        next(event for event in stream if event.type == "content_block_delta")
    (ask,) = asks(only(tmp_path / "arc.db"))
    assert ask.response.message is not None
    assert ask.error == "the client disconnected before the end"


def test_counting_and_listing_are_no_steps(api: MessagesApi, tmp_path: Path) -> None:
    client = anthropic.Anthropic()
    with record(tmp_path / "arc.db") as recording:
        client.messages.count_tokens(model="claude-test", messages=said("hello"))
        client.models.list()
    assert recording.calls == 0
    assert rows(tmp_path / "arc.db") == []


# --- who is recorded


PROGRAM = """
import sys, anthropic
from replay.recorder import record

def ask(client, words):
    said = [{"role": "user", "content": words}]
    client.messages.create(model="claude-test", max_tokens=9, messages=said)

client = record(anthropic.Anthropic(), into=sys.argv[1], task="mine")
ask(anthropic.Anthropic(), "hers")
ask(client, "mine")
ask(client.with_options(max_retries=0), "mine too")
sys.exit(3)
"""


@pytest.mark.process
def test_one_client_is_recorded_and_no_other_until_the_program_ends(
    api: MessagesApi, tmp_path: Path
) -> None:
    path = tmp_path / "arc.db"
    done = subprocess.run([sys.executable, "-c", PROGRAM, path], check=False, cwd=ROOT)
    assert done.returncode == 3
    (row,) = rows(path)
    assert (row.title, row.task, row.steps, row.live) == ("mine", "mine", 2, False)


def test_what_is_no_client_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="object is not a client"):
        record(object(), into=tmp_path / "arc.db")
    with pytest.raises(StoreUnusable):
        record(tmp_path)


def test_nothing_is_recorded_before_and_after(api: MessagesApi, tmp_path: Path) -> None:
    client = anthropic.Anthropic()
    client.messages.create(**ASKED, messages=said("before"))
    with record(tmp_path / "arc.db"):
        client.messages.create(**ASKED, messages=said("in"))
    client.messages.create(**ASKED, messages=said("after"))
    assert [row.title for row in rows(tmp_path / "arc.db")] == ["in"]


def test_recordings_in_threads_hear_each_its_own(api: MessagesApi, tmp_path: Path) -> None:
    client = anthropic.Anthropic()

    def run(name: str) -> None:
        with record(tmp_path / "arc.db", task=name):
            for at in range(3):
                client.messages.create(**ASKED, messages=said(f"{name} {at}"))

    with ThreadPoolExecutor(3) as threads:
        list(threads.map(run, ["a", "b", "c"]))
    found = [(row.task, row.title, row.steps) for row in rows(tmp_path / "arc.db")]
    assert sorted(found, key=str) == [("a", "a 0", 3), ("b", "b 0", 3), ("c", "c 0", 3)]


def test_threads_that_a_body_starts_are_recorded(api: MessagesApi, tmp_path: Path) -> None:
    client = anthropic.Anthropic()
    with record(tmp_path / "arc.db") as recording, ThreadPoolExecutor(2) as threads:
        for words in ("one", "two"):
            asked = {**ASKED, "messages": said(words)}
            threads.submit(lambda body: client.messages.create(**body), asked).result()
    assert recording.calls == 2


def test_a_recording_that_cannot_be_kept_does_not_disturb_the_agent(
    api: MessagesApi, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "arc.db"
    with caplog.at_level(logging.WARNING, "replay.recorder"), record(path):
        for each in tmp_path.glob("arc.db*"):
            each.unlink()
        path.mkdir()
        assert anthropic.Anthropic().messages.create(**ASKED, messages=said("hello")).content
        assert anthropic.Anthropic().messages.create(**ASKED, messages=said("again")).content
    assert [each.message.partition(":")[0] for each in caplog.records] == [
        "cannot save the recording"
    ]


def test_trouble_of_an_encrypted_database_does_not_disturb_the_agent_either() -> None:
    dbapi2 = pytest.importorskip("sqlcipher3.dbapi2")
    with pytest.raises(keeping_errors(), match="disk is full"):
        raise dbapi2.OperationalError("disk is full")


# --- where it is kept


def test_a_run_is_live_in_the_database_until_the_recording_is_over(
    api: MessagesApi, tmp_path: Path
) -> None:
    with record(tmp_path / "arc.db"):
        anthropic.Anthropic().messages.create(**ASKED, messages=said("hello"))
        (row,) = rows(tmp_path / "arc.db")
        assert (row.live, row.steps) == (True, 1)
    (row,) = rows(tmp_path / "arc.db")
    assert not row.live


def test_a_file_is_appended_to_and_reads_as_the_database_does(
    api: MessagesApi, tmp_path: Path
) -> None:
    client, path = anthropic.Anthropic(), tmp_path / "runs" / "run.jsonl"
    for words in ("one", "two"):
        with record(path, task=words):
            client.messages.create(**ASKED, messages=said(words))
    found = list(load(Source(path), Tally()))
    assert [(each.header.task, each.header.title) for each in found] == [
        ("one", "one"), ("two", "two"),
    ]  # fmt: skip
    (call,) = (span for span in found[1].spans if isinstance(span, ModelCall))
    assert body_of(call.request) == api.received[1].body
    assert path.stat().st_mode & 0o777 == 0o600


# --- OpenAI's


def post(openai: Upstream, path: str, body: Body) -> Body:
    """What an SDK does: build, send, read."""
    with (
        httpx2.Client(trust_env=False) as client,
        client.stream("POST", f"{openai.url}/v1{path}", json=body) as reply,
    ):
        data = b"".join(reply.iter_bytes())
    found: Body = json.loads(data) if data.startswith(b"{") else {}
    return found


@pytest.mark.parametrize("stream", [False, True])
def test_chat_completions_are_kept_in_their_own_words(
    openai: Upstream, tmp_path: Path, stream: bool
) -> None:
    function = {"name": "weather", "description": "d", "parameters": TOOL["input_schema"]}
    body: Body = {
        "model": "gpt-test",
        "temperature": 0.5,
        "tools": [{"type": "function", "function": function}],
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "The weather?"},
        ],
        **({"stream": True} if stream else {}),
    }
    call = {"id": "call_1", "type": "function",
            "function": {"name": "weather", "arguments": openai_api.ARGUMENTS}}  # fmt: skip
    answer: Body = {"role": "assistant", "content": None, "tool_calls": [call]}
    back = {"role": "tool", "tool_call_id": "call_1", "content": "25 degrees"}
    with record(tmp_path / "arc.db"):
        post(openai, "/chat/completions", body)
        later = {**body, "messages": [*body["messages"], answer, back]}
        post(openai, "/chat/completions", later)
    trace = only(tmp_path / "arc.db")
    first, second = asks(trace)
    assert {each.fidelity.level for each in (first, second)} == {Level.EXACT}
    assert len({step.thread for step in trace.steps}) == 1
    assert first.request.system == Message(dialect="openai", body=body["messages"][0])
    assert second.request.context is not None
    assert [each.body for each in second.request.context.messages()] == later["messages"][1:]
    assert first.request.params["temperature"] == 0.5
    assert first.response.message is not None
    kept = {name: value for name, value in first.response.message.body.items() if value}
    assert kept == {name: value for name, value in answer.items() if value}
    assert (first.response.stop, first.response.model) == ("tool", "gpt-test-1")
    assert second.response.message is not None
    assert messages.text(second.response.message) == "So 25 degrees."
    assert first.usage is not None
    assert (first.usage.input_tokens, first.usage.cache_read_tokens) == (20, 4)
    (done,) = trace.steps[0].acts
    assert (done.name, done.arguments) == ("weather", {"city": "Rome"})
    assert done.observation is not None
    assert messages.observed(done.observation).text == "25 degrees"
    assert ("time_to_first_token_ns" in first.extra) == stream


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("kept", ["sent back", "by the server"])
def test_responses_are_told_as_chat_messages_and_what_those_cannot_carry_is_said(
    openai: Upstream, tmp_path: Path, stream: bool, kept: str
) -> None:
    tool = {"type": "function", "name": "weather", "parameters": TOOL["input_schema"]}
    body: Body = {
        "model": "gpt-test", "instructions": "Be brief.", "tools": [tool], "stream": stream,
        "input": [{"role": "user", "content": "The weather?"}],
    }  # fmt: skip
    back = {"type": "function_call_output", "call_id": "call_1", "output": "25 degrees"}
    reply = json.loads(b"".join(openai_api.response({**body, "stream": False}).pieces))
    if kept == "sent back":
        later = {**body, "input": [*body["input"], *reply["output"], back]}
    else:
        later = {**body, "input": [back], "previous_response_id": reply["id"]}
    with record(tmp_path / "arc.db"):
        post(openai, "/responses", body)
        post(openai, "/responses", later)
    trace = only(tmp_path / "arc.db")
    first, second = asks(trace)
    assert len({step.thread for step in trace.steps}) == 1
    level = Level.EXACT if kept == "sent back" else Level.REBUILT
    assert (first.fidelity.level, second.fidelity.level) == (Level.EXACT, level)
    assert second.fidelity.reasons == ()
    assert second.request.context is not None
    told = second.request.context.messages()
    assert [each.role for each in told] == ["user", "assistant", "tool"]
    assert told[1].body["reasoning_items"] == [
        {"before": 0, "model": "gpt-test", "item": reply["output"][0]}
    ]
    assert second.request.system is not None
    assert messages.text(second.request.system) == "Be brief."
    (call,) = trace.steps[0].acts
    assert call.arguments == {"city": "Rome"}
    assert call.observation is not None
    assert messages.observed(call.observation).text == "25 degrees"
    assert second.response.message is not None
    assert messages.text(second.response.message) == "So 25 degrees."
    assert second.usage is not None
    assert second.usage.reasoning_tokens == 3


def test_what_only_the_server_knows_is_said_to_be_missing(openai: Upstream, tmp_path: Path) -> None:
    with record(tmp_path / "arc.db"):
        post(openai, "/responses", {
            "model": "gpt-test", "previous_response_id": "resp_of_yesterday", "input": "go on",
        })  # fmt: skip
    (ask,) = asks(only(tmp_path / "arc.db"))
    assert ask.fidelity.level == Level.PARTIAL
    assert ask.fidelity.reasons == ("earlier messages of the thread not recorded",)


def test_the_sdk_of_openai_is_recorded(openai: Upstream, tmp_path: Path) -> None:
    sdk = pytest.importorskip("openai", reason="needs the package openai")
    client = sdk.OpenAI(base_url=f"{openai.url}/v1", api_key="sk-local")
    with record(tmp_path / "arc.db"):
        client.chat.completions.create(
            model="gpt-test", messages=[{"role": "user", "content": "hello"}]
        )
        for event in client.chat.completions.create(
            model="gpt-test", messages=[{"role": "user", "content": "again"}], stream=True
        ):
            assert event.id
        assert client.responses.create(model="gpt-test", input="there").output_text == "So there."
    found = [messages.text(each.response.message or Message(dialect="openai", body={}))
             for each in asks(only(tmp_path / "arc.db"))]  # fmt: skip
    assert found == ["So hello.", "So again.", "So there."]


def test_a_tool_span_waits_for_its_result(api: MessagesApi, tmp_path: Path) -> None:
    with record(tmp_path / "arc.db"):
        anthropic.Anthropic().messages.create(**ASKED, messages=said("weather?"))
    (call,) = (s for s in only(tmp_path / "arc.db").spans if isinstance(s, ToolCall))
    assert (call.observation, call.end_ns) == (None, None)


@pytest.mark.slow
def test_calls_are_refused_while_somebody_has_stopped_the_recorders(
    api: MessagesApi, tmp_path: Path
) -> None:
    db = tmp_path / "arc.db"
    again = count(1)

    def asked() -> Any:
        return {**ASKED, "messages": [{"role": "user", "content": f"hello {next(again)}"}]}

    async def ask_async(*, stream: bool) -> None:
        async with anthropic.AsyncAnthropic() as client:
            await client.messages.create(**asked(), stream=stream)

    with anthropic.Anthropic() as client:
        with record(db):
            client.messages.create(**asked())
            stop(db, by="ann", because="refunds went out twice", at_once=False)
            client.messages.create(**asked())
            stop(db, by="ann", because="refunds went out twice", at_once=True)
            with pytest.raises(anthropic.PermissionDeniedError, match="refunds went out twice"):
                client.messages.create(**asked())
            for stream in (False, True):
                with pytest.raises(anthropic.PermissionDeniedError):
                    asyncio.run(ask_async(stream=stream))
        with record(db), pytest.raises(anthropic.PermissionDeniedError):
            client.messages.create(**asked())
        client.messages.create(**asked())  # which nobody records
        resume(db)
        with record(db):
            client.messages.create(**asked())
    assert api.asked == 4
    with Store.open(db) as store:
        runs = [read.load(store, row.trace) for row in trace_rows(store)]
    assert [len(run.steps) for run in runs] == [5, 1, 1]
    assert [STOP_LABEL in run.header.labels for run in runs] == [True, True, False]
