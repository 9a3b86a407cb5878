"""What the test server refuses, and that it takes what the API documents as right."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.messages_api import Body, count_refusal, refusal, text, tool_use

MARK = {"type": "ephemeral"}
HOUR = {"type": "ephemeral", "ttl": "1h"}
TOOL: Body = {"name": "get_order", "input_schema": {"type": "object"}}
ASKED: Body = {"role": "user", "content": "Hi"}
CALLED: Body = {"role": "assistant", "content": [tool_use("get_order", id=1)]}
GIVEN: Body = {"type": "tool_result", "tool_use_id": "toolu_test", "content": "shipped"}


def body(**beside: Any) -> Body:
    return {"model": "claude-test", "max_tokens": 2000, "messages": [ASKED], **beside}


def said(*messages: Body) -> Body:
    return body(messages=list(messages), tools=[TOOL])


def user(*blocks: Body) -> Body:
    return {"role": "user", "content": list(blocks)}


FORMAT: Body = {
    "type": "object",
    "properties": {"balance": {"type": "number"}},
    "required": ["balance"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    "sent",
    [
        body(),
        body(max_tokens=0),
        body(cache_control=MARK),
        body(system="Be kind."),
        body(system=[text("Be"), {**text("kind."), "cache_control": HOUR}], cache_control=MARK),
        body(tools=[{**TOOL, "cache_control": MARK, "strict": True, "description": "Looks."}]),
        said(user({**text("Hi"), "cache_control": MARK})),
        said(ASKED, CALLED, user({**GIVEN, "cache_control": MARK, "is_error": False})),
        said(ASKED, CALLED, user({**GIVEN, "content": [text("a"), text("b")]}, text("And?"))),
        said(ASKED, CALLED, user({**GIVEN, "content": ""})),
        said(ASKED, {"role": "assistant", "content": "Hello."}, {**ASKED, "role": "system"}, ASKED),
        body(thinking={"type": "adaptive", "display": "omitted"}),
        body(thinking={"type": "enabled", "budget_tokens": 1024}),
        body(thinking={"type": "disabled"}),
        body(thinking={"type": "between_tools"}),
        body(output_config={"effort": "xhigh"}),
        body(output_config={"format": {"type": "json_schema", "schema": FORMAT}}),
        body(tools=[TOOL], tool_choice={"type": "tool", "name": "get_order"}),
        body(tools=[TOOL], tool_choice={"type": "any", "disable_parallel_tool_use": True}),
        body(metadata={"user_id": "7"}, service_tier="auto", stop_sequences=["END"], stream=True),
    ],
)
def test_what_is_documented_is_taken(sent: Body) -> None:
    assert refusal(sent) is None


@pytest.mark.parametrize(
    ("sent", "where"),
    [
        (body(temperature=0), "temperature"),
        (body(top_p=1), "top_p"),
        (body(top_k=5), "top_k"),
        (body(seed=1), "seed"),
        (body(mcp_servers=[]), "mcp_servers"),
        (said({**ASKED, "name": "me"}), "messages.0.name"),
        (said(user({**text("Hi"), "id": 1})), "messages.0.content.0.id"),
        (said(ASKED, CALLED, user({**GIVEN, "name": "x"})), "messages.2.content.0.name"),
        (body(tools=[{**TOOL, "parameters": {}}]), "tools.0.parameters"),
        (body(system=[{**text("x"), "x": 1}]), "system.0.x"),
        (body(cache_control={**MARK, "scope": "all"}), "cache_control.scope"),
        (body(thinking={"type": "adaptive", "budget_tokens": 2000}), "thinking.budget_tokens"),
        (body(output_config={"verbosity": "low"}), "output_config.verbosity"),
        (body(tools=[TOOL], tool_choice={"type": "auto", "name": "x"}), "tool_choice.name"),
        (body(metadata={"session": "x"}), "metadata.session"),
    ],
)
def test_an_unknown_field_is_refused_wherever_it_stands(sent: Body, where: str) -> None:
    assert refusal(sent) == f"{where}: Extra inputs are not permitted"


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        ({"max_tokens": 1, "messages": [ASKED]}, "model: Field required"),
        ({"model": "x", "messages": [ASKED]}, "max_tokens: Field required"),
        (body(max_tokens=True), "max_tokens"),
        (body(max_tokens=-1), "max_tokens"),
        (body(messages=[]), "messages"),
        (body(system=""), "system: text content blocks must be non-empty"),
        (body(system=[]), "system: text content blocks must be non-empty"),
        (body(stop_sequences=["END", " "]), "stop_sequences"),
        (said(user(text(" "))), "text content blocks must be non-empty"),
        (said({"role": "user", "content": []}), "text content blocks must be non-empty"),
        (said({"role": "tool", "content": "x"}), "messages.0.role"),
        (said({"role": "assistant", "content": "x"}), "first message must use the user role"),
        (said(ASKED, {"role": "assistant", "content": "Sure"}), "prefill"),
        (said(ASKED, ASKED), "roles must alternate"),
        (said(user({"type": "strange"})), "messages.0.content.0.type"),
        (said(user({"type": "image", "source": {"type": "url", "url": "x"}})), "source.type"),
        # calls and results
        (said(user(GIVEN)), "unexpected `tool_use_id`"),
        (said(ASKED, CALLED, ASKED), "without `tool_result` blocks immediately after"),
        (said(ASKED, CALLED, user(GIVEN, GIVEN)), "a single result"),
        (said(ASKED, CALLED, user(text("Well:"), GIVEN)), "must come first"),
        (said(ASKED, CALLED, user({**GIVEN, "content": [text("")]})), "must be non-empty"),
        (said(user(tool_use("get_order"))), "`tool_use` blocks are not permitted in `user`"),
        (said(ASKED, {"role": "assistant", "content": [GIVEN]}, ASKED), "tool_use_id"),
        (
            said(ASKED, {**CALLED, "content": CALLED["content"] * 2}, user(GIVEN)),
            "ids must be unique",
        ),
        # tools
        (body(tools=[TOOL, TOOL]), "must be unique"),
        (body(tools=[{**TOOL, "name": "get order"}]), "tools.0.name"),
        (body(tools=[{**TOOL, "input_schema": {}}]), "tools.0.input_schema.type: Field required"),
        (body(tool_choice={"type": "auto"}), "while providing tools"),
        (body(tools=[TOOL], tool_choice={"type": "tool", "name": "refund"}), "'refund' not found"),
        # thinking and output
        (body(thinking={"type": "sometimes"}), "thinking.type"),
        (body(thinking={"type": "enabled"}), "thinking.budget_tokens: Field required"),
        (body(thinking={"type": "enabled", "budget_tokens": 10}), "thinking.budget_tokens"),
        (body(thinking={"type": "enabled", "budget_tokens": 2000}), "greater than thinking.budget"),
        (
            body(
                tools=[TOOL],
                tool_choice={"type": "any"},
                thinking={"type": "enabled", "budget_tokens": 1024},
            ),
            "tool_choice",
        ),
        (body(thinking={"type": "adaptive", "block_binding": {}}), "thinking.block_binding"),
        (
            said(ASKED, {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "Hm", "signature": ""}, text("Yes."),
            ]}, ASKED),
            "Invalid signature in thinking block",
        ),
        (body(output_config={"effort": "huge"}), "output_config.effort"),
        (
            body(output_config={"format": {"type": "json_schema", "schema": {"type": "object"}}}),
            "'additionalProperties' must be explicitly set to false",
        ),
        (
            body(output_config={"format": {"type": "json_schema", "schema": {
                **FORMAT, "properties": {"balance": {"type": "number", "minimum": 0}},
            }}}),
            "output_config.format.schema.properties.balance: 'minimum' is not supported",
        ),
        # cache markers
        (body(cache_control={"type": "persistent"}), "cache_control.type"),
        (body(cache_control={**MARK, "ttl": "1d"}), "cache_control.ttl"),
        (body(system=[{**text(n), "cache_control": MARK} for n in "abcde"]), "Found 5"),
        (
            body(system=[{**text(n), "cache_control": MARK} for n in "abcd"], cache_control=MARK),
            "Found 5",
        ),
        (
            body(system=[{**text("x"), "cache_control": MARK}], cache_control=HOUR),
            "ttl='1h' block must not come after a ttl='5m' block",
        ),
        (
            body(messages=[user({**text("x"), "cache_control": HOUR})], cache_control=MARK),
            "marked with another ttl",
        ),
    ],
)  # fmt: skip
def test_what_the_api_refuses_is_refused_with_its_place(sent: Body, why: str) -> None:
    wrong = refusal(sent)
    assert wrong is not None
    assert why in wrong


def test_a_marker_on_the_last_block_is_the_automatic_one() -> None:
    marked = [{**text(name), "cache_control": MARK} for name in "abc"]
    last = user({**text("x"), "cache_control": MARK})
    assert refusal(body(system=marked, messages=[last], cache_control=MARK)) is None


@pytest.mark.parametrize("model", ["claude-opus-5-5", "claude-fable-5-1-20260801"])
def test_a_model_that_always_thinks_cannot_be_forced_or_stopped(model: str) -> None:
    forced = body(model=model, tools=[TOOL], tool_choice={"type": "any"})
    assert "forced tool use is not supported" in str(refusal(forced))
    assert "cannot be disabled" in str(refusal(body(model=model, thinking={"type": "disabled"})))
    assert refusal(body(model=model, tools=[TOOL], tool_choice={"type": "auto"})) is None
    assert refusal(forced, always_thinking=()) is None


def test_counting_asks_for_what_a_model_sees_and_nothing_else() -> None:
    seen = {name: value for name, value in body(system="x").items() if name != "max_tokens"}
    assert count_refusal(seen) is None
    assert count_refusal({**seen, "max_tokens": 5}) == "max_tokens: Extra inputs are not permitted"


_NAMES = st.sampled_from(
    ["type", "text", "content", "role", "user", "tool_use", "id", "name", "input", "cache_control"]
)
_JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=3), _NAMES),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(_NAMES, inner, max_size=4)
    ),
    max_leaves=12,
)


@given(
    st.sampled_from([*body(), "system", "tools", "thinking", "output_config", "cache_control"]),
    _JSON,
)
def test_whatever_stands_in_a_field_the_answer_is_a_sentence_or_none(
    name: str, value: object
) -> None:
    wrong = refusal(body(**{name: value}))
    assert wrong is None or wrong.strip()


@given(_JSON, _JSON)
def test_so_it_is_inside_a_conversation(content: object, block: object) -> None:
    for sent in (content, [block], [text("Hi"), block]):
        wrong = refusal(body(messages=[ASKED, {"role": "assistant", "content": sent}, ASKED]))
        assert wrong is None or wrong.strip()
