"""Which samples are wanted next, and when is enough known?

First both ends, once: without them nothing can be told. Then the samples that tell most, until one
place of the change is likely enough; that nothing changed is one of the answers, and where it may
be, the ends are sampled until they differ or do not. Then two checks that can take the answer back
(`checks`). The search is a generator of wishes and never asks anybody: the same answers lead it the
same way, so one that was killed and is begun again wants what it wanted before.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence

from replay.bisection.asking import Asking
from replay.bisection.change_point import next_versions, posterior
from replay.bisection.checks import MISFIT, checked
from replay.bisection.counts import Counts
from replay.bisection.result import Found, Status
from replay.bisection.rounds import USUAL, Outcome, Round, Settings, Spent

PATIENCE = 40
"""Samples after which the ends are asked whether anything changed at all, where that is open."""

SMALL, ALIKE = 6, 3
"""With so few versions all get so many samples to begin with."""


def search(versions: int, settings: Settings = USUAL) -> Generator[Round, Sequence[Outcome], Found]:
    """Find the first bad of so many versions (2 and more), the oldest first.

    Yields the samples wanted next and is sent their outcomes, in their order. Thrown `Spent`, it
    ends with what it knows by then.
    """
    counts = Counts(versions)
    asking = Asking(counts, settings)
    try:
        status = yield from _narrowed(asking)
    except Spent:
        status = "budget"
    found = counts.found(status)
    if status not in {"found", "no change"} or not settings.check:
        return found
    try:
        return (yield from checked(asking, found))
    except Spent:
        return counts.found(status, samples=found.samples)


def _narrowed(asking: Asking) -> Generator[Round, Sequence[Outcome], Status]:
    """Sample until one place is likely enough, or plainly none is."""
    counts, last = asking.counts, asking.counts.last
    few = last < SMALL
    yield from asking.fill("ends", counts.versions if few else (0, last), ALIKE if few else 1)
    if {0, last} & counts.mute():
        return "censored"
    doubted = True
    while True:
        likely = posterior(counts.tally)
        if asking.sure(likely[c] for c in counts.among(likely)):
            return "found" if counts.worse() else "reversed"
        if asking.sure(likely[:1]) and not doubted:
            return "no change"
        if doubted and _may_be_unchanged(asking, likely[0]):
            worse = yield from asking.separate("any change?", 0, last)
            if not asking.sure([worse]) and not asking.sure([1 - worse]):
                return "no change"
            doubted = False
        versions = next_versions(counts.tally, asking.settings.at_once, counts.mute())
        yield from asking.ask("tells most", versions)


def _may_be_unchanged(asking: Asking, unchanged: float) -> bool:
    """Is it time to ask the ends whether there is anything to find?"""
    if asking.counts.samples < PATIENCE:
        return asking.sure([unchanged])
    return unchanged > 1 - asking.settings.sure or _is_mixed(asking.counts)


def _is_mixed(counts: Counts) -> bool:
    """Does a version not fit the likeliest change?"""
    boundary = counts.boundary()
    return any(counts.misfit(version, boundary) > MISFIT for version in counts.versions)
