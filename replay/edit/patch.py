"""Does this patch fit this text? A unified diff applied to the letter, or refused with a sentence.

There is no fuzz and no guessing by line numbers, which move when a prompt grows: the lines that a
hunk shows as standing must stand in the text in one place only. How a text ends is not patched:
its last line break is kept as it is.
"""

from __future__ import annotations

import re
from itertools import pairwise

from msgspec import Struct

from replay.errors import BadEdit

_HEAD = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")
_PREAMBLE = ("diff ", "index ", "--- ", "+++ ")
_NO_LINE_END = "\\"


class Hunk(Struct, frozen=True):
    """Lines that stand together, and what stands in their place afterwards."""

    before: tuple[str, ...]
    after: tuple[str, ...]


def patched(text: str, patch: str, where: str) -> str:
    """The text with every hunk of the patch applied.

    Raises BadEdit naming `where` and the hunk, counted from 1.
    """
    lines, ending = _lines(text)
    placed = [
        (_place(lines, hunk, f"{where}: hunk {number} of the patch"), hunk)
        for number, hunk in enumerate(hunks(patch, where), 1)
    ]
    for number, ((at, hunk), (after, _)) in enumerate(pairwise(placed), 2):
        if after < at + len(hunk.before):
            raise BadEdit(
                f"{where}: hunk {number} of the patch stands before the end of hunk {number - 1}"
            )
    for at, hunk in reversed(placed):
        lines[at : at + len(hunk.before)] = hunk.after
    return "\n".join(lines) + ending


def hunks(patch: str, where: str) -> list[Hunk]:
    """The hunks of a unified diff. Raises BadEdit where it is none."""
    rest = patch.split("\n")
    if rest[-1] == "":
        rest.pop()
    while rest and rest[0].startswith(_PREAMBLE):
        rest.pop(0)
    found: list[Hunk] = []
    while rest:
        found.append(_hunk(rest, f"{where}: hunk {len(found) + 1} of the patch"))
    if not found:
        raise BadEdit(f"{where}: the patch holds no hunk", "`diff -u OLD NEW` writes one")
    return found


def _hunk(rest: list[str], where: str) -> Hunk:
    """The first hunk of the lines, which are taken away."""
    head = _HEAD.match(rest[0])
    if head is None:
        raise BadEdit(
            f"{where}: {rest[0][:60]!r} is no hunk of a unified diff",
            "a hunk begins with `@@ -LINE,COUNT +LINE,COUNT @@`; a patch is of one text",
        )
    rest.pop(0)
    counts = tuple(1 if count is None else int(count) for count in head.groups())
    before: list[str] = []
    after: list[str] = []
    while rest and (len(before), len(after)) != counts:
        mark, line = rest[0][:1], rest[0][1:]
        if mark == "@" or mark not in {"", " ", "-", "+", _NO_LINE_END}:
            break
        rest.pop(0)
        if mark in {"", " ", "-"}:  # editors strip the blank of an empty line
            before.append(line)
        if mark in {"", " ", "+"}:
            after.append(line)
    if (len(before), len(after)) != counts:
        raise BadEdit(
            f"{where}: has {len(before)} old and {len(after)} new lines, its head says"
            f" {counts[0]} and {counts[1]}"
        )
    while rest and rest[0].startswith(_NO_LINE_END):
        rest.pop(0)
    return Hunk(tuple(before), tuple(after))


def _lines(text: str) -> tuple[list[str], str]:
    """The lines of a text, and how it ends: with a line break or without."""
    ending = "\n" if text.endswith("\n") else ""
    whole = text.removesuffix("\n")
    return (whole.split("\n") if text else []), ending


def _place(lines: list[str], hunk: Hunk, where: str) -> int:
    """The index of the first line that the hunk replaces."""
    if not hunk.before:
        if not lines:
            return 0
        raise BadEdit(f"{where} shows no line to find its place by", "`diff -U3` shows some")
    size = len(hunk.before)
    places = [
        at for at in range(len(lines) - size + 1) if tuple(lines[at : at + size]) == hunk.before
    ]
    if len(places) == 1:
        return places[0]
    shown = next((line for line in hunk.before if line.strip()), "")[:60]
    if places:
        raise BadEdit(
            f"{where}: its lines, from {shown!r} on, are in the text {len(places)} times",
            "`diff -U9` shows more lines around a change",
        )
    raise BadEdit(
        f"{where}: its lines, from {shown!r} on, are not in the text",
        "the patch must have been made from the text as it was recorded",
    )
