"""Which values does a text say that is no JSON, and how does it read with another in their place?

Dates, amounts, ids and numbers are known by their form; a status by its word, and the name of a
person by what stands before it. A number too short, or one that only measures ("24 h", "3rd"), is
none: a wrong one could not be told from a right one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date
from typing import NamedTuple

from replay.injection.values import MONTHS, STATUSES, Sort, forms, sort_of
from replay.trace import Json


class Fact(NamedTuple):
    """A value a text says: `at` is where it first does, in characters."""

    at: int
    value: Json
    sort: Sort


_MONTH = "|".join(f"{month}|{month[:3]}" for month in MONTHS)
_DAY = re.compile(r"(?<![\w-])\d{4}-\d\d-\d\d(?![\w-])")
_DAY_FIRST = re.compile(rf"(?<!\w)(?P<d>\d\d?) (?P<m>{_MONTH})\.? (?P<y>\d{{4}})(?!\w)")
_MONTH_FIRST = re.compile(rf"(?<!\w)(?P<m>{_MONTH})\.? (?P<d>\d\d?),? (?P<y>\d{{4}})(?!\w)")
_MONEY = re.compile(r"[$€£]\s?\d[\d,]*(?:\.\d\d)?(?![\w]|[.,]\d)")
_ID = re.compile(
    r"(?<![\w@./:-])(?=[\w-]*\d)(?=[\w-]*[A-Za-z])[A-Za-z0-9][\w-]{2,}(?![\w@/:]|\.\w)"
)
_NUMBER = re.compile(r"(?<![\w.,:/$€£-])\d{1,3}(?:,\d{3})+(?:\.\d+)?(?![\w:/%]|[.,]\d|-\d)"
                     r"|(?<![\w.,:/$€£-])\d+(?:\.\d+)?(?![\w:/%]|[.,]\d|-\d)")  # fmt: skip
_MEASURE = re.compile(r"\d+(?:st|nd|rd|th|am|pm|[a-z]{1,2}|min|sec|hrs?|days?)", re.I)
_STATUS = re.compile(rf"\b(?:{'|'.join(word for row in STATUSES for word in row)})\b", re.I)
_NAME = re.compile(r"\b(?:name|customer|user|passenger|guest|owner|author|assignee|contact|agent"
                   r"|mr|mrs|ms|dr|dear)\b\W{1,3}(?P<name>[A-Z][a-z]+(?: [A-Z][a-z]+)+)",
                   re.I)  # fmt: skip


def facts(text: str) -> Iterator[Fact]:
    """What a text says that could be made wrong, each value once and no part of another."""
    taken: list[tuple[int, int]] = []
    seen: set[str] = set()
    for found, value, sort in _found(text):
        begins, ends = found
        if any(begins < end and start < ends for start, end in taken):
            continue
        taken.append(found)
        if value is not None and repr(value) not in seen and _saying(value).search(text):
            seen.add(repr(value))
            yield Fact(begins, value, sort)


def _found(text: str) -> Iterator[tuple[tuple[int, int], Json, Sort]]:
    """(where, value, sort), what is surest first; a value of None only takes its place."""
    for each in _DAY.finditer(text):
        yield each.span(), each[0], "date"
    for pattern in (_DAY_FIRST, _MONTH_FIRST):
        for each in pattern.finditer(text):
            yield each.span(), _day(each), "date"
    for each in _MONEY.finditer(text):
        yield each.span(), each[0], "amount"
    for each in _ID.finditer(text):
        yield each.span(), None if _MEASURE.fullmatch(each[0]) else each[0], "id"
    for each in _NUMBER.finditer(text):
        value = _number(each[0])
        yield each.span(), value if sort_of((), value) else None, "number"
    for each in _STATUS.finditer(text):
        yield each.span(), each[0], "status"
    for each in _NAME.finditer(text):
        if each["name"][0].isupper() and all(part[0].isupper() for part in each["name"].split()):
            yield each.span("name"), each["name"], "name"


def _day(found: re.Match[str]) -> str | None:
    month = next(at for at, name in enumerate(MONTHS, 1) if name.startswith(found["m"]))
    try:
        return date(int(found["y"]), month, int(found["d"])).isoformat()
    except ValueError:
        return None


def _number(text: str) -> int | float:
    plain = text.replace(",", "")
    return float(plain) if "." in plain else int(plain)


def said_instead(text: str, value: Json, wrong: Json) -> str:
    """The text with `wrong` wherever it says `value`, each in the form it is written in there."""
    instead = {old.lower(): new for old, new in zip(forms(value), forms(wrong), strict=False)}
    return _saying(value).sub(lambda found: instead[found[0].lower()], text)


def _saying(value: Json) -> re.Pattern[str]:
    """Any form of the value, the longest first, where it is no part of something longer."""
    written = sorted((form for form in forms(value) if len(form) > 1), key=len, reverse=True)
    any_of = "|".join(map(re.escape, written)) or "(?!)"
    return re.compile(rf"(?<![\w.,-])(?:{any_of})(?![\w]|[.,]\d|-\w)", re.I)
