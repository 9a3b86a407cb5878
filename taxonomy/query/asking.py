"""A field and what it is asked, as a condition: one function a kind of field."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches

from taxonomy.query.fields import MODELS, Inside, Number, Text, Time
from taxonomy.query.filter import Filter
from taxonomy.query.language import Asks, BadQuery
from taxonomy.query.values import MOST_STARS, Moment, Pattern, moment, number, pattern

UNKNOWN = "unknown"
_ESCAPED = "LIKE ? ESCAPE '\\'"
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}
_FIRST = Moment(*(moment("2000") or (0, 0)))
"""A clock that shows less counts from the run's own beginning: no agent ran before."""


# --- what may be asked


def compares(asked: Asks, *operators: str) -> None:
    """Raises BadQuery where a field is asked otherwise than it can be."""
    if asked.operator not in operators:
        known = " or ".join(f"{asked.field}{each}" for each in operators if each)
        raise BadQuery(
            f"{asked.field}{asked.operator} cannot be asked", asked.at, f"ask {known} instead"
        )


def near(word: str, known: Iterable[str]) -> str:
    """What to say to who named something that is not there."""
    names = list(known)
    found = get_close_matches(word, names, n=1)
    return f"did you mean {found[0]!r}?" if found else f"there are {', '.join(names)}"


def check_stars(text: str, at: int) -> None:
    """Raises BadQuery for a pattern that would take too long."""
    if text.count("*") > MOST_STARS:
        raise BadQuery(f"a pattern has at most {MOST_STARS} stars", at)


def yes(asked: Asks) -> bool:
    """`yes` or `no`, or how they begin."""
    compares(asked, ":", "=")
    for word in ("yes", "no"):
        if asked.value and word.startswith(asked.value.lower()):
            return word == "yes"
    raise BadQuery(f"{asked.field} is yes or no, not {asked.value!r}", asked.at)


def chosen(of: Mapping[str, str | int], asked: Asks) -> tuple[str | int, ...]:
    """What the names stand for that begin so, or have a word that does."""
    compares(asked, ":", "=")
    wanted = " ".join(asked.value.lower().replace("_", " ").replace("-", " ").split())
    found = [value for name, value in of.items() if wanted and f" {wanted}" in f" {name}"]
    if not found:
        raise BadQuery(f"{asked.field} is never {asked.value!r}", asked.at, near(wanted, of))
    return tuple(found)


# --- texts


def like(column: str, wanted: Pattern) -> Filter:
    """A column that has the text."""
    compared = f"folded({column})" if wanted.folds else column
    return Filter(f"{compared} {_ESCAPED}", (wanted.like,))


def one_of(column: str, values: tuple[str | int, ...]) -> Filter:
    return Filter(f"{column} IN ({', '.join('?' * len(values))})", values)


def text(field: Text, asked: Asks) -> Filter:
    """A column of text: has it, is it, or has none."""
    compares(asked, ":", "=")
    if not asked.value:
        return Filter(f"coalesce({field.column}, '') = ''")
    if asked.operator == "=":
        found = Filter(f"{'value' if field.several else field.column} = ?", (asked.value,))
    else:
        wanted = _pattern(asked)
        found = like("value" if field.several else field.column, wanted)
    if not field.several:
        return found
    return Filter(MODELS.format(found.sql), found.values)


def _pattern(asked: Asks, *, whole: bool = False) -> Pattern:
    if not asked.quoted:
        check_stars(asked.value, asked.at)
    return pattern(asked.value, quoted=asked.quoted, whole=whole)


def inside(field: Inside, asked: Asks) -> Filter:
    """A row that the run has."""
    if not asked.operator:
        return Filter(field.within.format("1"))
    compares(asked, ":", "=")
    if not asked.value:
        raise BadQuery(f"nothing stands after {asked.field}", asked.at)
    wanted = _pattern(asked, whole=field.whole)
    if wanted.whole and not wanted.stars and not wanted.folds:
        return Filter(field.within.format(f"{field.column} = ? COLLATE NOCASE"), (asked.value,))
    found = like(field.column, wanted)
    return Filter(field.within.format(found.sql), found.values)


def labelled(asked: Asks) -> Filter:
    """`label:difficulty=hard`, or a text that a label or its value has."""
    name, equals, value = asked.value.partition("=")
    if equals and not asked.quoted:
        check_stars(value, asked.at)
        found = like("value", pattern(value, whole=True))
        sql, values = f"key = ? AND {found.sql}", (name, *found.values)
    else:
        wanted = _pattern(asked)
        sql = f"{like('key', wanted).sql} OR {like('value', wanted).sql}"
        values = (wanted.like, wanted.like)
    return Filter(f"EXISTS (SELECT 1 FROM json_each(labels) WHERE {sql})", values)


def fitting(asked: Asks) -> Callable[[str | None], bool]:
    """The same of a text in hand; an empty value fits where there is none."""
    if not asked.value:
        return lambda name: name is None
    wanted = _pattern(asked, whole=asked.operator == "=")
    return lambda name: name is not None and wanted.fits(name)


# --- quantities and moments


def quantity(field: Number, asked: Asks) -> Filter:
    """A number that compares so, as far as it is known."""
    compares(asked, ":", "=", "<", "<=", ">", ">=")
    operator = "=" if asked.operator == ":" else asked.operator
    if operator == "=" and asked.value.lower() == UNKNOWN:
        part = f" OR NOT {field.whole}" if field.whole else ""
        return Filter(field.within.format(f"{field.column} IS NULL{part}"))
    limit = number(asked.value, field.units)
    if limit is None:
        units = " ".join(filter(None, field.units))
        hint = (
            f"ask {field.example}{f' (units: {units})' if units else ''}, or {field.name}:{UNKNOWN}"
        )
        raise BadQuery(f"{asked.value!r} is no number of {field.name}", asked.at, hint)
    sql = f"{field.column} {operator} ?"
    if field.falling is not None:
        sql, limit = f"{field.falling} {_TURNED[operator]} ?", -limit
        sql += "" if operator in (">", ">=") else f" AND {field.column} IS NOT NULL"
    if field.whole is not None and operator not in (">", ">="):
        sql += f" AND {field.whole}"
    return Filter(field.within.format(sql), (limit,))


def time(field: Time, asked: Asks) -> Filter:
    """A moment before, in or after a stretch of time."""
    asks_for_none = asked.operator in (":", "=") and asked.value.lower() == UNKNOWN
    if field.always is not None:
        compares(asked, ":", "=")
    elif asks_for_none:
        return Filter(f"{field.column} IS NULL OR {field.column} < ?", (_FIRST.from_ns,))
    compares(asked, ":", "=", "<", "<=", ">", ">=")
    named = moment(asked.value)
    if named is None:
        hint = "ask 2026, 2026-11, 2026-W47, 2026-11-20 or 2026-11-20T09:30"
        raise BadQuery(f"{asked.value!r} is no day, week or month", asked.at, hint)
    least, end = _bounds(field.always or asked.operator, named)
    return Filter(f"{field.column} >= ? AND {field.column} < ?", (least, end))


def _bounds(operator: str, named: Moment) -> tuple[int, int]:
    """(the least moment, the one that is too late)."""
    never = 2**63 - 1
    least, end = {
        ">=": (named.from_ns, never),
        ">": (named.until_ns, never),
        "<": (0, named.from_ns),
        "<=": (0, named.until_ns),
    }.get(operator, named)
    return max(least, _FIRST.from_ns), end
