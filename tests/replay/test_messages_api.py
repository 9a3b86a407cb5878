"""The test server as the real SDK meets it, and as nobody's client should."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from replay.models import messages, wire
from replay.models.demo import Demo
from tests.messages_api import (
    BATCH_RESULTS,
    BATCHES,
    BINDING_BETA,
    FAULTS,
    MESSAGES,
    ONE_BATCH,
    Body,
    Fault,
    KnownModel,
    MessagesApi,
    Policy,
    demo_policy,
    message,
    redacted,
    text,
    thinking,
    tool_use,
)
from tests.replay.messages_client import HEADERS, ask, call, exchange, results_of, send_batch
from tests.shop.tools import TOOLS, as_sent

if TYPE_CHECKING:
    from anthropic import Anthropic

BODY: Body = {
    "model": "claude-test",
    "max_tokens": 1000,
    "messages": [{"role": "user", "content": "Where is order 7?"}],
}
TOOL: Body = {"name": "get_order", "input_schema": {"type": "object"}}
COUNT_TOKENS = "/v1/messages/count_tokens"


@pytest.fixture
def api() -> Iterator[MessagesApi]:
    with MessagesApi(reckons=True) as running:
        yield running


NOBODY = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Who is trusted to say who the server is. Nothing is encrypted, and reading a list takes long."""


@pytest.fixture
def sdk(api: MessagesApi) -> Iterator[Anthropic]:
    """The real client, which tries nothing twice."""
    import anthropic
    import httpx2

    with anthropic.Anthropic(
        api_key="local",
        base_url=api.base_url,
        max_retries=0,
        http_client=httpx2.Client(trust_env=False, verify=NOBODY),
    ) as client:
        yield client


def remembering(seen: list[Body], answer: Body) -> Policy:
    """A policy that keeps what it was shown."""

    def policy(body: Body) -> Body:
        seen.append(body)
        return answer

    return policy


# --- messages


def test_the_sdk_asks_and_reads_an_answer(api: MessagesApi, sdk: Anthropic) -> None:
    api.policy = lambda _: message(text("It is on its way."), tool_use("get_order", id=7))
    asked: Body = {
        **BODY,
        "system": [{**text("Be kind."), "cache_control": {"type": "ephemeral"}}],
        "tools": [TOOL],
        "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
        "thinking": {"type": "adaptive"},
        "output_config": {"effort": "low"},
        "cache_control": {"type": "ephemeral", "ttl": "5m"},
    }
    answer = sdk.messages.create(**asked)
    assert [block.type for block in answer.content] == ["text", "tool_use"]
    assert answer.stop_reason == "tool_use"
    assert answer.usage.input_tokens > 0
    assert answer.usage.cache_creation is not None


def test_the_sdk_gets_the_servers_sentence(sdk: Anthropic) -> None:
    import anthropic

    with pytest.raises(anthropic.BadRequestError, match="temperature: Extra inputs"):
        sdk.messages.create(**BODY, extra_body={"temperature": 0})


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"anthropic-version": "2026-10-21"}, 401),
        ({"x-api-key": "local", "anthropic-version": "2023-06-01"}, 400),
        ({"x-api-key": "local"}, 400),
    ],
)
def test_without_a_key_or_the_right_version_nothing_is_looked_at(
    api: MessagesApi, headers: dict[str, str], status: int
) -> None:
    assert call(api, MESSAGES, BODY, headers=headers)[0] == status


@pytest.mark.parametrize("raw", [b"{", b"[]", b'{"model": NaN}', b'"\\ud800"', b"\xff"])
def test_what_is_no_json_object_is_refused(api: MessagesApi, raw: bytes) -> None:
    status, answer = call(api, MESSAGES, raw)
    assert (status, answer["error"]["type"]) == (400, "invalid_request_error")


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/v1/complete"), ("POST", "/v1/v1/messages"), ("GET", MESSAGES)]
)
def test_a_path_that_is_none_is_not_found(api: MessagesApi, method: str, path: str) -> None:
    body = BODY if method == "POST" else None
    assert call(api, path, body, method=method)[0] == 404


