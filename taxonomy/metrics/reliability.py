"""Does it succeed again? pass@k, pass^k, and how much the first flatters.

Sources: the articles on trajectory metrics (pass^k, after τ-bench) and on agent evals (pass@k,
after the Codex paper). Takes counts: n trials of a task, c of them passed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from msgspec import Struct

from replay.statistics import Rate, rate


def pass_at(n: int, c: int, k: int) -> float | None:
    """pass@k: the chance that at least one of k trials passes, 1 − C(n−c, k) / C(n, k).

    Exactly 1 where n − c < k. None where k trials cannot be drawn from n, or the counts are none.
    """
    if not 1 <= k <= n or not 0 <= c <= n:
        return None
    return 1 - math.comb(n - c, k) / math.comb(n, k)


def pass_hat(n: int, c: int, k: int) -> float | None:
    """pass^k: the chance that all of k trials pass, C(c, k) / C(n, k). None as `pass_at`."""
    if not 1 <= k <= n or not 0 <= c <= n:
        return None
    return math.comb(c, k) / math.comb(n, k)


def if_independent(p: float, k: int) -> float:
    """p^k: what pass^k would be if each trial of each task passed with chance p, unrelated."""
    return p**k


class Repeated(Struct, frozen=True, kw_only=True):
    """pass@k and pass^k, each a mean over tasks.

    `pass_one` is pass@1 of the same tasks, `flattery` pass@k / pass@1 (None where that is 0),
    `left_out` the tasks with fewer than k trials. `trials` are the fewest and the most trials of
    a task that counts, None where none does.
    """

    k: int
    pass_at: Rate
    pass_hat: Rate
    pass_one: Rate
    flattery: float | None
    left_out: int
    trials: tuple[int, int] | None


def over_tasks(counts: Sequence[tuple[int, int]], k: int) -> Repeated:
    """Both rates over tasks given as (trials, passed). Intervals: `mean_rate`, n tasks.

    A task without k trials, or whose counts are none, is left out.
    """
    kept = [(n, c) for n, c in counts if 1 <= k <= n and 0 <= c <= n]
    at, one = _mean(pass_at, kept, k), _mean(pass_at, kept, 1)
    return Repeated(
        k=k,
        pass_at=at,
        pass_hat=_mean(pass_hat, kept, k),
        pass_one=one,
        flattery=flattery(at.value, one.value),
        left_out=len(counts) - len(kept),
        trials=(min(kept)[0], max(kept)[0]) if kept else None,
    )


def _mean(
    measure: Callable[[int, int, int], float | None], counts: Sequence[tuple[int, int]], k: int
) -> Rate:
    found = (measure(n, c, k) for n, c in counts)
    return mean_rate([value for value in found if value is not None])


def flattery(at_k: float | None, at_one: float | None) -> float | None:
    """pass@k / pass@1: how many times better k tries and a free judge of them look."""
    return at_k / at_one if at_k is not None and at_one else None


def mean_rate(values: Sequence[float]) -> Rate:
    """The mean of values in 0..1 with Wilson's interval at n values.

    No value in 0..1 varies more than a yes or no of the same mean, so the interval is, if
    anything, too wide.
    """
    return rate(math.fsum(values), len(values))
