"""Identity: what `key` keeps and `same` ignores."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay import digests
from replay.trace import Dialect, Message, extend

SCALARS = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8)
JSON = st.recursive(
    SCALARS | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=12,
)


def shuffled(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: shuffled(value[name]) for name in reversed(list(value))}
    return [shuffled(entry) for entry in value] if isinstance(value, list) else value


@given(JSON)
def test_same_ignores_the_order_of_keys(value: Any) -> None:
    assert digests.same(value, shuffled(value))


@given(JSON)
def test_plain_is_a_fixed_point(value: Any) -> None:
    once = digests.plain(value)
    assert digests.plain(once) == once


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [(1, 1.0, True), (True, 1, False), ([1, 2], [2, 1], False), ({"a": 1}, {"a": "1"}, False)],
)
def test_same_knows_numbers_from_booleans_and_lists_from_sets(
    left: Any, right: Any, expected: bool
) -> None:
    assert digests.same(left, right) is expected


def message(**body: Any) -> Message:
    return Message(dialect="anthropic", body={"role": "user", **body})


def test_a_message_digest_keeps_the_order_the_model_reads() -> None:
    one = message(content=[{"type": "tool_use", "input": {"a": 1, "b": 2}}])
    other = message(content=[{"type": "tool_use", "input": {"b": 2, "a": 1}}])
    assert digests.message_digest(one) != digests.message_digest(other)


def test_cache_markers_are_not_part_of_a_message() -> None:
    marked = message(content=[{"type": "text", "text": "hi", "cache_control": {"type": "x"}}])
    plain = message(content=[{"type": "text", "text": "hi"}])
    assert digests.message_digest(marked) == digests.message_digest(plain)


def test_what_a_recorder_adds_to_a_message_is_no_part_of_it() -> None:
    def recorded(dialect: Dialect, **beside: str) -> str:
        body = {"role": "assistant", "content": "Hi", **beside}
        return digests.message_digest(Message(dialect=dialect, body=body))

    first = recorded("inspect", id="a1", source="generate", model="m")
    assert first == recorded("inspect", id="b2") == recorded("inspect")
    assert recorded("openai", id="a1") != recorded("openai", id="b2")


def test_stored_identities_stay_what_they_are() -> None:
    """Databases, links and bundles hold them."""
    assert digests.trace_id("otlp", "abc", None) == "3013201ff12780e3"
    assert digests.trace_id("otlp", "abc", "1") == "f7f1c40d9afb00fa"
    assert digests.run_id("abc", None) == "5cb11c7cb324f598"


def test_a_context_is_its_parent_and_its_message() -> None:
    first, second = (digests.message_digest(message(content=text)) for text in "ab")
    chain = digests.node_digest(digests.node_digest(None, first), second)
    assert chain != digests.node_digest(digests.node_digest(None, second), first)
    assert chain != digests.node_digest(None, second)


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_a_number_that_is_not_finite_has_no_canonical_form(number: float) -> None:
    with pytest.raises(ValueError, match="not finite"):
        digests.encode({"x": [number]})


def test_a_key_changes_with_every_part_a_model_sees() -> None:
    base: dict[str, Any] = {
        "api": "1",
        "system": "s",
        "tools": None,
        "params": {"model": "m", "max_tokens": 5},
        "context": "c",
        "sample": 0,
    }
    keys = {digests.key(**base)}
    for name, value in [("api", "2"), ("system", None), ("tools", "t"), ("context", "d"),
                        ("sample", 1), ("params", {"model": "m", "max_tokens": 6})]:  # fmt: skip
        keys.add(digests.key(**{**base, name: value}))
    assert len(keys) == 7
    same = {**base, "params": {"max_tokens": 5, "model": "m"}}
    assert digests.key(**same) in keys


@pytest.mark.slow
def test_a_long_context_can_be_walked_and_forgotten() -> None:
    chain = extend(None, (message(content=str(n)) for n in range(100_000)))
    assert chain is not None
    assert len(chain.messages()) == chain.depth == 100_000
    del chain