def test_an_answer_ends_where_its_limit_is(api: MessagesApi) -> None:
    api.policy = lambda _: message(text("word " * 100), tool_use("get_order", id=7))
    for limit in (1, 20, 125, 129):
        answer = ask(api, {**BODY, "max_tokens": limit})[1]
        assert answer["stop_reason"] == "max_tokens"
        assert 0 < answer["usage"]["output_tokens"] <= limit
    assert [block["type"] for block in answer["content"]] == ["text", "tool_use"]
    assert answer["content"][1]["input"] == {}
    assert ask(api, {**BODY, "max_tokens": 130})[1]["stop_reason"] == "tool_use"


def test_a_limit_of_zero_fills_the_cache_and_asks_nobody(api: MessagesApi) -> None:
    asked: list[Body] = []
    api.policy = remembering(asked, message(text("Hello.")))
    body = {**BODY, "system": "a" * 6000, "cache_control": {"type": "ephemeral"}}
    warmed = ask(api, {**body, "max_tokens": 0})[1]
    assert (warmed["content"], warmed["usage"]["output_tokens"], asked) == ([], 0, [])
    usage = ask(api, body)[1]["usage"]
    assert usage["cache_read_input_tokens"] == warmed["usage"]["cache_creation_input_tokens"] > 0


# --- streams

EVERY_KIND = message(
    thinking("He asks for order 7, „sieben“."),
    redacted("opaque"),
    text("Grüße,\nI look."),
    tool_use("get_order", id=7, note='a "b"'),
    tool_use("get_order"),
)


def test_a_stream_carries_the_same_message_as_a_body(api: MessagesApi, sdk: Anthropic) -> None:
    api.policy = lambda _: EVERY_KIND
    whole = sdk.messages.create(**BODY)
    with sdk.messages.stream(**BODY) as events:
        streamed = events.get_final_message()
    assert streamed.to_dict()["content"] == whole.to_dict()["content"]
    assert streamed.stop_reason == whole.stop_reason == "tool_use"
    assert streamed.usage.output_tokens == whole.usage.output_tokens
    ours = messages.message(exchange(api, MESSAGES, {**BODY, "stream": True})[2])
    plain = ask(api, BODY)[1]
    assert ours == {**plain, "usage": ours["usage"]}
    assert ours["usage"] == plain["usage"]


def test_a_stream_tells_its_usage_at_both_ends_and_signs_at_the_end_of_a_thought(
    api: MessagesApi,
) -> None:
    api.policy = lambda _: EVERY_KIND
    raw = exchange(api, MESSAGES, {**BODY, "stream": True})[2]
    events = list(wire.events(raw))
    assert events[0]["message"]["usage"]["input_tokens"] > 0
    assert events[-2]["usage"]["output_tokens"] > 0
    assert events[-1] == {"type": "message_stop"}
    kinds = [event["delta"]["type"] for event in events if event["type"] == "content_block_delta"]
    assert kinds[:3] == ["thinking_delta", "thinking_delta", "signature_delta"]
    assert "ping" in {event["type"] for event in events}


# --- thinking

THINKER = message(thinking("A thought."), redacted("opaque"), tool_use("get_order", id=7))
RESULT: Body = {"type": "tool_result", "tool_use_id": "toolu_test", "content": "shipped"}
DROP: Body = {
    "type": "adaptive",
    "block_binding": {"prefix_mismatch_behavior": "drop_block"},
}


def thought_out(api: MessagesApi, **beside: Any) -> Body:
    """A request that gives the thinking of an answer back, with the result it asked for."""
    api.policy = lambda _: THINKER
    body = {**BODY, "tools": [TOOL], "system": "Be kind.", **beside}
    answer = ask(api, body)[1]
    api.policy = lambda _: message(text("It is shipped."))
    turns = [{"role": "assistant", "content": answer["content"]}]
    turns += [{"role": "user", "content": [RESULT]}]
    return {**body, "messages": [*body["messages"], *turns]}


