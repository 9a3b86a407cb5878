"""About how many samples will a search want? Tried on invented versions before anything is asked.

How many it takes depends on how noisy the answers are, which nobody knows yet. It is reckoned for
versions that fail in 1 of 10 answers before the change and in 8 of 10 after it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Sequence
from typing import Any

from replay.bisection.hunks import HunkSampleRequest, search_hunks
from replay.bisection.rounds import Outcome, SampleRequest, Settings
from replay.bisection.search import search

BEFORE, AFTER = 0.1, 0.8
_TRIES = 8
_VERSIONS = 512
"""Of all tries together: one of many versions takes long, and says as much."""


def of_versions(versions: int, settings: Settings) -> int:
    """The mean number of samples over a few places of the change, checks included."""

    tries = max(2, min(_TRIES, _VERSIONS // versions))

    def tried(number: int) -> int:
        first_bad = 1 + number * (versions - 1) // tries

        def bad(wish: SampleRequest) -> bool:
            rate = AFTER if wish.version >= first_bad else BEFORE
            return _drawn(number, wish.version, wish.sample) < rate

        return _wanted(search(versions, settings), bad)

    return _mean(tried, tries)


def of_hunks(many: int, settings: Settings) -> int:
    """The same for one hunk of so many."""

    def tried(number: int) -> int:
        culprit = number * many // _TRIES

        def bad(wish: HunkSampleRequest) -> bool:
            rate = AFTER if culprit in wish.chosen else BEFORE
            return _drawn(number, *sorted(wish.chosen), -1, wish.sample) < rate

        return _wanted(search_hunks(many, settings), bad)

    return _mean(tried)


def _mean(tried: Callable[[int], int], tries: int = _TRIES) -> int:
    return round(sum(map(tried, range(tries))) / tries)


def _drawn(*about: int) -> float:
    """A number in [0, 1) that is always the same for these."""
    return random.Random(" ".join(map(str, about))).random()


def _wanted(going: Generator[Any, Sequence[Outcome], Any], bad: Callable[[Any], bool]) -> int:
    """How many samples a search wants whose samples show this."""
    count = 0
    try:
        wanted = next(going)
        while True:
            count += len(wanted.wishes)
            wanted = going.send([bad(wish) for wish in wanted.wishes])
    except StopIteration:
        return count
