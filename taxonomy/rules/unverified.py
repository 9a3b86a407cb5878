"""Other, verified nothing: the run changed something, never looked at it, and says that it is done.

A hint, for failed runs only: much work needs no second look. A reply that shows the changed thing,
any later look of whatever kind, and any program that ran afterwards count as looking.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from replay.effects import words_of
from taxonomy.classes import FailureClass
from taxonomy.evidence.endings import closes, hands_over, works
from taxonomy.evidence.reading import Act, called, mutates, quote_turn
from taxonomy.findings import Finding
from taxonomy.rules.rule import Rule, RuleContext

NAME = "verified nothing"
CONFIDENCE = 0.4

_DONE = re.compile(
    r"\b(?:successfully|done|complete[d]?|finished|is (?:now )?(?:ready|available|in place)"
    r"|i(?:'|’)?(?:ve| have) (?:now )?(?:\w+ly )?(?:created|written|added|updated|fixed|implemented"
    r"|changed|made|set)|has been (?:\w+ly )?(?:created|written|added|updated|fixed))\b",
    re.I,
)
_FILES = {"write", "edit", "create", "file", "patch", "insert", "replace", "notebook"}
_SHOWN = 200


def find(case: RuleContext) -> Iterator[Finding]:
    """One finding, at the first change of a failed run that nothing looked at after."""
    if not case.reading.failed or not case.reading.main:
        return
    last = case.reading.main[-1]
    acts = [act for turn in case.reading.main for act in case.reading.calls(turn) if works(act)]
    changes = [act for act in acts if _changes(act)]
    if last.acts or not changes or not _DONE.search(last.said):
        return
    after = acts[acts.index(changes[0]) + 1 :]
    if all(map(_changes, after)) and not any(map(_shows, changes)):
        yield Finding(
            failure=FailureClass.OTHER,
            sub=NAME,
            step=changes[0].step,
            span=changes[0].span.id,
            why=f"claims completion; result of {changes[0].name} not verified",
            rule=NAME,
            confidence=CONFIDENCE,
            evidence=(called(changes[0]), quote_turn(last, last.said[-_SHOWN:])),
        )


def _changes(act: Act) -> bool:
    """Did a call write something that could be looked at again?"""
    writes = mutates(act.span) and act.reply.failed is False
    about = bool(_FILES & set(words_of(act.name)))
    return bool(writes) and about and not closes(act) and not hands_over(act)


def _shows(act: Act) -> bool:
    """Does the reply show the changed thing itself?"""
    return act.reply.text.lstrip()[:1] in {"{", "["} or len(act.reply.text) > _SHOWN


RULE = Rule(name=NAME, find=find)