def test_thinking_is_taken_back_as_it_was_given(api: MessagesApi) -> None:
    body = thought_out(api)
    thought, sealed, _ = body["messages"][1]["content"]
    assert thought["signature"]
    assert sealed["data"] != "opaque"
    assert ask(api, body)[0] == 200
    block = {**text("Where is order 7?"), "cache_control": {"type": "ephemeral"}}
    first = {"role": "user", "content": [block]}
    marked = {**body, "messages": [first, *body["messages"][1:]], "max_tokens": 7}
    assert ask(api, marked)[0] == 200


def test_hidden_thinking_is_signed_and_billed_all_the_same(api: MessagesApi) -> None:
    body = thought_out(api, thinking={"type": "adaptive", "display": "omitted"})
    assert body["messages"][1]["content"][0]["thinking"] == ""
    assert api.answered[0].usage["output_tokens_details"]["thinking_tokens"] > 0
    assert ask(api, body)[0] == 200


def altered(body: Body, what: str) -> Body:
    first, said, given = body["messages"]
    thought, sealed, called = said["content"]
    match what:
        case "system":
            return {**body, "system": "Be brief."}
        case "tools":
            return {**body, "tools": [{**TOOL, "description": "Looks it up."}]}
        case "model":
            return {**body, "model": "claude-other"}
        case "message before":
            first = {**first, "content": "Where is order 8?"}
        case "thought":
            said = {**said, "content": [{**thought, "thinking": "Another."}, sealed, called]}
        case "signature":
            said = {**said, "content": [{**thought, "signature": "x"}, sealed, called]}
        case "sealed data":
            said = {**said, "content": [thought, {**sealed, "data": "opaque"}, called]}
        case "order":
            said = {**said, "content": [sealed, thought, called]}
        case "thought left out":
            said = {**said, "content": [sealed, called]}
        case _:
            raise ValueError(what)
    return {**body, "messages": [first, said, given]}


ALTERED = (
    "system", "tools", "model", "message before", "thought", "signature", "sealed data", "order",
    "thought left out",
)  # fmt: skip


@pytest.mark.parametrize("what", ALTERED)
def test_thinking_is_refused_after_any_change_of_it_or_of_what_was_before(
    api: MessagesApi, what: str
) -> None:
    body = thought_out(api)
    seen: list[Body] = []
    api.policy = remembering(seen, message(text("Ok.")))
    status, answer = ask(api, altered(body, what))
    assert seen == []
    assert status == 400
    assert "Invalid signature in thinking block" in answer["error"]["message"]


@pytest.mark.parametrize("what", ALTERED)
def test_or_it_is_left_out_and_reported_where_that_is_asked_for(
    api: MessagesApi, what: str
) -> None:
    body = {**altered(thought_out(api), what), "thinking": DROP}
    assert ask(api, body)[0] == 400
    seen: list[Body] = []
    api.policy = remembering(seen, message(text("Ok.")))
    status, answer = ask(api, body, BINDING_BETA)
    assert status == 200
    dropped = answer["input_transformations"]
    assert dropped
    assert {each["type"] for each in dropped} == {"thinking_dropped"}
    reason = "model_binding_mismatch" if what == "model" else "prefix_binding_mismatch"
    assert {each["reason"] for each in dropped} == {reason}
    assert dropped[-1]["path"].startswith("messages.1.content.")
    assert len(seen[0]["messages"][1]["content"]) == len(body["messages"][1]["content"]) - len(
        dropped
    )
    shown = ask(api, seen[0], BINDING_BETA)[1]
    assert shown["input_transformations"] == []
    assert shown["usage"]["input_tokens"] == answer["usage"]["input_tokens"]


def test_a_later_turn_falls_with_an_earlier_one(api: MessagesApi) -> None:
    body = thought_out(api)
    api.policy = lambda _: message(thinking("More."), text("It is shipped."))
    second = ask(api, body)[1]["content"]
    turns = [{"role": "assistant", "content": second}, {"role": "user", "content": "Thanks."}]
    longer = {**body, "messages": [*body["messages"], *turns], "thinking": DROP}
    assert ask(api, longer, BINDING_BETA)[1]["input_transformations"] == []
    shorter = {**longer, "messages": [{"role": "user", "content": "Hi"}, *longer["messages"][1:]]}
    dropped = ask(api, shorter, BINDING_BETA)[1]["input_transformations"]
    assert [each["path"] for each in dropped] == [
        "messages.1.content.0", "messages.1.content.1", "messages.3.content.0",
    ]  # fmt: skip


