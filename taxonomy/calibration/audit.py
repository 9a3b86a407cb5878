"""Which runs should a person look at again? A small sample that nobody chose.

A run is in the sample or not by a digest of its id alone: the same on every machine, and no run
that comes later changes it.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256

SHARE = 0.08
"""Of the runs, for good (`formulas.md`: a spot audit of 5–10 %)."""


def audit_sample(keys: Iterable[str], share: float = SHARE) -> tuple[str, ...]:
    """About `share` of the keys, in an order of their own; at least one where there is any."""
    drawn = sorted((_place(key), key) for key in keys)
    chosen = [key for place, key in drawn if place < share]
    return tuple(chosen or [key for _, key in drawn[:1] if share > 0])


def _place(key: str) -> float:
    """A number in [0, 1) that follows from the key."""
    return int.from_bytes(sha256(f"audit {key}".encode()).digest()[:8], "big") / 2**64
