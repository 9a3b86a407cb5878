"""Did a run do what it said it would do?"""

from __future__ import annotations

from taxonomy.findings import Audited
from taxonomy.rules.rule import RuleContext


def audit(case: RuleContext) -> Audited:
    return Audited(probe="faithfulness", checked=0, unread=len(case.reading.turns))
