"""May scores of this source be used without a person looking at each?

A judge is approved for its scores or for a category of tasks where its agreement with people is
high enough; approval ends after 30 days. People's scores need none.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec import Struct

from replay.store import answers
from replay.store.handle import Store
from replay.store.rows import TraceRow
from taxonomy.metrics.agreement import Estimate, pearson

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

BY_ITEM = "mode window counts by its rubric items, each with a gate of its own"

_ITEMS_COUNT = "judge:window:"


class Pair(Struct, frozen=True):
    """People's score of a step (or run) and another source's, 0..1, and the task's category."""

    human: float
    other: float
    category: str | None = None


class CategoryGate(Struct, frozen=True, kw_only=True):
    """The verdict on the scores of one category of tasks: passed, or every reason why not.

    `enough`: were there labels enough to say either?
    """

    category: str
    r: Estimate
    missing: tuple[str, ...]
    enough: bool = True

    @property
    def passed(self) -> bool:
        return not self.missing


class JudgeApproval(Struct, frozen=True, kw_only=True):
    """The verdict on one source of scores: passed everywhere, or every reason why not."""

    by: str
    r: Estimate
    missing: tuple[str, ...]
    checked_ns: int = 0
    categories: tuple[CategoryGate, ...] = ()

    @property
    def passed(self) -> bool:
        return not self.missing

    @property
    def passed_somewhere(self) -> bool:
        return self.passed or any(each.passed for each in self.categories)

    @property
    def enough(self) -> bool:
        """Were there labels enough of every category to say either?"""
        return all(each.enough for each in self.categories)

    def covers(self, category: str | None) -> bool:
        """May scores of a run of that category be used? Of a run without one, where such runs or
        else all categories passed."""
        own = [each for each in self.categories if each.category == (category or NO_CATEGORY)]
        if own:
            return own[0].passed
        return self.passed and (category is None or not self.categories)


def band(score: float) -> str:
    """The word for a score."""
    return BANDS[sum(score >= edge for edge in BAND_EDGES)]


def achieved(score: float) -> bool:
    """Is a score in the upper two bands?"""
    return score >= BAND_EDGES[1]


def gate(by: str, pairs: Iterable[Pair], checked_ns: int = 0) -> JudgeApproval:
    """Hold pairs against the gate. Pairs without a category count as one category."""
    known = list(pairs)
    r = _follows(known)
    categories = tuple(_of_category(name, own) for name, own in by_category(known).items())
    missing = [] if len(categories) == 1 else _too_weak(r)
    for each in categories:
        name = "" if len(categories) == 1 else f"{each.category}: "
        missing.extend(f"{name}{why}" for why in each.missing)
    return JudgeApproval(
        by=by,
        r=r,
        missing=(BY_ITEM,) if counts_by_item(by) else tuple(missing),
        checked_ns=checked_ns,
        categories=() if counts_by_item(by) else categories,
    )


def counts_by_item(by: str) -> bool:
    """Is it a judge's set whose scores are shares of rubric items?"""
    return by.startswith(_ITEMS_COUNT)


def _of_category(category: str, own: Sequence[Pair]) -> CategoryGate:
    r = _follows(own)
    missing = []
    if len(own) < LEAST_LABELS:
        missing.append(f"{len(own)} of at least {LEAST_LABELS} labels")
    met = {band(pair.human) for pair in own}
    if len(met) < LEAST_BANDS:
        named = ", ".join(word for word in BANDS if word in met)
        missing.append(f"labels in {len(met)} of at least {LEAST_BANDS} bands ({named})")
    enough = not missing
    if r.value is not None or enough:
        missing.extend(_too_weak(r))
    return CategoryGate(category=category, r=r, missing=tuple(missing), enough=enough)


def _follows(pairs: Sequence[Pair]) -> Estimate:
    return pearson([pair.human for pair in pairs], [pair.other for pair in pairs])


def own_category(row: TraceRow) -> str | None:
    """The category of its task that a trace itself states."""
    said = msgspec.json.decode(row.labels or b"{}").get("category")
    return said if isinstance(said, str) else None


def by_category(pairs: Iterable[Pair]) -> Mapping[str, list[Pair]]:
    """The pairs of each category, in the order of their names."""
    found: dict[str, list[Pair]] = defaultdict(list)
    for pair in pairs:
        found[pair.category or NO_CATEGORY].append(pair)
    return dict(sorted(found.items()))


def _too_weak(r: Estimate) -> list[str]:
    if r.value is None:
        return [f"r is not defined on {r.n} labels"]
    said = round(r.value, 2) + 0.0  # no minus before a zero
    return [] if r.value >= LEAST_R else [f"r {said:.2f} is under {LEAST_R:.2f}"]


def keep(store: Store, verdict: JudgeApproval) -> None:
    """Keep a verdict in place of the last one on the same source.

    One on too few labels says nothing against a source: it takes no trust away that stands.
    """
    before = standing(store, verdict.by, verdict.checked_ns)
    if verdict.enough or before is None or not before.passed_somewhere:
        answers.keep(store, _note(verdict.by), verdict)


def kept(store: Store, by: str) -> JudgeApproval | None:
    """The last verdict on a source, expired or not; None without one."""
    return next(
        (each for each in answers.found(store, _note(by), JudgeApproval) if each.by == by), None
    )


def standing(store: Store, by: str, now_ns: int) -> JudgeApproval | None:
    """The verdict on a source as it stands today: None without one, or once it has expired."""
    found = kept(store, by)
    return None if found is None or now_ns - found.checked_ns >= EXPIRES_NS else found


def _note(by: str) -> str:
    return f"calibration {by}"
