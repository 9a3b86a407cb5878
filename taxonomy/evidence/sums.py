"""Which numbers of one column, in a row, first added up to a number?

A long run shows thousands of columns and asks for thousands of numbers. Those it may ask for are
told beforehand, and every sum is looked at once; a number that was not told is looked for in all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from taxonomy.evidence.derivation import NEAR, sums, totals

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
