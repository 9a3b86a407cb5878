"""What a test's model says, in the terms of neither API: both servers send it as their own."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from msgspec import Struct, structs

from tests.openai_servers.shape import Body

CHARACTERS_PER_TOKEN = 4


class Call(Struct, frozen=True, kw_only=True):
    """A call of a function, or with `custom` of a tool that takes a text."""

    name: str
    arguments: str
    custom: bool = False


class Said(Struct, frozen=True, kw_only=True):
    """An answer. `finish` is why it ended where that is no matter of course: "length" or
    "content_filter", or "failed" for a response that broke off."""

    reasoning: str = ""
    text: str = ""
    refusal: str = ""
    calls: tuple[Call, ...] = ()
    finish: str = ""

    @property
    def reasoning_tokens(self) -> int:
        return tokens(len(self.reasoning))

    @property
    def output_tokens(self) -> int:
        """Reasoning included."""
        shown = [self.text, self.refusal, *(each.name + each.arguments for each in self.calls)]
        return self.reasoning_tokens + sum(tokens(len(each)) for each in shown)


Policy = Callable[[Body], Said]
"""Answers a request body. It may raise ModelRefused: a 400 with its sentence."""


def said(text: str = "", *calls: Call, reasoning: str = "", finish: str = "") -> Said:
    return Said(text=text, calls=calls, reasoning=reasoning, finish=finish)


def refused(why: str) -> Said:
    """The model's own refusal, which is an answer."""
    return Said(refusal=why)


def call(name: str, /, **arguments: Any) -> Call:
    return Call(name=name, arguments=json.dumps(arguments))


def custom(name: str, /, text: str) -> Call:
    return Call(name=name, arguments=text, custom=True)


def tokens(characters: int) -> int:
    """The estimate that all figures are made of, rounded up."""
    return -(-characters // CHARACTERS_PER_TOKEN)


def kept(whole: Said, *, most: int | None, stop: list[str], parallel: bool) -> Said:
    """What of an answer a request lets through: one call, up to a stop text, so many tokens.

    Reasoning comes first and counts; a call that does not fit is cut in its arguments.
    """
    calls = whole.calls if parallel else whole.calls[:1]
    ends = [at for each in stop if (at := whole.text.find(each)) >= 0]
    whole = structs.replace(whole, calls=calls, text=whole.text[: min(ends, default=None)])
    if most is None or whole.output_tokens <= most:
        return whole
    left = most * CHARACTERS_PER_TOKEN

    def fitting(value: str) -> str:
        nonlocal left
        part = value[:left]
        left -= tokens(len(part)) * CHARACTERS_PER_TOKEN
        return part

    reasoning, text, refusal = map(fitting, (whole.reasoning, whole.text, whole.refusal))
    cut = []
    for each in whole.calls:
        if left <= len(each.name):
            break
        shown = fitting(each.name + each.arguments)
        cut.append(structs.replace(each, arguments=shown[len(each.name) :]))
    return Said(reasoning=reasoning, text=text, refusal=refusal, calls=tuple(cut), finish="length")


def pieces(value: str) -> list[str]:
    """A text as a stream brings it, in two or three parts."""
    third = -(-len(value) // 3)
    return [value[at : at + third] for at in range(0, len(value), third)] if value else []
