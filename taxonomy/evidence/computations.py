"""Could a number have been computed from numbers that were shown, and how?

A sum, a difference, a product, or the total of numbers that stand in one column.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from replay.trace import Json
from taxonomy.evidence.reading import leaves

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
