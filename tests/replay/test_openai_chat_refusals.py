"""What the test server of Chat Completions refuses, and that it takes the same when mended."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from tests.openai_servers import (
    Body,
    OpenaiApi,
)
from tests.openai_servers.typed import chat_departure
from tests.replay.openai_client import ask, ask_stream, client, refusal

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


def wide(count: int) -> Body:
    names = [f"p{at}" for at in range(count)]
    properties = {name: {"type": "null"} for name in names}
    return {**CLOSED, "properties": properties, "required": names}


def enum(*values: str) -> Body:
    return {**CLOSED, "properties": {"id": {"type": "string", "enum": list(values)}}}


@pytest.fixture(scope="module")
def api() -> Iterator[OpenaiApi]:
    with OpenaiApi() as running:
        yield running


@pytest.fixture(scope="module")
def sdk(api: OpenaiApi) -> Iterator[OpenAI]:
    with client(api) as made:
        yield made


JSON = {"type": "json_object"}
TWO_CALLS: Body = {**CALLED, "tool_calls": [CALL, {**CALL, "id": "call_2"}]}
SECOND: Body = {**RESULT, "tool_call_id": "call_2"}
LONG = "x" * 65

REFUSED: dict[str, tuple[Body, Body, str, str | None, str | None]] = {
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
    "JSON without the word": (
        body(response_format=JSON),
        body(response_format=JSON, messages=[USER, {**USER, "content": "As JSON."}]),
        "'messages' must contain the word 'json' in some form, to use 'response_format' of type "
        "'json_object'.",
        "messages",
        None,
    ),
    "a strange format": (
        body(response_format={"type": "xml"}),
        body(response_format={"type": "text"}),
        "Invalid value: 'xml'. Supported values are: 'text', 'json_object', and 'json_schema'.",
        "response_format.type",
        "invalid_value",
    ),
    "a schema without a name": (
        body(response_format={"type": "json_schema", "json_schema": {"schema": CLOSED}}),
        with_schema(CLOSED),
        "Missing required parameter: 'response_format.json_schema.name'.",
        "response_format.json_schema.name",
        "missing_required_parameter",
    ),
    "a name without a schema": (
        body(response_format={"type": "json_schema", "json_schema": {"name": "answer"}}),
        with_schema(CLOSED),
        "Missing required parameter: 'response_format.json_schema.schema'.",
        "response_format.json_schema.schema",
        "missing_required_parameter",
    ),
    "an open schema": (
        with_schema(OBJECT),
        with_schema(OBJECT, strict=False),
        "Invalid schema for response_format 'answer': In context=(), 'additionalProperties' is "
        "required to be supplied and to be false.",
        "response_format",
        None,
    ),
    "a deep schema": (
        with_schema(nested(11)),
        with_schema(nested(10)),
        "11 levels of nesting exceeds limit of 10.",
        "response_format",
        None,
    ),
    "a wide schema": (
        with_schema(wide(5001)),
        with_schema(wide(5000)),
        "5001 object properties exceeds limit of 5000.",
        "response_format",
        None,
    ),
    "a schema with many values": (
        with_schema(enum(*map(str, range(1001)))),
        with_schema(enum(*map(str, range(1000)))),
        "1001 enum values exceeds limit of 1000.",
        "response_format",
        None,
    ),
    "a schema with long values": (
        with_schema(enum(*(f"{at:060}" for at in range(251)))),
        with_schema(enum(*(f"{at:060}" for at in range(250)))),
        "enum with 251 values has a total string length of 15060",
        "response_format",
        None,
    ),
    "a schema with a default": (
        with_schema({**CLOSED, "properties": {"id": {"type": "integer", "default": 1}}}),
        with_schema({**CLOSED, "properties": {"id": {"type": "integer", "minimum": 1}}}),
        "In context=('properties', 'id'), 'default' is not permitted.",
        "response_format",
        None,
    ),
    "a reference to nothing": (
        with_schema({**CLOSED, "properties": {"id": {"$ref": "#/$defs/id"}}}),
        with_schema({**CLOSED, "properties": {"id": {"$ref": "#/$defs/id"}},
                     "$defs": {"id": {"type": "integer"}}}),
        "In context=('properties', 'id'), reference '#/$defs/id' does not resolve.",
        "response_format",
        None,
    ),
    "both limits": (
        body(max_tokens=5, max_completion_tokens=5),
        body(max_completion_tokens=5),
        "Setting 'max_tokens' and 'max_completion_tokens' at the same time is not supported.",
        "max_tokens",
        "invalid_parameter_combination",
    ),
    "a limit of nothing": (
        body(max_tokens=0),
        body(max_tokens=1),
        "Invalid 'max_tokens': integer below minimum value. Expected a value >= 1, but got 0 "
        "instead.",
        "max_tokens",
        "integer_below_min_value",
    ),
    "a limit the model cannot reach": (
        body(max_tokens=16_385),
        body(max_tokens=16_384),
        "max_tokens is too large: 16385. This model supports at most 16384 completion tokens, "
        "whereas you provided 16385.",
        "max_tokens",
        "invalid_value",
    ),
    "a prompt the model cannot take": (
        body(messages=[{**USER, "content": "x" * 600_000}]),
        body(messages=[{**USER, "content": "x" * 500_000}]),
        "This model's maximum context length is 128000 tokens.",
        "messages",
        "context_length_exceeded",
    ),
    "heat": (
        body(temperature=2.5),
        body(temperature=2),
        "Invalid 'temperature': decimal above maximum value. Expected a value <= 2, but got 2.5 "
        "instead.",
        "temperature",
        "decimal_above_max_value",
    ),
    "a temperature in words": (
        body(temperature="0"),
        body(temperature=0),
        "Invalid type for 'temperature': expected a decimal, but got a string instead.",
        "temperature",
        "invalid_type",
    ),
    "top_p": (
        body(top_p=-0.1),
        body(top_p=0.1),
        "Invalid 'top_p': decimal below minimum value. Expected a value >= 0, but got -0.1",
        "top_p",
        "decimal_below_min_value",
    ),
    "a penalty": (
        body(presence_penalty=3),
        body(presence_penalty=-2, frequency_penalty=2),
        "Invalid 'presence_penalty': decimal above maximum value.",
        "presence_penalty",
        "decimal_above_max_value",
    ),
    "many choices": (
        body(n=129),
        body(n=2),
        "Invalid 'n': integer above maximum value. Expected a value <= 128, but got 129 instead.",
        "n",
        "integer_above_max_value",
    ),
    "half a choice": (
        body(n=1.5),
        body(n=1),
        "Invalid type for 'n': expected an integer, but got a decimal instead.",
        "n",
        "invalid_type",
    ),
    "many stops": (
        body(stop=["1", "2", "3", "4", "5"]),
        body(stop=["1", "2", "3", "4"]),
        "Invalid 'stop': array too long. Expected an array with maximum length 4, but got an array "
        "with length 5 instead.",
        "stop",
        "array_above_max_length",
    ),
    "candidates without logprobs": (
        body(top_logprobs=2),
        body(top_logprobs=2, logprobs=True),
        "The 'top_logprobs' parameter is only allowed when 'logprobs' is enabled.",
        "top_logprobs",
        None,
    ),
    "many candidates": (
        body(top_logprobs=21, logprobs=True),
        body(top_logprobs=20, logprobs=True),
        "Invalid 'top_logprobs': integer above maximum value.",
        "top_logprobs",
        "integer_above_max_value",
    ),
    "a bias": (
        body(logit_bias={"50256": -101}),
        body(logit_bias={"50256": -100}),
        "Invalid 'logit_bias.50256': integer below minimum value.",
        "logit_bias.50256",
        "integer_below_min_value",
    ),
    "options of a stream that is none": (
        body(stream_options={"include_usage": True}),
        body(stream_options={"include_usage": True}, stream=True),
        "The 'stream_options' parameter is only allowed when 'stream' is enabled.",
        "stream_options",
        None,
    ),
    "metadata of what is not stored": (
        body(metadata={"run": "7"}),
        body(metadata={"run": "7"}, store=True),
        "The 'metadata' parameter is only allowed when 'store' is enabled.",
        "metadata",
        None,
    ),
    "much metadata": (
        body(metadata={str(at): "" for at in range(17)}, store=True),
        body(metadata={str(at): "" for at in range(16)}, store=True),
        "Invalid 'metadata': object with too many properties. Expected an object with at most 16 "
        "properties, but got an object with 17 properties instead.",
        "metadata",
        "object_above_max_properties",
    ),
    "a long key of metadata": (
        body(metadata={LONG: ""}, store=True),
        body(metadata={LONG[:64]: ""}, store=True),
        "string too long",
        f"metadata.{LONG}",
        "string_above_max_length",
    ),
    "the old limit for a model that reasons": (
        body(model=O3, max_tokens=5),
        body(model=O3, max_completion_tokens=5),
        "Unsupported parameter: 'max_tokens' is not supported with this model. Use "
        "'max_completion_tokens' instead.",
        "max_tokens",
        "unsupported_parameter",
    ),
    "temperature of an o-model": (
        body(model=O3, temperature=0),
        body(model=O3, temperature=1),
        "Unsupported parameter: 'temperature' is not supported with this model.",
        "temperature",
        "unsupported_parameter",
    ),
    "temperature of a model that reasons": (
        body(model=GPT5, temperature=0),
        body(model=GPT5, temperature=1),
        "Unsupported value: 'temperature' does not support 0 with this model. Only the default (1) "
        "value is supported.",
        "temperature",
        "unsupported_value",
    ),
    "temperature beside effort": (
        body(model=GPT52, temperature=0, reasoning_effort="low"),
        body(model=GPT52, temperature=0),
        "Unsupported parameter: 'temperature' is not supported with this model.",
        "temperature",
        "unsupported_parameter",
    ),
    "logprobs of a model that reasons": (
        body(model=GPT5, logprobs=True),
        body(model=GPT4, logprobs=True),
        "Unsupported parameter: 'logprobs' is not supported with this model.",
        "logprobs",
        "unsupported_parameter",
    ),
    "a stop for a model that reasons": (
        body(model=GPT5, stop="END"),
        body(model=GPT4, stop="END"),
        "Unsupported parameter: 'stop' is not supported with this model.",
        "stop",
        "unsupported_parameter",
    ),
    "parallel calls of an o-model": (
        body(model=O3, tools=[TOOL], parallel_tool_calls=False),
        body(model=GPT5, tools=[TOOL], parallel_tool_calls=False),
        "Unsupported parameter: 'parallel_tool_calls' is not supported with this model.",
        "parallel_tool_calls",
        "unsupported_parameter",
    ),
    "choices of an o-model": (
        body(model=O3, n=2),
        body(model=O3, n=1),
        "Unsupported value: 'n' does not support 2 with this model.",
        "n",
        "unsupported_value",
    ),
    "effort of a model that does not reason": (
        body(reasoning_effort="low"),
        body(reasoning_effort=None),
        "Unrecognized request argument supplied: reasoning_effort",
        None,
        None,
    ),
    "an effort the model does not know": (
        body(model=O3, reasoning_effort="minimal"),
        body(model=GPT5, reasoning_effort="minimal"),
        "Unsupported value: 'reasoning_effort' does not support 'minimal' with this model. "
        "Supported values are: 'low', 'medium', and 'high'.",
        "reasoning_effort",
        "unsupported_value",
    ),
    "an effort that nothing knows": (
        body(model=GPT5, reasoning_effort="huge"),
        body(model=GPT5, reasoning_effort="high"),
        "Invalid value: 'huge'.",
        "reasoning_effort",
        "invalid_value",
    ),
    "verbosity": (
        body(verbosity="low"),
        body(verbosity="low", model=GPT5),
        "Unsupported value: 'verbosity' does not support 'low' with this model. Supported values "
        "are: 'medium'.",
        "verbosity",
        "unsupported_value",
    ),
    "tools of a model that reasons by default": (
        body(model=GPT56, tools=[TOOL]),
        body(model=GPT56, tools=[TOOL], reasoning_effort="none"),
        "Function tools with reasoning_effort are not supported for gpt-5.6 in "
        "/v1/chat/completions. To use function tools, use /v1/responses or set reasoning_effort to "
        "'none'.",
        "reasoning_effort",
        None,
    ),
    "sound": (
        body(modalities=["text", "audio"]),
        body(modalities=["text"]),
        "'modalities' does not support 'audio'",
        "modalities",
        "unsupported_value",
    ),
    "a search of the web": (
        body(web_search_options={}),
        body(),
        "Web search options not supported with this model.",
        "web_search_options",
        None,
    ),
    "a long name of the user": (
        body(safety_identifier="x" * 129),
        body(safety_identifier="x" * 128),
        "Invalid 'safety_identifier': string too long.",
        "safety_identifier",
        "string_above_max_length",
    ),
    "a tier": (
        body(service_tier="cheap"),
        body(service_tier="flex"),
        "Invalid value: 'cheap'.",
        "service_tier",
        "invalid_value",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_is_taken_when_it_is_mended(sdk: OpenAI, name: str) -> None:
    wrong, mended, why, param, code = REFUSED[name]
    error = refusal(sdk, "/chat/completions", wrong)
    assert why in error.message
    assert (error.status_code, error.param, error.code) == (400, param, code)
    assert error.type == "invalid_request_error"
    assert chat_departure(mended) is None
    if mended.get("stream"):
        assert ask_stream(sdk, mended).choices
    else:
        assert ask(sdk, mended).choices


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
