"""Blocks and arguments of any dialect, also such as no dialect has."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from replay.messages import parse_arguments
from replay.turns import AS_TEXT, block, blocks

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=6,
)
KINDS = st.sampled_from(["text", "thinking", "image", "search_result", "web_search_tool_result"])


def test_a_kind_that_is_no_word_is_shown_as_it_stands() -> None:
    found = block({"type": ["text"], "body": "Hello"})
    assert found.loss == AS_TEXT


@given(st.dictionaries(st.sampled_from(["type", "text", "source", "data"]), JSON | KINDS))
def test_any_block_can_be_sent_again_or_is_left_out(entry: dict[str, object]) -> None:
    found = block(entry)
    assert found.body is None or isinstance(found.body, dict)
    assert list(blocks([entry]))


def test_arguments_nested_too_deeply_stay_the_text_they_are() -> None:
    assert parse_arguments("[" * 3000) == (None, "[" * 3000)
