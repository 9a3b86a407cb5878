"""What do values of a question mean: numbers with units, moments, patterns, names of classes?"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Literal, NamedTuple, TypeAlias

from replay.store.handle import Store
from taxonomy.classes import CLASSES, SUB_LABELS
from taxonomy.judgements.schema import NOT_A_HINT
from taxonomy.query.failures import TAGS
from taxonomy.query.filter import PREFERRED, Filter, found_in

MOST_STARS = 4
"""Of one pattern: to compare takes ever longer with each."""

COUNTS: Mapping[str, float] = {"": 1, "k": 1e3, "m": 1e6}
DOLLARS: Mapping[str, float] = {"": 1, "$": 1, "usd": 1, "c": 0.01}
SPANS_NS: Mapping[str, float] = {
    "": 1e9, "ms": 1e6, "s": 1e9, "m": 60e9, "min": 60e9, "h": 3600e9, "d": 86400e9,
}  # fmt: skip
"""What a unit is worth; letter case aside."""

_NUMBER = re.compile(r"\$?(\d{1,15}(?:\.\d{0,15})?|\.\d{1,15})([a-z$]*)", re.ASCII)


def number(text: str, units: Mapping[str, float]) -> float | None:
    """A number that is not negative, in the unit worth 1; None where the text is none."""
    found = _NUMBER.fullmatch(text.lower())
    if found is None or found[2] not in units:
        return None
    return float(found[1]) * units[found[2]]


class Moment(NamedTuple):
    """A stretch of time as it was named, UTC, in ns since the epoch: a year, a day, a minute."""

    from_ns: int
    until_ns: int


_MOMENT = re.compile(
    r"(\d{4})(?:-W(\d\d)|-(\d\d)(?:-(\d\d)(?:T(\d\d):(\d\d)(?::(\d\d))?Z?)?)?)?",
    re.ASCII | re.IGNORECASE,
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_NS = 2**63 - 1


def moment(text: str) -> Moment | None:
    """`2026`, `2026-11`, `2026-W47`, `2026-11-20`, `2026-11-20T09:30`; None for what is none."""
    found = _MOMENT.fullmatch(text)
    if found is None:
        return None
    try:
        start, end = _ends([int(part) if part else None for part in found.groups()])
    except (ValueError, OverflowError):  # no such day
        return None
    return Moment(_ns(start), _ns(end))


def _ends(parts: list[int | None]) -> tuple[datetime, datetime]:
    year, week, month, day, hour, minute, second = parts
    assert year is not None
    if week is not None:
        monday = datetime.combine(date.fromisocalendar(year, week, 1), datetime.min.time(), UTC)
        return monday, monday + timedelta(days=7)
    start = datetime(year, month or 1, day or 1, hour or 0, minute or 0, second or 0, tzinfo=UTC)
    if second is not None:
        return start, start + timedelta(seconds=1)
    if minute is not None:
        return start, start + timedelta(minutes=1)
    if day is not None:
        return start, start + timedelta(days=1)
    if month is not None:
        return start, datetime(year + month // 12, month % 12 + 1, 1, tzinfo=UTC)
    return start, datetime(year + 1, 1, 1, tzinfo=UTC)


def _ns(moment: datetime) -> int:
    whole = (moment - _EPOCH) // timedelta(microseconds=1)
    return max(min(whole * 1000, _LAST_NS), -_LAST_NS)


class Pattern(NamedTuple):
    """A text to compare with, letter case aside. `whole`: from end to end; a star in `stars`
    stands for any characters."""

    text: str
    whole: bool
    stars: bool

    @property
    def folds(self) -> bool:
        """It has letters whose case SQLite does not know."""
        return not self.text.isascii()

    @property
    def like(self) -> str:
        """As SQL's LIKE takes it, `\\` escaping."""
        text = self.text.lower()
        for special in "\\%_":
            text = text.replace(special, "\\" + special)
        text = text.replace("*", "%") if self.stars else text
        return text if self.whole else f"%{text}%"

    def fits(self, text: str) -> bool:
        """The same said of a text in hand. Each piece between stars at its first place, the last
        at the end: where that fails, nothing fits, and no star is tried twice."""
        pieces = [re.escape(each) for each in (self.text.split("*") if self.stars else [self.text])]
        at = 0
        if self.whole:
            pieces = [rf"\A{pieces[0]}", *pieces[1:]] if len(pieces) > 1 else pieces
            pieces[-1] = rf"{pieces[-1]}\Z" if len(pieces) > 1 else rf"\A{pieces[0]}\Z"
        for each in pieces:
            found = re.compile(each, re.IGNORECASE).search(text, at)
            if found is None:
                return False
            at = found.end()
        return True


