"""A search and the samples it wants, brought together: ask, judge, go on.

Yields before each round what is known by then and what is asked next. Where the model declines to
go on (a limit, no key), the search ends with what it knows, and the reason stands beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Generic, TypeVar

from msgspec import Struct

from replay.bisection.change_point import Tally, posterior
from replay.bisection.hunks import Chosen, Culprits, Hunk, HunkRound, applied, search_hunks
from replay.bisection.rounds import (
    USUAL,
    Found,
    Outcome,
    Round,
    SampleRequest,
    Seen,
    Settings,
    Spent,
    Why,
)
from replay.bisection.search import search
from replay.bisection.trials import SampledVersions, Version
from replay.edit.changes import Edit
from replay.errors import ModelRefused

R = TypeVar("R")


class Progress(Struct, frozen=True, kw_only=True):
    """What is known before a round. `versions` are those held against each other, by their number;
    `seen` and `likely` (its first item: that nothing changed) are theirs, in that order. `wanted`
    are the versions that are asked next, one entry a sample, and `why`."""

    versions: tuple[int, ...]
    seen: tuple[Seen, ...]
    likely: tuple[float, ...]
    why: Why
    wanted: tuple[int, ...]
    round: int


class Ended(Struct, Generic[R], frozen=True, kw_only=True):
    """What a search came to. `refused` says why it had to end early, None where it had not."""

    found: R
    refused: str | None = None


Going = Generator[Progress, None, Ended[R]]


def bisect(trials: SampledVersions, versions: int, settings: Settings = USUAL) -> Going[Found]:
    """Find the first bad of the versions 0 to `versions` - 1 of `trials`.

    Raises OfflineMiss where an answer is not stored and none may be asked for, Stopped.
    """
    everyone = tuple(range(versions))

    def placed(wanted: Round) -> _NumberedRound:
        return _NumberedRound(wanted.why, wanted.wishes, everyone)

    return (yield from _SearchState(trials, placed).run(search(versions, settings)))


def bisect_hunks(
    trials: SampledVersions,
    old: str,
    parts: Sequence[Hunk],
    edit: Callable[[Chosen, str], Edit | None],
    settings: Settings = USUAL,
) -> Going[Culprits]:
    """Find the hunks that break it; `edit` makes an edit of the old text with some of them.

    Versions are added to `trials` as they are wanted. Raises as `bisect`, and BadEdit.
    """
    numbers: dict[Chosen, int] = {}

    def number(chosen: Chosen) -> int:
        if chosen not in numbers:
            made = edit(chosen, applied(old, parts, chosen))
            numbers[chosen] = trials.add(Version(name=spelled(chosen, len(parts)), edit=made))
        return numbers[chosen]

    def placed(wanted: HunkRound) -> _NumberedRound:
        wishes = tuple(SampleRequest(number(wish.chosen), wish.sample) for wish in wanted.wishes)
        return _NumberedRound(wanted.why, wishes, tuple(number(each) for each in wanted.texts))

    return (yield from _SearchState(trials, placed).run(search_hunks(len(parts), settings)))


def spelled(chosen: Chosen, many: int) -> str:
    """The old text with some of its hunks, in words; hunks are counted from 1."""
    if not chosen:
        return "old"
    if len(chosen) == many:
        return "new"
    ordered = sorted(chosen)
    first, last = ordered[0] + 1, ordered[-1] + 1
    if len(ordered) > 1 and last - first + 1 == len(ordered):
        return f"old + hunks {first}–{last}"
    noun = "hunk" if len(ordered) == 1 else "hunks"
    return f"old + {noun} {', '.join(str(each + 1) for each in ordered)}"


class _NumberedRound(Struct, frozen=True):
    """A round in the numbers of the versions that are asked."""

    why: Why
    wishes: tuple[SampleRequest, ...]
    versions: tuple[int, ...]


W = TypeVar("W", Round, HunkRound)


class _SearchState(Generic[W]):
    """The counts of a search under way. Another set of versions begins to count afresh."""

    def __init__(self, trials: SampledVersions, placed: Callable[[W], _NumberedRound]) -> None:
        self._trials = trials
        self._placed: Callable[[W], _NumberedRound] = placed
        self._versions: tuple[int, ...] = ()
        self._tally = Tally(0)
        self._censored: dict[int, int] = {}
        self._round = 0
        self._refused: str | None = None

    def run(self, under_way: Generator[W, Sequence[Outcome], R]) -> Going[R]:
        try:
            wanted = next(under_way)
            while True:
                placed = self._placed(wanted)
                yield self._progress(placed)
                try:
                    outcomes = self._trials.outcomes(placed.wishes)
                except ModelRefused as refused:
                    self._refused = str(refused)
                    wanted = under_way.throw(Spent())
                else:
                    self._count(placed, outcomes)
                    wanted = under_way.send(outcomes)
        except StopIteration as ended:
            return Ended(found=ended.value, refused=self._refused)

    def _progress(self, placed: _NumberedRound) -> Progress:
        if placed.versions != self._versions:
            self._versions = placed.versions
            self._tally, self._censored = Tally(len(placed.versions)), {}
        self._round += 1
        return Progress(
            versions=self._versions,
            seen=tuple(
                Seen(bad=round(bad), n=round(n), censored=self._censored.get(at, 0))
                for at, (bad, n) in enumerate(zip(self._tally.bad, self._tally.n, strict=True))
            ),
            likely=tuple(posterior(self._tally)),
            why=placed.why,
            wanted=tuple(wish.version for wish in placed.wishes),
            round=self._round,
        )

    def _count(self, placed: _NumberedRound, outcomes: Sequence[Outcome]) -> None:
        for wish, bad in zip(placed.wishes, outcomes, strict=True):
            at = self._versions.index(wish.version)
            if bad is None:
                self._censored[at] = self._censored.get(at, 0) + 1
            else:
                self._tally.add(at, float(bad))
