"""The disambiguation protocol as one table, and which symptom of it a run shows at its break.

Docs, help, screens and commands read the table here. Source: ARC article (000), "Probes".
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from enum import StrEnum

from msgspec import Struct

from replay.trace import Trace
from taxonomy.classes import Attribution, FailureClass, Shape
from taxonomy.findings import Diagnosis, most_trusted
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
        if each.step in own[:place] and each.attribution in (None, Attribution.AGENT)
    ]
    scores = most_trusted(diagnosis.scores)
    known = [score.value for at in middle if (score := scores.get(at)) is not None]
    right = mean([value for value in known if value is not None])
    if earlier or (right is not None and right < ACHIEVED):
        return None
    said = f"it broke at step {place + 1} of {len(own)}"
    if right is not None:
        return f"{said}, and its middle third scores {right:.2f}"
    return f"{said}, and there is no finding before it"


def unfit(diagnosis: Diagnosis, trace: Trace, step: int) -> str:
    """Why no symptom of the table fits."""
    own = [each.index for each in trace.steps if each.thread == trace.steps[step].thread]
    shape = diagnosis.shape.value if diagnosis.shape is not None else "unknown"
    return (
        f"no symptom of the table matches: it broke at step {own.index(step) + 1} of {len(own)},"
        f" neither at the start nor late after a right middle; no wrong tool was found there; its"
        f" shape is {shape}"
    )


class Symptom(StrEnum):
    """How the failure shows, before anything is known of its cause."""

    WRONG_AT_START = "wrong answer, step 1–2"
    WRONG_LATE = "right middle, wrong late"
    WRONG_TOOL = "wrong tool called"
    DECLINE = "gradual decline"


class Meaning(Struct, frozen=True, kw_only=True):
    """The cause that a result speaks for, and what helps against it."""

    classification: str
    intervention: str


class ProbeEntry(Struct, frozen=True, kw_only=True):
    """A row of the table. `name` is what commands call the probe, `key` the digit of a screen;
    `change` is the one thing that is changed. `persists` and `repairs` say what either means."""

    name: str
    key: str
    symptom: Symptom
    candidates: tuple[str, str]
    change: str
    persists: Meaning
    repairs: Meaning


PROBES: tuple[ProbeEntry, ...] = (
    ProbeEntry(
        name="constraint",
        key="1",
        symptom=Symptom.WRONG_AT_START,
        candidates=("hallucination", "goal misread"),
        change="the correct constraint is stated explicitly",
        persists=Meaning(classification="hallucination", intervention="grounding prompt"),
        repairs=Meaning(classification="goal misread", intervention="clarification prompt"),
    ),
    ProbeEntry(
        name="summary",
        key="2",
        symptom=Symptom.WRONG_LATE,
        candidates=("context loss", "capability gap"),
        change="a fresh prompt with a summary of the middle; the failing end is run again",
        persists=Meaning(
            classification="capability gap", intervention="curriculum or model upgrade"
        ),
        repairs=Meaning(classification="context loss", intervention="chunking or summaries"),
    ),
    ProbeEntry(
        name="rename",
        key="3",
        symptom=Symptom.WRONG_TOOL,
        candidates=("tool selection", "goal misread"),
        change="the tools are renamed, with the same function",
        persists=Meaning(classification="goal misread", intervention="clarify the goal"),
        repairs=Meaning(
            classification="tool selection", intervention="rewrite the tool descriptions"
        ),
    ),
    ProbeEntry(
        name="midpoint",
        key="4",
        symptom=Symptom.DECLINE,
        candidates=("accumulated context", "capability gradient"),
        change="a fresh summary at the midpoint; run again from there",
        persists=Meaning(classification="capability gradient", intervention="decompose the task"),
        repairs=Meaning(classification="accumulated context", intervention="periodic summaries"),
    ),
)

BY_NAME: dict[str, ProbeEntry] = {entry.name: entry for entry in PROBES}
BY_SYMPTOM: dict[Symptom, ProbeEntry] = {entry.symptom: entry for entry in PROBES}
