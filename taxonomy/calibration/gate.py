"""May scores of this source be used without a person looking at each? The gate before trust.

Passed where the scores follow people's closely enough, on enough labels of every task category,
across the range of the scale (`formulas.md`, judge). A verdict is kept by the name of the scores'
source, which holds the judge's model, mode and rubric version: another version has no verdict.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from msgspec import Struct

from replay.store import Store, notes
from taxonomy.calibration.agreement import Estimate, pearson

LEAST_R = 0.80
LEAST_LABELS = 5
"""Labels of each task category."""

LEAST_BANDS = 3
"""Bands of the scale that the labels of each category fall in."""

EXPIRES_NS = 30 * 24 * 3600 * 1_000_000_000

BANDS = ("not achieved", "partial", "with caveats", "achieved")
BAND_EDGES = (0.25, 0.55, 0.85)
"""The judge's four bands; the edges are in the middle of the gaps between them."""

NO_CATEGORY = "all"


class Pair(NamedTuple):
    """A person's score of a step (or run) and another source's, 0..1, and the task's category."""

    human: float
    other: float
    category: str | None = None


class Gate(Struct, frozen=True, kw_only=True):
    """The verdict on one source of scores: passed, or every reason why not."""

    by: str
    r: Estimate
    missing: tuple[str, ...]
    checked_ns: int = 0

    @property
    def passed(self) -> bool:
        return not self.missing


def band(score: float) -> str:
    """The word for a score."""
    return BANDS[sum(score >= edge for edge in BAND_EDGES)]


def achieved(score: float) -> bool:
    """Is a score in the upper two bands?"""
    return score >= BAND_EDGES[1]


def gate(by: str, pairs: Iterable[Pair], checked_ns: int = 0) -> Gate:
    """Hold pairs against the gate. Pairs without a category count as one category."""
    known = list(pairs)
    r = pearson([pair.human for pair in known], [pair.other for pair in known])
    missing = [] if r.value is not None and r.value >= LEAST_R else [_too_weak(r)]
    for category, own in by_category(known).items():
        if len(own) < LEAST_LABELS:
            missing.append(f"{category}: {len(own)} of {LEAST_LABELS} labels")
        met = {band(pair.human) for pair in own}
        if len(met) < LEAST_BANDS:
            missing.append(f"{category}: labels in {len(met)} of {len(BANDS)} bands")
    return Gate(by=by, r=r, missing=tuple(missing), checked_ns=checked_ns)


def by_category(pairs: Iterable[Pair]) -> Mapping[str, list[Pair]]:
    """The pairs of each category, in the order of their names."""
    found: dict[str, list[Pair]] = defaultdict(list)
    for pair in pairs:
        found[pair.category or NO_CATEGORY].append(pair)
    return dict(sorted(found.items()))


def _too_weak(r: Estimate) -> str:
    if r.value is None:
        return f"r is not defined on {r.n} labels"
    return f"r {r.value:.2f} is under {LEAST_R:.2f}"


def keep(store: Store, verdict: Gate) -> None:
    """Keep a verdict in place of the last one on the same source."""
    notes.keep(store, _note(verdict.by), verdict)


def standing(store: Store, by: str, now_ns: int) -> Gate | None:
    """The verdict on a source as it stands today: None without one, or once it has expired."""
    found = [each for each in notes.found(store, _note(by), Gate) if each.by == by]
    return next((each for each in found if now_ns - each.checked_ns < EXPIRES_NS), None)


def _note(by: str) -> str:
    return f"calibration {by}"
