"""The test server of the Responses API: what it refuses, and takes when mended; what it sends."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from tests.openai_servers import FAULTS, Body, OpenaiApi, Said, call, custom, refused, said
from tests.openai_servers.responses import sealed
from tests.openai_servers.typed import response_departure
from tests.replay.openai_client import client, refusal, respond, respond_stream

if TYPE_CHECKING:
    from openai import OpenAI

USER: Body = {"role": "user", "content": "Where is order 7?"}
SCHEMA: Body = {"type": "object", "properties": {"id": {"type": "integer"}}}
CLOSED: Body = {**SCHEMA, "required": ["id"], "additionalProperties": False}
TOOL: Body = {"type": "function", "name": "get_order", "parameters": SCHEMA, "strict": None}
CALL: Body = {
    "type": "function_call", "call_id": "call_1", "name": "get_order", "arguments": '{"id": 7}',
}  # fmt: skip
OUTPUT: Body = {"type": "function_call_output", "call_id": "call_1", "output": "shipped"}
RUN: Body = {"type": "custom_tool_call", "call_id": "call_2", "name": "run", "input": "ls"}
RAN: Body = {"type": "custom_tool_call_output", "call_id": "call_2", "output": "README"}
THOUGHT: Body = {
    "type": "reasoning", "id": "rs_far", "summary": [], "encrypted_content": sealed("Hm", "rs_far"),
}  # fmt: skip
MORE: Body = {**THOUGHT, "id": "rs_more", "encrypted_content": sealed("So", "rs_more")}
MADE: Body = {
    "type": "message", "id": "msg_far", "role": "assistant", "status": "completed",
    "content": [{"type": "output_text", "text": "Hello.", "annotations": []}],
}  # fmt: skip
GPT4, GPT5, GPT56 = "gpt-4o", "gpt-5", "gpt-5.6"


def body(*items: Body, **beside: Any) -> Body:
    return {"model": GPT4, "input": [USER, *items], **beside}


def tool(**beside: Any) -> Body:
    return body(tools=[{**TOOL, **beside}])


def form(**beside: Any) -> Body:
    return body(text={"format": {"type": "json_schema", **beside}})


def without(item: Body, name: str) -> Body:
    return {n: v for n, v in item.items() if n != name}


REFUSED: dict[str, tuple[Body, Body, str, str | None, str | None]] = {
    "unknown parameter": (
        body(stop="END"), body(),
        "Unknown parameter: 'stop'.", "stop", "unknown_parameter",
    ),
    "messages": (
        body(messages=[USER]), body(),
        "Unsupported parameter: 'messages'. In the Responses API, this parameter has moved to "
        "'input'.", "messages", "unsupported_parameter",
    ),
    "a limit of the other API": (
        body(max_tokens=16), body(max_output_tokens=16),
        "has moved to 'max_output_tokens'", "max_tokens", "unsupported_parameter",
    ),
    "a format of the other API": (
        body(response_format={"type": "text"}), body(text={"format": {"type": "text"}}),
        "has moved to 'text.format'", "response_format", "unsupported_parameter",
    ),
    "effort of the other API": (
        body(model=GPT5, reasoning_effort="low"), body(model=GPT5, reasoning={"effort": "low"}),
        "has moved to 'reasoning.effort'", "reasoning_effort", "unsupported_parameter",
    ),
    "no model": (
        {"input": "Hi"}, {"model": GPT4, "input": "Hi"},
        "Missing required parameter: 'model'.", "model", "missing_required_parameter",
    ),
    "no input": (
        {"model": GPT4}, body(),
        'One of "input" or "previous_response_id"', "input", "missing_required_parameter",
    ),
    "an empty input": (
        {"model": GPT4, "input": []}, body(),
        'One of "input" or "previous_response_id"', "input", "missing_required_parameter",
    ),
    "a strange item": (
        body({"type": "tool_result"}), body(CALL, OUTPUT),
        "Invalid value: 'tool_result'.", "input[1].type", "invalid_value",
    ),
    "a strange role": (
        body({"role": "tool", "content": "x"}), body({"role": "developer", "content": "x"}),
        "Invalid value: 'tool'. Supported values are: 'user', 'system', 'developer', and "
        "'assistant'.", "input[1].role", "invalid_value",
    ),
    "null content": (
        body({"role": "user", "content": None}), body({"role": "user", "content": ""}),
        "Invalid type for 'input[1].content': expected one of a string or array of objects, but "
        "got null instead.", "input[1].content", "invalid_type",
    ),
    "a part of the other API": (
        body({"role": "user", "content": [{"type": "text", "text": "Hi"}]}),
        body({"role": "user", "content": [{"type": "input_text", "text": "Hi"}]}),
        "Invalid value: 'text'. Supported values are: 'input_text', 'input_image', and "
        "'input_file'.", "input[1].content[0].type", "invalid_value",
    ),
    "an input that the assistant made": (
        body({**MADE, "content": [{"type": "input_text", "text": "Hi"}]}), body(MADE),
        "Invalid value: 'input_text'. Supported values are: 'output_text' and 'refusal'.",
        "input[1].content[0].type", "invalid_value",
    ),
    "a field that a message has not": (
        body({**USER, "name": "ann"}), body({**USER, "type": "message"}),
        "Unknown parameter: 'input[1].name'.", "input[1].name", "unknown_parameter",
    ),
    "a call without id": (
        body(without(CALL, "call_id"), OUTPUT), body(CALL, OUTPUT),
        "Missing required parameter: 'input[1].call_id'.", "input[1].call_id",
        "missing_required_parameter",
    ),
    "a long id of a call": (
        body({**CALL, "call_id": "c" * 65}),
        body({**CALL, "call_id": "c" * 64}, {**OUTPUT, "call_id": "c" * 64}),
        "Invalid 'input[1].call_id': string too long. Expected a string with maximum length 64",
        "input[1].call_id", "string_above_max_length",
    ),
    "a name that is none": (
        body({**CALL, "name": "get order"}, OUTPUT), body(CALL, OUTPUT),
        "Invalid 'input[1].name': string does not match pattern.", "input[1].name",
        "invalid_value",
    ),
    "an id of another kind": (
        body({**CALL, "id": "call_1"}, OUTPUT), body({**CALL, "id": "fc_1"}, OUTPUT),
        "Invalid 'input[1].id': 'call_1'. Expected an ID that begins with 'fc'.", "input[1].id",
        "invalid_value",
    ),
    "arguments that are no text": (
        body({**CALL, "arguments": {}}, OUTPUT), body(CALL, OUTPUT),
        "Invalid type for 'input[1].arguments': expected a string, but got an object instead.",
        "input[1].arguments", "invalid_type",
    ),
    "a call without output": (
        body(CALL), body(CALL, USER, OUTPUT),
        "No tool output found for function call call_1.", "input", None,
    ),
    "an output without a call": (
        body(OUTPUT), body(CALL, OUTPUT),
        "No tool call found for function call output with call_id call_1.", "input", None,
    ),
    "an output before its call": (
        body(OUTPUT, CALL), body(CALL, OUTPUT),
        "No tool call found for function call output with call_id call_1.", "input", None,
    ),
    "an output of the other kind": (
        body(RUN, {**OUTPUT, "call_id": "call_2"}), body(RUN, RAN),
        "No tool call found for function call output with call_id call_2.", "input", None,
    ),
    "null output": (
        body(CALL, {**OUTPUT, "output": None}), body(CALL, {**OUTPUT, "output": ""}),
        "Invalid type for 'input[2].output'", "input[2].output", "invalid_type",
    ),
    "reasoning at the end": (
        body(THOUGHT, model=GPT5), body(THOUGHT, MADE, model=GPT5),
        "Item 'rs_far' of type 'reasoning' was provided without its required following item.",
        "input", None,
    ),
    "reasoning before a message of the user": (
        body(THOUGHT, USER, model=GPT5), body(THOUGHT, CALL, OUTPUT, model=GPT5),
        "was provided without its required following item.", "input", None,
    ),
    "reasoning that was changed": (
        body({**THOUGHT, "encrypted_content": "gAAAAAxyz"}, MADE, model=GPT5),
        body(THOUGHT, MADE, model=GPT5),
        "The encrypted content for item rs_far could not be verified. Reason: Encrypted content "
        "could not be decrypted or parsed.", None, "invalid_encrypted_content",
    ),
    "reasoning under another id": (
        body({**THOUGHT, "id": "rs_near"}, MADE, model=GPT5), body(THOUGHT, MADE, model=GPT5),
        "The encrypted content for item rs_near could not be verified. Reason: Encrypted content "
        "item_id did not match the target item id.", None, "invalid_encrypted_content",
    ),
    "changed reasoning without an id": (
        body({**without(THOUGHT, "id"), "encrypted_content": "gAAAAAxyz"}, MADE, model=GPT5),
        body(THOUGHT, MADE, model=GPT5),
        "The encrypted content gAAA...Axyz could not be verified.", None,
        "invalid_encrypted_content",
    ),
    "reasoning without an id or a content": (
        body({"type": "reasoning", "summary": []}, MADE, model=GPT5),
        body(THOUGHT, MADE, model=GPT5),
        "Missing required parameter: 'input[1].id'.", "input[1].id",
        "missing_required_parameter",
    ),
    "the status of reasoning": (
        body({**THOUGHT, "status": "completed"}, MADE, model=GPT5),
        body(THOUGHT, {**MADE, "status": "completed"}, model=GPT5),
        "Unknown parameter: 'input[1].status'.", "input[1].status", "unknown_parameter",
    ),
    "reasoning for a model that does not reason": (
        body(THOUGHT, MADE), body(THOUGHT, MADE, model=GPT5),
        "Reasoning input items can only be provided to a reasoning or computer use model.",
        "input", None,
    ),
    "an item twice": (
        body(THOUGHT, MADE, THOUGHT, MADE, model=GPT5),
        body(THOUGHT, MADE, MORE, {**MADE, "id": "msg_more"}, model=GPT5),
        "Duplicate item found with id rs_far. Remove duplicate items from your input and try "
        "again.", "input", None,
    ),
    "an unknown response": (
        body(previous_response_id="resp_none"), body(),
        "Previous response with id 'resp_none' not found.", "previous_response_id",
        "previous_response_not_found",
    ),
    "a tool of a strange kind": (
        body(tools=[{"type": "retrieval"}]), body(tools=[{"type": "web_search"}]),
        "Invalid value: 'retrieval'. Supported values are: 'function', 'custom',",
        "tools[0].type", "invalid_value",
    ),
    "a tool of the other API": (
        body(tools=[{"type": "function", "function": {"name": "get_order"}}]), body(tools=[TOOL]),
        "Missing required parameter: 'tools[0].name'.", "tools[0].name",
        "missing_required_parameter",
    ),
    "an open strict schema": (
        tool(strict=True), tool(strict=True, parameters=CLOSED),
        "Invalid schema for function 'get_order': In context=(), 'additionalProperties' is "
        "required", "tools[0].parameters", "invalid_function_parameters",
    ),
    "a list of nothing": (
        tool(parameters={"type": "object", "properties": {"ids": {"type": "array"}}}),
        tool(parameters={"type": "object", "properties": {"ids": {"type": "array", "items": {}}}}),
        "In context=('properties', 'ids'), array schema missing items.", "tools[0].parameters",
        "invalid_function_parameters",
    ),
    "a demanded tool without tools": (
        body(tool_choice="required"), body(tool_choice="required", tools=[TOOL]),
        "Tool choice 'required' must be specified with 'tools' parameter.", "tool_choice", None,
    ),
    "a choice that is not offered": (
        body(tools=[TOOL], tool_choice={"type": "function", "name": "refund"}),
        body(tools=[TOOL], tool_choice={"type": "function", "name": "get_order"}),
        "Tool choice 'refund' not found in 'tools' parameter.", "tool_choice", None,
    ),
    "allowed tools that are not offered": (
        body(tools=[TOOL], tool_choice={"type": "allowed_tools", "mode": "auto", "tools": [
            {"type": "function", "name": "refund"}]}),
        body(tools=[TOOL], tool_choice={"type": "allowed_tools", "mode": "auto", "tools": [
            {"type": "function", "name": "get_order"}]}),
        "Tool choice 'refund' not found in 'tools' parameter.", "tool_choice", None,
    ),
    "a tool of OpenAI's that is not offered": (
        body(tool_choice={"type": "file_search"}), body(tool_choice="auto"),
        "Tool choice 'file_search' not found in 'tools' parameter.", "tool_choice", None,
    ),
    "JSON without the word": (
        body(text={"format": {"type": "json_object"}}),
        body(text={"format": {"type": "json_object"}}, instructions="Answer as JSON."),
        "Response input messages must contain the word 'json' in some form to use 'text.format' of "
        "type 'json_object'.", "input", None,
    ),
    "a schema without a name": (
        form(schema=CLOSED), form(name="answer", schema=CLOSED, strict=True),
        "Missing required parameter: 'text.format.name'.", "text.format.name",
        "missing_required_parameter",
    ),
    "an open schema": (
        form(name="answer", schema=SCHEMA, strict=True), form(name="answer", schema=SCHEMA),
        "Invalid schema for response_format 'answer': In context=(), 'additionalProperties' is "
        "required", "text.format.schema", "invalid_json_schema",
    ),
    "a small limit": (
        body(max_output_tokens=15), body(max_output_tokens=16),
        "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16, but got "
        "15 instead.", "max_output_tokens", "integer_below_min_value",
    ),
    "a limit the model cannot reach": (
        body(max_output_tokens=16_385), body(max_output_tokens=16_384),
        "max_output_tokens is too large: 16385.", "max_output_tokens", "invalid_value",
    ),
    "a long input": (
        body({**USER, "content": "x" * 600_000}),
        body({**USER, "content": "x" * 600_000}, USER, truncation="auto"),
        "Your input exceeds the context window of this model.", "input",
        "context_length_exceeded",
    ),
    "effort of a model that does not reason": (
        body(reasoning={"effort": "low"}), body(reasoning={"effort": "low"}, model=GPT5),
        "Unsupported parameter: 'reasoning.effort' is not supported with this model.",
        "reasoning.effort", "unsupported_parameter",
    ),
    "a summary of a model that does not reason": (
        body(reasoning={"summary": "auto"}), body(reasoning={"summary": "auto"}, model=GPT5),
        "Unsupported parameter: 'reasoning.summary' is not supported with this model.",
        "reasoning.summary", "unsupported_parameter",
    ),
    "an effort the model does not know": (
        body(reasoning={"effort": "none"}, model=GPT5),
        body(reasoning={"effort": "none"}, model=GPT56),
        "Unsupported value: 'reasoning.effort' does not support 'none' with this model.",
        "reasoning.effort", "unsupported_value",
    ),
    "secrets of a model that does not reason": (
        body(include=["reasoning.encrypted_content"]),
        body(include=["reasoning.encrypted_content"], model=GPT5),
        "Encrypted content is not supported with this model.", "include", None,
    ),
    "something to include that is not there": (
        body(include=["thoughts"]), body(include=["message.output_text.logprobs"]),
        "Invalid value: 'thoughts'.", "include[0]", "invalid_value",
    ),
    "temperature of a model that reasons": (
        body(temperature=0, model=GPT5), body(temperature=0),
        "Unsupported parameter: 'temperature' is not supported with this model.", "temperature",
        "unsupported_parameter",
    ),
    "temperature beside effort": (
        body(temperature=0, model=GPT56),
        body(temperature=0, model=GPT56, reasoning={"effort": "none"}),
        "Unsupported parameter: 'temperature' is not supported with this model.", "temperature",
        "unsupported_parameter",
    ),
    "candidates of a model that reasons": (
        body(top_logprobs=2, model=GPT5), body(top_logprobs=2),
        "Unsupported parameter: 'top_logprobs' is not supported with this model.",
        "top_logprobs", "unsupported_parameter",
    ),
    "verbosity": (
        body(text={"verbosity": "low"}), body(text={"verbosity": "low"}, model=GPT5),
        "Unsupported value: 'text.verbosity' does not support 'low' with this model.",
        "text.verbosity", "unsupported_value",
    ),
    "options of a stream that is none": (
        body(stream_options={"include_obfuscation": False}), body(),
        "The 'stream_options' parameter is only allowed when 'stream' is enabled.",
        "stream_options", None,
    ),
    "usage that a stream always has": (
        body(stream_options={"include_usage": True}, stream=True), body(),
        "Unknown parameter: 'stream_options.include_usage'.", "stream_options.include_usage",
        "unknown_parameter",
    ),
    "a strategy": (
        body(truncation="middle"), body(truncation="disabled"),
        "Invalid value: 'middle'. Supported values are: 'auto' and 'disabled'.", "truncation",
        "invalid_value",
    ),
    "much metadata": (
        body(metadata={str(at): "" for at in range(17)}),
        body(metadata={str(at): "" for at in range(16)}),
        "Invalid 'metadata': object with too many properties.", "metadata",
        "object_above_max_properties",
    ),
    "heat": (
        body(temperature=3), body(temperature=2),
        "Invalid 'temperature': decimal above maximum value.", "temperature",
        "decimal_above_max_value",
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def shared() -> Iterator[OpenAI]:
    with OpenaiApi() as running, client(running) as made:
        yield made


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_is_taken_when_it_is_mended(shared: OpenAI, name: str) -> None:
    wrong, mended, why, param, code = REFUSED[name]
    error = refusal(shared, "/responses", wrong)
    assert why in error.message
    assert (error.status_code, error.param, error.code) == (400, param, code)
    assert response_departure(mended) is None
    assert respond(shared, mended).status == "completed"


def test_the_types_of_the_sdk_refuse_for_themselves() -> None:
    for name in ("a strange item", "arguments that are no text", "a tool of the other API"):
        assert response_departure(REFUSED[name][0]) is not None


@pytest.fixture
def api() -> Iterator[OpenaiApi]:
    with OpenaiApi() as running:
        yield running


@pytest.fixture
def sdk(api: OpenaiApi) -> Iterator[OpenAI]:
    with client(api) as made:
        yield made


# --- what is kept


WORKED = said("", call("get_order", id=7), reasoning="What do I know of order 7?")


def test_a_response_rests_on_the_one_before(api: OpenaiApi, sdk: OpenAI) -> None:
    seen: list[Body] = []

    def policy(asked: Body) -> Said:
        seen.append(asked)
        return WORKED if len(seen) == 1 else said("Shipped.")

    api.policy = policy
    first = respond(sdk, body(model=GPT5, tools=[TOOL], instructions="Be kind."))
    thought, made = first.output
    assert (thought.type, made.type) == ("reasoning", "function_call")
    assert made.type == "function_call"
    output = {**OUTPUT, "call_id": made.call_id}
    again = {"model": GPT5, "previous_response_id": first.id}
    error = refusal(sdk, "/responses", {**again, "input": "And?"})
    assert error.message.endswith(f"No tool output found for function call {made.call_id}.")
    second = respond(sdk, {**again, "input": [output]})
    assert second.output_text == "Shipped."
    assert second.instructions is None
    kinds = [each["type"] for each in seen[1]["input"]]
    assert kinds == ["message", "reasoning", "function_call", "function_call_output"]
    kept = sdk.responses.retrieve(first.id)
    assert kept.to_dict() == first.to_dict()


def test_what_is_stored_can_be_named_and_needs_its_reasoning(api: OpenaiApi, sdk: OpenAI) -> None:
    api.policy = lambda _: WORKED
    first = respond(sdk, body(model=GPT5, tools=[TOOL]))
    thought, made = first.output
    assert made.type == "function_call"
    assert made.id is not None
    output = {**OUTPUT, "call_id": made.call_id}
    inline = {**CALL, "id": made.id, "call_id": made.call_id}
    error = refusal(sdk, "/responses", body(inline, output, model=GPT5))
    assert error.message.endswith(
        f"Item '{made.id}' of type 'function_call' was provided without its required 'reasoning' "
        f"item: '{thought.id}'."
    )
    named = [{"type": "item_reference", "id": each} for each in (str(thought.id), made.id)]
    assert respond(sdk, body(*named, output, model=GPT5)).status == "completed"
    assert respond(sdk, body(without(inline, "id"), output, model=GPT5)).status == "completed"


def test_what_is_not_stored_is_not_found_but_its_secrets_are_taken(
    api: OpenaiApi, sdk: OpenAI
) -> None:
    import openai

    api.policy = lambda _: WORKED
    asked = body(model=GPT5, tools=[TOOL], store=False, include=["reasoning.encrypted_content"])
    first = respond(sdk, asked)
    thought, made = (each.to_dict(exclude_none=True) for each in first.output)
    output = {**OUTPUT, "call_id": made["call_id"]}
    error = refusal(
        sdk, "/responses", {"model": GPT5, "input": "x", "previous_response_id": first.id}
    )
    assert error.code == "previous_response_not_found"
    for item in (
        {"type": "item_reference", "id": thought["id"]},
        {**THOUGHT, "encrypted_content": None},
    ):
        error = refusal(sdk, "/responses", {**asked, "input": [USER, item, made, output]})
        assert isinstance(error, openai.NotFoundError)
        assert "Items are not persisted when `store` is set to false." in error.message
    with pytest.raises(openai.NotFoundError, match=f"Response with id '{first.id}' not found"):
        sdk.responses.retrieve(first.id)
    for same in (thought, without(thought, "id")):  # the SDK's types want the id, programs do not
        again = respond(sdk, {**asked, "input": [USER, same, made, output]})
        assert again.status == "completed"


def test_a_long_input_loses_its_beginning(api: OpenaiApi, sdk: OpenAI) -> None:
    seen: list[Body] = []

    def policy(asked: Body) -> Said:
        seen.append(asked)
        return said("Done.")

    api.policy = policy
    long = {"role": "user", "content": "x" * 600_000}
    answer = respond(sdk, {"model": GPT4, "input": [long, USER], "truncation": "auto"})
    assert [each["content"] for each in seen[0]["input"]] == [USER["content"]]
    assert answer.usage is not None
    assert answer.usage.input_tokens < 100


# --- what it sends


def written(item: Any) -> str:
    """What of an item comes in deltas."""
    parts = [*item.get("summary", []), *(item.get("content") or [])]
    texts = [part.get("text", part.get("refusal")) for part in parts]
    return "".join([*texts, item.get("arguments", ""), item.get("input", "")])


@pytest.mark.parametrize(
    ("answer", "more", "status"),
    [
        (said("On its way."), {}, "completed"),
        (said(""), {}, "completed"),
        (
            said("Looking.", call("get_order", id=7), call("get_user", id=1), reasoning="Hm, so."),
            {"reasoning": {"summary": "auto"}, "include": ["reasoning.encrypted_content"]},
            "completed",
        ),
        (
            said("", custom("run", "ls -l")),
            {"tools": [{"type": "custom", "name": "run"}]},
            "completed",
        ),
        (refused("I cannot help with that."), {}, "completed"),
        (said("x" * 100), {"max_output_tokens": 16}, "incomplete"),
        (
            said("", call("get_order", id=7), reasoning="x" * 100),
            {"max_output_tokens": 16},
            "incomplete",
        ),
        (said("On its", finish="content_filter"), {}, "incomplete"),
        (said("", finish="failed"), {}, "failed"),
    ],
)
def test_a_stream_says_what_a_whole_answer_says(
    api: OpenaiApi, sdk: OpenAI, answer: Said, more: Body, status: str
) -> None:
    api.policy = lambda _: answer
    asked = body(model=GPT5, **more)
    whole = respond(sdk, asked)
    events, streamed, made = respond_stream(sdk, asked)
    named = json.dumps(streamed.to_dict()).replace(
        streamed.id.removeprefix("resp_"), whole.id.removeprefix("resp_")
    )
    assert json.loads(named) == whole.to_dict()
    assert streamed.status == status
    for told_in_deltas, output in zip(made, streamed.output, strict=True):
        if output.type == "function_call" or (output.type == "message" and not answer.refusal):
            assert written(told_in_deltas) == written(output.to_dict())  # the SDK adds no others
    for at, item in enumerate(whole.output):
        deltas = [e.delta for e in events if e.type.endswith(".delta") and e.output_index == at]
        assert "".join(deltas) == written(item.to_dict())
    assert [each.sequence_number for each in events] == list(range(len(events)))
    kinds = [each.type for each in events]
    assert kinds[:2] == ["response.created", "response.in_progress"]
    assert kinds[-1] == f"response.{status}"
    reason = whole.incomplete_details and whole.incomplete_details.reason
    expected = {"incomplete": answer.finish or "max_output_tokens"}.get(status)
    assert reason == expected
    assert (whole.error is not None) == (status == "failed")


def test_the_order_of_events(api: OpenaiApi, sdk: OpenAI) -> None:
    api.policy = lambda _: said("Looking.", call("f", id=7), reasoning="Hm.")
    events, *_ = respond_stream(sdk, body(model=GPT5, reasoning={"summary": "auto"}))
    assert list(dict.fromkeys(each.type for each in events)) == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.reasoning_summary_part.added",
        "response.reasoning_summary_text.delta",
        "response.reasoning_summary_text.done",
        "response.reasoning_summary_part.done",
        "response.output_item.done",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "response.completed",
    ]
    places = [each.output_index for each in events if hasattr(each, "output_index")]
    assert places == sorted(places)
    assert set(places) == {0, 1, 2}


def test_usage_counts_reasoning_and_the_cache(api: OpenaiApi, sdk: OpenAI) -> None:
    api.policy = lambda _: said("Done.", reasoning="x" * 40)
    asked = body(model=GPT56, instructions="x" * 8000)
    usages = [respond(sdk, asked).usage for _ in range(2)]
    for usage, cached, written in zip(usages, (0, 1920), (1920, 0), strict=True):
        assert usage is not None
        assert usage.input_tokens_details.cached_tokens == cached
        assert usage.input_tokens_details.cache_write_tokens == written
        assert usage.output_tokens_details.reasoning_tokens == 10
        assert usage.output_tokens == 12
        assert usage.total_tokens == usage.input_tokens + 12
    assert [each.usage["input_tokens_details"]["cached_tokens"] for each in api.answered] == [
        0,
        1920,
    ]


def test_a_broken_stream_has_no_last_event(api: OpenaiApi, sdk: OpenAI) -> None:
    import httpx2
    import openai

    sent: Any = body(model=GPT5, stream=True)
    api.policy = lambda _: WORKED
    for name in ("stream ends early", "stream ends in arguments", "stream closed", "stream dropped",
                 "stream ends in an event"):  # fmt: skip
        api.fault(FAULTS[name])
        kinds = []
        try:
            for event in sdk.responses.create(**sent):
                kinds.append(event.type)  # noqa: PERF401 - those before it breaks count
        except (openai.APIError, httpx2.HTTPError):
            pass
        assert "response.completed" not in kinds, name
    api.fault(FAULTS["stream error"])
    *_, last = sdk.responses.create(**sent)  # the SDK raises nothing
    assert (last.type, last.code) == ("error", "server_error")


def test_what_this_server_has_not_is_said_so(sdk: OpenAI) -> None:
    error = refusal(sdk, "/responses", body(background=True))
    assert error.status_code == 501
    assert "this test server does not serve 'background'" in error.message


def test_a_model_of_this_api_alone_is_served(sdk: OpenAI) -> None:
    assert respond(sdk, body(model="gpt-5-codex")).model == "gpt-5-codex"
