"""Are two calls the same, and is the later one the earlier one again?

A call that differs in a few letters and in no number asks the same. It repeats the earlier one
only where the reply brings no news.
"""

from __future__ import annotations

import re
from functools import lru_cache

from replay.effects import words_of
from taxonomy.evidence.reading import Act, mutates
from taxonomy.rules.speeches import alike

_DIGITS = re.compile(r"\d+")
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
    return left.reply.text == right.reply.text


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
