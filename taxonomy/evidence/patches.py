"""What does a patch claim to stand in a file: the lines it keeps as context, or takes away?

Unified diffs, and the search halves of search-and-replace blocks, wherever in a text they stand.
Whoever writes one has read the file, or made those lines up. Pure text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

_HUNK = re.compile(r"^@@ [^\n]*@@[^\n]*\n", re.M)
_TARGET = re.compile(r"^\+\+\+ (?:b/)?(\S+)", re.M)
_BLOCK = re.compile(r"^<{5,9} SEARCH\n(.*?)^={5,9}\n", re.M | re.S)
_SHORTEST = 12
"""Letters of the shortest line that says something: braces and `else:` stand in every file."""


class Claimed(Struct, frozen=True, kw_only=True):
    """The lines that the patches of a text take to be there, and the last file named before."""

    path: str
    lines: tuple[str, ...]


def claimed(text: str) -> Claimed | None:
    """What the patches in a text claim; None where it holds no patch."""
    hunks = [*_HUNK.finditer(text)]
    blocks = [line for block in _BLOCK.findall(text) for line in block.splitlines()]
    if not hunks and not blocks:
        return None
    named = _TARGET.search(text)
    ends = [*(hunk.start() for hunk in hunks[1:]), len(text)]
    after = (text[hunk.end() : end] for hunk, end in zip(hunks, ends, strict=False))
    lines = [*(line for each in after for line in _old(each)), *blocks]
    telling = dict.fromkeys(line.strip() for line in lines if len(line.strip()) >= _SHORTEST)
    return Claimed(path=named[1] if named else "", lines=tuple(telling))


def _old(after: str) -> Iterator[str]:
    """The lines of a hunk that were there before it."""
    for line in after.splitlines():
        if line[:1] not in {" ", "-", "+"} or line.startswith(("--- ", "+++ ")):
            return
        if line[0] != "+":
            yield line[1:]
