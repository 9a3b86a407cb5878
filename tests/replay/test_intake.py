"""Bytes as values: what JSON in the wild holds is taken in, anything else is refused in words."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.errors import BadTrace
from replay.formats.intake import decode


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
    with pytest.raises(BadTrace, match=r"line 3.*ends too early"):
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
