"""What the test server of OpenAI's APIs sends to the real SDK, and how it breaks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from replay.errors import ModelRefused
from tests.openai_servers import (
    CHAT,
    FAULTS,
    Body,
    Fault,
    OpenaiApi,
    Said,
    call,
    custom,
    refused,
    said,
)
from tests.replay.openai_client import NOBODY, ask, ask_stream, client, refusal

if TYPE_CHECKING:
    from openai import OpenAI
    from openai.types.chat import ChatCompletion

BODY: Body = {"model": "gpt-4o", "messages": [{"role": "user", "content": "Where is order 7?"}]}
TOOLS: list[Body] = [
    {"type": "function", "function": {"name": "get_order"}},
    {"type": "custom", "custom": {"name": "run"}},
]
ORDER, USER = call("get_order", id=7), call("get_user", name="Ann")
WORKED = said("Looking.", ORDER, USER, reasoning="What do I know of order 7?")


@pytest.fixture
def api() -> Iterator[OpenaiApi]:
    with OpenaiApi() as running:
        yield running


@pytest.fixture
def sdk(api: OpenaiApi) -> Iterator[OpenAI]:
    with client(api) as made:
        yield made


# --- answers of Chat Completions


def told(completion: ChatCompletion) -> Any:
    """What an answer says, without what names this one and what only a stream has."""
    found = []
    for choice in completion.choices:
        message = choice.message
        calls = [(each.type, each.to_dict()[each.type]) for each in message.tool_calls or []]
        for _, function in calls:
            assert isinstance(function, dict)
            function.pop("parsed_arguments", None)
        old = message.function_call
        found.append((choice.finish_reason, message.content or None, message.refusal, calls,
                      old and old.to_dict()))  # fmt: skip
    return found, completion.usage and completion.usage.to_dict()


@pytest.mark.parametrize(
    ("answer", "more", "finish"),
    [
        (said("On its way."), {}, "stop"),
        (said("On its way.", reasoning="Hm"), {"n": 3}, "stop"),
        (WORKED, {"tools": TOOLS}, "tool_calls"),
        (said("", ORDER), {"tools": TOOLS}, "tool_calls"),
        (refused("I cannot help with that."), {}, "stop"),
        (said("On its", finish="content_filter"), {}, "content_filter"),
        (said("On its way, it left today."), {"max_tokens": 2}, "length"),
        (said("", ORDER), {"max_tokens": 3, "tools": TOOLS}, "length"),
        (said("", ORDER), {"functions": [{"name": "get_order"}]}, "function_call"),
        (
            said("", ORDER),
            {
                "tools": TOOLS,
                "tool_choice": {"type": "function", "function": {"name": "get_order"}},
            },
            "stop",
        ),
        (said("On its way."), {"logprobs": True, "top_logprobs": 2}, "stop"),
    ],
)
def test_a_stream_says_what_a_whole_answer_says(
    api: OpenaiApi, sdk: OpenAI, answer: Said, more: Body, finish: str
) -> None:
    api.policy = lambda _: answer
    asked = {**BODY, **more}
    whole = ask(sdk, asked)
    streamed = ask_stream(sdk, {**asked, "stream_options": {"include_usage": True}})
    assert told(streamed) == told(whole)
    assert {each.finish_reason for each in whole.choices} == {finish}
    for left, right in zip(whole.choices, streamed.choices, strict=True):
        assert (left.logprobs is None) == (right.logprobs is None)
        if left.logprobs is not None and right.logprobs is not None:
            joined = "".join(each.token for each in right.logprobs.content or [])
            assert joined == "".join(each.token for each in left.logprobs.content or [])


def test_a_tool_that_takes_a_text_is_called_with_it(api: OpenaiApi, sdk: OpenAI) -> None:
    api.policy = lambda _: said("", custom("run", "ls"))
    (made,) = ask(sdk, {**BODY, "tools": TOOLS}).choices[0].message.tool_calls or []
    assert made.to_dict()["custom"] == {"name": "run", "input": "ls"}


def test_one_call_where_no_others_are_allowed(api: OpenaiApi, sdk: OpenAI) -> None:
    api.policy = lambda _: WORKED
    answer = ask(sdk, {**BODY, "tools": TOOLS, "parallel_tool_calls": False})
    (made,) = answer.choices[0].message.tool_calls or []
    assert made.type == "function"
    assert made.function.name == "get_order"


def test_an_answer_ends_before_a_stop(api: OpenaiApi, sdk: OpenAI) -> None:
    api.policy = lambda _: said("one END two")
    assert ask(sdk, {**BODY, "stop": "END"}).choices[0].message.content == "one "
    assert ask(sdk, {**BODY, "stop": ["two", "one"]}).choices[0].message.content == ""


def test_the_order_of_chunks(api: OpenaiApi, sdk: OpenAI) -> None:
    api.policy = lambda _: WORKED
    sent = {**BODY, "tools": TOOLS, "stream": True, "stream_options": {"include_usage": True}}
    chunks = list(sdk.chat.completions.create(**sent))
    first, *_, last, counted = chunks
    assert (first.choices[0].delta.role, first.choices[0].delta.content) == ("assistant", "")
    assert [each.usage for each in chunks[:-1]] == [None] * (len(chunks) - 1)
    assert last.choices[0].finish_reason == "tool_calls"
    assert counted.choices == []
    assert counted.usage is not None
    assert counted.usage.completion_tokens_details is not None
    assert counted.usage.completion_tokens_details.reasoning_tokens == 7
    calls = [part for each in chunks[:-1] for part in each.choices[0].delta.tool_calls or []]
    begun = [part for part in calls if part.id is not None]
    assert [part.index for part in begun] == [0, 1]
    assert [part.function and part.function.arguments for part in begun] == ["", ""]


def test_without_the_wish_a_stream_has_no_usage(sdk: OpenAI) -> None:
    chunks = list(sdk.chat.completions.create(**BODY, stream=True))
    assert all(each.usage is None and each.choices for each in chunks)


def test_a_policy_can_refuse_a_request(api: OpenaiApi, sdk: OpenAI) -> None:
    def policy(_: Body) -> Said:
        raise ModelRefused("not today")

    api.policy = policy
    assert "not today" in refusal(sdk, "/chat/completions", BODY).message


# --- the prompt cache and the bill


def test_a_long_prefix_is_cached_in_steps(api: OpenaiApi, sdk: OpenAI) -> None:
    system = {"role": "system", "content": "x" * 8000}
    cached = []
    for question in ("One?", "Two?"):
        asked = {**BODY, "messages": [system, {"role": "user", "content": question}]}
        usage = ask(sdk, asked).usage
        assert usage is not None
        assert usage.prompt_tokens_details is not None
        assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
        cached.append(usage.prompt_tokens_details.cached_tokens)
    assert cached == [0, 1920]
    other = ask(sdk, {**asked, "model": "gpt-4o-mini"}).usage
    assert other is not None
    assert other.prompt_tokens_details is not None
    assert other.prompt_tokens_details.cached_tokens == 0
    assert [each.model for each in api.answered] == ["gpt-4o", "gpt-4o", "gpt-4o-mini"]
    billed = sum(each.usage["prompt_tokens"] for each in api.answered)
    assert api.usage_total()["prompt_tokens"] == billed


def test_a_short_prefix_is_not_cached_and_a_long_one_not_for_ever() -> None:
    now_s = [0.0]
    with OpenaiApi(clock=lambda: now_s[0]) as api, client(api) as sdk:

        def cached(length: int) -> int | None:
            usage = ask(
                sdk, {**BODY, "messages": [{"role": "user", "content": "x" * length}]}
            ).usage
            assert usage is not None
            assert usage.prompt_tokens_details is not None
            return usage.prompt_tokens_details.cached_tokens

        assert [cached(3900), cached(3900)] == [0, 0]
        assert [cached(4100), cached(4100)] == [0, 1024]
        now_s[0] += 3600
        assert cached(4100) == 0


# --- who may ask what, and how much


def test_models(api: OpenaiApi) -> None:
    with OpenaiApi(models=["gpt-4o", "o3"]) as known, client(known) as sdk:
        assert [each.id for each in sdk.models.list()] == ["gpt-4o", "o3"]
        assert sdk.models.retrieve("o3").owned_by == "openai"
        error = refusal(sdk, "/chat/completions", {**BODY, "model": "gpt-9"})
        assert (error.status_code, error.code) == (404, "model_not_found")
        assert error.message.endswith(
            "The model `gpt-9` does not exist or you do not have access to it."
        )
        with pytest.raises(type(error), match="does not exist"):
            sdk.models.retrieve("gpt-9")


def test_keys() -> None:
    import openai

    with OpenaiApi(keys=["sk-right"]) as api:
        with client(api, api_key="sk-wrong") as sdk:
            error = refusal(sdk, "/chat/completions", BODY)
        assert isinstance(error, openai.AuthenticationError)
        assert error.code == "invalid_api_key"
        with client(api, api_key="sk-right") as sdk:
            assert ask(sdk, BODY).choices
            bare = {"Authorization": openai.Omit()}
            with pytest.raises(openai.AuthenticationError, match="didn't provide an API key"):
                sdk.post("/chat/completions", body=BODY, cast_to=object, options={"headers": bare})


def test_a_body_that_is_no_object_and_a_path_that_is_none(sdk: OpenAI) -> None:
    error = refusal(sdk, "/chat/completions", [1])  # type: ignore[arg-type]
    assert error.message.endswith("We could not parse the JSON body of your request.")
    error = refusal(sdk, "/v1/chat/completions", BODY)
    assert (error.status_code, error.type) == (404, "invalid_request_error")
    assert "Invalid URL (POST /v1/v1/chat/completions)" in error.message


def test_limits_of_requests_and_tokens() -> None:
    import openai

    now_s = [0.0]
    with OpenaiApi(requests_a_minute=2, clock=lambda: now_s[0]) as api, client(api) as sdk:
        raw = sdk.chat.completions.with_raw_response.create(**BODY)
        assert raw.headers["x-ratelimit-limit-requests"] == "2"
        assert raw.headers["x-ratelimit-remaining-requests"] == "1"
        assert raw.headers["x-ratelimit-reset-requests"] == "30.000s"
        ask(sdk, BODY)
        error = refusal(sdk, "/chat/completions", BODY)
        assert isinstance(error, openai.RateLimitError)
        assert (error.code, error.type) == ("rate_limit_exceeded", "requests")
        assert "Limit 2, Used 2, Requested 1. Please try again in 30.000s." in error.message
        assert error.response.headers["retry-after"] == "30"
        now_s[0] += 30
        assert ask(sdk, BODY).choices
    with OpenaiApi(tokens_a_minute=5) as api, client(api) as sdk:
        error = refusal(sdk, "/chat/completions", BODY)
        assert (error.status_code, error.type) == (429, "tokens")
        assert api.answered == []


# --- what breaks


@pytest.mark.parametrize(
    "name", [name for name, each in FAULTS.items() if not each.cut and each.status != 200]
)
def test_an_error_has_its_status_and_code(api: OpenaiApi, sdk: OpenAI, name: str) -> None:
    fault = FAULTS[name]
    api.fault(fault)
    error = refusal(sdk, "/chat/completions", BODY)
    assert error.status_code == fault.status
    body = fault.body or ""
    assert error.code == (json.loads(body)["error"]["code"] if body.startswith("{") else None)
    for header, value in fault.headers.items():
        assert error.response.headers[header] == value
    assert ask(sdk, BODY).choices


@pytest.mark.parametrize("name", ["busy for milliseconds", "server error", "overloaded", "reset"])
@pytest.mark.slow
def test_the_sdk_itself_tries_again(api: OpenaiApi, name: str) -> None:
    api.fault(FAULTS[name])
    with client(api, max_retries=1) as sdk:
        assert ask(sdk, BODY).choices
    assert api.asked == 2
    assert len(api.answered) == (2 if name == "reset" else 1)  # made, though it never arrived


def test_no_quota_and_a_wish_not_to_try_again_are_told(api: OpenaiApi) -> None:
    api.fault(FAULTS["busy, do not retry"])
    with client(api, max_retries=1) as sdk:
        assert refusal(sdk, "/chat/completions", BODY).status_code == 429
    assert api.asked == 1


@pytest.mark.parametrize("name", ["truncated", "reset", "slow"])
@pytest.mark.slow
def test_an_answer_that_does_not_arrive(api: OpenaiApi, name: str) -> None:
    import openai

    api.fault(FAULTS[name])
    with client(api, timeout=0.5) as sdk, pytest.raises(openai.APIError):
        ask(sdk, BODY)


@pytest.mark.parametrize(
    "name", ["web page", "web page called JSON", "wrong shape", "anthropic body"]
)
def test_another_answer_than_the_api_would_give(api: OpenaiApi, sdk: OpenAI, name: str) -> None:
    api.fault(FAULTS[name])
    raw = sdk.chat.completions.with_raw_response.create(**BODY)
    assert raw.text == FAULTS[name].body


def raw_stream(api: OpenaiApi, name: str) -> tuple[bytes, str | None]:
    """What of a broken stream arrives, and how it ended."""
    import httpx2

    api.fault(FAULTS[name])
    body = {**BODY, "tools": TOOLS, "stream": True}
    arrived, ended = b"", None
    with (
        httpx2.Client(trust_env=False, verify=NOBODY) as http,
        http.stream(
            "POST", f"{api.base_url}{CHAT}", json=body, headers={"authorization": "Bearer local"}
        ) as answer,
    ):
        try:
            for piece in answer.iter_raw():
                arrived += piece
        except httpx2.HTTPError as error:
            ended = type(error).__name__
    return arrived, ended


@pytest.mark.parametrize(
    ("name", "clean", "rest"),
    [
        ("stream ends early", True, b"\n\n"),
        ("stream ends in arguments", True, b"\n\n"),
        ("stream error", True, b'"code": null}}\n\n'),
        ("stream closed", False, b"\n\n"),
        ("stream dropped", False, b""),
        ("stream ends in an event", False, b""),
    ],
)
def test_a_broken_stream(api: OpenaiApi, name: str, clean: bool, rest: bytes) -> None:
    api.policy = lambda _: WORKED
    arrived, ended = raw_stream(api, name)
    assert b"[DONE]" not in arrived
    assert b'"finish_reason": "tool_calls"' not in arrived
    assert (ended is None) == clean
    assert arrived.endswith(rest)
    if name == "stream ends in an event":
        assert not arrived.endswith(b"\n\n")


def test_the_sdk_tells_an_error_in_a_stream(api: OpenaiApi, sdk: OpenAI) -> None:
    import openai

    api.fault(FAULTS["stream error"])
    with pytest.raises(openai.APIError, match="had an error processing"):
        list(sdk.chat.completions.create(**BODY, stream=True))


def test_a_fault_that_needs_a_stream_says_so(api: OpenaiApi, sdk: OpenAI) -> None:
    api.fault(FAULTS["stream error"], Fault(status=418))
    assert "needs a stream: error" in refusal(sdk, "/chat/completions", BODY).message
    assert "scripted" in refusal(sdk, "/chat/completions", BODY).message


# --- Azure's path


def test_azure_serves_a_deployment(api: OpenaiApi) -> None:
    import httpx2
    import openai

    api.policy = lambda _: WORKED
    with openai.AzureOpenAI(
        api_key="local",
        api_version="2024-10-21",
        azure_endpoint=api.base_url,
        http_client=httpx2.Client(trust_env=False, verify=NOBODY),
        max_retries=0,
    ) as azure:
        sent: Body = {**BODY, "tools": TOOLS}
        whole = azure.chat.completions.create(**sent)
        assert whole.model == "gpt-4o"
        assert api.received[-1].headers["api-key"] == "local"
        first, *rest = azure.chat.completions.create(**sent, stream=True)
        assert first.choices == []
        assert rest[-1].choices[0].finish_reason == "tool_calls"
    status, body = raw_azure(api, {"api-key": "local"}, "")
    assert (status, body["error"]["code"]) == (404, "404")
    status, body = raw_azure(api, {}, "?api-version=2024-10-21")
    assert (status, body["error"]["code"]) == (401, "401")


def raw_azure(api: OpenaiApi, headers: dict[str, str], query: str) -> tuple[int, Body]:
    import httpx2

    path = f"{api.base_url}/openai/deployments/gpt-4o/chat/completions{query}"
    with httpx2.Client(trust_env=False, verify=NOBODY) as http:
        answer = http.post(path, json=BODY, headers=headers)
    return answer.status_code, answer.json()
