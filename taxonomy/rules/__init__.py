"""The rules: one module a failure class or sign, each `find(case)` with evidence for what it says.

A rule reads the trace as `RuleContext` shows it and yields findings; it never asks another rule.
Where a run is known to have passed, rules that name a failure say nothing. A finding with a
confidence below a half is a hint: worth a look beside others, no evidence by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from msgspec import structs

from taxonomy.classes import Attribution
from taxonomy.findings import Finding
from taxonomy.rules import (
    arithmetic,
    bad_args,
    better_tool,
    cap_hit,
    check,
    contradiction,
    false_success,
    gave_up,
    hallucinated_state,
    limits,
    loop,
    malformed,
    unverified,
    user_off_task,
    wrong_tool,
)
from taxonomy.rules.context import RuleContext

Rule = Callable[[RuleContext], Iterator[Finding]]

RULES: tuple[Rule, ...] = (
    malformed.find,
    wrong_tool.find,
    hallucinated_state.find,
    contradiction.find,
    false_success.find,
    limits.find,
    arithmetic.find,
    bad_args.find,
    loop.find,
    gave_up.find,
    cap_hit.find,
    user_off_task.find,
    check.find,
    unverified.find,
    better_tool.find,
)
"""In the order of findings at one step: what explains the others comes first."""


def findings(case: RuleContext) -> tuple[Finding, ...]:
    """What all rules found, the earliest step first, each with its fault where that is known."""
    found = [finding for rule in RULES for finding in rule(case)]
    return tuple(sorted(_with_faults(found), key=lambda finding: finding.step))


def _with_faults(found: Sequence[Finding]) -> Iterator[Finding]:
    """What follows from another's doing is not the agent's.

    After garbled calls everything is the harness's; giving up is the user's where it was the user
    who kept back what was asked for.
    """
    garbled = min((each.step for each in found if each.rule == malformed.NAME), default=None)
    strayed = min((each.step for each in found if each.rule == user_off_task.NAME), default=None)
    for each in found:
        if each.fault is None and garbled is not None and each.step >= garbled:
            yield structs.replace(each, fault=Attribution.HARNESS)
        elif each.rule == gave_up.NAME and strayed is not None and each.step >= strayed:
            yield structs.replace(each, fault=Attribution.USER)
        else:
            yield each
