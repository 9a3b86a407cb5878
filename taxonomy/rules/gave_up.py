"""Gave up: stopped with budget and tools left.

Looks at how the first thread ends. A declared surrender, an announced step that never came, a
question to nobody or no word at all is a bad end whatever the outcome; a refusal, a hand-over or
advice without action may be what the task called for, and counts only where the run failed.
"""

from __future__ import annotations

from collections.abc import Iterator

from taxonomy.classes import FailureClass
from taxonomy.evidence.endings import ending
from taxonomy.findings import Finding
from taxonomy.rules.rule import Rule, RuleContext

NAME = "gave up"


def find(case: RuleContext) -> Iterator[Finding]:
    end = None if case.reading.passed else ending(case.reading)
    if end is not None and (end.certain or case.reading.failed):
        yield Finding(
            failure=FailureClass.GAVE_UP,
            step=end.turn.index,
            span=end.evidence.span,
            why=end.why,
            rule=NAME,
            evidence=(end.evidence,),
        )


RULE = Rule(name=NAME, find=find, shown="no calls")
