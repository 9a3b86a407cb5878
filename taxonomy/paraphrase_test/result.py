"""What became of a failing task in other words: scores by wording, and whether the wording
decides.

The range is taken over all wordings, the user's own among them, asked again like the others: in
the article's table it is the original that scores .31 beside .87 and .82. It calls a range under
.08 a consistent capability gap; where every wording does well there is no failure to explain,
and that is said instead.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from msgspec import Struct, structs

from replay import digests
from replay.statistics import ALPHA
from replay.store import answers
from replay.store.handle import Store, now_ns
from taxonomy.metrics.grounding import Surface, by_chance, surface_variation

ORIGINAL = "original"
WELL_FROM = 0.55
"""Where the nearer band of the judge is one of achieving the goal, with caveats or without."""

_NOTE = "varied:"


class Scored(Struct, frozen=True, kw_only=True):
    """A wording's score 0..1, None where none of its answers could be judged.

    `samples` are the means of each sample over the `steps` that were judged, `departs` where the
    model left the recording, None where nowhere.
    """

    label: str
    text: str
    by: str
    samples: tuple[float, ...] = ()
    steps: tuple[int, ...] = ()
    departs: int | None = None

    @property
    def value(self) -> float | None:
        return statistics.fmean(self.samples) if self.samples else None

    @property
    def spread(self) -> float | None:
        """The largest sample minus the smallest; None for fewer than two."""
        return max(self.samples) - min(self.samples) if len(self.samples) > 1 else None


class Varied(Struct, frozen=True, kw_only=True):
    """One run's task in several wordings. `broke` is the step they were scored at, None: all."""

    trace: str
    task: str | None
    model: str
    judge: str
    broke: int | None
    samples: int
    wordings: tuple[Scored, ...]
    at_ns: int = 0

    @property
    def surface(self) -> Surface | None:
        """The spread over the wordings with a score; None for fewer than two."""
        return surface_variation([each.value for each in self.wordings])

    @property
    def reading(self) -> str | None:
        """The article's reading of the range; None where there is too little to read.

        A range that chance alone explains is undecided, whatever its size.
        """
        found = self.surface
        if found is None:
            return None
        well = all(each.value is None or each.value >= WELL_FROM for each in self.wordings)
        chance = self.chance
        if found.reading == "surface sensitivity" and chance is not None and chance > ALPHA:
            return "undecided"
        alike = found.reading == "consistent capability gap"
        return "no failure in any wording" if alike and well else found.reading

    @property
    def chance(self) -> float | None:
        """How often chance alone spreads the wordings so far; None of one sample each."""
        return by_chance([each.samples for each in self.wordings])


def sample_means(by_step: Sequence[Sequence[float | None]]) -> tuple[float, ...]:
    """The mean of each sample over the steps: `by_step` has the values of one step a row."""
    columns = zip(*by_step, strict=False)
    known = ([value for value in column if value is not None] for column in columns)
    return tuple(statistics.fmean(values) for values in known if values)


def keep(store: Store, found: Varied) -> Varied:
    """Keep what was found, in place of what the same model and judge came to at that step."""
    about = digests.digest("varied", found.model, found.judge, str(found.broke)).partition(":")[2]
    whole = structs.replace(found, at_ns=now_ns())
    answers.keep(store, f"{_NOTE}{found.trace}:{about[:16]}", whole)
    return whole


def kept(store: Store) -> list[Varied]:
    """Everything that was found, by trace."""
    return answers.found(store, _NOTE, Varied)
