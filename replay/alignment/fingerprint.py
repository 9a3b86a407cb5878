"""An action in the form in which many are held against many: is it the same, and how like is it?

What counts as the same is what `replay.compare` counts as the same, under the same rules; of two
numbers that a rule allows to be near each other only that can tell. How like two others are is a
rough figure and decides nothing but which steps stand in one row.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple
from zlib import crc32

from msgspec import Struct

from replay.action import Act, Action
from replay.compare import likeness
from replay.compare.actions import bare_words
from replay.compare.rules import PLAIN, Rules, arguments_of
from replay.trace import Json


class Terms(NamedTuple):
    """What is known of arguments: by tool, those whose schema gives a `default`, and the `rules` of
    a user."""

    defaults: Mapping[str, Mapping[str, Json]] = {}
    rules: Rules = PLAIN


BARE = Terms()

SAME = 1000
SAME_TOOLS, TOOLS_WORDS = 300, 400
BOTH_SPEAK, TEXT_WORDS = 200, 500
SOME_TOOLS, TOOLS_SHARE = 100, 300
BOTH_CUT = 100
UNLIKE = 1
"""What a pair of steps is worth, a step alone being worth nothing: the same action most, then the
same tools by how many words of their arguments are the same, then words by how many of them are.
Two steps that have nothing in common are worth a shared row and no more."""

_WORD = re.compile(r"\w+")
_BITS = 1024
_MOST_WORDS = 200
"""Different words of an action that are looked at, the same ones of the same action everywhere."""


class ActionFingerprint(Struct, frozen=True):
    """What a step did.

    `key` is equal for actions that are the same, None where comparing cannot tell. `tools` are
    those it calls, sorted; `words` has a bit set for each of its words.
    """

    key: str | None
    tools: tuple[str, ...]
    words: int

    @property
    def order(self) -> tuple[str, tuple[str, ...], int]:
        """Any order of deeds will do that is the same everywhere."""
        return self.key or "", self.tools, self.words


def fingerprint(action: Action, terms: Terms) -> ActionFingerprint:
    """The deed of an action."""
    if action.cut is not None:
        return ActionFingerprint(None, (), 0)
    tools = tuple(sorted(call.tool for call in action.calls))
    if not action.calls:
        return ActionFingerprint(
            "says " + " ".join(bare_words(action.text)), (), _bits(action.text)
        )
    calls = sorted(call_key(call, terms) for call in action.calls)
    return ActionFingerprint("calls " + "\n".join(calls), tools, _bits(" ".join(calls)))


def call_key(call: Act, terms: Terms) -> str:
    """Equal for calls that are the same."""
    arguments = call.arguments
    if isinstance(arguments, dict):
        arguments = {**terms.defaults.get(call.tool, {}), **arguments}
    place = arguments_of(call.tool, terms.rules)
    written = "" if call.raw is None or place.ignored else f" {call.raw.split()}"
    return f"{call.tool!r} {likeness.counted(arguments, place).text}{written}"


def _bits(text: str) -> int:
    found = 0
    for place in _sample(_WORD.findall(text.casefold())):
        found |= 1 << place % _BITS
    return found


def _sample(words: Iterable[str]) -> list[int]:
    """Digests of different words, the lowest where there are many: a choice that does not depend
    on where in a text they stand."""
    return sorted({crc32(word.encode("utf-8", "replace")) for word in words})[:_MOST_WORDS]


def worth(mine: ActionFingerprint, other: ActionFingerprint) -> int:
    """What it is worth to have the two in one row; the same either way round."""
    if mine.key is None or other.key is None:
        return BOTH_CUT if mine.key is other.key else UNLIKE
    if mine.key == other.key:
        return SAME
    if mine.tools == other.tools:
        least, more = (SAME_TOOLS, TOOLS_WORDS) if mine.tools else (BOTH_SPEAK, TEXT_WORDS)
        either = (mine.words | other.words).bit_count()
        return least + more * (mine.words & other.words).bit_count() // max(either, 1)
    if mine.tools and other.tools:
        return _shared_tools(mine.tools, other.tools)
    return UNLIKE


def _shared_tools(mine: tuple[str, ...], other: tuple[str, ...]) -> int:
    left = list(other)
    shared = 0
    for tool in mine:
        if tool in left:
            left.remove(tool)
            shared += 1
    if not shared:
        return UNLIKE
    return SOME_TOOLS + TOOLS_SHARE * 2 * shared // (len(mine) + len(other))
