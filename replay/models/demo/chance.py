"""The demo model's only source of chance: a hash of what it was asked and which sample this is.

Every draw names what it decides, so one decision never disturbs another, and the same request
gives the same answer in every process, on every machine, under every hash seed.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping

_RANGE = float(1 << 64)


class Chance:
    """Draws for one request. `fingerprint` identifies what was asked, `sample` which answer."""

    def __init__(self, fingerprint: str, sample: int) -> None:
        self._seed = f"{fingerprint}|{sample}"

    def hex(self, *about: str) -> str:
        """64 hex digits that stand for the decision `about`."""
        return hashlib.sha256("|".join((self._seed, *about)).encode()).hexdigest()

    def unit(self, *about: str) -> float:
        """A number in [0, 1)."""
        return int(self.hex(*about)[:16], 16) / _RANGE

    def happens(self, probability: float, *about: str) -> bool:
        return self.unit(*about) < probability

    def one_of(self, options: tuple[int, ...], *about: str) -> int:
        return options[int(self.unit(*about) * len(options))]

    def softmax(self, scores: Mapping[str, float], temperature: float, *about: str) -> str:
        """One of the names, the better its score the likelier; `scores` must not be empty.

        At the temperature the demo model uses, a lead of a few tenths is a certainty and a lead
        of a few hundredths is nearly a coin toss.
        """
        best = max(scores.values())
        weights = {name: math.exp((each - best) / temperature) for name, each in scores.items()}
        left = self.unit(*about) * sum(weights.values())
        for name, weight in weights.items():
            left -= weight
            if left < 0:
                return name
        return max(scores, key=lambda name: scores[name])
