"""How many instructions that a rule can check did a run have, and which did it break?

The rules that find broken instructions say it; here their chances are counted too.
"""

from __future__ import annotations

from taxonomy.findings import Audited, AuditFinding
from taxonomy.rules import instruction_broken, requirement
from taxonomy.rules.rule import RuleContext


def audit(case: RuleContext) -> Audited:
    """Prohibitions and requirements of the prompt, the task and the user."""
    chances = len(instruction_broken.prohibitions(case)) + len(list(requirement.requirements(case)))
    found = (*instruction_broken.find(case), *requirement.find(case))
    return Audited(
        probe="instruction",
        checked=chances,
        findings=tuple(AuditFinding(result="broken", finding=each) for each in found),
    )
