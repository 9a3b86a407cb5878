"""Is something met, mostly? What the samples of one version let one say.

Of one sample or two, their own word where they agree, which is a look. Of more, yes where the
share of met ones is above a bound with a probability of .95, no where it is below with as much, and
else nobody can tell. The posterior is that of Jeffreys' prior Beta(½, ½): for the bound of a half
three of three are enough, seven of eight, and fourteen of twenty.
"""

from __future__ import annotations

import math

from replay.bisection.rounds import SURE

LOOK = 2
"""So many samples, or fewer, are a look."""

HALF = 0.5

_CELLS = 512


def mostly(met: int, n: int, bound: float = HALF) -> bool | None:
    """Is it met, by `met` of `n` samples? None where they leave it open, or there are none."""
    if n <= LOOK:
        return None if not n or 0 < met < n else met == n
    likely = over(met, n, bound)
    return True if likely >= SURE else False if likely <= 1 - SURE else None


def over(met: int, n: int, bound: float = HALF) -> float:
    """How likely the rate is above a bound between 0 and 1.

    With x = sin²φ the density of Beta(met + ½, n − met + ½) becomes sin^2met φ · cos^2(n − met) φ,
    which is smooth: it is summed on a grid in φ.
    """
    width = math.pi / 2 / _CELLS
    edge = math.asin(math.sqrt(bound)) / width
    above = whole = 0.0
    for cell in range(_CELLS):
        at = (cell + 0.5) * width
        weight = math.exp(2 * met * math.log(math.sin(at)) + 2 * (n - met) * math.log(math.cos(at)))
        whole += weight
        above += weight * min(1.0, max(0.0, cell + 1 - edge))
    return above / whole
