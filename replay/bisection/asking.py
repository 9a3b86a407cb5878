"""How are samples asked for? One round after another, as many as are lacking, never too many."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterable, Sequence

from replay.bisection.counts import RETRIES, Counts
from replay.bisection.rounds import CHECKS, Outcome, Round, Settings, Spent, Steps, Why

SIDES = (6, 12, 20)
"""Samples of each of two versions that are held against each other: at first, and where that leaves
it open whether they differ."""

AGAIN = (2, 3, 4, 6, 8, 12, 16, 20)
"""The same for the two sides of a boundary that seems to be there."""


class Asking:
    """Rounds of samples under some settings; what they show goes to `counts`."""

    def __init__(self, counts: Counts, settings: Settings) -> None:
        self.counts = counts
        self.settings = settings

    def sure(self, shares: Iterable[float]) -> bool:
        """Are these shares of what is likely enough together?"""
        return math.fsum(shares) >= self.settings.sure

    def ask(self, why: Why, versions: Sequence[int]) -> Steps:
        """One round: a fresh sample of each. Raises Spent where none is left to ask for."""
        left = min(len(versions), self.settings.most - self.counts.samples)
        if left <= 0:
            raise Spent
        wishes = tuple(self.counts.next_sample(version) for version in versions[:left])
        outcomes = yield Round(why=why, wishes=wishes)
        self.counts.add(wishes, outcomes, check=why in CHECKS)

    def fill(self, why: Why, versions: Iterable[int], level: int) -> Steps:
        """Bring each version to `level` judged samples; of those that cannot be judged, a few more
        are asked for."""
        wanted, again, tally = tuple(versions), RETRIES, self.counts.tally
        while again >= 0:
            lacking = [
                version for version in wanted for _ in range(level - round(tally.n[version]))
            ]
            if not lacking:
                return
            yield from self.ask(why, lacking)
            again -= 1

    def separate(
        self, why: Why, better: int, worse: int, levels: Sequence[int]
    ) -> Generator[Round, Sequence[Outcome], float]:
        """How likely `worse` is the worse one, both sampled until that is plain."""
        for level in levels:
            yield from self.fill(why, (better, worse), level)
            likely = self.counts.likely_worse(better, worse)
            if self.sure([likely]) or self.sure([1 - likely]):
                break
        return likely
