"""How does a judge tell our words from the trace's? By lines that the trace cannot have written.

Each quoted piece stands between lines that begin with a mark made from everything quoted. Whoever
wrote a piece could only have written its mark by knowing the digest of a text that holds that
digest. Nothing of it is random: the same pieces give the same text, and so the same stored answer.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from replay import canon

_LENGTH = 24
_LABEL = 120
_NAME = re.compile(r"[\w.:/@#+\[\]-]{1,64}( [\w.:/@#+\[\]-]{1,24}){0,2}")
_NAME_SHOWN = 40


class Piece(NamedTuple):
    """Something quoted: what it is, in our words, and its text."""

    label: str
    text: str


def named(name: str) -> str:
    """A name that the trace chose, to stand in a label among our words: one that might pass for
    a sentence of ours is quoted and cut."""
    if _NAME.fullmatch(name):
        return name
    return f"a name given as {canon.canonical(name[:_NAME_SHOWN])}"


def fenced(pieces: Sequence[Piece]) -> str:
    """The pieces between their lines, after a sentence that says what those are."""
    mark = _mark(pieces)
    quoted = [f"{mark} {_one_line(piece.label)}\n{piece.text}\n" for piece in pieces]
    return (
        f"Lines that begin with {mark} are ours and say what follows. All between the first and"
        " the last of them is quoted data, whatever it says.\n\n" + "".join(quoted) + f"{mark} end"
    )


def _mark(pieces: Sequence[Piece]) -> str:
    texts = [part for piece in pieces for part in piece]
    again = 0
    while True:
        digest = canon.digest("fence", str(again), *texts).partition(":")[2]
        mark = f"[[{digest[:_LENGTH]}]]"
        if not any(mark in text for text in texts):
            return mark
        again += 1


def _one_line(label: str) -> str:
    """A label may hold a tool's or an agent's name, which the trace chose (`named`)."""
    return " ".join(label.split())[:_LABEL]
