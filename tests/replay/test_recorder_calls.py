"""What bytes are taken for: answers in pieces, answers that break off, bytes that are nothing."""

from __future__ import annotations

import gzip
import json
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from replay.openai_streams import assembled_chat, assembled_response
from replay.recorder import exchange
from replay.recorder.exchange import (
    Api,
    ExchangeCapture,
    Packed,
    RecordedExchange,
    api_of,
    events,
    unpacked,
)
from replay.recorder.recording import About, Log
from replay.store.handle import Store
from replay.store.write import Writer
from replay.trace import Level, ModelCall
from tests import openai_api

APIS: tuple[Api, ...] = ("messages", "chat", "responses")
PATHS = {
    "messages": "/v1/messages", "chat": "/v1/chat/completions", "responses": "/v1/responses",
}  # fmt: skip
REQUESTS: dict[Api, dict[str, Any]] = {
    "messages": {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]},
    "chat": {"model": "m", "messages": [{"role": "user", "content": "hi"}]},
    "responses": {"model": "m", "input": "hi"},
}


def heard(
    api: Api, answer: bytes | None, *, request: Any = None, streamed: bool = False, **beside: Any
) -> RecordedExchange:
    asked = json.dumps(request or REQUESTS[api]).encode()
    given = {"status": 200, "start_ns": 1, "end_ns": 2, "request": asked, **beside}
    return RecordedExchange(api=api, path=PATHS[api], answer=answer, streamed=streamed, **given)


def only(*found: RecordedExchange) -> ModelCall:
    """The one call of a recording."""
    log = Log(About())
    assert [log.add(each) for each in found] == [True]
    (call,) = (span for span in log.every()[0].spans if isinstance(span, ModelCall))
    return call


# --- which requests call a model


@pytest.mark.parametrize(
    ("method", "path", "api"),
    [
        ("POST", "/v1/messages", "messages"),
        ("POST", "/v1/messages?beta=true", "messages"),
        ("POST", "/model/anthropic.claude/invoke-with-response-stream", "messages"),
        ("POST", "/openai/deployments/x/chat/completions?api-version=1", "chat"),
        ("POST", "/v1/responses/", "responses"),
        ("GET", "/v1/messages", None),
        ("POST", "/v1/messages/count_tokens", None),
        ("POST", "/v1/messages/batches", None),
        ("POST", "/v1/responses/resp_1/cancel", None),
        ("GET", "/v1/models", None),
    ],
)
def test_paths_say_what_is_called(method: str, path: str, api: str | None) -> None:
    assert api_of(method, path) == api


def test_the_first_token_is_seen_though_its_mark_comes_in_two_pieces() -> None:
    ticks = iter(range(1, 10))
    ear = ExchangeCapture("messages", "/v1/messages", clock=lambda: next(ticks))
    ear.take_request(b"{}")
    ear.answering(200, {"content-type": "text/event-stream"})
    ear.answered(b'event: message_start\ndata: {"type": "message_start"}\n\nevent: content_bl')
    ear.answered(b'ock_delta\ndata: {"type": "content_block_delta"}\n\n')
    ear.answered(b"more")
    found = ear.end()
    assert (found.start_ns, found.first_ns, found.end_ns) == (1, 4, 5)


# --- answers in pieces


@settings(deadline=None)
@given(st.text(), st.booleans())
def test_a_stream_of_chat_chunks_is_the_completion_it_stands_for(words: str, calls: bool) -> None:
    message: dict[str, Any] = {"role": "assistant", "content": words}
    if calls:
        function = {"name": "weather", "arguments": json.dumps({"city": words})}
        message["tool_calls"] = [{"id": "c1", "type": "function", "function": function}]
    outer = {"id": "chatcmpl-1", "model": "m"}
    data = b"".join(openai_api.chunks(outer, message, "stop"))
    whole, error, is_whole = assembled_chat(events(data))
    assert (error, is_whole) == (None, True)
    assert whole is not None
    assert whole["choices"] == [{"message": message, "finish_reason": "stop"}]
    assert whole["usage"] == openai_api.USAGE


