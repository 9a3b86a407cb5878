"""A rate over things that come in groups, and a difference that is held against chance in each.

Runs of one task fail alike: eighteen runs of four tasks say less of the next task than eighteen
tasks would. Takes counts, knows nothing of traces; total over whole counts with 0 <= hits <= n.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import groupby
from typing import NamedTuple

from msgspec import Struct

from replay.statistics import Rate, rate, wilson

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
