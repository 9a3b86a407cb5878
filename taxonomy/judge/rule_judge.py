"""A judge without a model: the rules' own scores in a judge's form. Wherever it stands it says so.

It knows one rubric, the share of the items that rules can decide, and answers with it in every
mode. It has no samples, needs no key, and is no evidence of what a model would say.
"""

from __future__ import annotations

from collections.abc import Iterator

from replay.trace import Trace
from taxonomy.judge.bench import Judged
from taxonomy.rubrics import Mode
from taxonomy.rules import findings
from taxonomy.rules.case import Case
from taxonomy.scores import BY, rule_scores

VERSION = BY
NOTICE = "demo, rule-based: no model was asked; these are the rules' own scores, whatever the mode"


def rule_judged(trace: Trace, mode: Mode) -> Iterator[Judged]:
    """What the rules say of each step, and in mode `run` the share of yes over all of them."""
    case = Case(trace)
    scores = rule_scores(case, findings(case))
    for score in scores:
        yield Judged(
            step=score.step,
            span=score.span or "",
            samples=() if score.value is None else (score.value,),
            items=score.items,
            unasked="no item can be decided by rule" if score.value is None else None,
        )
    held = [item.held for score in scores for item in score.items if item.held is not None]
    if mode == "run" and held:
        yield Judged(step=None, samples=(sum(held) / len(held),))
