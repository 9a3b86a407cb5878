"""What the test server of Chat Completions refuses of formats, limits and settings of a model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.openai_servers import OpenaiApi
from tests.replay.openai_chat_case import (
    CLOSED,
    GPT4,
    GPT5,
    GPT52,
    GPT56,
    O3,
    OBJECT,
    TOOL,
    USER,
    Refusal,
    body,
    check,
    enum,
    maybe,
    nested,
    wide,
    with_schema,
)
from tests.replay.openai_client import client

if TYPE_CHECKING:
    from openai import OpenAI


@pytest.fixture(scope="module")
def sdk() -> Iterator[OpenAI]:
    with OpenaiApi() as running, client(running) as made:
        yield made


JSON = {"type": "json_object"}
LONG = "x" * 65

REFUSED: dict[str, Refusal] = {
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
    "a deep schema that may be null": (
        with_schema({**CLOSED, "properties": {"id": maybe(nested(10))}}),
        with_schema({**CLOSED, "properties": {"id": maybe(nested(9))}}),
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
    check(sdk, REFUSED[name])
