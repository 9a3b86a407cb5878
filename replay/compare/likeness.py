"""Do two arguments count as the same under some rules?

Lists are paired so that as many values as can be have a like one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import NamedTuple

import msgspec

from replay import digests
from replay.compare.rules import PathRule, Place, dated, matched, normal_path, trimmed, within
from replay.redact.placeholders import masked_count
from replay.trace import Json


class Near(NamedTuple):
    """A number, and how far from it another may be."""

    number: Fraction
    tolerance: str


class Counted(NamedTuple):
    """What counts of a value. Two are alike when the texts are equal and the numbers are near."""

    text: str
    near: tuple[Near, ...] = ()

    def like(self, other: Counted) -> bool:
        if self.text != other.text or len(self.near) != len(other.near):
            return False
        return not self.near or all(map(_are_near, self.near, other.near))

    @property
    def key(self) -> tuple[str, int]:
        """What like values have in common."""
        return self.text, len(self.near)


def _are_near(mine: Near, other: Near) -> bool:
    return within(mine.number, other.number, mine.tolerance)


def alike(ours: Json, theirs: Json, place: Place) -> bool:
    if not place.open:
        return digests.same(ours, theirs)
    return counted(ours, place).like(counted(theirs, place))


def counted(value: Json, place: Place) -> Counted:
    """What counts of a value that stands at `place`; of an ignored one, nothing."""
    if not place.open:
        return Counted(digests.canonical(value))
    if place.ignored:
        return Counted("")
    near: list[Near] = []
    return Counted(digests.canonical(_counting(value, place, near)), tuple(near))


def _counting(value: Json, place: Place, near: list[Near]) -> Json:
    """The value with all that does not count taken out; its near numbers are added to `near`."""
    if not place.open:
        return value
    value, settled = _applied(value, place.rules)
    found: Json = value
    if settled is not None:
        if settled.how == "tolerance":
            near.append(Near(value, settled.value))
            found = settled.value
    elif isinstance(value, dict):
        # The names are sorted so that the near numbers of two like values come in one order.
        inner = ((name, place.inner(name)) for name in sorted(value))
        found = {name: _counting(value[name], at, near) for name, at in inner if not at.ignored}
    elif isinstance(value, list):
        inner_list = ((entry, place.inner(at)) for at, entry in enumerate(value))
        kept = [(entry, at) for entry, at in inner_list if not at.ignored]
        if place.unordered and not _is_masked(value):
            found = _in_any_order((counted(entry, at) for entry, at in kept), near)
        else:
            found = [_counting(entry, at, near) for entry, at in kept]
    return [settled.how if settled else "", found] if place.marked else found


def _in_any_order(entries: Iterable[Counted], near: list[Near]) -> list[Json]:
    """The entries of a list sorted, so that two lists of like entries come in one order.

    Entries that differ in one near number alone are matched exactly; those that differ in several
    are matched by the first.
    """
    texts: list[Json] = []
    for entry in sorted(entries):
        texts.append(entry.text)
        near.extend(entry.near)
    return texts


# --- one value


def _applied(value: Json, rules: Iterable[PathRule]) -> tuple[Json, PathRule | None]:
    """The value after the rules that can be applied to it, and the rule that settled it."""
    for rule in rules:
        if isinstance(value, str):
            if masked_count(value):
                break
            found, settles = _read(value, rule)
            if settles:
                return found, rule
            value = found
        elif rule.how == "tolerance" and (number := _number(value)) is not None:
            return number, rule
    return value, None


def _read(text: str, rule: PathRule) -> tuple[Json, bool]:
    """What a rule makes of a text, and whether that settles it."""
    match rule.how:
        case "casefold":
            return text.casefold(), False
        case "trim":
            return trimmed(text), False
        case "path":
            return normal_path(text), False
        case "json":
            return _held(text), False
        case "regex":
            form = matched(text, rule.value)
        case "date":
            form = dated(text)
        case "ignore" | "set" | "tolerance":
            form = None
    return (text, False) if form is None else (form, True)


def _held(text: str) -> Json:
    """The JSON a text holds, or the text."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text


def _number(value: Json) -> Fraction | None:
    """The number as it is written in decimals, not the nearest binary one."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return Fraction(value)
    return Fraction(repr(value)) if isinstance(value, float) and math.isfinite(value) else None


def _is_masked(value: Json) -> bool:
    return masked_count(digests.canonical(value)) > 0


MAX_PAIRS = 2500
"""With more pairs to weigh, each value takes the first one that will do."""


def pairs(before: Sequence[Counted], after: Sequence[Counted]) -> list[tuple[int, int]]:
    """Places of `before` with their partners' places in `after`, no place twice.

    Where likeness is equality alone, the first takes the first. Where numbers need only be near,
    1.00 may be like 1.01 and 1.02 while another is like 1.01 alone: then partners are exchanged
    until no more values can have one.
    """
    candidates: dict[tuple[str, int], list[int]] = {}
    for column, other in enumerate(after):
        candidates.setdefault(other.key, []).append(column)
    exact = len(before) * len(after) <= MAX_PAIRS
    holder: dict[int, int] = {}
    for row, mine in enumerate(before):
        columns = candidates.get(mine.key, [])
        if not mine.near:
            if columns:
                holder[columns.pop(0)] = row
        else:
            _seat(row, before, after, columns, holder, set(), exchange=exact)
    return sorted((row, column) for column, row in holder.items())


def _seat(
    row: int,
    before: Sequence[Counted],
    after: Sequence[Counted],
    columns: Sequence[int],
    holder: dict[int, int],
    tried: set[int],
    *,
    exchange: bool,
) -> bool:
    """Give a value a partner, moving the holder of one to another where that helps."""
    likes = [column for column in columns if before[row].like(after[column])]
    for column in likes:
        if column not in holder:
            holder[column] = row
            return True
    for column in likes if exchange else ():
        if column not in tried:
            tried.add(column)
            if _seat(holder[column], before, after, columns, holder, tried, exchange=True):
                holder[column] = row
                return True
    return False
