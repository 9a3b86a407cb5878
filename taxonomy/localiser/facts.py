"""How much does a step say that it cannot have read? Numbers and names new to the run.

A fact is a number of two digits or more, or a name: a capitalised word that does not open a
sentence. It is new where no message, result or prompt before contains its word. Code is left out.
A new fact may be true: it only shows that the model spoke from memory.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from taxonomy.evidence.reading import Reading, Turn

_WORD = re.compile(r"[^\W\d_][\w'’-]+|\d[\d,.]*\d|\d")
_CODE = re.compile(r"```.*?(?:```|\Z)", re.S)
_BULLET = re.compile(r"^\s*(?:#+|\d+[.)]|[-*•])\s*")
_MARKUP = re.compile(r"[*_`]+")
_SENTENCE = re.compile(r"(?<=[.!?:])\s+")

_SHORTEST = 2
"""A name has more letters than this, a number at least as many figures."""


def new_facts(reading: Reading) -> Iterator[tuple[Turn, tuple[str, ...]]]:
    """Each turn with the facts it says that nothing before it contains, terminals left out."""
    seen = _words([reading.trace.header.task or ""])
    for turn in reading.turns:
        seen |= _words(_read_by(turn))
        if not turn.observer:
            yield turn, tuple(fact for fact in facts(turn.said) if fact.lower() not in seen)
        seen |= _words([turn.said, *(act.reply.text for act in turn.acts)])


def facts(text: str) -> tuple[str, ...]:
    """The numbers and names in a text, each once, in order; `1,234` is `1234`."""
    found: dict[str, None] = {}
    for line in _CODE.sub(" ", text).splitlines():
        for sentence in _SENTENCE.split(_MARKUP.sub("", _BULLET.sub("", line))):
            for place, word in enumerate(_WORD.findall(sentence)):
                if word[0].isdigit():
                    word = _plain(word)
                    is_fact = len(word) >= _SHORTEST
                else:
                    is_fact = place > 0 and word[0].isupper() and len(word) > _SHORTEST
                if is_fact:
                    found.setdefault(word)
    return tuple(found)


def _read_by(turn: Turn) -> Iterator[str]:
    system = turn.ask.request.system
    if system is not None:
        yield str(system.body.get("content") or "")
    for heard in turn.heard:
        yield heard.text


def _words(texts: Iterable[str]) -> set[str]:
    found = {word for text in texts for word in _WORD.findall(text.lower())}
    return {_plain(word) for word in found}


def _plain(word: str) -> str:
    return word.replace(",", "").rstrip(".") if word[0].isdigit() else word