def test_the_sdk_streams_a_signature_that_holds(api: MessagesApi, sdk: Anthropic) -> None:
    api.policy = lambda _: message(thinking("A thought."), text("Hello."))
    with sdk.messages.stream(**BODY) as events:
        said = events.get_final_message().to_param()
    turns: list[Any] = [*BODY["messages"], said, {"role": "user", "content": "Thanks."}]
    assert sdk.messages.create(**{**BODY, "messages": turns}).stop_reason == "end_turn"


# --- counting and models


def test_tokens_are_counted_as_an_answer_would_count_them(api: MessagesApi, sdk: Anthropic) -> None:
    seen = {name: BODY[name] for name in ("model", "messages")}
    system = "Be kind. " * 50
    counted = sdk.messages.count_tokens(**seen, system=system).input_tokens
    assert counted == sdk.messages.create(**BODY, system=system).usage.input_tokens
    assert counted > sdk.messages.count_tokens(**seen).input_tokens
    assert call(api, COUNT_TOKENS, BODY)[0] == 400
    assert [each.model for each in api.answered] == ["claude-test"]


MODELS = (
    KnownModel("claude-a", max_input_tokens=1000, max_tokens=500),
    KnownModel("claude-b", lifecycle="deprecated"),
    KnownModel("claude-c", lifecycle="retired"),
)


def test_the_catalogue_says_what_a_model_can_take() -> None:
    with MessagesApi(models=MODELS) as api:
        listed = call(api, "/v1/models")[1]["data"]
        assert [(each["id"], each["lifecycle"]) for each in listed] == [
            ("claude-a", "active"), ("claude-b", "deprecated"),
        ]  # fmt: skip
        known = call(api, "/v1/models/claude-a")[1]
        assert (known["max_input_tokens"], known["max_tokens"]) == (1000, 500)
        assert call(api, "/v1/models/claude-c")[1]["lifecycle"] == "retired"
        assert call(api, "/v1/models/claude-x")[0] == 404


@pytest.mark.parametrize(
    ("changed", "status", "why"),
    [
        ({"model": "claude-x"}, 404, "model: claude-x"),
        ({"model": "claude-c"}, 404, "model: claude-c"),
        ({"max_tokens": 501}, 400, "max_tokens: 501 > 500"),
        ({"system": "a" * 5000}, 400, "prompt is too long"),
        ({"max_tokens": 500}, 200, ""),
    ],
)
def test_a_known_model_keeps_to_its_limits_and_others_are_not_found(
    changed: Body, status: int, why: str
) -> None:
    with MessagesApi(models=MODELS) as api:
        body = {**BODY, "model": "claude-a", "max_tokens": 1, **changed}
        got, answer = ask(api, body)
        assert got == status
        assert why in json.dumps(answer)


def test_the_sdk_reads_the_catalogue(sdk: Anthropic) -> None:
    assert [each.id for each in sdk.models.list()] == ["claude-test"]
    known = sdk.models.retrieve("claude-anything")
    assert known.max_input_tokens is not None
    assert known.lifecycle == "active"


# --- batches


def test_the_sdk_sends_a_batch_polls_it_and_reads_its_results(
    api: MessagesApi, sdk: Anthropic
) -> None:
    api.policy = lambda body: message(text(body["messages"][0]["content"]))
    api.batch_polls = 2
    names = ["a", "b", "c"]
    made = sdk.messages.batches.create(
        requests=[
            {
                "custom_id": name,
                "params": {**BODY, "messages": [{"role": "user", "content": name}]},  # type: ignore[typeddict-item]
            }
            for name in names
        ]
    )
    assert (made.processing_status, made.request_counts.processing) == ("in_progress", 3)
    polls = [sdk.messages.batches.retrieve(made.id) for _ in range(3)]
    assert [each.processing_status for each in polls] == ["in_progress", "in_progress", "ended"]
    assert (made.results_url, polls[-1].request_counts.succeeded) == (None, 3)
    results = list(sdk.messages.batches.results(made.id))
    assert sorted(each.custom_id for each in results) == names
    assert [each.custom_id for each in results] != names
    for each in results:
        assert each.result.type == "succeeded"
        assert each.result.message.content[0].to_dict() == text(each.custom_id)
        assert each.result.message.usage.service_tier == "batch"
    assert api.asked == 0


