"""Golden tasks in words: a check, a draft, what was found of a set."""

from __future__ import annotations

import json
from collections.abc import Iterator

from arc_tui.ui import format
from replay.statistics import Rate
from taxonomy.golden.audit import Audit, SetFinding
from taxonomy.golden.checks import Draft
from taxonomy.golden.sets import (
    Action,
    ActionsCheck,
    AnswerCheck,
    Check,
    GoldenVersion,
    JudgeCheck,
    PredicateCheck,
    RuleCheck,
)


def check_line(check: Check) -> str:
    """What has to hold, in a line."""
    match check:
        case ActionsCheck():
            made = " + ".join(map(_action, check.actions)) or "no action"
            order = f", order {check.order}" if check.order != "any" else ""
            only = f"; no other call of {', '.join(check.only)}" if check.only else ""
            return f"actions: {made}{order}{only}"
        case PredicateCheck():
            return f"predicate: {check.expect}"
        case RuleCheck():
            return f"rule absent: {check.absent}"
        case JudgeCheck():
            return f"judge: {check.item}"
        case AnswerCheck():
            where = " anywhere in the run" if check.where == "run" else ""
            return f"answer {check.how}{where}: {' or '.join(check.texts)}"


def _action(action: Action) -> str:
    given = action.value.get("arguments")
    return action.tool if given is None else f"{action.tool}({json.dumps(given)})"


def draft_lines(draft: Draft) -> Iterator[str]:
    """The checks with what they came from, what they say of the run itself, and what is lacking."""
    for check, source in zip(draft.task.check, draft.sources, strict=True):
        yield f"check: {format.one_line(check_line(check))} [{source}]"
    yield own_verdict(draft)
    yield from (f"note: {format.one_line(note)}" for note in draft.notes)


def own_verdict(draft: Draft) -> str:
    """The checks on the run that the task came from, beside its outcome."""
    if draft.met is None:
        return "its own run: not graded by arc alone"
    word = "meets" if draft.met else "does not meet"
    known = draft.outcome != "unknown"
    agree = draft.met is (draft.outcome == "passed")
    doubt = "" if agree or not known else ": the check or the outcome is wrong"
    return f"its own run {word} the checks; outcome {draft.outcome}{doubt}"


def finding_line(found: SetFinding) -> str:
    whose = f"{format.one_line(found.task)} · " if found.task else ""
    return f"{whose}{found.kind}: {format.one_line(found.text)}"


def head_line(found: Audit) -> str:
    """The set in a line."""
    problems = format.count(len(found.problems), "problem")
    return f"golden set {version_words(found.golden)}: {tasks_words(found)} · {problems}"


def version_words(stamp: str) -> str:
    version, _, digest = stamp.partition(" ")
    return f"version {version} ({digest[:8]})"


def set_words(golden: GoldenVersion) -> str:
    return version_words(golden.stamp)


def tasks_words(found: Audit) -> str:
    return format.count(len(found.rows), "task")


def rate_cell(passed: Rate) -> str:
    """Runs that passed, of those whose outcome is known."""
    known = passed.value
    return format.UNKNOWN if known is None else f"{round(known * passed.n)}/{passed.n}"
