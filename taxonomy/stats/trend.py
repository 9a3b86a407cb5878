"""Before and after something was changed: did passing, shapes, or what users do move?

Source: the ARC article, "Behavioral grounding": after an intervention against a shape, production
should show that shape declining.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias

from taxonomy.change import Change, Sides, changes
from taxonomy.classes import Shape
from taxonomy.stats.run import Run

PASSED = "passed"

Signs: TypeAlias = Mapping[str, frozenset[str]]
"""What users did, by trace, of the runs whose source would say so."""

NO_SIGNS: Signs = MappingProxyType({})


def moved(
    before: Sequence[Run], since: Sequence[Run], signs: Signs = NO_SIGNS
) -> tuple[Change, ...]:
    """What share of runs passed, had each shape, and showed each sign of a user, on both sides."""
    names = _names([*before, *since], signs)
    return changes({name: _sides(name, before, since, signs) for name in names})


def _names(runs: Sequence[Run], signs: Signs) -> list[str]:
    """What can be counted of these runs: passing, each shape any of them has, each sign."""
    shapes = sorted({run.shape for run in runs if run.shape is not None})
    shown = sorted({sign for run in runs for sign in signs.get(run.trace, ())})
    passed = [PASSED] if any(run.passed is not None for run in runs) else []
    return [*passed, *shapes, *shown]


def _sides(name: str, before: Sequence[Run], since: Sequence[Run], signs: Signs) -> Sides:
    shown = [[_shows(name, run, signs) for run in runs] for runs in (before, since)]
    known = [[each for each in side if each is not None] for side in shown]
    return Sides(sum(known[0]), len(known[0]), sum(known[1]), len(known[1]))


def _shows(name: str, run: Run, signs: Signs) -> bool | None:
    """Does a run show it? None where nothing could tell."""
    if name == PASSED:
        return run.passed
    if name in set(Shape):
        return None if run.shape is None else run.shape == name
    return name in signs[run.trace] if run.trace in signs else None
