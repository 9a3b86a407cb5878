"""Bytes as values: what JSON in the wild holds is taken in, anything else is refused in words."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.depth import MAX_DEPTH, from_text
from replay.errors import BadTrace
from replay.formats.source import decode


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b'{"a": "\xff"}', {"a": "�"}),
        (b'"\xed\xa0\x80"', "���"),
        (b'"\\ud800"', "�"),
        (b"[NaN, Infinity, -Infinity]", [None, None, None]),
        (b'\xef\xbb\xbf{"a": 1}', {"a": 1}),
    ],
)
def test_what_is_nearly_json_is_taken_in(data: bytes, value: object) -> None:
    assert decode(data, "a.json", "line 1") == value


def test_a_refusal_says_where_and_why() -> None:
    with pytest.raises(BadTrace, match=r"line 3.*it is truncated"):
        decode(b'{"a": ', "a.json", "line 3")
    with pytest.raises(BadTrace, match="nested too deeply"):
        decode(b"[" * 100_000, "a.json", "line 3")


@given(st.binary(max_size=40))
def test_any_bytes_are_values_or_refused(data: bytes) -> None:
    try:
        value = decode(data, "a.json", "line 1")
    except BadTrace:
        return
    json.dumps(value, allow_nan=False).encode()


@pytest.mark.parametrize("inside", [b"7", b"NaN", b'"\\ud800"'])
def test_the_bound_of_depth_is_the_same_for_odd_json(inside: bytes) -> None:
    def nested(depth: int) -> bytes:
        return b'[{"a":' * (depth // 2) + inside + b"}]" * (depth // 2)

    decode(nested(MAX_DEPTH), "a.json", "")
    for depth in (MAX_DEPTH + 2, 600, 5_000):
        with pytest.raises(BadTrace, match="nested too deeply"):
            decode(nested(depth), "a.json", "")


@given(st.recursive(st.integers() | st.text(max_size=3), lambda inner: st.lists(inner, max_size=3)))
def test_a_text_of_json_is_what_it_says_or_refused(value: object) -> None:
    assert from_text(json.dumps(value)) == value
    for text in ("[" * 300 + "]" * 300, "[" * 9_000, '"\ud800"', "{", b'"\xff"'):
        with pytest.raises(msgspec.DecodeError):
            from_text(text)
