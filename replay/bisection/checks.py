"""Can the answer of a search be taken back? A few samples far from the boundary, which one change
must explain too, and fresh samples of both neighbours."""

from __future__ import annotations

from collections.abc import Generator, Sequence

from replay.bisection.asking import SIDES, Asking
from replay.bisection.change_point import Tally
from replay.bisection.result import Found
from replay.bisection.rounds import Outcome, Round

SPOTS = (3, 8)
"""Samples of a version far from the boundary, and of one that does not seem to fit."""

SUSPECT, MISFIT = 10.0, 20.0
"""How many times likelier a version's samples must be under a rate of their own than under that of
their side, to be sampled more and to be called a misfit."""


def checked(asking: Asking, found: Found) -> Generator[Round, Sequence[Outcome], Found]:
    """What was found, once it was held against more samples."""
    counts = asking.counts
    misfits = yield from _misfits(asking, found)
    if misfits:
        yield from asking.fill("all", counts.versions, SIDES[0])
        return counts.found("non-monotone", samples=found.samples, misfits=misfits)
    if found.status == "no change":
        return counts.found("no change", samples=found.samples)
    verified = yield from _verified(asking, found)
    return counts.found("found", samples=found.samples, verified=verified)


def _misfits(asking: Asking, found: Found) -> Generator[Round, Sequence[Outcome], tuple[int, ...]]:
    """Versions whose samples one change, or none, does not explain, after looking again."""
    counts, boundary = asking.counts, found.first_bad or 0
    mute = counts.mute()
    spots = [v for v in _far(boundary, counts.last) if v not in mute] if boundary else []
    yield from asking.fill("far from it", spots, SPOTS[0])
    suspects = [v for v in counts.versions if counts.misfit(v, boundary) > SUSPECT]
    yield from asking.fill("far from it", suspects, SPOTS[1])
    return tuple(v for v in suspects if counts.misfit(v, boundary) > MISFIT)


def _far(boundary: int, last: int) -> list[int]:
    """Up to three versions far from the boundary and from the ends."""
    wider = boundary // 4 if boundary > last - boundary else (boundary + 3 * last) // 4
    spots = {boundary // 2, (boundary + last) // 2, wider}
    return sorted(spot for spot in spots if 0 < spot < last and spot != boundary)


def _verified(asking: Asking, found: Found) -> Generator[Round, Sequence[Outcome], bool]:
    """Do fresh samples of the neighbours say that the change is there?"""
    counts = asking.counts
    kept, counts.tally = counts.tally, Tally(len(counts.versions))
    try:
        worse = yield from asking.separate("fresh", min(found.among) - 1, max(found.among))
    finally:
        counts.tally = _sum(kept, counts.tally)
    return asking.sure([worse])


def _sum(one: Tally, other: Tally) -> Tally:
    whole = one.copy()
    for version in range(len(other)):
        whole.add(version, other.bad[version], other.n[version])
    return whole