def test_an_item_that_is_wrong_fails_alone() -> None:
    with MessagesApi() as api:
        results = results_of(
            api,
            {
                "good": BODY,
                "hot": {**BODY, "temperature": 0},
                "streamed": {**BODY, "stream": True},
                "empty": {},
            },
        )
        assert results["good"]["type"] == "succeeded"
        wrong = [results[name]["error"]["error"] for name in ("hot", "streamed", "empty")]
        assert {each["type"] for each in wrong} == {"invalid_request_error"}
        assert "temperature" in wrong[0]["message"]


def test_items_can_be_made_to_expire_or_fail() -> None:
    with MessagesApi() as api:
        api.batch_expires, api.batch_fails = {"a", 3}, {1}
        results = results_of(api, dict.fromkeys("abcd", BODY))
        kinds = {name: each["type"] for name, each in results.items()}
        assert kinds == {"a": "expired", "b": "errored", "c": "succeeded", "d": "expired"}
        assert results["b"]["error"]["error"]["type"] == "api_error"
        counts = call(api, f"{BATCHES}/msgbatch_1")[1]["request_counts"]
        assert counts == {
            "processing": 0, "succeeded": 1, "errored": 1, "canceled": 0, "expired": 2,
        }  # fmt: skip
        assert len(api.answered) == 1


@pytest.mark.parametrize(
    "requests",
    [
        [],
        [{"custom_id": "a"}],
        [{"custom_id": "a b", "params": BODY}],
        [{"custom_id": "x" * 65, "params": BODY}],
        [{"custom_id": "a", "params": BODY}, {"custom_id": "a", "params": BODY}],
        [{"custom_id": "a", "params": BODY, "priority": 1}],
        [{"custom_id": "a", "params": []}],
    ],
)
def test_a_batch_of_another_shape_is_refused_whole(requests: list[Body]) -> None:
    with MessagesApi() as api:
        assert call(api, BATCHES, {"requests": requests})[0] == 400
        assert call(api, BATCHES)[1]["data"] == []


def test_a_cancelled_batch_ends_without_answers(api: MessagesApi, sdk: Anthropic) -> None:
    made = send_batch(api, {"a": BODY})
    cancelled = sdk.messages.batches.cancel(made["id"])
    assert cancelled.processing_status == "canceling"
    assert sdk.messages.batches.retrieve(made["id"]).request_counts.canceled == 1
    assert [each.result.type for each in sdk.messages.batches.results(made["id"])] == ["canceled"]
    assert call(api, f"{BATCHES}/{made['id']}/cancel", {})[0] == 400
    assert api.answered == []


def test_a_batch_that_nobody_fetched_in_a_day_expires() -> None:
    now = [1_000_000_000.0]
    with MessagesApi(batch_polls=9, clock=lambda: now[0]) as api:
        made = send_batch(api, {"a": BODY})
        assert (made["created_at"], made["expires_at"]) == (
            "2001-09-09T01:46:40+00:00", "2001-09-10T01:46:40+00:00",
        )  # fmt: skip
        assert call(api, f"{BATCHES}/{made['id']}")[1]["processing_status"] == "in_progress"
        now[0] += 24 * 3600
        assert call(api, f"{BATCHES}/{made['id']}")[1]["request_counts"]["expired"] == 1


def test_results_are_there_only_once_a_batch_has_ended(api: MessagesApi) -> None:
    made = send_batch(api, {"a": BODY})
    results = f"{BATCHES}/{made['id']}/results"
    assert exchange(api, results)[0] == 404
    assert exchange(api, f"{BATCHES}/msgbatch_9")[0] == 404
    ends = [call(api, f"{BATCHES}/{made['id']}")[1]["results_url"] for _ in range(2)]
    assert ends == [None, api.base_url + results]
    assert exchange(api, results)[0] == 200


