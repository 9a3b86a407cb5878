"""Python values written as text, as some sources keep their calls: read, never run."""

from __future__ import annotations

import ast
import re
import warnings

from replay.depth import is_huge
from replay.formats.intake import mended
from replay.trace import Json

STRING = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"", re.S)
"""One whole string literal."""

MAX_CHARS = 4 * 1024 * 1024
MAX_BRACKETS = 2_000
"""Opening brackets outside of strings; no call of a tool has more, and deep ones cost the stack."""


def string(text: str) -> str | None:
    """The value of one string literal, None where the text is none."""
    if len(text) > MAX_CHARS or STRING.fullmatch(text) is None:
        return None
    value = _evaluated(text.replace("\n", "\\n").replace("\r", "\\r"))
    return mended(value) if isinstance(value, str) else None


def literal(text: str) -> Json | None:
    """The value of a literal of plain data, None where the text is none or too large."""
    if len(text) > MAX_CHARS:
        return None
    bare = STRING.sub("", text)
    if sum(map(bare.count, "([{")) > MAX_BRACKETS:
        return None
    value = _evaluated(text)
    if not _plain(value):
        return None
    return mended(value) if "\\" in text else value


def _evaluated(text: str) -> object:
    try:
        with warnings.catch_warnings():  # of escapes that no program would have written
            warnings.simplefilter("ignore")
            return ast.literal_eval(text)
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        return None


def _plain(value: object) -> bool:
    """Is it what JSON can hold? A tuple, a set, bytes, an infinity or a huge number is not."""
    if isinstance(value, dict):
        return all(isinstance(key, str) and _plain(each) for key, each in value.items())
    if isinstance(value, list):
        return all(map(_plain, value))
    if isinstance(value, (int, float)):
        return not is_huge(value)
    return value is None or isinstance(value, str)
