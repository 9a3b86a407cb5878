"""Numbers about counts: intervals, tests, and how sure a difference is.

Rates carry Wilson intervals; p values are Fisher's, corrected after Holm. Things that come in
groups (runs of one task) are counted by group, and a difference is tested within each.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from statistics import NormalDist
from typing import NamedTuple, TypeVar

from msgspec import Struct

ALPHA = 0.05
"""The chance of a false alarm that a whole replay may have, over all its steps."""

MATTERS = 0.5
"""The difference of two rates that is looked for when more samples are asked: half of the answers.
A smaller one is found where the samples show it, but nobody goes on asking for it."""

_Z = 1.959963984540054
_GRID = 200

Name = TypeVar("Name")


class Rate(Struct, frozen=True, kw_only=True):
    """A share of `n`, with its 95 % Wilson interval. `value` is None where nothing was counted."""

    value: float | None
    n: int
    low: float
    high: float


def rate(hits: float, n: int) -> Rate:
    """The share of hits, with Wilson's score interval (Wilson 1927) at 95 %.

    `hits` may be a sum of shares: the interval is then that of a mean over `n` things.
    """
    if not n:
        return Rate(value=None, n=0, low=0.0, high=1.0)
    low, high = wilson(hits / n, n)
    return Rate(value=hits / n, n=n, low=low, high=high)


def wilson(share: float, n: float) -> tuple[float, float]:
    """Wilson's score interval of a share of `n` things, which need be no whole number of them."""
    z2 = _Z * _Z
    middle = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = _Z * math.sqrt(share * (1 - share) / n + z2 / (4 * n * n)) / (1 + z2 / n)
    low = 0.0 if share == 0 else max(0.0, middle - half)
    high = 1.0 if share == 1 else min(1.0, middle + half)
    return low, high


@lru_cache(maxsize=4096)
def student_quantile(share: float, freedom: int) -> float:
    """The quantile of Student's t at `share` with so many degrees of freedom, at least 1.

    Exact for 1 and 2; for more the expansion around the normal quantile in powers of 1 / freedom
    (Abramowitz and Stegun 26.7.5), within .02 for shares up to .9875.
    """
    z = NormalDist().inv_cdf(share)
    if freedom <= 1:
        return math.tan(math.pi * (share - 0.5))
    if freedom == 2:
        return (2 * share - 1) * math.sqrt(2 / (4 * share * (1 - share)))
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + math.fsum(term / float(freedom) ** power for power, term in enumerate(terms, 1))


def fisher(hits: int, n: int, other_hits: int, other_n: int) -> float:
    """Fisher's exact test, two-sided: how often chance alone splits the hits at least so unevenly.

    The sum of the probabilities of all tables with the same margins that are no likelier than the
    one seen. 1.0 where either side is empty.
    """
    total, found = n + other_n, hits + other_hits
    ways = math.comb(total, found)
    seen = math.comb(n, hits) * math.comb(other_n, other_hits)
    tables = range(max(0, found - other_n), min(n, found) + 1)
    each = (math.comb(n, k) * math.comb(other_n, found - k) for k in tables)
    return sum(count for count in each if count <= seen) / ways


def holm(p_values: Mapping[Name, float], alpha: float = ALPHA) -> set[Name]:
    """Which of several tests hold when asked together (Holm 1979).

    The chance that any of them is a false alarm stays at most `alpha`.
    """
    held: set[Name] = set()
    ordered = sorted(p_values.items(), key=lambda item: item[1])
    for place, (name, p) in enumerate(ordered):
        if p > alpha / (len(ordered) - place):
            break
        held.add(name)
    return held


@lru_cache(maxsize=4096)
def effect_probability(
    hits: int, n: int, other_hits: int, other_n: int, by: float = MATTERS
) -> float:
    """How likely the two rates differ by more than `by`, after these counts.

    Posterior of two independent rates under Jeffreys' prior Beta(½, ½), on a grid of 200 cells.
    """
    first, second = _posterior(hits, n), _posterior(other_hits, other_n)
    below = [0.0]
    for weight in second:
        below.append(below[-1] + weight)
    reach = round(by * _GRID)
    return math.fsum(
        weight * (below[max(0, cell - reach)] + below[-1] - below[min(_GRID, cell + reach + 1)])
        for cell, weight in enumerate(first)
    )


@lru_cache(maxsize=4096)
def greater_probability(hits: int, n: int, other_hits: int, other_n: int) -> float:
    """How likely the first rate is the greater one, after these counts; ½ where none are.

    The same posteriors as `effect_probability`; half of an equal cell counts.
    """
    below = 0.0
    found = 0.0
    for weight, other in zip(_posterior(hits, n), _posterior(other_hits, other_n), strict=True):
        found += weight * (below + other / 2)
        below += other
    return found


@lru_cache(maxsize=1024)
def _posterior(hits: int, n: int) -> tuple[float, ...]:
    """Beta(hits + ½, misses + ½) as weights of the cells of the grid."""
    cells = [(cell + 0.5) / _GRID for cell in range(_GRID)]
    logs = [(hits - 0.5) * math.log(x) + (n - hits - 0.5) * math.log1p(-x) for x in cells]
    top = max(logs)
    weights = [math.exp(each - top) for each in logs]
    whole = math.fsum(weights)
    return tuple(weight / whole for weight in weights)


_Z2 = 1.959963984540054**2


