"""Are two calls the same, and is the later one the earlier one again?

A call that differs in a few letters and in no number asks the same. It repeats the earlier one
only where the reply brings no news.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

from replay.effects import words_of
from taxonomy.evidence.reading import Act, mutates
from taxonomy.rules.speeches import alike

_DIGITS = re.compile(r"\d+")
_MOMENT = re.compile(
    r"0x[0-9a-f]+|\b(?=\w*\d)[0-9a-f]{8,}(?:-[0-9a-f]{4,})*\b|\b\d\d:\d\d:\d\d(?:[.,]\d+)?"
    r"|\b\d+(?:\.\d+)?\s?(?:ns|µs|us|ms|s|secs?|seconds?|milliseconds?)\b",
    re.I,
)
"""What is of the moment alone: an address, an id, the time of day, how long it took."""

_BLANK = re.compile(r"\\[nrt]")
_MARK = re.compile(r"\w+|[^\w\s]")
_NOTES = {"todo", "think", "thought", "plan", "note", "write"}


def same_call(left: Act, right: Act) -> bool:
    """Do two calls ask the same, give or take a few letters?"""
    if left.key == right.key:
        return True
    if left.name != right.name or _digits(left.key) != _digits(right.key):
        return False
    return alike(left.key, right.key)


def same_reply(left: Act, right: Act) -> bool:
    """Did two calls bring the same answer? An unknown answer is equal to none."""
    if left.reply.failed is None or right.reply.failed is None:
        return False
    return left.reply.text == right.reply.text or (
        bool(left.reply.failed and right.reply.failed)
        and left.key == right.key
        and said(left) == said(right)
    )


def said(act: Act) -> str:
    """What came back; of a failure without what is of the moment alone, which is no news to
    whoever asked the very same."""
    return _MOMENT.sub("#", act.reply.text) if act.reply.failed else act.reply.text


def repeats(left: Act, right: Act) -> bool:
    """Is the later call the earlier one again, with no news in its reply?

    An acknowledgement is no news of a changed call (a list written anew is acknowledged in the
    same words), so a call that differs at all repeats only as a failure, or as a question.
    """
    if not same_reply(left, right):
        return False
    if left.key == right.key or _same_marks(left.key, right.key):
        return True
    return bool(right.reply.failed or _asks(right)) and same_call(left, right)


def brought_again(acts: Iterable[Act]) -> Iterator[tuple[Act, Act]]:
    """(the earlier, the later) of calls of a thread where the very same brought the same answer,
    nothing having been changed in between; both replies are known."""
    seen: dict[tuple[str, str], Act] = {}
    for act in acts:
        if act.reply.failed is False and mutates(act.span):
            seen.clear()
        elif act.reply.failed is not None:
            asked = (act.key, said(act))
            if asked in seen:
                yield seen[asked], act
            seen[asked] = act


def _asks(act: Act) -> bool:
    """Is it a question to the world, rather than a note to itself?"""
    return mutates(act.span) is False and not _NOTES & set(words_of(act.name))


def _same_marks(left: str, right: str) -> bool:
    """Do two calls have the same words and signs, white space aside?"""
    return _letters(left) == _letters(right) and _marks(left) == _marks(right)


@lru_cache(maxsize=2_000)
def _letters(key: str) -> str:
    """A call without its white space: what differs here differs in its words or signs."""
    return "".join(_BLANK.sub(" ", key).split())


def _marks(key: str) -> list[str]:
    """The words and signs of a call, its white space left out."""
    return _MARK.findall(_BLANK.sub(" ", key))


@lru_cache(maxsize=2_000)
def _digits(key: str) -> list[str]:
    return _DIGITS.findall(key)
