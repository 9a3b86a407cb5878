"""What was taken for what? Labelled classes against found ones, people's scores against others'."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet

from msgspec import Struct

from taxonomy.calibration.agreement import Confusion, confusion
from taxonomy.calibration.gate import BANDS, Pair, band
from taxonomy.calibration.labelled import Labelled
from taxonomy.calibration.report import score_pairs, scorers
from taxonomy.classes import FailureClass
from taxonomy.findings import Source

NOTHING = "none"
"""The row of what nobody labelled and the column of what nobody found."""


def taken_for(runs: Sequence[Labelled], source: Source) -> Confusion | None:
    """Labelled classes down, found ones across, by run; None where no label speaks of classes."""
    said = [run for run in runs if run.classes is not None]
    if not said:
        return None
    pairs = [
        pair
        for run in said
        for pair in crossed(
            run.classes or frozenset(), {each.failure for each in run.found(source)}
        )
    ]
    names = (*(each.value for each in FailureClass), NOTHING)
    shown = [name for name in names if name == NOTHING or any(name in pair for pair in pairs)]
    return confusion(pairs, shown, shown)


def crossed(
    labelled: AbstractSet[FailureClass], found: AbstractSet[FailureClass]
) -> Iterator[tuple[str, str]]:
    """The (labelled, found) pairs of a run that may have several classes.

    A class that both name meets itself. Of the rest each labelled one meets each found one; where
    one side has nothing left the other meets `NOTHING`, and a run without any is a pair of those.
    """
    both = labelled & found
    for each in sorted(both):
        yield each.value, each.value
    missed = [each.value for each in sorted(labelled - both)]
    extra = [each.value for each in sorted(found - both)]
    if not (missed or extra or both):
        yield NOTHING, NOTHING
    elif missed or extra:
        yield from ((one, other) for one in missed or [NOTHING] for other in extra or [NOTHING])


class Scatter(Struct, frozen=True, kw_only=True):
    """One source's scores over people's, a pair a step (or run). `bands` counts people's band
    down, the source's across."""

    source: Source
    by: str
    pairs: tuple[Pair, ...]
    bands: Confusion


def scatters(runs: Sequence[Labelled]) -> Iterator[Scatter]:
    """Of every source that scored a step which people scored too."""
    for by, source in scorers(runs).items():
        pairs = tuple(score_pairs(runs, by))
        if pairs:
            yield Scatter(
                source=source,
                by=by,
                pairs=pairs,
                bands=confusion(
                    ((band(pair.human), band(pair.other)) for pair in pairs), BANDS, BANDS
                ),
            )