def test_batches_are_listed_the_newest_first_page_by_page(api: MessagesApi, sdk: Anthropic) -> None:
    made = [send_batch(api, {"a": BODY})["id"] for _ in range(5)]
    assert [each.id for each in sdk.messages.batches.list(limit=2)] == made[::-1]
    assert call(api, f"{BATCHES}?limit=0")[0] == 400


# --- faults

IN_ARGUMENTS = message(tool_use("get_order", id=7))


def met(sdk: Anthropic, streamed: bool) -> Any:
    """What the SDK makes of an exchange: a message, or the error it raises."""
    import anthropic
    import httpx2

    try:
        if not streamed:
            return sdk.messages.create(**BODY)
        with sdk.messages.stream(**BODY) as events:
            return events.get_final_message()
    except (anthropic.AnthropicError, httpx2.HTTPError, json.JSONDecodeError) as error:
        return error


@pytest.mark.parametrize(
    ("name", "becomes"),
    [
        ("busy for a second", "RateLimitError"),
        ("busy for milliseconds", "RateLimitError"),
        ("busy until a date", "RateLimitError"),
        ("busy, do not retry", "RateLimitError"),
        ("overloaded", "OverloadedError"),
        ("server error", "InternalServerError"),
        ("bad gateway", "InternalServerError"),
        ("bad request", "BadRequestError"),
        ("too large", "ContentTooLargeError"),
        ("no key", "AuthenticationError"),
        ("web page", "str"),
        ("web page called JSON", "JSONDecodeError"),
        ("wrong shape", "Message"),
        ("openai body", "Message"),
        ("truncated", "APIConnectionError"),
        ("reset", "APIConnectionError"),
        ("stream error", "APIStatusError"),
        ("stream dropped", "ReadError"),
        ("stream closed", "RemoteProtocolError"),
        ("stream ends early", "ParsedMessage"),
        ("stream ends in arguments", "ParsedMessage"),
        ("stream ends in an event", "RemoteProtocolError"),
    ],
)
def test_every_fault_reaches_the_sdk_as_it_was_measured(
    api: MessagesApi, sdk: Anthropic, name: str, becomes: str
) -> None:
    api.policy = lambda _: IN_ARGUMENTS
    api.fault(FAULTS[name])
    found = met(sdk, name.startswith("stream"))
    assert type(found).__name__.partition("[")[0] == becomes
    assert getattr(found, "stop_reason", None) is None
    assert api.asked == 1
    after = met(sdk, False)
    assert after.content[0].input == {"id": 7}


def test_the_table_of_faults_is_tried_whole() -> None:
    mark = next(
        mark
        for mark in test_every_fault_reaches_the_sdk_as_it_was_measured.pytestmark  # type: ignore[attr-defined]
        if mark.name == "parametrize"
    )
    assert {name for name, _ in mark.args[1]} | {"slow"} == set(FAULTS)


def test_a_slow_server_is_silent_until_it_is_left(api: MessagesApi, sdk: Anthropic) -> None:
    import anthropic
    import httpx2

    api.fault(FAULTS["slow"])
    brief = httpx2.Timeout(None, read=0.05)
    with pytest.raises(anthropic.APITimeoutError):
        sdk.with_options(timeout=brief).messages.create(**BODY)
    assert api.flights.landed(1)
    assert len(api.answered) == 1


@pytest.mark.parametrize(
    ("name", "header", "value"),
    [
        ("busy for a second", "retry-after", "1"),
        ("busy for milliseconds", "retry-after-ms", "250"),
        ("busy until a date", "retry-after", "Sun, 09 Sep 2001 01:46:43 GMT"),
        ("busy, do not retry", "x-should-retry", "false"),
    ],
)
def test_a_busy_server_says_when_to_come_back(
    api: MessagesApi, name: str, header: str, value: str
) -> None:
    api.fault(FAULTS[name])
    status, headers, raw = exchange(api, MESSAGES, BODY)
    assert (status, headers[header]) == (429, value)
    assert json.loads(raw)["error"]["type"] == "rate_limit_error"


