"""What exports of tracing services share: values, groups that outgrow memory, figures, shapes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from replay.errors import BadTrace
from replay.formats.common import number
from replay.formats.genai import attributes
from replay.formats.genai.functions import has_text, request_of, response_of, result_of
from replay.formats.genai.records import readable, usd
from replay.formats.genai.services import Groups, records, values
from replay.formats.genai.usage import figures
from replay.formats.source import Source, Tally
from tests.replay.service_case import ASKS, SAYS, SYSTEM, TOLD, USER


def test_groups_larger_than_the_budget_come_back_whole_and_in_order() -> None:
    groups = Groups(budget_bytes=100)
    for number_ in range(30):
        groups.add("ab"[number_ % 2], {"at": number_, "big": 2**70})
    found = dict(groups.taken())
    assert list(found) == ["a", "b"]
    assert [record["at"] for record in found["b"]] == list(range(1, 30, 2))
    assert found["a"][0]["big"] == 2**70


def test_a_broken_line_costs_itself_and_a_document_that_is_none_everything(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"a": 1}\n{"a": \n[{"a": 2}]\n')
    tally = Tally()
    found = [each for _, value in values(Source(path), tally) for each in records(value)]
    assert found == [{"a": 1}, {"a": 2}]
    assert [problem.where for problem in tally.problems] == ["line 2"]
    path.write_text('{\n "a": 1\n}')
    assert [value for _, value in values(Source(path), Tally())] == [{"a": 1}]
    path.write_text("{\n")
    with pytest.raises(BadTrace, match="not JSON"):
        list(values(Source(path), Tally()))


def test_a_first_line_longer_than_the_head_is_a_line(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text("\n".join(json.dumps({"a": "x" * 100_000}) for _ in range(2)))
    assert len(list(values(Source(path), Tally()))) == 2


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('"{\\"a\\": 1}"', {"a": 1}),
        ("{'a': None}", {"a": None}),
        ("plain", "plain"),
        ("[broken", "[broken"),
        ('"quoted"', "quoted"),
        (7, 7),
    ],
)
def test_a_text_is_read_as_what_it_stands_for(text: Any, value: Any) -> None:
    assert readable(text) == value


@pytest.mark.parametrize(
    ("amount", "found"), [("0.0061", 0.0061), (2, 2.0), ("x", None), (-1, None), (True, None)]
)
def test_money_is_a_number_or_a_decimal_text(amount: Any, found: float | None) -> None:
    assert usd(amount) == found


def test_a_score_is_a_number_or_a_truth_value_of_sane_size() -> None:
    assert [number(each) for each in (True, 0.5, "1", 10**400)] == [1.0, 0.5, None, None]


@pytest.mark.parametrize(
    ("usage", "total", "read"),
    [
        ({"input_tokens": 5, "cache_read_input_tokens": 90}, 95, 90),
        ({"input_tokens": 95, "input_tokens_details": {"cached_tokens": 90}}, 95, 90),
        ({"prompt_tokens": 95, "cache_read_input_tokens": 90}, 95, 90),
        ({"prompt_token_count": 7}, 7, None),
    ],
)
def test_only_anthropic_counts_the_cache_beside_the_input(
    usage: dict[str, Any], total: int, read: int | None
) -> None:
    found = figures(usage)
    assert found["gen_ai.usage.input_tokens"] == total
    assert found.get("gen_ai.usage.cache_read.input_tokens") == read


GOOGLE: dict[str, Any] = {
    "model": "gemini", "config": {
        "system_instruction": "Be brief.",
        "tools": [{"function_declarations": [{"name": "get_order", "parameters": {}}]}],
    },
    "contents": [
        {"role": "user", "parts": [{"text": "Where?"}]},
        {"role": "model", "parts": [{"function_call": {"name": "get_order", "args": {"id": 7}}}]},
        {"role": "user", "parts": [{"function_response": {"name": "get_order", "response": 1}}]},
    ],
}  # fmt: skip


def test_google_s_contents_are_messages_whose_calls_are_known_by_their_names() -> None:
    found = request_of(GOOGLE)
    assert found is not None
    assert (found.system, found.model) == ("Be brief.", "gemini")
    assert [tool["name"] for tool in found.tools or ()] == ["get_order"]
    assert [each["role"] for each in found.messages] == ["user", "assistant", "user"]
    asked, answered = found.messages[1]["parts"][0], found.messages[2]["parts"][0]
    assert (asked["type"], asked["id"]) == ("tool_call", "get_order")
    assert (answered["type"], answered["id"]) == ("tool_call_response", "get_order")
    made = response_of({"candidates": [{"content": GOOGLE["contents"][1], "finishReason": "STOP"}]})
    assert made is not None
    assert (made.message["parts"][0]["name"], made.why) == ("get_order", "stop")


@pytest.mark.parametrize(
    "inputs",
    [
        [SYSTEM, USER],
        {"messages": [SYSTEM, USER], "model": "m"},
        {"messages": [[SYSTEM, USER]]},
        {"args": [], "kwargs": {"messages": [SYSTEM, USER]}},
    ],
)
def test_a_list_of_messages_is_found_wherever_it_stands(inputs: Any) -> None:
    found = request_of(inputs)
    assert found is not None
    assert [each["role"] for each in found.messages] == ["system", "user"]


@pytest.mark.parametrize(
    "outputs",
    [
        SAYS,
        [SAYS],
        "It shipped.",
        {"choices": [{"message": SAYS, "finish_reason": "stop"}]},
        {"index": 0, "message": SAYS, "finish_reason": "stop"},
        {"output": SAYS},
        {"generations": [[{"text": "It shipped."}]]},
        {"content": "It shipped.", "additional_kwargs": {}, "response_metadata": {}},
    ],
)
def test_an_answer_is_found_wherever_it_stands(outputs: Any) -> None:
    found = response_of(outputs)
    assert found is not None
    assert (found.message["role"], found.message["content"]) == ("assistant", "It shipped.")


def test_what_is_no_message_is_no_request() -> None:
    assert request_of({"content": "role"}) is None
    assert request_of({"q": "x"}) is None
    assert has_text({"q": "x"}, None) == {}


def test_tools_that_stand_among_the_messages_are_those_offered() -> None:
    declares = {"role": "tool", "content": {"type": "function", "function": {"name": "f"}}}
    found = has_text([USER, declares, ASKS, TOLD], SAYS)
    assert [tool["function"]["name"] for tool in found["gen_ai.tool.definitions"]] == ["f"]
    assert [each["role"] for each in found[attributes.INPUT]] == ["user", "assistant", "tool"]


def test_a_tool_s_message_is_unwrapped_and_another_result_is_left() -> None:
    assert result_of({"output": TOLD}) == ("shipped", "call_1", False)
    assert result_of({"status": "shipped"}) == ({"status": "shipped"}, None, False)
