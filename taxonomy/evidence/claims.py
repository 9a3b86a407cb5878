"""What does a text claim: a time, that something worked, how it stands, which lines a file has?

Sentences are read for windows of time and words of success; dates and times as people and tools
write them become days, moments and spans; a patch claims the lines it keeps or takes away.

A number that stands nowhere may have been computed from numbers that were shown
(`find_computation`): a sum, a difference, a product, or the total of numbers in one column.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from msgspec import Struct

from replay.trace import Json
from taxonomy.evidence.reading import leaves

_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_LONGEST = 1_000
_MARKUP = re.compile(r"((?<=\d)\*\*?(?=[$€£]?\d)|(?<=\d )\*\*?(?= [$€£]?\d))|[*_`#]+")
"""Signs of markup; in the group the `*` between two numbers, which is none."""

_UNITS = {"hour": 1.0, "hr": 1.0, "day": 24.0, "week": 168.0}
_SPAN = (
    r"(?P<n{0}>\d{{1,3}}|twenty[- ]four|forty[- ]eight|one|two|three|seven|thirty)[- ]?"
    r"(?P<unit{0}>hours?|hrs?|days?|weeks?)\b"
)
_IN_WORDS = {
    "one": 1,
    "two": 2,
    "three": 3,
    "seven": 7,
    "twenty-four": 24,
    "thirty": 30,
    "forty-eight": 48,
}

_INSIDE = re.compile(
    r"(?:\b(?:is|it(?:'|’)s|was|were|falls?|fell|made|booked|created|placed|purchased|ordered|opened"
    r"|issued|delivered|received|happened|occurred)\b[^.;?!]{0,40}?\b(?:within|inside|in) (?:of )?"
    rf"(?:the |a |our |your )?(?:last |past |first )?{_SPAN.format('')}"
    rf"|\b(?:less than|under|only|just) {_SPAN.format(2)} ago)",
    re.I,
)
_BEYOND = re.compile(
    r"\b(?:more than|over|past|beyond|outside(?: of)?|exceed(?:s|ed|ing)?|older than|longer than)"
    rf" (?:the |a |our |your )?(?:last |past )?{_SPAN.format('')}",
    re.I,
)
_DENIED = re.compile(r"\b(?:not|never|no longer|\w+n(?:'|’)t)\b[^,;]{0,30}$", re.I)
_UNSETTLED = re.compile(
    r"\b(?:if|unless|whether|only|must|should|would|could|(?-i:may)|might|when|until|provided"
    r"|ensure|verify|check|confirm|determine|will|shall|expect|required?|any|all|policy|normally|usually"
    r"|typically|every|each|once|need)\b",
    re.I,
)

_STEMS = (
    "updat|book|cancel|chang|process|creat|add|sent|send|appl|refund|upgrad|modif|complet|submit"
    "|remov|delet|schedul|issu|transfer|writ|fix|sav|instal"
)
_SUCCESS = re.compile(
    rf"\b(?:successfully (?:been )?|(?:has|have) (?:now |also )?been (?:successfully )?|is now )"
    rf"(?P<verb>{_STEMS})\w*",
    re.I,
)
_TROUBLE = re.compile(
    r"\b(?:unable|unfortunately|however|but|error|errors|fail\w*|issue|problem|cannot|can(?:'|’)t"
    r"|could(?:n(?:'|’)t| not)|did(?:n(?:'|’)t| not)|was(?:n(?:'|’)t| not)|not|unsuccessful\w*"
    r"|instead|retry|except|will|once|if|after|before|to be|should)\b",
    re.I,
)

STATUS_GROUPS: dict[str, str] = {
    word: group
    for group, words in {
        "delivered": "delivered",
        "shipped": "shipped dispatched",
        "pending": "pending processing",
        "cancelled": "cancelled canceled",
        "returned": "returned",
        "refunded": "refunded",
        "active": "active open enabled",
        "closed": "closed resolved inactive disabled",
        "failed": "failed declined rejected",
        "paid": "paid",
        "unpaid": "unpaid overdue",
    }.items()
    for word in words.split()
}
"""Words for how a thing stands, by what they mean; two groups exclude each other."""

_STATUS = re.compile(
    r"\b(?:is|are|was|has been|have been|status(?: is|:)|marked as) (?:now |currently |already "
    rf"|still |successfully )?(?P<word>{'|'.join(STATUS_GROUPS)})\b",
    re.I,
)

_ASSUMES = re.compile(
    r"\b(?:let(?:(?:'|’)?s| us) assume|(?:i|we)(?:'|’)?(?: will|ll| can)? assume|assuming|suppose"
    r"|i(?:'|’)?ll guess|my guess|for (?:the )?demonstration|simulat(?:e|ed|ing)"
    r"|hypothetical(?:ly)?|placeholder|made-up|mock(?:ed)? (?:data|response)|example data|dummy)\b",
    re.I,
)

_ASSUMING = (
    "assum", "suppose", "guess", "demonstration", "simulat", "hypothetical", "placeholder",
    "made-up", "mock", "example data", "dummy",
)  # fmt: skip
"""Of these one stands in every text that assumes."""

_STEM = 6
"""So many letters tell a word of the table in any of its forms."""


class Window(Struct, frozen=True, kw_only=True):
    """A claim that an event lies within (`inside`) or beyond a span of now."""

    inside: bool
    span: timedelta
    words: str
    sentence: str


def sentences(text: str) -> list[str]:
    """The sentences and lines of a text, markup dropped, and what is too long to be one."""
    parts = _SENTENCE.split(_MARKUP.sub(r"\1", text))
    return [part for part in parts if part.strip() and len(part) <= _LONGEST]


def windows(sentence: str) -> Iterator[Window]:
    """The windows of time a sentence claims flatly."""
    if sentence.rstrip().endswith("?"):
        return
    for pattern, inside in ((_INSIDE, True), (_BEYOND, False)):
        for match in pattern.finditer(sentence):
            clause = _clause(sentence, match.start(), match.end())
            if _UNSETTLED.search(clause):
                continue
            denied = _DENIED.search(sentence[: match.end()].rpartition("within")[0][-60:])
            yield Window(
                inside=inside and not denied,
                span=_span(match),
                words=_shown(match),
                sentence=sentence.strip(),
            )


def success(sentence: str) -> str | None:
    """The stem of what a sentence flatly says was done (`cancel`, `updat`), None for no claim."""
    claim = _SUCCESS.search(sentence)
    return claim["verb"].lower() if claim and not _TROUBLE.search(sentence) else None


def assumes(text: str, told: Sequence[str] = ()) -> str | None:
    """The sentence in which a text says that it assumes or invents, None where it does not.

    A word that was `told` (texts in small letters) is the task's, not the model's: one may be asked
    to simulate, or to put in placeholders.
    """
    return next(
        (
            sentence
            for stem, sentence in assumptions(text)
            if not any(stem in each for each in told)
        ),
        None,
    )


def assumptions(text: str) -> Iterator[tuple[str, str]]:
    """(stem of the word, sentence) of each word by which a text assumes or invents."""
    small = without_case(text)
    if not any(words in small for words in _ASSUMING):
        return
    for match in _ASSUMES.finditer(text):
        start = max(text.rfind(mark, 0, match.start()) for mark in ".!?\n") + 1
        yield match[0].lower().split()[-1][:_STEM], text[start : match.end() + 60].strip()


def statuses(sentence: str) -> Iterator[tuple[str, str]]:
    """(group, word) of each status a sentence flatly gives something."""
    if sentence.rstrip().endswith("?") or _UNSETTLED.search(sentence):
        return
    for match in _STATUS.finditer(sentence):
        if not _DENIED.search(sentence[: match.start("word")][-60:]):
            yield STATUS_GROUPS[match["word"].lower()], match["word"].lower()


def _clause(sentence: str, start: int, end: int) -> str:
    """The part of a sentence between commas in which a claim stands."""
    left = max(sentence.rfind(mark, 0, start) for mark in ",;:")
    rights = [at for mark in ",;" if (at := sentence.find(mark, end)) >= 0]
    return sentence[left + 1 : min(rights, default=len(sentence))]


def _span(match: re.Match[str]) -> timedelta:
    groups = match.groupdict()
    count, unit = groups["n"] or groups.get("n2"), groups["unit"] or groups.get("unit2")
    assert count is not None
    assert unit is not None
    number = int(count) if count.isdecimal() else _IN_WORDS[count.lower().replace(" ", "-")]
    return timedelta(hours=number * _UNITS[unit.lower().rstrip("s")])


def _shown(match: re.Match[str]) -> str:
    hours = _span(match).total_seconds() / 3600
    return f"{hours:g} h" if hours < 72 else f"{hours / 24:g} days"


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


_LONE = "surrogatepass"
"""Half a character is no UTF-8, and some sources hold one all the same."""


def splitter(signs: str) -> Callable[[str], list[str]]:
    """A function that splits a text at white space and at each of `signs`, which are ASCII."""
    table = bytes.maketrans(signs.encode("ascii"), b" " * len(signs))

    def split(text: str) -> list[str]:
        return text.encode("utf-8", _LONE).translate(table).decode("utf-8", _LONE).split()

    return split


def without_case(text: str) -> str:
    """A text in small letters, as `re.IGNORECASE` compares them to ASCII ones.

    What stands in small letters in a pattern can match only where it stands in this.
    """
    if text.isascii():
        return text.lower()
    return text.replace("İ", "i").lower().replace("ı", "i").replace("ſ", "s")


MULTIPLE = 9
"""The largest number of times a shown number may count without being shown itself."""

PARTNER = 12
"""The largest factor that counts as one where both numbers were shown."""

SMALLEST = 20
"""A number below this has too many fathers: nothing is derived from a multiple of it."""

LONGEST_COLUMN = 40

NEAR = 0.005
"""A sum so near a number is that number, in hundredths."""


class Working(Struct, frozen=True, kw_only=True):
    """How a number may have been worked out: the sum as written, and the last of its places."""

    formula: str
    at: int


def find_computation(target: float, shown: Sequence[tuple[float, int]]) -> Working | None:
    """The first way to a number by one step from `shown`: pairs of a number and its place."""
    at_of = dict(shown)
    for value, at in shown:
        for partner, formula in _steps(target, value):
            if partner in at_of and partner > 1:
                return Working(
                    formula=f"{value:g} {formula} {partner:g}", at=max(at, at_of[partner])
                )
    for value, at in shown:
        times = target / value if value >= SMALLEST else 0.0
        if times.is_integer() and 2 <= times <= MULTIPLE:
            return Working(formula=f"{times:g} × {value:g}", at=at)
    return None


def _steps(target: float, value: float) -> Iterator[tuple[float, str]]:
    """(other number, sign) of each single step from `value` to `target`."""
    if target != 2 * value:
        yield round(target - value, 4), "+"
    yield round(value - target, 4), "−"
    if value and 1 < target / value <= PARTNER:
        yield round(target / value, 4), "×"


def columns(value: Json) -> Mapping[str, Sequence[float]]:
    """The numbers of a JSON value by the name of their field, those that occur several times."""
    found: dict[str, list[float]] = {}
    for path, leaf in leaves(value):
        if isinstance(leaf, (int, float)) and not isinstance(leaf, bool):
            name = next((part for part in reversed(path.split(".")) if not part.isdecimal()), "")
            found.setdefault(name, []).append(float(leaf))
    return {name: numbers for name, numbers in found.items() if 2 < len(numbers) <= LONGEST_COLUMN}


def sums(numbers: Sequence[float]) -> Iterator[tuple[int, int, float]]:
    """(first, last, sum) of each three or more numbers in a row."""
    for start in range(len(numbers) - 2):
        total = sum(numbers[start : start + 2])
        for end in range(start + 2, len(numbers)):
            total += numbers[end]
            yield start, end, total


def totals(target: float, named: Mapping[str, Sequence[float]]) -> str | None:
    """The sum of three or more numbers of one column in a row that is `target`, as written."""
    for name, numbers in named.items():
        for start, end, total in sums(numbers):
            if abs(total - target) < NEAR:
                terms = " + ".join(f"{number:g}" for number in numbers[start : end + 1])
                return f"{name}: {terms}"
    return None


Columns = Sequence[tuple[int, Mapping[str, Sequence[float]]]]
"""Columns of numbers by name, and the place that showed them, in the order of the places."""


class Sums:
    """The columns of a run. `asked` are the numbers that will be looked for, as far as known."""

    def __init__(self, columns: Columns, asked: Iterable[float]) -> None:
        self._columns = columns
        self._named = dict(columns)
        self._first: dict[float, dict[float, int]] = {
            cent: {} for number in asked for cent in _cents(number)
        }
        for at, named in columns if self._first else ():
            for numbers in named.values():
                for _, _, total in sums(numbers):
                    kept = self._first.get(total * 100 // 1)
                    if kept is not None:
                        kept.setdefault(total, at)

    def first(self, target: float, end: int) -> tuple[int, str] | None:
        """The first place before `end` that shows such a sum, and the sum as written."""
        for at in self._places(target):
            if at < end:
                formula = totals(target, self._named[at])
                if formula is not None:
                    return at, formula
        return None

    def _places(self, target: float) -> Iterable[int]:
        near = [self._first.get(cent) for cent in _cents(target)]
        if any(kept is None for kept in near):
            return (at for at, _ in self._columns)
        return sorted(
            {
                at
                for kept in near
                for total, at in (kept or {}).items()
                if abs(total - target) < NEAR
            }
        )


def _cents(number: float) -> tuple[float, float, float]:
    """The hundredths in which a sum may lie that is `NEAR` a number."""
    cent = number * 100 // 1
    return cent - 1, cent, cent + 1
