"""What does a run cost, and what a resolved task?

Source: the article on agent evals, cost and token accounting. Takes tokens, prices and sums.
What is unknown is never taken for nothing: a total that lacks a part is a lower bound and says
so.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from msgspec import Struct

from replay.trace import Usage

_MILLION = 1_000_000


class Prices(Struct, frozen=True, kw_only=True):
    """USD for a million tokens. `cache_read` and `cache_write` are None where not known."""

    input_usd: float
    output_usd: float
    cache_read_usd: float | None = None
    cache_write_usd: float | None = None


def call_usd(usage: Usage, prices: Prices) -> float | None:
    """The price of one call: fresh input, cache read, cache write and output, each at its own.

    Input is the total, so fresh is what the cache figures leave of it; where a source gives none,
    all of it counts as fresh, which is the most it can have cost. None where input or output is
    unknown, the cache figures exceed the input, or cached tokens have no price.
    """
    if usage.input_tokens is None or usage.output_tokens is None:
        return None
    read, written = usage.cache_read_tokens or 0, usage.cache_write_tokens or 0
    fresh = usage.input_tokens - read - written
    parts = (
        _part(fresh, prices.input_usd),
        _part(read, prices.cache_read_usd),
        _part(written, prices.cache_write_usd),
        _part(usage.output_tokens, prices.output_usd),
    )
    known = [part for part in parts if part is not None]
    return math.fsum(known) if len(known) == len(parts) else None


def _part(tokens: int, usd: float | None) -> float | None:
    if tokens < 0:
        return None
    return 0.0 if not tokens else None if usd is None else tokens * usd / _MILLION


class Money(Struct, frozen=True, kw_only=True):
    """An amount; None where nothing of it is known, a lower bound where it is not `complete`."""

    cost_usd: float | None
    cost_complete: bool


NOTHING_KNOWN = Money(cost_usd=None, cost_complete=False)


def total(parts: Iterable[Money]) -> Money:
    """The sum of what is known of the parts; of no parts, nothing is known."""
    values = list(parts)
    known = [part.cost_usd for part in values if part.cost_usd is not None]
    if not known:
        return NOTHING_KNOWN
    whole = all(part.cost_complete for part in values) and len(known) == len(values)
    return Money(cost_usd=math.fsum(known), cost_complete=whole)


def spent(usd: Iterable[float | None]) -> Money:
    """What some steps cost together, from the cost of each; no steps cost nothing."""
    parts = [Money(cost_usd=each, cost_complete=each is not None) for each in usd]
    return total(parts) if parts else Money(cost_usd=0.0, cost_complete=True)


def per(whole: Money, count: int) -> Money:
    """An amount shared out over steps, runs or resolved tasks; nothing is known over none.

    Per resolved task that is Σ cost of all runs / resolved, the figure to compare variants by:
    what failed runs cost is part of what success costs.
    """
    if whole.cost_usd is None or count <= 0:
        return NOTHING_KNOWN
    return Money(cost_usd=whole.cost_usd / count, cost_complete=whole.cost_complete)


def per_resolved_at(run_usd: float, resolved: float) -> float | None:
    """The same from the cost of a run and the rate resolved; None where nothing is resolved."""
    return run_usd / resolved if resolved > 0 else None


def times_cheaper(first: Money, second: Money) -> float | None:
    """How many times what the second costs per resolved task the first does.

    Over 1 the second is cheaper. None where either is not known in full: a bound decides nothing.
    """
    if not (first.cost_complete and second.cost_complete):
        return None
    if first.cost_usd is None or not second.cost_usd:
        return None
    return first.cost_usd / second.cost_usd
