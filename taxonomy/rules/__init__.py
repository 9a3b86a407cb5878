"""The rules: one module a failure class or sign, each `find(case)` with evidence for what it says.

A rule reads the trace as `Case` shows it and yields findings; it never asks another rule. Where a
run is known to have passed, rules that name a failure say nothing, and `warnings` says what was
wrong all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from taxonomy.findings import Finding
from taxonomy.rules import (
    bad_args,
    cap_hit,
    contradiction,
    denied,
    gave_up,
    hallucinated_state,
    loop,
    malformed,
    wrong_tool,
)
from taxonomy.rules.case import Case

Rule = Callable[[Case], Iterator[Finding]]

RULES: tuple[Rule, ...] = (
    malformed.find,
    wrong_tool.find,
    hallucinated_state.find,
    contradiction.find,
    denied.find,
    bad_args.find,
    loop.find,
    gave_up.find,
    cap_hit.find,
)
"""In the order of findings at one step: what explains the others comes first."""


def findings(case: Case) -> tuple[Finding, ...]:
    """What all rules found, the earliest step first."""
    found = [finding for rule in RULES for finding in rule(case)]
    return tuple(sorted(found, key=lambda finding: finding.step))