class Clustered(Struct, frozen=True, kw_only=True):
    """A share of things in groups. `rate` has the interval that minds the groups.

    `likeness` 0..1 is how alike the things of one group are (the intraclass correlation),
    `effective_n` how many independent ones they are worth; `alone` is the rate as if each stood
    for itself. The value is the same in both.
    """

    hits: int
    rate: Rate
    alone: Rate
    groups: int
    likeness: float
    effective_n: float


def clustered(things: Iterable[tuple[str, bool]]) -> Clustered:
    """The share of hits among (group, hit), its interval corrected for the groups.

    Wilson's score interval on n / deff things, with Kish's design effect (1965) for groups of
    unequal size, deff = 1 + (sum m² / n - 1) * rho, and Fleiss and Cuzick's estimate (1979) of
    rho from how mixed the groups are within. Their p(1 - p) is taken at the centre of Wilson's
    interval: so where all things agree, which says nothing of rho, a group counts as one, and a
    single exception changes that a little and not at a stroke. Groups of one leave Wilson's
    interval as it is; things of a single group count as one, for nothing is known of others.
    """
    sizes = _groups(things)
    n, hits = sum(size for _, size in sizes), sum(hit for hit, _ in sizes)
    alone = rate(hits, n)
    if not n:
        return Clustered(hits=0, rate=alone, alone=alone, groups=0, likeness=0.0, effective_n=0.0)
    rho = _likeness(sizes)
    size = sum(m * m for _, m in sizes) / n
    worth = n / (1 + (size - 1) * rho)
    return Clustered(
        hits=hits,
        rate=_held(hits / n, worth, n) if worth < n else alone,
        alone=alone,
        groups=len(sizes),
        likeness=rho,
        effective_n=worth,
    )


def _held(share: float, worth: float, n: int) -> Rate:
    """The share of n things, with the interval of `worth` of them."""
    low, high = wilson(share, worth)
    return Rate(value=share, n=n, low=low, high=high)


class _Group(NamedTuple):
    hits: int
    size: int


def _groups(things: Iterable[tuple[str, bool]]) -> list[_Group]:
    ordered = sorted(things)
    grouped = ([hit for _, hit in each] for _, each in groupby(ordered, key=lambda thing: thing[0]))
    return [_Group(sum(hits), len(hits)) for hits in grouped]


def _likeness(groups: Sequence[_Group]) -> float:
    """How alike the things of a group are, 0 where every group has one."""
    n, hits = sum(size for _, size in groups), sum(hit for hit, _ in groups)
    if n == len(groups):
        return 0.0
    if len(groups) == 1:
        return 1.0
    centre = (hits + _Z2 / 2) / (n + _Z2)
    mixed = math.fsum(hit * (size - hit) / size for hit, size in groups)
    rho = 1 - mixed / ((n - len(groups)) * centre * (1 - centre))
    return min(max(rho, 0.0), 1.0)


class Table(NamedTuple):
    """Hits of two arms in one stratum: `hits` of `n` against `other_hits` of `other_n`."""

    hits: int
    n: int
    other_hits: int
    other_n: int


def stratified(tables: Iterable[Table]) -> float:
    """How often chance alone sets the arms so far apart, over all strata together: two-sided.

    The exact conditional test of Mantel and Haenszel's hypothesis (Birch 1964): the margins of
    each stratum stay, the hits of the first arm are summed, and the probabilities of all sums no
    likelier than the one seen are added. One table gives Fisher's test, pairs of one sample an arm
    the sign test. 1.0 where no stratum can tell.
    """
    return _stratified(tuple(sorted(tables)))


@lru_cache(maxsize=256)
def _stratified(tables: tuple[Table, ...]) -> float:
    ways, least = [1], 0
    for hits, n, other_hits, other_n in tables:
        found = hits + other_hits
        first = max(0, found - other_n)
        here = [
            math.comb(n, k) * math.comb(other_n, found - k) for k in range(first, min(n, found) + 1)
        ]
        ways, least = _product(ways, here), least + first
    seen = ways[sum(table.hits for table in tables) - least]
    return sum(each for each in ways if each <= seen) / sum(ways)


def _product(ways: Sequence[int], others: Sequence[int]) -> list[int]:
    """In how many ways two independent counts come to each sum."""
    made = [0] * (len(ways) + len(others) - 1)
    for at, many in enumerate(ways):
        for more, other in enumerate(others):
            made[at + more] += many * other
    return made


def all_on_one_side(tables: Iterable[Table]) -> float:
    """How often chance alone puts every hit of every stratum into its first arm.

    Where one arm has no hit at all, this is the one-sided p of the exact conditional test of
    `stratified` (with one table: Fisher's): the product of C(n, h) / C(n + other_n, h) over the
    strata, h the hits of both arms.
    """
    found = 0.0
    for table in tables:
        hits = table.hits + table.other_hits
        if hits > table.n:
            return 0.0
        found += _log_ways(table.n, hits) - _log_ways(table.n + table.other_n, hits)
    return math.exp(found)


def _log_ways(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def tarone(least: Iterable[float], alpha: float = ALPHA) -> float:
    """The level at which each of several tests is held, so that the chance that any is a false
    alarm stays at most `alpha` (Tarone 1990).

    `least` is the least p that each test could have come to, given its margins: a test that can
    never hold does not count among those that are corrected for.
    """
    ordered = sorted(least)
    tests = 1
    while tests < len(ordered) and ordered[tests] <= alpha / tests:
        tests += 1
    return alpha / tests
