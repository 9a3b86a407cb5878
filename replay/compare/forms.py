"""What does a text mean when it is read as a path, a date, a match? None where it cannot be read.

Two texts mean the same when their forms are equal. A date is read only where it can be read in one
way: year first, or with the month's name; never day and month by guess.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta, timezone
from fractions import Fraction
from functools import lru_cache

from replay.patterns import FOREIGN_STEPS, Pattern, TooLong, Unusable
from replay.trace import Json

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_FULL_MONTHS = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september",
    "october", "november", "december",
)  # fmt: skip
_MONTH = {name: at for names in (_MONTHS, _FULL_MONTHS) for at, name in enumerate(names, 1)}
_MONTH["sept"] = 9

_DAY = r"(?P<day>[0-9]{1,2})(?:st|nd|rd|th)?"
_DATES = tuple(
    re.compile(rf"(?:{shape})", re.IGNORECASE)
    for shape in (
        r"(?P<year>[0-9]{4})(?P<mark>[-/.])(?P<month>[0-9]{1,2})(?P=mark)(?P<day>[0-9]{1,2})",
        r"(?P<year>[0-9]{4})(?P<month>[0-9]{2})(?P<day>[0-9]{2})",
        rf"{_DAY}[ -](?P<month>[a-z]+)\.?,?[ -](?P<year>[0-9]{{4}})",
        rf"(?P<month>[a-z]+)\.? {_DAY},? (?P<year>[0-9]{{4}})",
    )
)
_TIME = re.compile(
    r"(?:t| )(?P<hour>[0-9]{2}):?(?P<minute>[0-9]{2})"
    r"(?::?(?P<second>[0-9]{2})(?:[.,](?P<fraction>[0-9]+))?)?"
    r"(?P<zone> ?(?:z|utc|gmt)|[+-](?P<ahead>[0-9]{2}):?(?P<rest>[0-5][0-9])?)?",
    re.IGNORECASE,
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_BOUND = re.compile(r"(?P<number>[0-9]+(?:\.[0-9]+)?)(?P<percent>%?)")


def trimmed(text: str) -> str:
    """The text without outer white space, and with runs of it as one blank."""
    return " ".join(text.split())


def normal_path(text: str) -> str:
    """A file path without `.`, `//`, a closing slash, and `..` where the text says what it leaves.

    Nothing is looked up: a link is not followed.
    """
    rooted = text.startswith("/")
    kept: list[str] = []
    for part in text.split("/"):
        if part == ".." and kept and kept[-1] != "..":
            kept.pop()
        elif part not in ("", ".") and not (part == ".." and rooted):
            kept.append(part)
    if rooted:
        return f"/{'/'.join(kept)}"
    return "/".join(kept) or (text and ".")


def dated(text: str) -> list[Json] | None:
    """A calendar date, a time without a zone, or an instant; the three are never equal."""
    text = text.strip()
    for shape in _DATES:
        found = shape.match(text)
        if found is not None and (day := _day(found)) is not None:
            rest = text[found.end() :]
            return [day.isoformat()] if not rest else _timed(day, rest)
    return None


def _day(found: re.Match[str]) -> date | None:
    month = found["month"].casefold()
    at = int(month) if month.isdecimal() else _MONTH.get(month, 0)
    try:
        return date(int(found["year"]), at, int(found["day"]))
    except ValueError:
        return None


def _timed(day: date, text: str) -> list[Json] | None:
    found = _TIME.fullmatch(text)
    if found is None:
        return None
    second = int(found["second"] or 0)
    try:
        at = datetime(
            day.year, day.month, day.day, int(found["hour"]), int(found["minute"]), second
        )
        zone = timezone(_ahead(found))
    except ValueError:
        return None
    fraction = (found["fraction"] or "").rstrip("0")
    if not found["zone"]:
        return [at.isoformat(), fraction]
    return [(at.replace(tzinfo=zone) - _EPOCH) // timedelta(seconds=1), fraction]


def _ahead(found: re.Match[str]) -> timedelta:
    """How far ahead of UTC the clock is."""
    ahead = timedelta(hours=int(found["ahead"] or 0), minutes=int(found["rest"] or 0))
    return -ahead if (found["zone"] or "").startswith("-") else ahead


@lru_cache(maxsize=256)
def compiled(pattern: str) -> Pattern:
    """Raises ValueError where the pattern is no regular expression, or may take for ever."""
    try:
        return Pattern(pattern)
    except Unusable as error:
        raise ValueError(f"{pattern!r} {error}") from error


def matched(text: str, pattern: str) -> list[Json] | None:
    """What the groups of a pattern that matches the whole text hold; None where it does not, and
    for a text so long that the pattern might take too long."""
    try:
        found = compiled(pattern).fullmatch(text, FOREIGN_STEPS)
    except TooLong:
        return None
    return None if found is None else list(found.groups())


@lru_cache(maxsize=256)
def bound(text: str) -> tuple[Fraction, bool]:
    """How far apart two numbers may be, and whether that is a share of the larger one.

    `0.01` is a distance, `1%` a share. Raises ValueError for anything else.
    """
    found = _BOUND.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no tolerance such as 0.01 or 1%")
    relative = found["percent"] == "%"
    most = Fraction(found["number"]) / (100 if relative else 1)
    if relative and most > 1:
        raise ValueError(f"{text!r} is more than the larger number itself")
    return most, relative


def within(one: Fraction, other: Fraction, tolerance: str) -> bool:
    """Are two numbers no further apart than that? Exact: 1.0 and 1.01 are within 0.01."""
    most, relative = bound(tolerance)
    return abs(one - other) <= most * (max(abs(one), abs(other)) if relative else 1)
