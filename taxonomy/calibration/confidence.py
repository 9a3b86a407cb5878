"""Does a stated confidence mean what it says? Takes (confidence, was it right) pairs.

Claims are put in bins of stated confidence; in each, the share that was right should be about the
mean of what was stated. A claim without a confidence cannot be judged so and is only counted.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from msgspec import Struct

from replay.statistics import Rate, rate

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
