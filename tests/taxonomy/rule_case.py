"""What the rules say of a trace, each finding checked for what every finding must have."""

from __future__ import annotations

import msgspec

from replay.trace import Trace
from taxonomy import rules
from taxonomy.findings import Finding
from taxonomy.rules.rule import RuleContext

ROLES = {"called", "derived?", "error", "observed", "offered", "repeats", "says", "stated", "user"}

LONGEST = 240
"""Characters of a quote."""


def findings(made: Trace) -> tuple[Finding, ...]:
    """What all rules find, each one citable."""
    found = rules.findings(RuleContext(made))
    for each in found:
        assert_citable(each, made)
    return found


def assert_citable(finding: Finding, made: Trace) -> None:
    """It bears its rule's name and stands at a span of the trace; so does all that it rests on."""
    assert msgspec.json.decode(msgspec.json.encode(finding), type=Finding) == finding
    assert rules.rule_of(finding) is not None
    spans = {span.id for span in made.spans}
    assert finding.span in spans
    assert 0 <= finding.step < len(made.steps)
    assert finding.why == " ".join(finding.why.split())
    assert len(finding.why) <= 160
    assert finding.evidence
    for each in finding.evidence:
        assert each.role in ROLES
        assert each.span is None or each.span in spans
        assert each.step is None or 0 <= each.step < len(made.steps)
        assert each.step is None or each.span is not None
        assert 0 < len(each.text) <= LONGEST