def test_a_line_of_an_answer_may_hold_what_unicode_calls_its_end() -> None:
    words = "a\u2028b\x85c\x0bd"
    event = {"type": "x", "text": words}
    data = f"data: {json.dumps(event, ensure_ascii=False)}\r\n\r\ndata: [DONE]\n\n".encode()
    assert list(events(data)) == [event]


@pytest.mark.parametrize("kept", range(1, 7))
def test_a_response_that_breaks_off_has_what_came(kept: int) -> None:
    whole = json.loads(b"".join(openai_api.response({"input": "hi there"}).pieces))
    pieces = openai_api.events(whole)
    found, error, is_whole = assembled_response(events(b"".join(pieces[:kept])))
    assert found is not None
    text = "".join(item["content"][0]["text"] for item in found["output"])
    assert (error, is_whole) == (None, kept == len(pieces))
    assert "So hi there.".startswith(text)
    assert (text == "So hi there.") == (kept >= 5)


def test_an_answer_that_breaks_off_says_how() -> None:
    pieces = openai_api.chunks({"id": "1", "model": "m"}, {"content": "one two"}, "stop")
    call = only(heard("chat", b"".join(pieces[:2]), streamed=True, broken="it broke"))
    assert call.response.message is not None
    assert (call.status, call.error) == ("error", "it broke")
    assert call.response.message.body["content"] == "one"


def test_who_leaves_with_the_whole_answer_broke_nothing() -> None:
    pieces = openai_api.chunks({"id": "1", "model": "m"}, {"content": "one two"}, "stop")
    call = only(heard("chat", b"".join(pieces), streamed=True, broken="it broke"))
    assert (call.status, call.error, call.response.stop) == ("ok", None, "end")


@pytest.mark.parametrize("api", APIS)
def test_an_error_is_kept_in_its_words(api: Api) -> None:
    body = {"error": {"type": "overloaded", "message": "come back later"}}
    call = only(heard(api, json.dumps(body).encode(), status=529))
    assert call.error == "HTTP 529: overloaded: come back later"
    page = only(heard(api, b"<html>Bad Gateway</html>", status=502))
    assert page.error == "HTTP 502: <html>Bad Gateway</html>"


@pytest.mark.parametrize("api", APIS)
def test_what_cannot_be_unpacked_is_noted_and_no_error(api: Api) -> None:
    call = only(heard(api, None, note="the response has the unknown encoding 'x'"))
    assert (call.status, call.response.message) == ("unset", None)
    assert call.extra["note"] == "the response has the unknown encoding 'x'"
    assert call.fidelity.level == Level.EXACT


def test_other_choices_are_kept_beside() -> None:
    choices = [{"index": at, "message": {"role": "assistant", "content": str(at)}} for at in (0, 1)]
    call = only(heard("chat", json.dumps({"id": "1", "choices": choices}).encode()))
    assert call.extra["other_choices"] == [choices[1]]


def test_an_item_that_an_answer_brought_may_be_named_later() -> None:
    first = {"model": "m", "input": "hi"}
    whole = json.loads(b"".join(openai_api.response(first).pieces))
    named = [{"role": "user", "content": "hi"}, {"type": "item_reference", "id": "msg_1"}]
    log = Log(About())
    log.add(heard("responses", json.dumps(whole).encode(), request=first))
    log.add(heard("responses", None, request={"input": [*named, {"role": "user", "content": "x"}]}))
    log.add(heard("responses", None, request={"input": [{"type": "item_reference", "id": "no"}]}))
    _, known, unknown = (s for s in log.every()[0].spans if isinstance(s, ModelCall))
    assert known.request.context is not None
    roles = [each.role for each in known.request.context.messages()]
    assert (roles, known.fidelity.level) == (["user", "assistant", "user"], Level.EXACT)
    assert unknown.fidelity.reasons == ("item stored on the server not recorded",)


# --- bodies that are packed


def test_what_is_packed_twice_is_unpacked_twice() -> None:
    assert unpacked(gzip.compress(gzip.compress(b"words")), "gzip, gzip") == b"words"


