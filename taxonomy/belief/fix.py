"""What would have kept the step on the ground? A fix made from the contradiction itself: the model
is told, at that step, what had been observed.

Nothing is told that the run had not been shown by then: a value that stood nowhere is not replaced
by the right one, which nobody knows there, but by the demand to get it. It is an edit like any
other; the user sees it, and may try another one instead.
"""

from __future__ import annotations

from collections.abc import Iterable

from replay.edit import Edit, InjectConstraint
from replay.trace import Trace
from taxonomy.belief.contradictions import Contradiction
from taxonomy.belief.oracle import Answer
from taxonomy.findings import Evidence, Finding
from taxonomy.rules import hallucinated_state, limits, loop, wrong_tool

_AGREE = "What you say and do next must agree with it."


def fix_of(trace: Trace, found: Contradiction) -> Edit:
    """The edit that tells the model at the step what it contradicts."""
    return told_at(trace, found.step, _words(found))


def told_at(trace: Trace, step: int, words: str) -> Edit:
    """Something told in the system's name at a step of a run, in the thread of that step."""
    thread = trace.steps[step].thread
    return Edit(
        name=f"told at step {step}",
        changes=(InjectConstraint(words, step),),
        thread=thread if thread != trace.steps[0].thread else None,
    )


def reproached(found: Answer) -> str:
    """What a judge said against a step, as it can be told to the model that takes it again."""
    said = " ".join(each.text.rstrip(".") for each in found.evidence)
    return (
        f"A judge faults another answer that was given here: {said}. Give one without that fault."
    )


def telling(sources: Iterable[Evidence]) -> str:
    """What sources say, as it can be told to a model."""
    return " ".join(_told(each) for each in sources)


def _words(found: Contradiction) -> str:
    match found.finding.rule:
        case hallucinated_state.NAME:
            return _grounded(found.finding)
        case loop.NAME:
            return f"{telling(found.against)} Do not repeat that call; make a different one."
        case wrong_tool.NAME:
            return f"{telling(found.against)} Call only tools that are offered."
        case limits.NAME:
            return f"{telling(found.against)} Keep to it."
        case _:
            return f"{telling(found.against)} {_AGREE}"


def _grounded(finding: Finding) -> str:
    return (
        f"Never make up a value: {finding.why.partition(' · ')[0]}. Before you change anything,"
        " read what the value is with a tool, or ask; never guess amounts, numbers or ids."
    )


def _told(source: Evidence) -> str:
    where = f"step {source.step}, {source.place}" if source.step is not None else source.place
    match source.role:
        case "observed":
            return f"Observed ({where}): {source.text}."
        case "error":
            return f"The call failed ({where}): {source.text}."
        case "worked out":
            return f"Worked out: {source.text}."
        case _:
            return f"Told ({where}): {source.text.rstrip('.')}."
