"""What did a run waste: where the cache broke, what was sent again, what was done again?

Reads recorded figures and the price table; what neither tells is None, and a sum over partly
unknown costs says so. A waste is a cost to look at, not a fault: what was sent again in vain can
only be told afterwards.
"""

from __future__ import annotations

from msgspec import Struct

from replay.trace import Trace
from taxonomy.evidence.reading import Reading
from taxonomy.waste.cache import CacheBreak, cache_breaks
from taxonomy.waste.repeats import (
    LoopCost,
    Redundant,
    Spending,
    StepCost,
    loops,
    redundant,
    spending,
)
from taxonomy.waste.resent import Resent, resent

__all__ = [
    "CacheBreak",
    "LoopCost",
    "Redundant",
    "Resent",
    "Spending",
    "StepCost",
    "Waste",
    "waste",
]


class Waste(Struct, frozen=True, kw_only=True):
    """Everything of one trace; `resent` has most tokens sent again first, the rest step order.

    A step may stand in several places (a loop's calls are redundant too): costs do not add up.
    """

    spending: Spending
    cache_breaks: tuple[CacheBreak, ...]
    resent: tuple[Resent, ...]
    loops: tuple[LoopCost, ...]
    redundant: Redundant


def waste(trace: Trace) -> Waste:
    """What a trace spent and wasted."""
    reading = Reading(trace)
    return Waste(
        spending=spending(trace),
        cache_breaks=cache_breaks(trace),
        resent=resent(reading),
        loops=loops(reading),
        redundant=redundant(reading),
    )
