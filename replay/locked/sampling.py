"""How often is a request asked, and in which order?

One sample is a look. Where an edit is judged, both arms are asked a few times, and more often only
where that leaves it open whether they differ. The order decides what it costs: asked step after
step, each request continues the one before it, which a provider's prefix cache reads at a fraction
of the price.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

from msgspec import Struct

from replay.statistics import ALPHA, effect_probability, fisher

LEVELS = (3, 8, 20)
"""Samples of each arm: at first, where that leaves it open, and at the most."""

RANGE = 1000
"""Samples of one range; asking everything afresh begins the next."""

Schedule: TypeAlias = Literal["cheap", "fast", "batch"]
"""`cheap` step after step, for the prefix cache; `fast` all at once; `batch` all in one batch of
the provider, at half the price and within a day."""


class Sampling(Struct, frozen=True, kw_only=True):
    """Samples a request gets. `levels` ascend; one level is a fixed number.

    `counts` gives the number by step instead, as an earlier replay came to it. `range` numbers
    fresh rounds of samples: 0 the first, 1 what `--resample` opens, and so on.
    """

    levels: tuple[int, ...] = LEVELS
    counts: Mapping[int, int] | None = None
    range: int = 0
    schedule: Schedule = "cheap"

    def number(self, place: int) -> int:
        """The sample number an answer is stored under."""
        return self.range * RANGE + place

    def first(self, step: int) -> int:
        """How many samples a step gets to begin with."""
        return self.levels[0] if self.counts is None else self.counts.get(step, 0)

    def last(self, step: int) -> int:
        """How many samples a step gets at the most."""
        return self.levels[-1] if self.counts is None else self.first(step)

    def after(self, level: int) -> int | None:
        """The next level, None at the last."""
        if self.counts is not None:
            return None
        return next((each for each in self.levels if each > level), None)


AUTO = Sampling()
LOOK = Sampling(levels=(1,))


def fixed(samples: int) -> Sampling:
    """The same number of samples everywhere."""
    return Sampling(levels=(samples,))


def is_open(hits: int, n: int, other_hits: int, other_n: int, tests: int) -> bool:
    """Do these counts leave it open whether the arms differ, in a replay of so many tests?

    Open between 5 % and 95 % for a difference that matters, and where such a difference is likely
    but could not yet be told from chance beside the other tests.
    """
    likely = effect_probability(hits, n, other_hits, other_n)
    if likely <= ALPHA:
        return False
    return likely < 1 - ALPHA or fisher(hits, n, other_hits, other_n) > ALPHA / max(1, tests)
