"""The rules: one module a failure class or sign, each `find(case)` with evidence for what it says.

A rule reads the trace as `RuleContext` shows it and yields findings; it never asks another rule.
Where a run is known to have passed, rules that name a failure say nothing. A finding with a
confidence below a half is a hint: worth a look beside others, no evidence by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

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
    false_claim,
    false_success,
    gave_up,
    gold,
    hallucinated_state,
    instruction_broken,
    limits,
    loop,
    malformed,
    requirement,
    swapped_values,
    unverified,
    user_off_task,
    wrong_tool,
)
from taxonomy.rules.rule import Rule, RuleContext

RULES: tuple[Rule, ...] = (
    malformed.RULE,
    wrong_tool.RULE,
    hallucinated_state.RULE,
    contradiction.RULE,
    false_success.RULE,
    limits.RULE,
    instruction_broken.RULE,
    requirement.RULE,
    arithmetic.RULE,
    bad_args.RULE,
    loop.RULE,
    gave_up.RULE,
    cap_hit.RULE,
    user_off_task.RULE,
    check.RULE,
    false_claim.RULE,
    gold.RULE,
    unverified.RULE,
    better_tool.RULE,
)
"""In the order of findings at one step: what explains the others comes first."""

EVERY_RULE = (*RULES, swapped_values.RULE)
"""With the one that tells of contradictions alone, and is in no diagnosis."""

_BY_NAME = {rule.name: rule for rule in EVERY_RULE}


def rule_of(finding: Finding) -> Rule | None:
    """The rule that a finding is of, None where a judge or a person has it."""
    return _BY_NAME.get(finding.rule)


def findings(case: RuleContext) -> tuple[Finding, ...]:
    """What all rules found, the earliest step first, each with its attribution where known."""
    found = [finding for rule in RULES for finding in rule.find(case)]
    return tuple(sorted(_with_attributions(found), key=lambda finding: finding.step))


def _with_attributions(found: Sequence[Finding]) -> Iterator[Finding]:
    """What follows from another's failure is not attributed to the agent.

    After garbled calls everything is attributed to the environment; giving up to the user where
    the user withheld what was requested.
    """
    garbled = min((each.step for each in found if each.rule == malformed.NAME), default=None)
    strayed = min((each.step for each in found if each.rule == user_off_task.NAME), default=None)
    for each in found:
        if each.attribution is None and garbled is not None and each.step >= garbled:
            yield structs.replace(each, attribution=Attribution.ENVIRONMENT)
        elif each.rule == gave_up.NAME and strayed is not None and each.step >= strayed:
            yield structs.replace(each, attribution=Attribution.USER)
        else:
            yield each