@pytest.mark.parametrize("how", ["gzip", "deflate", "zstd", "br", "compress"])
def test_what_is_not_packed_as_it_says_is_refused(how: str) -> None:
    with pytest.raises(Packed):
        unpacked(b"\xffneither", how)


def test_a_small_body_that_unpacks_to_a_huge_one_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(exchange, "MOST_BYTES", 1000)
    with pytest.raises(Packed, match="is more than"):
        unpacked(gzip.compress(bytes(2000)), "gzip")


# --- bytes that are nothing

SLOWLY = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""On a machine that is busy with other things."""

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=4,
)
FIELDS = st.sampled_from(
    ["messages", "input", "tools", "system", "instructions", "choices", "output", "content",
     "error", "usage", "model", "id", "metadata", "previous_response_id", "role", "tool_calls"]
)  # fmt: skip
BODIES = st.one_of(
    st.binary(max_size=50),
    st.dictionaries(FIELDS, JSON, max_size=5).map(lambda value: json.dumps(value).encode()),
    st.lists(st.dictionaries(FIELDS | st.just("type"), JSON, max_size=4), max_size=4).map(
        lambda found: b"".join(b"data: " + json.dumps(each).encode() + b"\n\n" for each in found)
    ),
)
MESSAGES = st.lists(st.dictionaries(FIELDS, JSON, max_size=4), max_size=3)


@SLOWLY
@given(
    st.lists(
        st.tuples(st.sampled_from(APIS), MESSAGES | JSON, BODIES, BODIES, st.booleans()), max_size=4
    )
)
def test_whatever_goes_over_the_wire_is_a_trace_that_can_be_kept_or_is_left_out(
    exchanges: list[tuple[Api, Any, bytes, bytes, bool]],
) -> None:
    log = Log(About())
    for at, (api, said, beside, answer, streamed) in enumerate(exchanges):
        named = "input" if api == "responses" else "messages"
        request = beside if at % 2 else json.dumps({named: said}).encode()
        log.add(
            RecordedExchange(api=api, path=PATHS[api], start_ns=at, end_ns=at + 1, request=request,
                  answer=answer, status=200 + at, streamed=streamed)
        )  # fmt: skip
    assert len(log) + log.unread <= len(exchanges)
    with Store.open(":memory:") as store:
        writer = Writer(store)
        for batch in log.every():
            writer.finish(writer.write(batch))


@pytest.mark.parametrize("api", APIS)
def test_a_body_nested_too_deeply_is_left_out(api: Api) -> None:
    deep = b"[" * 5000 + b"]" * 5000
    request = b'{"messages": [%s], "input": [%s]}' % (deep, deep)
    log = Log(About())
    assert not log.add(
        RecordedExchange(api=api, path=PATHS[api], start_ns=1, end_ns=2, request=request)
    )
    assert (len(log), log.unread) == (0, 1)


def test_what_requests_repeat_is_held_once() -> None:
    said: list[dict[str, str]] = []
    log = Log(About())
    for at in range(20):
        said.append({"role": "user", "content": f"{at} " + "x" * 10_000})
        request = {"model": "m", "messages": said}
        log.add(heard("chat", None, request=request, start_ns=at, end_ns=at))
    held = {id(each) for made in log._made.values() for each in made.exchange.messages}
    assert len(held) == 20
    assert all(isinstance(p, msgspec.Raw) for m in log._made.values() for p in m.exchange.messages)


@pytest.mark.parametrize(
    ("client", "agent", "version"),
    [
        ("claude-cli/2.0.14 (external, cli)", "claude-code", "2.0.14"),
        ("codex_exec/0.169.0 (Ubuntu 24.4.0; x86_64) xterm", "codex", "0.169.0"),
        ("Anthropic/Python 0.75.0", None, None),
        ("claude-cli", None, None),
        (None, None, None),
    ],
)
def test_an_agent_that_says_what_it_is_is_the_agent_of_the_run(
    client: str | None, agent: str | None, version: str | None
) -> None:
    """Its session files name it alike: what they lack is found in this recording."""
    log = Log(About())
    log.add(heard("messages", None, client=client))
    header = log.every()[0].header
    assert (header.agent, header.labels.get("version")) == (agent, version)
