"""How many claims of success did a run make that its own checks could deny, and which are false?"""

from __future__ import annotations

from taxonomy.findings import Audited, AuditFinding
from taxonomy.rules import false_claim
from taxonomy.rules.rule import RuleContext


def audit(case: RuleContext) -> Audited:
    """Claims to a person that tests pass or that all works; those of runs that checked nothing and
    wrote nothing are not read."""
    claims = list(false_claim.claims(case))
    checked = [claim for claim in claims if claim.is_checked]
    return Audited(
        probe="claim",
        checked=len(checked),
        findings=tuple(
            AuditFinding(result="false", finding=claim.finding)
            for claim in checked
            if claim.finding is not None
        ),
        unread=len(claims) - len(checked),
    )