def test_a_fault_waits_for_the_path_it_is_meant_for(api: MessagesApi) -> None:
    api.fault(
        Fault(status=529, path=ONE_BATCH), Fault(status=500, path=BATCH_RESULTS), Fault(status=503)
    )
    made = send_batch_after_a_fault(api)
    poll = f"{BATCHES}/{made['id']}"
    assert [call(api, poll)[0] for _ in range(3)] == [529, 200, 200]
    assert [exchange(api, f"{poll}/results")[0] for _ in range(2)] == [500, 200]


def send_batch_after_a_fault(api: MessagesApi) -> Body:
    assert call(api, BATCHES, {"requests": []})[0] == 503
    return send_batch(api, {"a": BODY})


def test_results_can_be_cut_on_their_way_too(api: MessagesApi) -> None:
    import http.client

    results_of(api, {"a": BODY})
    api.fault(Fault(cut="truncated", path=BATCH_RESULTS))
    with pytest.raises(http.client.IncompleteRead):
        exchange(api, f"{BATCHES}/msgbatch_1/results")


def test_a_request_that_is_wrong_is_refused_before_its_answer_breaks(api: MessagesApi) -> None:
    api.fault(FAULTS["truncated"])
    assert ask(api, {**BODY, "top_k": 1})[0] == 400


def test_a_stream_fault_without_a_stream_is_no_silent_success(api: MessagesApi) -> None:
    api.fault(FAULTS["stream dropped"])
    status, answer = ask(api, BODY)
    assert status == 500
    assert "needs a stream" in answer["error"]["message"]


def test_what_broke_on_its_way_is_billed_and_what_was_declined_is_not(
    api: MessagesApi, sdk: Anthropic
) -> None:
    api.fault(FAULTS["truncated"], FAULTS["reset"], FAULTS["overloaded"])
    for _ in range(3):
        met(sdk, False)
    assert (api.asked, len(api.answered)) == (3, 2)
    results_of(api, {"a": BODY})
    single, batched = api.usage_total(), api.usage_total(batch=True)
    assert single["input_tokens"] == 2 * batched["input_tokens"] > 0
    assert single["output_tokens"] == 2 * batched["output_tokens"] > 0


# --- policies


def test_the_demo_model_answers_and_the_same_request_is_its_next_sample() -> None:
    body = {**BODY, "tools": as_sent(TOOLS)}
    with MessagesApi(demo_policy(), reckons=True) as api:
        for sample in range(3):
            expected = Demo().complete(body, sample)
            status, answer = ask(api, {**body, "stream": False})
            assert status == 200
            assert answer["content"] == expected["content"]
            assert answer["id"] == expected["id"]
            assert answer["model"] == "claude-test"
        other = {**body, "messages": [{"role": "user", "content": "Refund order 9."}]}
        assert ask(api, other)[1]["id"] == Demo().complete(other, 0)["id"]


def test_what_the_demo_model_refuses_is_a_bad_request() -> None:
    with MessagesApi(demo_policy()) as api:
        status, answer = ask(api, {**BODY, "tools": [{**TOOL, "name": "launch"}]})
        assert status == 400
        assert "it does not know `launch`" in answer["error"]["message"]
        assert api.answered == []


# --- many at once


def test_answers_wait_until_so_many_are_in_flight(api: MessagesApi) -> None:
    api.flights.gather = 6
    threads = [threading.Thread(target=ask, args=(api, BODY)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    assert (api.most_at_once, api.asked, len(api.answered)) == (6, 6, 6)


def test_one_after_another_is_never_two_at_once(api: MessagesApi, sdk: Anthropic) -> None:
    for _ in range(20):
        sdk.messages.create(**BODY)
    assert (api.most_at_once, api.asked) == (1, 20)


def test_a_policy_without_figures_of_the_server_keeps_its_own() -> None:
    with MessagesApi() as api:
        assert ask(api, BODY)[1]["usage"] == {"input_tokens": 100, "output_tokens": 10}
        assert api.usage_total() == {"input_tokens": 100, "output_tokens": 10}
        assert HEADERS["anthropic-version"] == api.received[0].headers["anthropic-version"]
