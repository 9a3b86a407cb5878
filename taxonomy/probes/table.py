"""The disambiguation protocol as one table; README, help, screens and commands read it here.

Source: the ARC article, "Disambiguate" (`formulas.md`, probes). A symptom has two candidate causes.
Its probe changes one thing and asks again: the failure persists, which speaks for one cause, or it
is repaired, which speaks for the other. What to do follows from the cause, never from the symptom.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


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
    """A row of the table. `name` is what commands call the probe, `key` the letter of a screen;
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
        key="c",
        symptom=Symptom.WRONG_AT_START,
        candidates=("hallucination", "goal misread"),
        change="the correct constraint is said explicitly",
        persists=Meaning(classification="hallucination", intervention="grounding prompt"),
        repairs=Meaning(classification="goal misread", intervention="clarification prompt"),
    ),
    ProbeEntry(
        name="summary",
        key="s",
        symptom=Symptom.WRONG_LATE,
        candidates=("context loss", "capability gap"),
        change="a fresh prompt with a summary of the middle, the failing tail asked again",
        persists=Meaning(
            classification="capability gap", intervention="curriculum or model upgrade"
        ),
        repairs=Meaning(classification="context loss", intervention="chunking or summaries"),
    ),
    ProbeEntry(
        name="rename",
        key="r",
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
        key="m",
        symptom=Symptom.DECLINE,
        candidates=("accumulated context", "capability gradient"),
        change="a fresh summary at the midpoint, asked again from there",
        persists=Meaning(classification="capability gradient", intervention="decompose the task"),
        repairs=Meaning(classification="accumulated context", intervention="periodic summaries"),
    ),
)

BY_NAME: dict[str, ProbeEntry] = {entry.name: entry for entry in PROBES}
BY_SYMPTOM: dict[Symptom, ProbeEntry] = {entry.symptom: entry for entry in PROBES}
