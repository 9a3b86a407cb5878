"""Numbers about counts: intervals, tests, and how sure a difference is.

Takes counts, knows nothing of traces. Every function is total over whole counts with
0 <= hits <= n, and gives None or the widest answer where there is nothing to count.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import TypeVar

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
