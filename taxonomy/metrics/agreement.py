"""How well do two raters agree, and does a stated confidence mean what it says?

Takes pairs of values, knows nothing of traces: Pearson and Spearman correlation, Cohen's kappa,
precision, recall and F1 with intervals, and reliability bins of (confidence, was it right)
pairs.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence

from msgspec import Struct

from replay.statistics import Rate, rate

Z = 1.959963984540054
"""Of a two-sided interval at 95 %."""

RANK_VARIANCE = 1.06
"""Spearman's coefficient varies a little more than Pearson's after Fisher's transformation
(Fieller, Hartley and Pearson 1957)."""


class Estimate(Struct, frozen=True, kw_only=True):
    """A coefficient between -1 and 1 with its interval; `value` None where it is not defined."""

    value: float | None
    n: int
    low: float = -1.0
    high: float = 1.0


def pearson(xs: Sequence[float], ys: Sequence[float]) -> Estimate:
    """Pearson's r with Fisher's z interval.

    None for fewer than three pairs or where one side never varies. A perfect r has no such
    interval, and neither have three pairs: the widest is given.
    """
    return _correlation(xs, ys, 1.0)


def spearman(xs: Sequence[float], ys: Sequence[float]) -> Estimate:
    """Spearman's rank correlation, ties at their middle rank; edges as in `pearson`."""
    return _correlation(ranks(xs), ranks(ys), RANK_VARIANCE)


def _correlation(xs: Sequence[float], ys: Sequence[float], variance: float) -> Estimate:
    n = len(xs)
    if n < 3:
        return Estimate(value=None, n=n)
    middle_x, middle_y = math.fsum(xs) / n, math.fsum(ys) / n
    dx, dy = [x - middle_x for x in xs], [y - middle_y for y in ys]
    spread = math.sqrt(math.fsum(d * d for d in dx)) * math.sqrt(math.fsum(d * d for d in dy))
    if spread < 1e-12:
        return Estimate(value=None, n=n)
    product = math.fsum(x * y for x, y in zip(dx, dy, strict=True))
    r = max(-1.0, min(1.0, product / spread))
    if n < 4 or abs(r) > 1 - 1e-12:
        return Estimate(value=r, n=n)
    z, half = math.atanh(r), Z * math.sqrt(variance / (n - 3))
    return Estimate(value=r, n=n, low=math.tanh(z - half), high=math.tanh(z + half))


def ranks(values: Sequence[float]) -> list[float]:
    """The rank of each value from 1, equal values sharing the middle of theirs."""
    ordered = sorted(range(len(values)), key=values.__getitem__)
    found = [0.0] * len(values)
    start = 0
    while start < len(ordered):
        end = start
        while end < len(ordered) and values[ordered[end]] == values[ordered[start]]:
            end += 1
        for place in ordered[start:end]:
            found[place] = (start + 1 + end) / 2
        start = end
    return found


def mean_difference(before: Sequence[float], after: Sequence[float]) -> Estimate:
    """The mean of (after - before) for values in 0..1, with Student's t interval.

    None without pairs. Fewer than three pairs, and differences that never vary, leave no spread to
    take an interval from: the widest is given.
    """
    differences = [b - a for a, b in zip(before, after, strict=True)]
    n = len(differences)
    if not n:
        return Estimate(value=None, n=0)
    middle = math.fsum(differences) / n
    squares = math.fsum((each - middle) ** 2 for each in differences)
    if n < 3 or squares < 1e-24:
        return Estimate(value=middle, n=n)
    half = _student(n - 1) * math.sqrt(squares / (n - 1) / n)
    return Estimate(value=middle, n=n, low=max(-1.0, middle - half), high=min(1.0, middle + half))


def _student(freedom: int) -> float:
    """Student's t of a two-sided interval at 95 %, by the expansion around the normal quantile
    (Abramowitz and Stegun 26.7.5): 3 % too small at two degrees of freedom, .3 % at four."""
    terms = (
        Z**3 + Z,
        5 * Z**5 + 16 * Z**3 + 3 * Z,
        3 * Z**7 + 19 * Z**5 + 17 * Z**3 - 15 * Z,
    )
    parts = (4 * freedom, 96 * freedom**2, 384 * freedom**3)
    return Z + sum(term / part for term, part in zip(terms, parts, strict=True))


def kappa(pairs: Iterable[tuple[Hashable, Hashable]]) -> Estimate:
    """Cohen's kappa, its interval by the asymptotic standard error of Fleiss, Cohen and Everitt
    (1969).

    None without pairs, or where a rater always says the same: that is no judgement to agree with.
    Perfect agreement has no standard error: its lower end is taken from Wilson's interval of the
    agreement.
    """
    counts = Counter(pairs)
    n = sum(counts.values())
    if not n:
        return Estimate(value=None, n=0)
    names = {name for pair in counts for name in pair}
    share = {pair: count / n for pair, count in counts.items()}
    # fsum: the same to the last digit in whatever order a set gives its names
    first = {name: math.fsum(p for (a, _), p in share.items() if a == name) for name in names}
    second = {name: math.fsum(p for (_, b), p in share.items() if b == name) for name in names}
    agreed = sum(count for (a, b), count in counts.items() if a == b)
    chance = math.fsum(first[name] * second[name] for name in names)
    if n in _totals(counts):
        return Estimate(value=None, n=n)
    observed = agreed / n
    value = (observed - chance) / (1 - chance)
    if agreed == n:
        least = (rate(n, n).low - chance) / (1 - chance)
        return Estimate(value=1.0, n=n, low=max(-1.0, least), high=1.0)
    same = math.fsum(
        share.get((name, name), 0.0) * (1 - (first[name] + second[name]) * (1 - value)) ** 2
        for name in names
    )
    other = (1 - value) ** 2 * math.fsum(
        p * (second[a] + first[b]) ** 2 for (a, b), p in share.items() if a != b
    )
    variance = same + other - (value - chance * (1 - value)) ** 2
    half = Z * math.sqrt(max(variance, 0.0) / n) / (1 - chance)
    return Estimate(value=value, n=n, low=max(-1.0, value - half), high=min(1.0, value + half))


