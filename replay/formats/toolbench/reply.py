r"""A tool turn's message: the Python text of `{'name': …, 'arguments': …, 'response': …}`.

Evaluation files cut it anywhere, so it is read literal by literal up to where it ends. Only single
string literals are evaluated, never a nested value: a hostile text costs no more than its length.
"""

from __future__ import annotations

import re

import msgspec
from msgspec import Struct

from replay.depth import from_text
from replay.formats.literal import STRING, string
from replay.trace import Json

MORE = "…"
"""Stands at the end of what the source cut."""

_KEY = re.compile(r"\s*[{,]\s*(?:'(\w+)'|\"(\w+)\")\s*:\s*")
_ENDINGS = (f'{MORE}"}}', f'{MORE}"]}}', f'{MORE}"}}}}', "}", "]}", "}}")
_OPEN = re.compile(r"[\w.+-]\s*$")


class Reply(Struct, frozen=True, kw_only=True):
    """What a tool turn holds; `arguments` is JSON text.

    `cut` names the field at which the source cut the message; what comes after it is None.
    """

    name: str
    arguments: str | None = None
    response: str | None = None
    cut: str | None = None

    def says(self, final: str | None) -> bool:
        """Are these arguments, as far as they are there, the run's final answer?"""
        return bool(final and self.arguments and final.startswith(self.arguments))


def read(message: str) -> Reply | None:
    """The parts of a tool message, None where it is no such text."""
    fields: dict[str, str] = {}
    at = 0
    cut: str | None = None
    while (key := _KEY.match(message, at)) is not None:
        name = key[1] or key[2]
        literal = STRING.match(message, key.end())
        if literal is None:
            fields[name], was_cut = _rest(message[key.end() :])
            cut = name if was_cut else None
            break
        fields[name] = string(literal[0]) or ""
        at = literal.end()
    else:
        cut = None if message[at:].strip() == "}" else _next(fields)
    if not fields.get("name") or cut == "name":
        return None
    return Reply(
        name=fields["name"],
        arguments=fields.get("arguments"),
        response=fields.get("response"),
        cut=cut,
    )


def _next(fields: dict[str, str]) -> str:
    """The field that a cut between two of them has taken whole."""
    return "response" if "arguments" in fields else "arguments"


def _rest(text: str) -> tuple[str, bool]:
    """A value that is no whole string literal: (what of it is there, was it cut)."""
    if text[:1] not in ("'", '"'):  # not a string: kept as it is written
        return text.rstrip().removesuffix("}"), not text.rstrip().endswith("}")
    for short in range(min(10, len(text))):  # an escape may be cut in two
        value = string(text[: len(text) - short] + text[0])
        if value is not None:
            return value, True
    return "", True


def parsed(arguments: str) -> Json | None:
    """The JSON value of an arguments text, None where it is none."""
    try:
        return from_text(arguments or "{}")
    except msgspec.DecodeError:
        return None


def mended(arguments: str) -> dict[str, Json]:
    """What is there of arguments that the source cut: whole members, and the text begun last with
    MORE at its end. A number or word begun last is left out, for its end is unknown."""
    text = arguments
    while text:
        for ending in _ENDINGS:
            if ending[0] != MORE and _OPEN.search(text):
                break
            value = parsed(text + ending)
            if isinstance(value, dict):
                return value
        text = text.rpartition(",")[0]
    return {}
