"""What is this failure called? The classes, the attributions and the shapes, each in one table.

Docs, help, the tag picker and the reports read these tables; nothing else names a class.
The definitions follow the articles behind the project.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class FailureClass(StrEnum):
    """The five classes, and `other` with a free sub-label."""

    WRONG_TOOL = "wrong tool"
    BAD_ARGS = "bad args"
    HALLUCINATED_STATE = "hallucinated state"
    GAVE_UP = "gave up"
    LOOP = "loop"
    OTHER = "other"


class Attribution(StrEnum):
    """What caused the failure; a prompt edit can only fix the agent's own."""

    AGENT = "agent"
    USER = "user"
    ENVIRONMENT = "environment"
    GRADER = "grader"

    @classmethod
    def _missing_(cls, value: object) -> Attribution | None:
        """What exports of earlier versions call two of them."""
        return {"harness": cls.ENVIRONMENT, "check": cls.GRADER}.get(str(value))


class Shape(StrEnum):
    """How the step scores of a run go. `unclear` is below the noise floor."""

    EARLY_COLLAPSE = "early collapse"
    LATE_DRIFT = "late drift"
    STEADY_DEGRADATION = "steady degradation"
    RECOVERY = "recovery"
    HEALTHY = "healthy"
    UNCLEAR = "unclear"


class ClassEntry(Struct, frozen=True, kw_only=True):
    """One row of the table a person tags by. `key` is the letter after `t`."""

    name: FailureClass
    key: str
    definition: str
    signature: str
    cause: str
    fix: str


CLASSES: tuple[ClassEntry, ...] = (
    ClassEntry(
        name=FailureClass.WRONG_TOOL,
        key="w",
        definition="a plausible call of the wrong tool",
        signature="a sensible call of a tool that cannot do what the step needs",
        cause="tool descriptions that overlap or are vague",
        fix="sharpen the descriptions, merge near-duplicates",
    ),
    ClassEntry(
        name=FailureClass.BAD_ARGS,
        key="a",
        definition="rejected arguments, or valid but wrong ones",
        signature="schema errors, or values that fit the schema but not the task",
        cause="loose schemas; the context with the value was removed",
        fix="tighten the schema, validate on the server, check compaction",
    ),
    ClassEntry(
        name=FailureClass.HALLUCINATED_STATE,
        key="h",
        definition="acts on data that is not in its context",
        signature="a value in a call that is in no message and no tool result",
        cause="a missing value made up instead of read",
        fix="force a read before each write, keep the facts in context",
    ),
    ClassEntry(
        name=FailureClass.GAVE_UP,
        key="g",
        definition="stopped with budget and tools left",
        signature="an early “I cannot”, a plan as the last message, a hand-over",
        cause="an over-cautious prompt; one failed call taken as fatal",
        fix="ask for a retry with a variation, show the budget that is left",
    ),
    ClassEntry(
        name=FailureClass.LOOP,
        key="l",
        definition="a call or A→B→A 3 times or more, nothing new",
        signature="near-identical calls with the same results",
        cause="no new information enters between attempts",
        fix="detect it at run time and tell the model it tried this already",
    ),
    ClassEntry(
        name=FailureClass.OTHER,
        key="o",
        definition="none of the five; a sub-label names it",
        signature="–",
        cause="–",
        fix="–",
    ),
)

BY_CLASS: dict[FailureClass, ClassEntry] = {entry.name: entry for entry in CLASSES}


def class_label(failure: FailureClass, sub: str | None) -> str:
    """How a class is written, its sub-label with it."""
    return failure.value if sub is None else f"{failure.value} / {sub}"


SUB_LABELS: tuple[str, ...] = (
    "policy violation",
    "premise not checked",
    "missing step",
    "arithmetic",
    "malformed calls",
    "cap hit",
    "verified nothing",
    "serving error",
    "user off task",
    "grader never ran",
    "grader requires the unstated",
    "call not in gold",
    "instruction broken",
    "false claim",
    "unfaithful",
    "specification gaming",
)
"""A starter list for `other`; any text is allowed."""


class ShapeEntry(Struct, frozen=True, kw_only=True):
    """What a shape looks like and what to try first."""

    name: Shape
    definition: str
    first: str


SHAPES: tuple[ShapeEntry, ...] = (
    ShapeEntry(
        name=Shape.EARLY_COLLAPSE,
        definition="good at first, then low to the end",
        first="ground the initial assumptions before committing",
    ),
    ShapeEntry(
        name=Shape.LATE_DRIFT,
        definition="falls in the last third",
        first="manage the context: intermediate summaries, smaller chunks",
    ),
    ShapeEntry(
        name=Shape.STEADY_DEGRADATION,
        definition="a little worse at each step",
        first="classify the failure first: the fix depends on its cause",
    ),
    ShapeEntry(
        name=Shape.RECOVERY,
        definition="drops and recovers",
        first="nothing; measure the recovery rate",
    ),
    ShapeEntry(name=Shape.HEALTHY, definition="stable throughout", first="nothing"),
    ShapeEntry(
        name=Shape.UNCLEAR,
        definition="too little change, or too few scores",
        first="score more steps",
    ),
)
