"""Which symptom of the table does a run show at its break?

By what is known without asking anybody: where in its thread the break lies, the class found there,
the shape of the scores. Several rows may fit; the most particular comes first. Where none does,
that is the answer: a probe outside its row would have no meaning.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from msgspec import Struct

from replay.trace import Trace
from taxonomy.classes import FailureClass, Fault, Shape
from taxonomy.findings import Diagnosis, most_trusted
from taxonomy.probes.table import Symptom
from taxonomy.shapes import mean

ACHIEVED = 0.6
"""From here on the judge's band is one of a goal achieved: the middle was right."""

START = 2
"""The steps of a thread that are its start: the article's step 1 and 2."""


class Noted(Struct, frozen=True, kw_only=True):
    """A symptom of the table, and what it was read off."""

    symptom: Symptom
    why: str


def symptom(
    diagnosis: Diagnosis, trace: Trace, step: int, tagged: Collection[FailureClass] = ()
) -> Noted | None:
    """The symptom at the break `step`, None where none of the table fits."""
    return next(iter(symptoms(diagnosis, trace, step, tagged)), None)


def symptoms(
    diagnosis: Diagnosis, trace: Trace, step: int, tagged: Collection[FailureClass] = ()
) -> tuple[Noted, ...]:
    """All that fit, the most particular first. `tagged` are the classes a person gave the step."""
    return tuple(_noted(diagnosis, trace, step, tagged))


def _noted(
    diagnosis: Diagnosis, trace: Trace, step: int, tagged: Collection[FailureClass]
) -> Iterator[Noted]:
    own = [each.index for each in trace.steps if each.thread == trace.steps[step].thread]
    place = own.index(step)
    found = [each for each in diagnosis.findings if each.step == step]
    wrong = next((each.why for each in found if each.failure is FailureClass.WRONG_TOOL), None)
    if FailureClass.WRONG_TOOL in tagged:
        wrong = "so a person tagged it"
    if wrong is not None:
        yield Noted(symptom=Symptom.WRONG_TOOL, why=wrong)
    if place < START:
        yield Noted(
            symptom=Symptom.WRONG_AT_START,
            why=f"it broke at step {place + 1} of {len(own)}, counted from 1",
        )
    late = _late(diagnosis, own, place)
    if late is not None:
        yield Noted(symptom=Symptom.WRONG_LATE, why=late)
    if diagnosis.shape is Shape.STEADY_DEGRADATION:
        yield Noted(symptom=Symptom.DECLINE, why="its scores get worse step by step")


def _late(diagnosis: Diagnosis, own: Sequence[int], place: int) -> str | None:
    """Why the run was right in the middle and wrong late, None where it was not, or nobody knows.

    Late is the last third. The middle third was right where its scores say so; where it has none,
    where no rule found anything before the break.
    """
    third = len(own) // 3
    if place < max(2 * third, START):
        return None
    middle = own[third : 2 * third]
    earlier = [
        each.why
        for each in diagnosis.findings
        if each.step in own[:place] and each.fault in (None, Fault.AGENT)
    ]
    scores = most_trusted(diagnosis.scores)
    known = [score.value for at in middle if (score := scores.get(at)) is not None]
    right = mean([value for value in known if value is not None])
    if earlier or (right is not None and right < ACHIEVED):
        return None
    said = f"it broke at step {place + 1} of {len(own)}"
    if right is not None:
        return f"{said}, and its middle third scores {right:.2f}"
    return f"{said}, and no rule found anything before that"


def unfit(diagnosis: Diagnosis, trace: Trace, step: int) -> str:
    """Why no symptom of the table fits."""
    own = [each.index for each in trace.steps if each.thread == trace.steps[step].thread]
    shape = diagnosis.shape.value if diagnosis.shape is not None else "unknown"
    return (
        f"none of the table's symptoms fits: it broke at step {own.index(step) + 1} of {len(own)},"
        f" neither at the start nor late after a right middle; no wrong tool was found there; its"
        f" shape is {shape}"
    )
