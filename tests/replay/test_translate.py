"""What services and frameworks say in words of their own is read as what the conventions say."""

from __future__ import annotations

import json
from typing import Any

import pytest

from replay.formats.common import parse_repr
from replay.formats.genai.builder import Builder
from replay.formats.genai.functions import arguments_of, result_of
from replay.formats.genai.reconcile import reconcile
from replay.formats.genai.records import RawSpan
from replay.formats.source import Tally
from replay.messages import text
from replay.trace import ModelCall, ToolCall, Usage

PRINTED = (
    "ChatCompletion(id='r-1', choices=[Choice(finish_reason=<Reason.CALLS: 'tool_calls'>,"
    ' message=Message(content="it\'s (done)", tool_calls=None))], usage=Usage(prompt_tokens=200,'
    " completion_tokens=21, prompt_tokens_details=Details(cached_tokens=64)))"
)


def test_what_python_prints_of_objects_is_read() -> None:
    made: Any = parse_repr(PRINTED)
    assert made["choices"][0]["finish_reason"] == "tool_calls"
    assert made["choices"][0]["message"] == {"content": "it's (done)", "tool_calls": None}
    assert made["usage"]["prompt_tokens_details"] == {"cached_tokens": 64}


@pytest.mark.parametrize(
    "written",
    [
        "",
        "<object at 0x7f>",
        "f(",
        "__import__('os').getcwd()",
        "x + 1",
        "Name(a=other)",
        "(" * 9_000,
    ],
)
def test_what_is_no_plain_data_is_none(written: str) -> None:
    assert parse_repr(written) is None


def the_call(attributes: dict[str, Any]) -> ModelCall:
    raw = RawSpan(trace="t", id="m", name="m", start_ns=1, end_ns=2, attributes=attributes)
    (span,) = Builder(reconcile([raw]), Tally()).spans()
    assert isinstance(span, ModelCall)
    return span


def the_tool(attributes: dict[str, Any], **more: Any) -> ToolCall:
    raw = RawSpan(
        trace="t", id="c", name="get_order", start_ns=1, end_ns=2, attributes=attributes, **more
    )
    (span,) = Builder(reconcile([raw]), Tally()).spans()
    assert isinstance(span, ToolCall)
    return span


def test_counts_and_the_stop_reason_are_read_from_a_printed_response() -> None:
    given = {
        "openinference.span.kind": "LLM",
        "llm.token_count.prompt": 200,
        "llm.token_count.completion": 21,
        "output.value": json.dumps({"role": "assistant", "content": "Done.", "raw": PRINTED}),
    }
    call = the_call(given)
    assert call.usage == Usage(input_tokens=200, output_tokens=21, cache_read_tokens=64)
    assert call.response.stop_raw == "tool_calls"


def test_counts_of_another_input_are_not_mixed_with_the_span_s() -> None:
    given = {
        "openinference.span.kind": "LLM",
        "llm.token_count.prompt": 500,
        "output.value": json.dumps({"role": "assistant", "content": "Done.", "raw": PRINTED}),
    }
    assert the_call(given).usage == Usage(input_tokens=500)


def test_langfuse_s_own_counts_and_cost_are_read() -> None:
    given = {
        "langfuse.observation.type": "generation",
        "langfuse.observation.model.name": "claude-opus-4-8",
        "langfuse.observation.usage_details": json.dumps(
            {"input": 36, "output": 7, "input_cache_read": 64, "total": 107}
        ),
        "langfuse.observation.cost_details": json.dumps({"total": 0.25}),
        "langfuse.observation.model.parameters": json.dumps(
            {"temperature": 0, "max_tokens": "inf"}
        ),
        "langfuse.observation.input": json.dumps([{"role": "user", "content": "Refund it."}]),
        "langfuse.observation.output": json.dumps({"role": "assistant", "content": "Done."}),
    }
    call = the_call(given)
    assert call.usage == Usage(input_tokens=100, output_tokens=7, cache_read_tokens=64)
    assert call.cost is not None
    assert (call.cost.usd, call.cost.source) == (0.25, "recorded")
    assert call.request.params == {"temperature": 0}
    assert call.request.model == "claude-opus-4-8"
    assert call.response.message is not None
    assert text(call.response.message) == "Done."


@pytest.mark.parametrize(
    ("wrapped", "named"),
    [
        ({"args": [], "kwargs": {"id": 7}}, {"id": 7}),
        ({"kwargs": {"id": 7}, "args": [], "sanitize_inputs_outputs": True}, {"id": 7}),
        ({"inputs": {"id": 7}, "tags": []}, {"id": 7}),
        ({"args": [7], "kwargs": {"id": 7}}, None),
        ({"args": [], "kwargs": {}}, None),
        ({"id": 7, "kwargs": {"x": 1}}, None),
        ("7", None),
    ],
)
def test_arguments_are_taken_out_of_what_wraps_them(wrapped: Any, named: Any) -> None:
    assert arguments_of(wrapped) == named


@pytest.mark.parametrize(
    ("given", "value", "call_id", "failed"),
    [
        ({"type": "tool", "data": {"content": "no", "tool_call_id": "a", "status": "error"}},
         "no", "a", True),
        ({"toolResult": {"toolUseId": "a", "status": "success", "content": "yes"}},
         "yes", "a", False),
        ({"isError": True, "content": [{"type": "text", "text": "no"}]},
         [{"type": "text", "text": "no"}], None, True),
        ({"status": "error", "content": "a page"}, {"status": "error", "content": "a page"},
         None, False),
        ("shipped", "shipped", None, False),
    ],
)  # fmt: skip
def test_a_result_is_taken_out_of_its_envelope(
    given: Any, value: Any, call_id: str | None, failed: bool
) -> None:
    assert result_of(given) == (value, call_id, failed)


def test_an_error_that_only_the_result_tells_of_is_the_call_s() -> None:
    message = {"content": "no such order: 1039", "tool_call_id": "a", "status": "error"}
    given = {
        "openinference.span.kind": "TOOL",
        "output.value": json.dumps({"type": "tool", "data": message}),
    }
    call = the_tool(given, status="ok")
    assert (call.status, call.error, call.call_id) == ("error", "no such order: 1039", "a")


def test_the_stack_behind_an_error_is_left_out() -> None:
    said = "ValueError('no such order')Traceback (most recent call last):\n  File …"
    call = the_tool({"openinference.span.kind": "TOOL"}, status="error", message=said)
    assert call.error == "ValueError('no such order')"
