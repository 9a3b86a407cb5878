"""Which samples are wanted next, and when is enough known?

First both ends, once: without them nothing can be told. Then the samples that tell most, until one
place of the change is likely; that nothing changed is one of the answers, and where it may be, the
ends are sampled until they differ or do not. Then fresh samples of both sides of the boundary must
say the same, and samples far from it that there is no other (`checks`). They count for the place
too, which in the end is as likely as was asked for. The search is a generator of wishes and never
asks anybody: the same answers lead it the same way, so one that was killed and is begun again wants
what it wanted before.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Literal, NamedTuple, TypeAlias

from replay.bisection.asking import AGAIN, SIDES, Asking
from replay.bisection.change_point import Tally, next_versions, posterior
from replay.bisection.checks import SEVERAL, SUSPECT, Others, far, others
from replay.bisection.counts import Counts
from replay.bisection.result import ALONE, Found, Seen, Status
from replay.bisection.rounds import USUAL, Outcome, Round, Settings, Spent, Steps

PATIENCE = 40
"""Samples after which the ends are asked whether anything changed at all, where that is open."""

SMALL, ALIKE = 6, 3
"""With so few versions all get so many samples to begin with."""

ROUGH = 0.8
"""How likely a place of the change is when it is checked. What the checks ask makes it likelier
still, so that more beforehand would be asked for twice."""

ALL = 6
"""Samples of every version, where one change does not explain them."""

Searching: TypeAlias = Generator[Round, Sequence[Outcome], Found]
Ended: TypeAlias = Literal["found", "no change", "reversed"]


def search(versions: int, settings: Settings = USUAL) -> Searching:
    """Find the first bad of so many versions (2 and more), the oldest first.

    Yields the samples wanted next and is sent their outcomes, in their order. Thrown `Spent`, it
    ends with what it knows by then.
    """
    return (yield from _Search(versions, settings).found())


class _Again(NamedTuple):
    """What fresh samples of both sides of the boundary of `among` showed."""

    among: tuple[int, ...]
    seen: tuple[Seen, Seen]
    confirmed: bool


class _Search:
    """A search under way. It goes on until a place of the change is `enough` likely; `doubted`: the
    ends were not found to differ yet; `looked`: every version was looked at, for there seemed to be
    more than one boundary."""

    def __init__(self, versions: int, settings: Settings) -> None:
        self.counts = Counts(versions)
        self.asking = Asking(self.counts, settings)
        self.sure, self.check = settings.sure, settings.check
        self.enough = min(ROUGH, self.sure) if self.check else self.sure
        self.doubted = True
        self.again: _Again | None = None
        self.beside = Others()
        self.looked = False

    def found(self) -> Searching:
        try:
            status = yield from self._status()
        except Spent:
            status = "found" if self.counts.confidence() >= self.sure else "budget"
        if status == "found" or (status == "budget" and self.looked):
            self.beside = self._others("found")
            status = "non-monotone" if self.beside.likely >= SEVERAL else status
        among, again = self.counts.named(), self._asked_again()
        if status == "non-monotone" and not (again and again.confirmed):
            among, again = (), None
        return self.counts.found(
            status,
            among if status in ("found", "non-monotone", "budget") else (),
            again=again.seen if again else None,
            verified=again.confirmed if again else None,
            several=self.beside.likely if status in ("found", "non-monotone") else None,
            misfits=self.beside.misfits if status == "non-monotone" else (),
        )

    def _status(self) -> Generator[Round, Sequence[Outcome], Status]:
        """Narrow it down, ask again, look elsewhere; and on from there, where that moves it."""
        counts, asking = self.counts, self.asking
        few = counts.last < SMALL
        ends = counts.versions if few else (0, counts.last)
        yield from asking.fill("ends", ends, ALIKE if few else 1)
        if {0, counts.last} & counts.mute():
            return "censored"
        while True:
            status = yield from self._narrowed()
            if status == "reversed" or not self.check:
                return status
            again = self._asked_again()
            if status == "found" and (again is None or not again.confirmed):
                if again is None:
                    yield from self._ask_again()
                elif self.enough >= self.sure:
                    return status
                else:
                    self.enough, self.again = self.sure, None
                continue
            self.beside = self._others(status)
            if self.beside.likely >= SEVERAL:
                if self.looked:
                    return "non-monotone"
                self.looked = True
                yield from asking.fill("all", counts.usable(), ALL)
            elif spots := self._spots(status):
                yield from asking.ask("far from it", spots)
            elif status == "no change" or counts.confidence() >= self.sure:
                return status
            else:
                self.enough = self.sure

    def _narrowed(self) -> Generator[Round, Sequence[Outcome], Ended]:
        """Sample until one place is likely enough, or plainly none is."""
        counts, asking, last = self.counts, self.asking, self.counts.last
        while True:
            likely = posterior(counts.tally)
            share = counts.confidence()
            if share >= self.enough and (counts.worse() or share >= self.sure):
                return "found" if counts.worse() else "reversed"
            if asking.sure(likely[:1]) and not self.doubted:
                return "no change"
            if self.doubted and self._may_be_alike(likely[0]):
                worse = yield from asking.separate("any change?", 0, last, SIDES)
                if not asking.sure([worse]) and not asking.sure([1 - worse]):
                    return "no change"
                self.doubted = False
            many, mute = asking.settings.at_once, counts.mute()
            versions = next_versions(counts.tally, many, mute, self.enough)
            yield from asking.ask("tells most", versions)

    def _may_be_alike(self, unchanged: float) -> bool:
        """Is it time to ask the ends whether there is anything to find? They are alike where
        nothing changed, and where it broke and was mended."""
        if self.counts.samples < PATIENCE:
            return self.asking.sure([unchanged])
        alike = unchanged * (1 + self._others("no change").odds)
        return alike / (alike + 1 - unchanged) > 1 - self.sure

    # --- the checks

    def _asked_again(self) -> _Again | None:
        """What both sides of the boundary showed when they were asked again, if they were."""
        again = self.again
        return again if again is not None and again.among == self.counts.named() else None

    def _ask_again(self) -> Steps:
        """Do fresh samples of both sides say that the change is there?"""
        counts = self.counts
        among = counts.named()
        before, after = min(among) - 1, max(among)
        kept, counts.tally = counts.tally, Tally(len(counts.versions))
        try:
            worse = yield from self.asking.separate("fresh", before, after, AGAIN)
        finally:
            fresh, counts.tally = counts.tally, kept + counts.tally
        seen = (counts.seen(fresh)[before], counts.seen(fresh)[after])
        self.again = _Again(among, seen, self.asking.sure([worse]))

    def _others(self, status: Status) -> Others:
        """How likely there are other boundaries beside the one that is likeliest."""
        boundary = None if status == "no change" else min(self.counts.named())
        return others(self.counts.tally, boundary, self.counts.mute())

    def _spots(self, status: Status) -> list[int]:
        """The versions to sample next, far from the boundary; none where nothing is open there."""
        enough = ALONE if status == "found" else SUSPECT
        if self.beside.likely <= enough:
            return []
        boundary = None if status == "no change" else min(self.counts.named())
        many, mute = self.asking.settings.at_once, self.counts.mute()
        return far(self.counts.tally, boundary, many, mute, enough)
