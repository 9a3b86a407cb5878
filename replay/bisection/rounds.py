"""What a search asks for, on what terms, and what it came to: rounds, settings, the result."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Literal, NamedTuple, TypeAlias

from msgspec import Struct

SURE = 0.95


class SampleRequest(NamedTuple):
    """A sample that is wanted: the `sample`-th of a version, counted from 0."""

    version: int
    sample: int


Outcome: TypeAlias = bool | None
"""Was the sample bad? None where that cannot be told (censored)."""

Why: TypeAlias = Literal["ends", "tells most", "any change?", "far from it", "all", "fresh"]
"""What a round of samples is for. `ends`: without both nothing can be told. `tells most`: they are
expected to leave the least open. `any change?`: do the ends differ at all? `far from it`: one
change must explain them too. `all`: it does not, so every version is looked at. `fresh`: do new
samples of both neighbours say the same?"""

CHECKS: frozenset[Why] = frozenset({"far from it", "all", "fresh"})
"""What checks an answer that the others found."""


class Round(Struct, frozen=True, kw_only=True):
    """The samples that are wanted next, and what for."""

    why: Why
    wishes: tuple[SampleRequest, ...]


Steps: TypeAlias = Generator[Round, Sequence[Outcome]]


class Settings(Struct, frozen=True, kw_only=True):
    """A search ends after `max_samples`, or once it reaches `confidence`; a round has `at_once`."""

    max_samples: int = 500
    at_once: int = 4
    confidence: float = SURE
    check: bool = True


USUAL = Settings()


class Spent(Exception):
    """The samples ran out, or whoever asks may ask no more."""


Status: TypeAlias = Literal["found", "no change", "reversed", "non-monotone", "budget", "censored"]
"""`no change`: the ends do not differ. `reversed`: the first version is the worse one.
`non-monotone`: some version does not fit one change. `budget`: the samples ran out before the
confidence was reached. `censored`: an end gives no answer that can be judged."""

ALONE = 0.03
"""A boundary is the only one where others are at most so likely."""


class Seen(Struct, frozen=True, kw_only=True):
    """The samples of one version: `bad` of `n` that could be judged, and `censored` others."""

    bad: int
    n: int
    censored: int


class Found(Struct, frozen=True, kw_only=True):
    """`first_bad` is the most likely first bad version, None where none can be named.

    `among` are the versions that cannot be told apart from it, itself included (a version that
    gives no answer leaves two). `confidence` is the posterior of `among`; `likely[c]` that of
    version `c`, `likely[0]` that nothing changed. `worse` is how likely the last version is worse
    than the first, by the samples of these two alone. `again` are fresh samples of the versions on
    both sides of the boundary, `verified` whether they said the same, None where they were not
    asked. `several` is how likely there are other boundaries, None where that is no question; of
    `non-monotone` only a boundary that was verified is named, and `misfits` are the versions that
    it does not explain. `samples` counts those of the search, `more` those of its checks.
    """

    status: Status
    first_bad: int | None
    among: tuple[int, ...]
    confidence: float
    likely: tuple[float, ...]
    worse: float
    seen: tuple[Seen, ...]
    samples: int
    more: int
    rounds: int
    verified: bool | None = None
    again: tuple[Seen, Seen] | None = None
    several: float | None = None
    misfits: tuple[int, ...] = ()

    @property
    def warned(self) -> bool:
        """May the named boundary be one of several? Until samples elsewhere speak against it."""
        return self.status == "found" and (self.several is None or self.several > ALONE)
