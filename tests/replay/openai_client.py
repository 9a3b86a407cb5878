"""Asking the test servers of OpenAI's APIs as the real SDK does, which tries nothing twice."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Any

import pytest

from tests.openai_servers import Body, OpenaiApi

if TYPE_CHECKING:
    from openai import APIStatusError, OpenAI
    from openai.types.chat import ChatCompletion
    from openai.types.responses import Response

NOBODY = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Who is trusted to say who the server is. Nothing is encrypted, and reading a list takes long."""


def client(api: OpenaiApi, **beside: Any) -> OpenAI:
    import httpx2
    import openai

    http = httpx2.Client(trust_env=False, verify=NOBODY)
    settings = {"api_key": "local", "max_retries": 0, "http_client": http, **beside}
    return openai.OpenAI(base_url=f"{api.base_url}/v1", **settings)


def ask(sdk: OpenAI, body: Body) -> ChatCompletion:
    """A completion of a body that is posted as it is, as the SDK reads it."""
    from openai.types.chat import ChatCompletion

    return sdk.post("/chat/completions", body=body, cast_to=ChatCompletion)


def ask_stream(sdk: OpenAI, body: Body) -> ChatCompletion:
    """The same from the chunks of a stream, by the SDK's own accumulator, which only at the very
    end refuses an answer that was cut."""
    with sdk.chat.completions.stream(**{n: v for n, v in body.items() if n != "stream"}) as stream:
        for _ in stream:
            pass
        return stream.current_completion_snapshot


def refusal(sdk: OpenAI, path: str, body: Body) -> APIStatusError:
    """The error with which the SDK tells that a body was refused."""
    import openai

    with pytest.raises(openai.APIStatusError) as caught:
        sdk.post(path, body=body, cast_to=object)
    return caught.value


def respond(sdk: OpenAI, body: Body) -> Response:
    """A response to a body that is posted as it is, as the SDK reads it."""
    from openai.types.responses import Response

    return sdk.post("/responses", body=body, cast_to=Response)


def respond_stream(sdk: OpenAI, body: Body) -> tuple[list[Any], Response, list[Body]]:
    """The events of a stream, the response of the last, and the output that the SDK's own
    accumulator made of all before."""
    from openai._types import omit
    from openai.lib.streaming.responses._responses import ResponseStreamState

    state: ResponseStreamState[Any] = ResponseStreamState(input_tools=omit, text_format=omit)
    sent: Any = {**body, "stream": True}
    events: list[Any] = list(sdk.responses.create(**sent))
    for each in events[:-2]:
        state.handle_event(each)
    made = state.accumulate_event(events[-2])
    return events, events[-1].response, [each.to_dict() for each in made.output]
