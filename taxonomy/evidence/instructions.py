"""What was a run told to do? The sentences of its prompt, its task and its user, each once."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from msgspec import Struct

from replay.messages import text as text_of
from taxonomy.evidence.reading import Reading

_LIST = re.compile(r":[ \t]*\n+((?:[ \t]*[-*•] .+(?:\n|\Z))+)")
_ITEM = re.compile(r"[-*•] (.+)")
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_LINE_MARKS = re.compile(r"^\s*(?:#+ |>+ |[-*•] |\d+[.)] |[^\w\s`'\"(]+ )*")
_LONGEST = 1_000
_SHORT = 1_500
"""Characters of a text that is of the task alone; longer ones have how-tos in them."""


class Instruction(Struct, frozen=True, kw_only=True):
    """One sentence. `step` is where it was heard, `place` where it stands: in the `system prompt`,
    the `task`, or what the `user` said later; `short`: the whole text is of the task alone."""

    sentence: str
    step: int
    place: str
    short: bool


def instructions(reading: Reading) -> Iterator[Instruction]:
    """What people said, sentence by sentence; a list is one with the line above it."""
    for step, place, text in _texts(reading):
        for sentence in _sentences(text):
            yield Instruction(sentence=sentence, step=step, place=place, short=len(text) <= _SHORT)


@lru_cache(64)  # many runs have one prompt
def _sentences(text: str) -> tuple[str, ...]:
    listed = _LIST.sub(lambda match: ": " + ", ".join(_ITEM.findall(match[1])), text)
    lines = (_LINE_MARKS.sub("", line.replace("**", "")) for line in _SENTENCE.split(listed))
    found = (line.strip() for line in lines)
    return tuple(sentence for sentence in found if sentence and len(sentence) <= _LONGEST)


def _texts(reading: Reading) -> Iterator[tuple[int, str, str]]:
    """(step from which it holds, where it stands, text) of what people said, each text once."""
    seen: set[str] = set()
    first = reading.main[0] if reading.main else None
    asked = (reading.trace.header.reference or {}).get("asked")
    texts: list[tuple[int, str, str]] = []
    if first is not None and first.ask.request.system is not None:
        texts.append((0, "system prompt", text_of(first.ask.request.system)))
    if isinstance(asked, str):
        texts.append((0, "task", asked))
    for turn in reading.main:
        texts += [
            (turn.index, "task" if turn is first else "user", each.text)
            for each in turn.heard
            if each.role in ("user", "system", "developer")
        ]
    for step, place, text in texts:
        if text not in seen:
            seen.add(text)
            yield step, place, text
