"""Does a tool change the world, and who says so?"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.effects import UNKNOWN, Effects, ToolEffect, annotated, guess
from replay.trace import Effect, Tool, ToolCall


def call(name: str, effect: Effect = "unknown", **arguments: str) -> ToolCall:
    return ToolCall(id=name, name=name, arguments=arguments, effect=effect)


def hinted(name: str, **hints: bool) -> Tool:
    return Tool(name=name, extra={"annotations": hints})


@pytest.mark.parametrize(
    ("name", "promised"),
    [
        ("get_order", "read"),
        ("listFiles", "read"),
        ("TodoWrite", "read"),
        ("refund_order", "write"),
        ("send_email", "write"),
        ("get_or_create_user", "write"),
        ("search_flights_and_hotels", "read"),
        ("flights_search", "read"),
        ("frobnicate", None),
        ("", None),
    ],
)
def test_the_first_verb_of_a_name_is_the_guess(name: str, promised: str | None) -> None:
    assert guess(name) == promised


def test_a_guess_says_that_it_is_one_and_what_nobody_knows_does_not_read() -> None:
    effects = Effects()
    assert effects.of("get_order") == ToolEffect("read", "guessed")
    assert effects.of("frobnicate") == UNKNOWN
    assert not effects.of("frobnicate").reads


def test_the_users_word_comes_before_the_recordings_and_that_before_the_name() -> None:
    calls = [call("get_order", "write"), call("cancel_order", "read")]
    assert Effects(calls).of("get_order") == ToolEffect("write", "annotated")
    assert Effects(calls).of("cancel_order") == ToolEffect("read", "annotated")
    mine = Effects(calls, yours={"get_order": "read"})
    assert mine.of("get_order") == ToolEffect("read", "yours")


@pytest.mark.parametrize(
    ("hints", "effect"),
    [
        ({"readOnlyHint": True}, "read"),
        ({"readOnlyHint": False}, "write"),
        ({"readOnlyHint": True, "destructiveHint": True}, "read"),
        ({"destructiveHint": False}, "write"),
        ({"openWorldHint": True}, "unknown"),
        ({}, "unknown"),
    ],
)
def test_annotations_of_a_tool_are_read_as_the_protocol_means_them(
    hints: dict[str, bool], effect: Effect
) -> None:
    assert annotated(hinted("x", **hints)) == effect
    assert annotated(Tool(name="x", extra=dict(hints))) == effect


def test_an_annotation_tells_where_the_recording_is_silent() -> None:
    effects = Effects([call("frobnicate")], [hinted("frobnicate", readOnlyHint=True)])
    assert effects.of("frobnicate") == ToolEffect("read", "annotated")


@given(st.lists(st.sampled_from(["read", "write", "unknown"]), max_size=4), st.booleans())
def test_any_sign_of_a_write_outweighs_every_sign_of_a_read(
    recorded: list[Effect], reads: bool
) -> None:
    tools = [hinted("get", readOnlyHint=reads)]
    found = Effects([call("get", effect) for effect in recorded], tools).of("get")
    assert found.reads is (reads and "write" not in recorded)


def test_the_name_of_a_tool_that_takes_a_program_tells_nothing() -> None:
    schema = {"type": "object", "properties": {"code": {"type": "string"}}}
    assert Effects([call("query_shell", command="rm x")]).of("query_shell") == UNKNOWN
    assert Effects(tools=[Tool(name="read_eval", schema=schema)]).of("read_eval") == UNKNOWN
