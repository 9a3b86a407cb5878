"""New facts: what a step states that nothing before it holds.

A new fact is a number of two digits or more, or a name: a capitalised word that does not open a
sentence. It is new where no message, result or prompt before contains its word. Code is left
out, and what a step reads out: the text of a page or a file behind the words that announce it. A
new fact may be true: it only shows that the model spoke from memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from taxonomy.evidence.claims import splitter, without_case
from taxonomy.evidence.reading import Reading, Turn

_WORD = re.compile(r"[^\W\d_][\w'’-]+|\d[\d,.]*\d|\d")
_pieces = splitter('!"#$%&()*+/:;<=>?@[\\]^`{|}~')
"""Split at every ASCII sign that no word and no number holds."""

_CODE_BLOCK = re.compile(r"```.*?(?:```|\Z)", re.S)
_BULLET = re.compile(r"^\s*(?:#+|\d+[.)]|[-*•])\s*")
_MARKUP = re.compile(r"[*_`]+")
_SENTENCE = re.compile(r"(?<=[.!?:])\s+")

_READS_OUT = re.compile(
    r"^.{0,80}\b(?:screenshot|viewport|metadata|ocr|page (?:text|content)|contents? of"
    r"|(?:following|full) text|search results?|observation"
    r"|(?:tool|command|execution|console) (?:output|result))\b"
    r".{0,120}:",
    re.M | re.I,
)
"""How a step announces what it shows rather than says: a page, a file, a result."""

_SHOWS = (
    "screenshot", "viewport", "metadata", "ocr", "text", "content", "search", "observation",
    "output", "result",
)  # fmt: skip
"""Words of which one stands in every such announcement."""

_I = re.compile(r"I['’]")
"""How "I'll" and its like begin: capitalised, and no name."""

_SHORTEST = 2
"""A name has more letters than this, a number at least as many figures."""


def new_facts(reading: Reading) -> Iterator[tuple[Turn, tuple[str, ...]]]:
    """Each turn with the facts it says that nothing before it contains, terminals left out."""
    seen = _Read()
    seen.add(reading.trace.header.task or "")
    for turn, texts in new_texts(reading):
        seen.add(*texts)
        if not turn.observer:
            yield turn, tuple(fact for fact in facts(_own(turn.said)) if fact.lower() not in seen)
        seen.add(turn.said, *(act.reply.text for act in turn.acts))


class _Read:
    """The words of the texts that were added; a piece that came before is not read again."""

    def __init__(self) -> None:
        self._pieces: set[str] = set()
        self._words: set[str] = set()

    def __contains__(self, word: str) -> bool:
        return word in self._words

    def add(self, *texts: str) -> None:
        for text in texts:
            fresh = set(_pieces(text.lower()))
            fresh -= self._pieces
            self._pieces |= fresh
            for piece in fresh:
                if not piece.isalpha():
                    self._words.update(map(_plain, _WORD.findall(piece)))
                elif len(piece) > 1:
                    self._words.add(piece)


def new_texts(reading: Reading) -> Iterator[tuple[Turn, list[str]]]:
    """Each turn with the prompts and the words of others that are new to the run at it."""
    systems: set[int] = set()
    for turn in reading.turns:
        texts = [each.text for each in (*turn.heard, *turn.overheard)]
        system = turn.ask.request.system
        if system is not None and id(system) not in systems:
            systems.add(id(system))
            texts.append(str(system.body.get("content") or ""))
        yield turn, texts


def _own(text: str) -> str:
    """A text up to what it reads out."""
    small = without_case(text)
    announces = ":" in text and any(word in small for word in _SHOWS)
    read_out = _READS_OUT.search(text) if announces else None
    return text[: read_out.start()] if read_out else text


def facts(text: str) -> tuple[str, ...]:
    """The numbers and names in a text, each once, in order; `1,234` is `1234`."""
    found: dict[str, None] = {}
    for line in _CODE_BLOCK.sub(" ", text).splitlines():
        for sentence in _SENTENCE.split(_MARKUP.sub("", _BULLET.sub("", line))):
            for place, word in enumerate(_WORD.findall(sentence)):
                if word[0].isdecimal():
                    word = _plain(word)
                    is_fact = len(word) >= _SHORTEST
                else:
                    is_fact = place > 0 and word[0].isupper() and len(word) > _SHORTEST
                    is_fact = is_fact and _I.match(word) is None
                if is_fact:
                    found.setdefault(word)
    return tuple(found)


def _plain(word: str) -> str:
    return word.replace(",", "").rstrip(".") if word[0].isdecimal() else word
