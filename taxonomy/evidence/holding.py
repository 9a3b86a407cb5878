"""Which of many texts may hold some words: a list of texts a word, made when it is first asked for.

What it answers are candidates, so that not every text is looked through for every question.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

from taxonomy.evidence.pieces import splitter

_WORD = re.compile(r"\w+")
_words = splitter("!\"#$%&'()*+,-./:;<=>?@[\\]^`{|}~")
_WHOLE = re.compile(r"(?<=\W)\w+(?=\W)")
"""A word of a phrase that is one wherever the phrase stands: no letter can come before or after."""


class Holding:
    """The texts of a run, by the words in them; `text(at)` gives the one at a place."""

    def __init__(self, count: int, text: Callable[[int], str]) -> None:
        self._count = count
        self._text = text

    def words(self, phrase: str, end: int) -> Sequence[int]:
        """The places before `end` whose text may hold a phrase between two words."""
        return self._rarest(_WORD.findall(phrase), end)

    def phrase(self, phrase: str, end: int) -> Sequence[int]:
        """The places before `end` whose text may hold a phrase, in the midst of words too."""
        return self._rarest(_WHOLE.findall(phrase), end)

    def _rarest(self, words: Sequence[str], end: int) -> Sequence[int]:
        """The places that hold the word that the fewest hold; all where there is no word."""
        if not words:
            return range(end)
        fewest = min((self._places.get(word, ()) for word in words), key=len)
        return [at for at in fewest if at < end]

    @cached_property
    def _places(self) -> Mapping[str, list[int]]:
        found: defaultdict[str, list[int]] = defaultdict(list)
        for at in range(self._count):
            words = set(_words(self._text(at)))
            mixed = [piece for piece in words if not piece.isalnum()]
            words.difference_update(mixed)
            words.update(word for piece in mixed for word in _WORD.findall(piece))
            for word in words:
                found[word].append(at)
        return found
