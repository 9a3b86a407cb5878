"""Dates and times as people and tools write them: which days, which moment, how long a span.

Only dates that name their month are read in words; `05/06/2024` is read both ways. A moment known
to the day is the whole day: comparisons ask for the earliest and the latest it can be.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta

from msgspec import Struct

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")

_MONTH = (
    r"(?P<{0}>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?"
    r"|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\.?"
)
_CLOCK = (
    r"(?:[T ,]+(?:at )?(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::\d{2})?(?:\.\d+)?"
    r"\s?(?P<half>[ap]m)?)?"
)
_ISO = re.compile(rf"(?<!\d)(?P<year>\d{{4}})-(?P<month>\d{{2}})-(?P<day>\d{{2}}){_CLOCK}", re.I)
_SLASH = re.compile(r"(?<![\d/])(\d{1,2})/(\d{1,2})(?:/(\d{2,4}))?(?![\d/])")
_WORDS = re.compile(
    rf"\b{_MONTH.format('m1')} (?P<d1>\d{{1,2}})(?:st|nd|rd|th)?\b(?:,? (?P<y1>\d{{4}}))?{_CLOCK}"
    rf"|\b(?P<d2>\d{{1,2}})(?:st|nd|rd|th)? (?:of )?"
    rf"{_MONTH.format('m2')}(?:,? (?P<y2>\d{{4}}))?\b",
    re.I,
)


class Moment(Struct, frozen=True, kw_only=True):
    """A point in time as written. `whole_day` where no clock time stood beside the date."""

    at: datetime
    whole_day: bool
    text: str

    @property
    def latest(self) -> datetime:
        """The last instant it can mean."""
        return self.at + timedelta(days=1) if self.whole_day else self.at


def moments(text: str, year: int | None = None) -> Iterator[Moment]:
    """The dates of a text in order, with a clock time where one stands beside the date.

    A date in words without a year takes `year`; without either it is left out.
    """
    found = [
        *((match, _iso(match)) for match in _ISO.finditer(text)),
        *((match, _worded(match, year)) for match in _WORDS.finditer(text)),
    ]
    found.sort(key=lambda pair: pair[0].start())
    yield from (moment for _, moment in found if moment is not None)


def _iso(match: re.Match[str]) -> Moment | None:
    return _moment(match, int(match["year"]), int(match["month"]), int(match["day"]))


def _worded(match: re.Match[str], year: int | None) -> Moment | None:
    month = _month(match["m1"] or match["m2"])
    written = match["y1"] or match["y2"]
    in_year = int(written) if written else year
    if in_year is None:
        return None
    return _moment(match, in_year, month, int(match["d1"] or match["d2"]))


def _moment(match: re.Match[str], year: int, month: int, day: int) -> Moment | None:
    hour = match["hour"]
    try:
        at = datetime(year, month, day, *_clock(match) if hour else (0, 0))
    except ValueError:
        return None
    return Moment(at=at, whole_day=hour is None, text=match[0].strip())


def _clock(match: re.Match[str]) -> tuple[int, int]:
    hour, half = int(match["hour"]), (match["half"] or "").lower()
    if half:
        hour = hour % 12 + (12 if half == "pm" else 0)
    return hour, int(match["minute"])


def _month(name: str) -> int:
    return MONTHS.index(name[:3].lower()) + 1


def shifted(text: str, days: int) -> set[str]:
    """The days so many days before and after those a text names with their year, as `day_keys`."""
    found = (moment.at + timedelta(days=by) for moment in moments(text) for by in (-days, days))
    return {f"{day:%m-%d}" for day in found}


def day_keys(text: str) -> set[str]:
    """The days a text names, as `MM-DD` whatever the year; a slashed date both ways round."""
    keys = {f"{match['month']}-{match['day']}" for match in _ISO.finditer(text)}
    for match in _WORDS.finditer(text):
        month = _month(match["m1"] or match["m2"])
        keys.add(f"{month:02}-{int(match['d1'] or match['d2']):02}")
    for match in _SLASH.finditer(text):
        first, second = int(match[1]), int(match[2])
        keys |= {f"{a:02}-{b:02}" for a, b in ((first, second), (second, first)) if a <= 12}
    return keys
