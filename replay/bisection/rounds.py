"""What a search asks for, and on what terms: wishes, rounds of them, and its settings."""

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
    """`most` samples before a search gives up, `at_once` in one round, `sure` the confidence."""

    most: int = 500
    at_once: int = 4
    sure: float = SURE
    check: bool = True


USUAL = Settings()


class Spent(Exception):
    """The samples ran out, or whoever asks may ask no more."""
