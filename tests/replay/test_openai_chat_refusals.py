"""What the test server of Chat Completions refuses of messages and tools, and takes when mended."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.openai_servers import Body, OpenaiApi
from tests.openai_servers.typed import chat_departure
from tests.replay.openai_chat_case import (
    CALL,
    CALLED,
    CLOSED,
    GPT4,
    OBJECT,
    RESULT,
    TOOL,
    USER,
    Refusal,
    body,
    check,
    history,
    strict,
    tool,
)
from tests.replay.openai_client import ask, client, refusal

if TYPE_CHECKING:
    from openai import OpenAI


@pytest.fixture(scope="module")
def sdk() -> Iterator[OpenAI]:
    with OpenaiApi() as running, client(running) as made:
        yield made


TWO_CALLS: Body = {**CALLED, "tool_calls": [CALL, {**CALL, "id": "call_2"}]}
SECOND: Body = {**RESULT, "tool_call_id": "call_2"}
LONG = "x" * 65

REFUSED: dict[str, Refusal] = {
    "unknown parameter": (
        body(top_k=5),
        body(top_p=1),
        "Unrecognized request argument supplied: top_k",
        None,
        None,
    ),
    "unknown parameter inside": (
        body(messages=[{**USER, "id": "1"}]),
        body(messages=[{**USER, "name": "ann"}]),
        "Unknown parameter: 'messages[0].id'.",
        "messages[0].id",
        "unknown_parameter",
    ),
    "no model": (
        {"messages": [USER]},
        body(),
        "you must provide a model parameter",
        None,
        None,
    ),
    "no messages": (
        {"model": GPT4},
        body(),
        "Missing required parameter: 'messages'.",
        "messages",
        "missing_required_parameter",
    ),
    "empty messages": (
        body(messages=[]),
        body(),
        "Invalid 'messages': empty array. Expected an array with minimum length 1, but got an "
        "empty array instead.",
        "messages",
        "empty_array",
    ),
    "strange role": (
        body(messages=[{**USER, "role": "bot"}]),
        body(messages=[{**USER, "role": "developer"}]),
        "Invalid value: 'bot'. Supported values are: 'system', 'developer', 'user', 'assistant', "
        "'tool', and 'function'.",
        "messages[0].role",
        "invalid_value",
    ),
    "no role": (
        body(messages=[{"content": "Hi"}]),
        body(messages=[{"role": "system", "content": "Hi"}]),
        "Missing required parameter: 'messages[0].role'.",
        "messages[0].role",
        "missing_required_parameter",
    ),
    "null content of a user": (
        body(messages=[{"role": "user", "content": None}]),
        body(messages=[{"role": "user", "content": ""}]),
        "Invalid type for 'messages[0].content': expected one of a string or array of objects, but "
        "got null instead.",
        "messages[0].content",
        "invalid_type",
    ),
    "null content of a tool": (
        history(CALLED, {**RESULT, "content": None}),
        history(CALLED, {**RESULT, "content": ""}),
        "Invalid type for 'messages[2].content'",
        "messages[2].content",
        "invalid_type",
    ),
    "null content of an assistant who does nothing": (
        body(messages=[USER, {"role": "assistant", "content": None}]),
        body(messages=[USER, {"role": "assistant", "content": None, "refusal": "No."}]),
        "Invalid value for 'content': expected a string, got null.",
        "messages.[1].content",
        None,
    ),
    "content of no parts": (
        body(messages=[{"role": "user", "content": []}]),
        body(messages=[{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]),
        "Invalid 'messages[0].content': empty array.",
        "messages[0].content",
        "empty_array",
    ),
    "an image of a system": (
        body(messages=[{"role": "system", "content": [{"type": "image_url"}]}]),
        body(messages=[{"role": "user", "content": [
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}},
        ]}]),
        "Invalid value: 'image_url'. Supported values are: 'text'.",
        "messages[0].content[0].type",
        "invalid_value",
    ),
    "null tool calls": (
        body(messages=[USER, {"role": "assistant", "content": "Hi", "tool_calls": None}]),
        body(messages=[USER, {"role": "assistant", "content": "Hi"}]),
        "Invalid type for 'messages[1].tool_calls': expected an array of objects, but got null "
        "instead.",
        "messages[1].tool_calls",
        "invalid_type",
    ),
    "no tool calls": (
        body(messages=[USER, {"role": "assistant", "content": "Hi", "tool_calls": []}]),
        body(messages=[USER, {"role": "assistant", "content": "Hi"}]),
        "Invalid 'messages[1].tool_calls': empty array.",
        "messages[1].tool_calls",
        "empty_array",
    ),
    "arguments that are no text": (
        history({**CALLED, "tool_calls": [
            {**CALL, "function": {"name": "get_order", "arguments": {"id": 7}}},
        ]}, RESULT),
        history(CALLED, RESULT),
        "Invalid type for 'messages[1].tool_calls[0].function.arguments': expected a string, but "
        "got an object instead.",
        "messages[1].tool_calls[0].function.arguments",
        "invalid_type",
    ),
    "a call without id": (
        history({**CALLED, "tool_calls": [{n: v for n, v in CALL.items() if n != "id"}]}),
        history(CALLED, RESULT),
        "Missing required parameter: 'messages[1].tool_calls[0].id'.",
        "messages[1].tool_calls[0].id",
        "missing_required_parameter",
    ),
    "a long id of a call": (
        history({**CALLED, "tool_calls": [{**CALL, "id": "c" * 41}]}),
        history({**CALLED, "tool_calls": [{**CALL, "id": "c" * 40}]},
                {**RESULT, "tool_call_id": "c" * 40}),
        "Invalid 'messages[1].tool_calls[0].id': string too long. Expected a string with maximum "
        "length 40, but got a string with length 41 instead.",
        "messages[1].tool_calls[0].id",
        "string_above_max_length",
    ),
    "a call without kind": (
        history({**CALLED, "tool_calls": [{n: v for n, v in CALL.items() if n != "type"}]}),
        history(CALLED, RESULT),
        "Missing required parameter: 'messages[1].tool_calls[0].type'.",
        "messages[1].tool_calls[0].type",
        "missing_required_parameter",
    ),
    "a result without a call": (
        history(RESULT),
        history(CALLED, RESULT),
        "Invalid parameter: messages with role 'tool' must be a response to a preceeding message "
        "with 'tool_calls'.",
        "messages.[1].role",
        None,
    ),
    "a result of another call": (
        history(CALLED, SECOND),
        history(TWO_CALLS, SECOND, RESULT),
        "Invalid parameter: 'tool_call_id' of 'call_2' not found in 'tool_calls' of previous "
        "message.",
        "messages.[2].tool_call_id",
        None,
    ),
    "two results of a call": (
        history(CALLED, RESULT, RESULT),
        history(CALLED, RESULT, CALLED, RESULT),
        "Invalid parameter: Duplicate value for 'tool_call_id' of 'call_1'.",
        "messages.[3].tool_call_id",
        None,
    ),
    "a result without id": (
        history(CALLED, {"role": "tool", "content": "shipped"}),
        history(CALLED, RESULT),
        "Missing required parameter: 'messages[2].tool_call_id'.",
        "messages[2].tool_call_id",
        "missing_required_parameter",
    ),
    "a call without result": (
        history(TWO_CALLS, RESULT, USER),
        history(TWO_CALLS, RESULT, SECOND, USER),
        "An assistant message with 'tool_calls' must be followed by tool messages responding to "
        "each 'tool_call_id'. The following tool_call_ids did not have response messages: call_2",
        "messages.[3].role",
        None,
    ),
    "a call at the end": (
        history(CALLED),
        history(CALLED, RESULT),
        "The following tool_call_ids did not have response messages: call_1",
        "messages",
        None,
    ),
    "two calls of one id": (
        history({**CALLED, "tool_calls": [CALL, CALL]}, RESULT),
        history(TWO_CALLS, RESULT, SECOND),
        "Duplicate value for 'id' of 'call_1'",
        "messages.[1].tool_calls",
        None,
    ),
    "no tools": (
        body(tools=[]),
        body(tools=[TOOL]),
        "Invalid 'tools': empty array.",
        "tools",
        "empty_array",
    ),
    "too many tools": (
        body(tools=[TOOL] * 129),
        body(tools=[TOOL] * 128),
        "Invalid 'tools': array too long. Expected an array with maximum length 128, but got an "
        "array with length 129 instead.",
        "tools",
        "array_above_max_length",
    ),
    "a tool of a strange kind": (
        body(tools=[{"type": "web_search"}]),
        body(tools=[{"type": "custom", "custom": {"name": "run"}}]),
        "Invalid value: 'web_search'. Supported values are: 'function' and 'custom'.",
        "tools[0].type",
        "invalid_value",
    ),
    "a tool of the other API": (
        body(tools=[{"type": "function", "name": "get_order"}]),
        body(tools=[TOOL]),
        "Missing required parameter: 'tools[0].function'.",
        "tools[0].function",
        "missing_required_parameter",
    ),
    "a name with a space": (
        tool(name="get order"),
        tool(name="get-order_2"),
        "Invalid 'tools[0].function.name': string does not match pattern. Expected a string that "
        "matches the pattern '^[a-zA-Z0-9_-]+$'.",
        "tools[0].function.name",
        "invalid_value",
    ),
    "a long name": (
        tool(name=LONG),
        tool(name=LONG[:64]),
        "Invalid 'tools[0].function.name': string too long.",
        "tools[0].function.name",
        "string_above_max_length",
    ),
    "an empty name": (
        tool(name=""),
        tool(name="x"),
        "Invalid 'tools[0].function.name': empty string. Expected a string with minimum length 1, "
        "but got an empty string instead.",
        "tools[0].function.name",
        "empty_string",
    ),
    "parameters of no object": (
        tool(parameters={"type": "array", "items": {}}),
        tool(parameters=OBJECT),
        "Invalid schema for function 'get_order': schema must be a JSON Schema of 'type: "
        "\"object\"', got 'type: \"array\"'.",
        "tools[0].function.parameters",
        "invalid_function_parameters",
    ),
    "parameters without properties": (
        tool(parameters={"type": "object"}),
        tool(parameters={"type": "object", "properties": {}}),
        "In context=(), object schema missing properties.",
        "tools[0].function.parameters",
        "invalid_function_parameters",
    ),
    "strict parameters without properties": (
        strict({"type": "object", "additionalProperties": False}),
        strict({"type": "object", "properties": {}, "additionalProperties": False}),
        "In context=(), object schema missing properties.",
        "tools[0].function.parameters",
        "invalid_function_parameters",
    ),
    "a list of nothing": (
        tool(parameters={"type": "object", "properties": {"ids": {"type": "array"}}}),
        tool(parameters={"type": "object", "properties": {"ids": {"type": "array", "items": {}}}}),
        "In context=('properties', 'ids'), array schema missing items.",
        "tools[0].function.parameters",
        "invalid_function_parameters",
    ),
    "a type that is none": (
        tool(parameters={"type": "object", "properties": {"id": {"type": "int"}}}),
        tool(parameters={"type": "object", "properties": {"id": {"type": ["integer", "null"]}}}),
        "In context=('properties', 'id'), 'int' is not valid",
        "tools[0].function.parameters",
        "invalid_function_parameters",
    ),
    "an open strict schema": (
        strict({**OBJECT, "required": ["id"]}),
        strict(CLOSED),
        "Invalid schema for function 'get_order': In context=(), 'additionalProperties' is "
        "required to be supplied and to be false.",
        "tools[0].function.parameters",
        "invalid_function_parameters",
    ),
    "an optional field of a strict schema": (
        strict({**CLOSED, "required": []}),
        strict(CLOSED),
        "In context=(), 'required' is required to be supplied and to be an array including every "
        "key in properties. Missing 'id'.",
        "tools[0].function.parameters",
        "invalid_function_parameters",
    ),
    "a choice that a strict schema cannot hold": (
        strict({**CLOSED, "properties": {"id": {"oneOf": [{"type": "string"}]}}}),
        strict({**CLOSED, "properties": {"id": {"anyOf": [{"type": "string"}]}}}),
        "In context=('properties', 'id'), 'oneOf' is not permitted.",
        "tools[0].function.parameters",
        "invalid_function_parameters",
    ),
    "a strict schema open inside": (
        strict({**CLOSED, "properties": {"id": OBJECT}}),
        strict({**CLOSED, "properties": {"id": CLOSED}}),
        "In context=('properties', 'id'), 'additionalProperties' is required",
        "tools[0].function.parameters",
        "invalid_function_parameters",
    ),
    "a choice of tool without tools": (
        body(tool_choice="auto"),
        body(tool_choice="auto", tools=[TOOL]),
        "Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are "
        "specified.",
        "tool_choice",
        None,
    ),
    "a choice of a tool that is not offered": (
        body(tools=[TOOL], tool_choice={"type": "function", "function": {"name": "refund"}}),
        body(tools=[TOOL], tool_choice={"type": "function", "function": {"name": "get_order"}}),
        "Tool choice 'refund' not found in 'tools' parameter.",
        "tool_choice",
        None,
    ),
    "allowed tools that are not offered": (
        body(tools=[TOOL], tool_choice={"type": "allowed_tools", "allowed_tools": {
            "mode": "auto", "tools": [{"type": "function", "function": {"name": "refund"}}],
        }}),
        body(tools=[TOOL], tool_choice={"type": "allowed_tools", "allowed_tools": {
            "mode": "auto", "tools": [{"type": "function", "function": {"name": "get_order"}}],
        }}),
        "Tool choice 'refund' not found",
        "tool_choice",
        None,
    ),
    "a strange choice of tool": (
        body(tools=[TOOL], tool_choice="any"),
        body(tools=[TOOL], tool_choice="required"),
        "Invalid value: 'any'. Supported values are: 'none', 'auto', and 'required'.",
        "tool_choice",
        "invalid_value",
    ),
    "parallel calls without tools": (
        body(parallel_tool_calls=False),
        body(parallel_tool_calls=False, tools=[TOOL]),
        "Invalid value for 'parallel_tool_calls': 'parallel_tool_calls' is only allowed when "
        "'tools' are specified.",
        "parallel_tool_calls",
        None,
    ),
    "functions beside tools": (
        body(tools=[TOOL], functions=[TOOL["function"]]),
        body(functions=[TOOL["function"]]),
        "'functions' is not allowed together with 'tools'.",
        "functions",
        None,
    ),
    "a call of a function that is not offered": (
        body(functions=[TOOL["function"]], function_call={"name": "refund"}),
        body(functions=[TOOL["function"]], function_call={"name": "get_order"}),
        "no function named 'refund' was specified",
        "function_call",
        None,
    ),
    "a choice of function without functions": (
        body(function_call="auto"),
        body(function_call="auto", functions=[TOOL["function"]]),
        "'function_call' is only allowed when 'functions' are specified.",
        "function_call",
        None,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.slow
def test_what_is_refused_is_taken_when_it_is_mended(sdk: OpenAI, name: str) -> None:
    check(sdk, REFUSED[name])


ECHOED: Body = {
    "role": "assistant", "content": "Hi", "refusal": None, "annotations": [], "audio": None,
    "function_call": None,
}  # fmt: skip


@pytest.mark.parametrize("more", [[ECHOED], [CALLED, {**RESULT, "name": "get_order"}]])
def test_what_the_sdk_and_frameworks_send_back_is_taken(sdk: OpenAI, more: list[Body]) -> None:
    assert ask(sdk, history(*more)).choices


def test_the_types_of_the_sdk_refuse_for_themselves() -> None:
    assert chat_departure(body()) is None
    for name in ("unknown parameter inside", "strange role", "a tool of the other API"):
        assert chat_departure(REFUSED[name][0]) is not None


def test_a_model_of_the_other_api_is_not_served(sdk: OpenAI) -> None:
    error = refusal(sdk, "/chat/completions", body(model="gpt-5-codex"))
    assert error.status_code == 404
    assert "only supported in v1/responses" in error.message
