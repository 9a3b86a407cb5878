"""Which words of a text were changed? Diffs line by line, with the words that differ marked. Pure.

Lines that were taken out and the lines that came in their place are held against each other word
by word; where they have little in common, nothing is marked: every word is another one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import Match, SequenceMatcher, unified_diff
from itertools import groupby
from typing import Literal, NamedTuple, TypeAlias

from msgspec import Struct

from arc_tui.ui.document import Block

Kind: TypeAlias = Literal["same", "gone", "new", "place", "name"]

_WORD = re.compile(r"\w+|\s+|[^\w\s]")

ALIKE = 0.4
"""Share of the words in common below which two texts are other texts."""

MOST_PAIRS = 1_000_000
"""Words of one text times words of the other beyond which only their ends are compared."""

_KINDS: dict[str, Kind] = {" ": "same", "-": "gone", "+": "new", "@": "place"}


class Span(NamedTuple):
    """A stretch of a text, the end not included."""

    start: int
    end: int


class DiffLine(Struct, frozen=True, kw_only=True):
    """A line of a unified diff as it stands there; `words` are the stretches of it that differ."""

    kind: Kind
    text: str
    words: tuple[Span, ...] = ()


STYLES: dict[Kind, str] = {
    "new": "good",
    "gone": "error",
    "place": "role",
    "same": "quiet",
    "name": "head",
}
"""The style that a line of a diff has on a page; its sign tells it without colours too."""


def diff_block(line: DiffLine, *, indent: int = 0, mark: str = "") -> Block:
    """A line of a diff for a page."""
    style = STYLES[line.kind]
    return Block(text=line.text, style=style, strong=line.words, indent=indent, mark=mark)


def diff_texts(before: str, after: str, *, around: int = 3) -> list[DiffLine]:
    """The lines that differ with `around` lines beside them, () where the texts are the same."""
    lines = unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=around)
    return diff_lines([line for line in lines if not line.startswith(("--- ", "+++ "))])


def diff_lines(lines: Sequence[str]) -> list[DiffLine]:
    """The lines of a unified diff, with the words that were changed marked."""
    made: list[DiffLine] = []
    for gone, new, other in _changes(lines):
        if other is not None:
            made.append(other)
            continue
        taken, put = changed_words("\n".join(gone), "\n".join(new)) if gone and new else ((), ())
        made += _mark_words("gone", "-", gone, taken)
        made += _mark_words("new", "+", new, put)
    return made


def _changes(
    lines: Sequence[str],
) -> Iterator[tuple[list[str], list[str], DiffLine | None]]:
    """(lines taken out, lines put in, None) for each change, ([], [], line) for another line."""
    gone: list[str] = []
    for kind, group in groupby(_kinds(lines), key=lambda each: each[0]):
        if kind == "gone":
            gone = [line[1:] for _, line in group]
            continue
        if kind == "new":
            yield gone, [line[1:] for _, line in group], None
            gone = []
            continue
        if gone:
            yield gone, [], None
            gone = []
        for _, line in group:
            yield [], [], DiffLine(kind=kind, text=line)
    if gone:
        yield gone, [], None


def _kinds(lines: Sequence[str]) -> Iterator[tuple[Kind, str]]:
    """Each line with what it is; the two names of the texts stand below each other."""
    for at, line in enumerate(lines):
        above, below = lines[at - 1] if at else "", lines[at + 1] if at + 1 < len(lines) else ""
        named = (line.startswith("--- ") and below.startswith("+++ ")) or (
            line.startswith("+++ ") and above.startswith("--- ")
        )
        yield "name" if named else _KINDS.get(line[:1], "same"), line


def _mark_words(
    kind: Kind, sign: str, lines: Sequence[str], words: Sequence[Span]
) -> Iterator[DiffLine]:
    """Lines with their sign, and with their part of what is marked in all of them together."""
    at = 0
    for line in lines:
        end = at + len(line)
        own = tuple(
            Span(max(span.start, at) - at + 1, min(span.end, end) - at + 1)
            for span in words
            if max(span.start, at) < min(span.end, end)
        )
        yield DiffLine(kind=kind, text=sign + line, words=own)
        at = end + 1


def changed_words(before: str, after: str) -> tuple[tuple[Span, ...], tuple[Span, ...]]:
    """The stretches of each text that the other does not have; nothing where little is common."""
    ours, theirs = _words(before), _words(after)
    head = _common(ours, theirs)
    tail = _common(ours[head:][::-1], theirs[head:][::-1])
    middle, others = ours[head : len(ours) - tail], theirs[head : len(theirs) - tail]
    if len(middle) * len(others) > MOST_PAIRS:
        blocks: list[Match] = []
    else:
        blocks = SequenceMatcher(None, middle, others, autojunk=False).get_matching_blocks()
    common = head + tail + sum(size for *_, size in blocks)
    if 2 * common < ALIKE * (len(ours) + len(theirs)):
        return (), ()
    kept = [(0, 0, head), *((a + head, b + head, size) for a, b, size in blocks),
            (len(ours) - tail, len(theirs) - tail, tail)]  # fmt: skip
    return (
        _others(ours, [(a, size) for a, _, size in kept]),
        _others(theirs, [(b, size) for _, b, size in kept]),
    )


def _words(text: str) -> list[str]:
    return _WORD.findall(text)


def _common(ours: Sequence[str], theirs: Sequence[str]) -> int:
    """How many words both begin with."""
    pairs = enumerate(zip(ours, theirs, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(ours), len(theirs)))


def _others(words: Sequence[str], kept: Sequence[tuple[int, int]]) -> tuple[Span, ...]:
    """What of a text is not among the words that are kept; a gap alone between two is joined."""
    gone = [True] * len(words)
    for start, size in kept:
        gone[start : start + size] = [False] * size
    for at in range(1, len(words) - 1):
        if words[at].isspace() and gone[at - 1] and gone[at + 1] and "\n" not in words[at]:
            gone[at] = True
    spans: list[Span] = []
    at = 0
    for changed, group in groupby(zip(gone, words, strict=True), key=lambda each: each[0]):
        end = at + sum(len(word) for _, word in group)
        if changed:
            spans.append(Span(at, end))
        at = end
    return tuple(spans)


def word_counts(before: str, after: str) -> tuple[int, int]:
    """How many words were put in, and how many taken out."""
    ours, theirs = before.split(), after.split()
    if len(ours) * len(theirs) > MOST_PAIRS * 16:
        head = _common(ours, theirs)
        tail = _common(ours[head:][::-1], theirs[head:][::-1])
        return len(theirs) - head - tail, len(ours) - head - tail
    blocks = SequenceMatcher(None, ours, theirs, autojunk=False).get_matching_blocks()
    common = sum(block.size for block in blocks)
    return len(theirs) - common, len(ours) - common
