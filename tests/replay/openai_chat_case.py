"""Requests to Chat Completions, and how one is tried that is refused and its mended twin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.openai_servers import Body
from tests.openai_servers.typed import chat_departure
from tests.replay.openai_client import ask, ask_stream, refusal

if TYPE_CHECKING:
    from openai import OpenAI

USER: Body = {"role": "user", "content": "Where is order 7?"}
OBJECT: Body = {"type": "object", "properties": {"id": {"type": "integer"}}}
CLOSED: Body = {**OBJECT, "required": ["id"], "additionalProperties": False}
TOOL: Body = {"type": "function", "function": {"name": "get_order", "parameters": OBJECT}}
CALL: Body = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "get_order", "arguments": '{"id": 7}'},
}
CALLED: Body = {"role": "assistant", "content": None, "tool_calls": [CALL]}
RESULT: Body = {"role": "tool", "tool_call_id": "call_1", "content": "shipped"}
GPT4, O3, GPT5, GPT52, GPT56 = "gpt-4o", "o3", "gpt-5-mini", "gpt-5.2", "gpt-5.6"


def body(**beside: Any) -> Body:
    return {"model": GPT4, "messages": [USER], **beside}


def history(*messages: Body, **beside: Any) -> Body:
    return body(messages=[USER, *messages], tools=[TOOL], **beside)


def tool(**function: Any) -> Body:
    return body(tools=[{"type": "function", "function": {**TOOL["function"], **function}}])


def strict(schema: Body) -> Body:
    return tool(parameters=schema, strict=True)


def with_schema(schema: Body, **beside: Any) -> Body:
    described = {"name": "answer", "schema": schema, "strict": True, **beside}
    return body(response_format={"type": "json_schema", "json_schema": described})


def nested(depth: int) -> Body:
    schema: Body = {"type": "string"}
    for _ in range(depth):
        schema = {
            "type": "object",
            "properties": {"in": schema},
            "required": ["in"],
            "additionalProperties": False,
        }
    return schema


def maybe(schema: Body) -> Body:
    return {**schema, "type": [schema["type"], "null"]}


def wide(count: int) -> Body:
    names = [f"p{at}" for at in range(count)]
    properties = {name: {"type": "null"} for name in names}
    return {**CLOSED, "properties": properties, "required": names}


def enum(*values: str) -> Body:
    return {**CLOSED, "properties": {"id": {"type": "string", "enum": list(values)}}}


Refusal = tuple[Body, Body, str, str | None, str | None]
"""What is refused, the same when it is mended, the sentence, the parameter, the code."""


def check(sdk: OpenAI, tried: Refusal) -> None:
    """The one is refused so, and the other taken, also by the types of the SDK."""
    wrong, mended, why, param, code = tried
    error = refusal(sdk, "/chat/completions", wrong)
    assert why in error.message
    assert (error.status_code, error.param, error.code) == (400, param, code)
    assert error.type == "invalid_request_error"
    assert chat_departure(mended) is None
    if mended.get("stream"):
        assert ask_stream(sdk, mended).choices
    else:
        assert ask(sdk, mended).choices