def pattern(text: str, *, quoted: bool = False, whole: bool = False) -> Pattern:
    """A text that somewhere occurs, or with a star (or `whole`) is all there is."""
    stars = "*" in text and not quoted
    return Pattern(text, whole or stars, stars)


Who: TypeAlias = Literal["said", "people", "first"]
"""Any word that counts, a person's tag, or the word that the Pareto counts."""

SEARCHED_WORDS = (
    "trace",
    "task",
    "trial",
    "variant",
    "outcome",
    "class",
    "sub",
    "fault",
    "source",
    "by",
    "why",
)
"""The columns of a word that a plain one is looked for in."""

_TAGS = "SELECT r.run FROM tag w JOIN trace r ON r.key = w.trace AND r.complete WHERE ({})"
_SUGGESTIONS = (
    "SELECT r.run FROM suggestion w JOIN trace r ON r.key = w.trace AND r.complete AND r.preferred"
    f" WHERE {NOT_A_HINT} AND ({{}})"
)
_RUNS: dict[Who, tuple[str, ...]] = {
    "said": (_TAGS, _SUGGESTIONS),
    "people": (_TAGS.format("source = 'human' AND ({})"),),
    "first": (
        f"SELECT run FROM ({TAGS}) WHERE place = 1 AND ({{}})",
        "SELECT run FROM first_word WHERE failed IN (0, 1) AND ({}) AND run NOT IN ("
        "   SELECT o.run FROM tag g CROSS JOIN trace o ON o.key = g.trace AND o.complete)",
    ),
}
_OF_RUN = PREFERRED.format("key")
_IS_SAID: dict[Who, str] = {
    "said": (
        f"EXISTS (SELECT 1 FROM suggestion w WHERE w.trace = {_OF_RUN} AND {NOT_A_HINT} AND ({{}}))"
    ),
    "first": (
        "(run NOT IN (SELECT o.run FROM tag g CROSS JOIN trace o ON o.key = g.trace AND o.complete)"
        " AND EXISTS (SELECT 1 FROM (SELECT run AS its, class, sub, fault FROM first_word)"
        " WHERE its = run AND ({})))"
    ),
}
"""The second question of `_RUNS`, asked of one run."""

_WORDS: dict[Who, str] = {
    "said": "({})",
    "people": "source = 'human' AND ({})",
    "first": "place = 1 AND ({})",
}

_LABEL = (
    "class || coalesce(' / ' || sub, '')"
    " || CASE WHEN fault <> 'agent' THEN ' (' || fault || ')' ELSE '' END"
)


def on_runs(store: Store, word: Filter, who: Who, *, page: bool = False) -> Filter:
    """The runs of which such a word is said; for a `page` of them as `runs_meant` has it."""
    selects = [Filter(select.format(word.sql), word.values) for select in _RUNS[who]]
    of_each = None
    if page and who in _IS_SAID:  # there are never so many tags that they could not be looked up
        tagged, said = selects[0], _IS_SAID[who].format(word.sql)
        sql = f"+run IN ({tagged.sql}) OR {said}"
        of_each = Filter(sql, tagged.values + word.values, recorded=True)
    return found_in(store, "run", selects, of_each=of_each)


def on_words(word: Filter, who: Who) -> Filter:
    """The words themselves."""
    return Filter(_WORDS[who].format(word.sql), word.values)


def of_class(store: Store, name: str) -> Filter | None:
    """A class by its letter or how it begins, a label (`other / cap`, `loop (harness`), or a
    sub-label; `*` is any. None where no class and nothing said is called so."""
    wanted = " ".join(name.lower().split())
    if not wanted or wanted == "*":
        return Filter() if wanted else None
    names = [each.name.value for each in CLASSES if each.key == wanted]
    names = names or [each.name.value for each in CLASSES if each.name.startswith(wanted)]
    if names:
        return Filter(f"class IN ({', '.join('?' * len(names))})", tuple(names))
    for each in CLASSES:
        if wanted.startswith(each.name):
            found = Filter("class = ?", (each.name.value,))
            return found & Filter(f"substr(lower({_LABEL}), 1, ?) = ?", (len(wanted), wanted))
    if any(sub.lower().startswith(wanted) for sub in _subs(store)):
        return Filter("substr(lower(sub), 1, ?) = ?", (len(wanted), wanted))
    return None


def class_names() -> list[str]:
    """What to tell who named none."""
    return ["untagged", *(each.name.value for each in CLASSES)]


def _subs(store: Store) -> Sequence[str]:
    said = store.db.execute(
        "SELECT sub FROM tag WHERE sub IS NOT NULL"
        " UNION SELECT sub FROM suggestion WHERE sub IS NOT NULL"
    )
    return [*SUB_LABELS, *(row[0] for row in said)]