def _totals(counts: Counter[tuple[Hashable, Hashable]]) -> set[int]:
    """How often each rater says each word."""
    totals: Counter[tuple[int, Hashable]] = Counter()
    for (one, other), count in counts.items():
        totals[0, one] += count
        totals[1, other] += count
    return set(totals.values())


class Detection(Struct, frozen=True, kw_only=True):
    """How well a yes-or-no finding meets yes-or-no labels.

    `recall` is the true positive rate, `specificity` the true negative rate. The interval of `f1`
    is Wilson's of tp / (tp + fp + fn), of which F1 is a rising function; its n is that sum.
    """

    name: str
    tp: int
    fp: int
    fn: int
    tn: int
    precision: Rate
    recall: Rate
    specificity: Rate
    f1: Rate
    kappa: Estimate


def detection(name: str, pairs: Iterable[tuple[bool, bool]]) -> Detection:
    """From pairs of (labelled so, found so)."""
    counts = Counter(pairs)
    tp, fp = counts[True, True], counts[False, True]
    fn, tn = counts[True, False], counts[False, False]
    return Detection(
        name=name,
        tp=tp,
        fp=fp,
        fn=fn,
        tn=tn,
        precision=rate(tp, tp + fp),
        recall=rate(tp, tp + fn),
        specificity=rate(tn, tn + fp),
        f1=_f1(tp, tp + fp + fn),
        kappa=kappa(counts.elements()),
    )


def _f1(tp: int, union: int) -> Rate:
    overlap = rate(tp, union)
    value = None if overlap.value is None else _dice(overlap.value)
    return Rate(value=value, n=union, low=_dice(overlap.low), high=_dice(overlap.high))


def _dice(jaccard: float) -> float:
    return 2 * jaccard / (1 + jaccard)


class Macro(Struct, frozen=True, kw_only=True):
    """The plain mean of F1 over `classes` classes, None over none."""

    value: float | None
    classes: int


def macro_f1(found: Iterable[Detection]) -> Macro:
    """Over those of the classes that were labelled or found."""
    known = [each.f1.value for each in found if each.f1.value is not None]
    return Macro(value=sum(known) / len(known) if known else None, classes=len(known))


class Confusion(Struct, frozen=True, kw_only=True):
    """How often each word of one rater met each of the other: `counts[row][column]`."""

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]


def confusion(
    pairs: Iterable[tuple[str, str]], rows: Sequence[str], columns: Sequence[str]
) -> Confusion:
    """The table of (row, column) pairs; every word of a pair stands in the given names."""
    counts = Counter(pairs)
    return Confusion(
        rows=tuple(rows),
        columns=tuple(columns),
        counts=tuple(tuple(counts[row, column] for column in columns) for row in rows),
    )


BINS = 5


class Bin(Struct, frozen=True, kw_only=True):
    """Claims with a confidence from `low` up to `high`: their mean, and how often they held."""

    low: float
    high: float
    stated: float
    right: Rate

    @property
    def honest(self) -> bool:
        """Is what was stated within the interval of what was found?"""
        return self.right.low <= self.stated <= self.right.high


class Reliability(Struct, frozen=True, kw_only=True):
    """The bins that hold a claim, and `silent`: claims that state no confidence.

    `error` is the mean distance of stated and found, weighed by n (expected calibration error),
    None where nothing was stated.
    """

    bins: tuple[Bin, ...]
    silent: int
    error: float | None


def reliability(claims: Iterable[tuple[float | None, bool]]) -> Reliability:
    """The table of claims; a confidence outside 0..1 or not finite counts as none stated."""
    silent = 0
    groups: list[list[tuple[float, bool]]] = [[] for _ in range(BINS)]
    for confidence, right in claims:
        if confidence is None or not math.isfinite(confidence) or not 0 <= confidence <= 1:
            silent += 1
        else:
            groups[min(int(confidence * BINS), BINS - 1)].append((confidence, right))
    bins = tuple(_bin(place, group) for place, group in enumerate(groups) if group)
    return Reliability(bins=bins, silent=silent, error=_error(bins))


def _bin(place: int, group: list[tuple[float, bool]]) -> Bin:
    return Bin(
        low=place / BINS,
        high=(place + 1) / BINS,
        stated=sum(confidence for confidence, _ in group) / len(group),
        right=rate(sum(right for _, right in group), len(group)),
    )


def _error(bins: tuple[Bin, ...]) -> float | None:
    total = sum(each.right.n for each in bins)
    if not total:
        return None
    return sum(abs(each.stated - (each.right.value or 0.0)) * each.right.n for each in bins) / total
