"""How much of a run is right: its calls and its plan against gold, its outcome, its goals.

Formulas: `formulas.md`, "Metrics"; their source is the article on trajectory metrics, except where
a docstring names another. Takes calls, names and numbers, not traces. Every function is total.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from replay.action import Act
from replay.compare import PLAIN, Rules
from replay.compare.likeness import Counted
from replay.statistics import Rate, rate
from taxonomy import pairing
from taxonomy.pairing import Dependencies, Order
from taxonomy.shapes import Scores


class Overlap(Struct, frozen=True, kw_only=True):
    """How much of what was made is in the gold: `matched` of `made`, and of `gold`."""

    matched: int
    made: int
    gold: int

    @property
    def precision(self) -> float | None:
        """The share of what was made that gold asks for; None where nothing was made."""
        return self.matched / self.made if self.made else None

    @property
    def recall(self) -> float | None:
        """The share of gold that was made; None where gold is empty."""
        return self.matched / self.gold if self.gold else None

    @property
    def f1(self) -> float:
        """The harmonic mean of both, 2m / (made + gold): 1 where both are empty, 0 where one is."""
        whole = self.made + self.gold
        return 2 * self.matched / whole if whole else 1.0


def tool_calls(
    made: Sequence[Act],
    gold: Sequence[Act],
    rules: Rules = PLAIN,
    order: Order = "any",
    after: Dependencies = (),
) -> Overlap:
    """Calls against gold calls, as multisets of (tool, arguments); its `f1` is the tool-call F1.

    Arguments are compared as replay compares them: key order is free, 1 equals 1.0, and `rules`
    say what else does not count. `order` and `after`: `taxonomy.pairing`. The article's own code
    compares sets, to which five copies of a gold call are perfect; here four of them are wrong.
    """
    found = pairing.pairs(
        [pairing.counted(act, rules) for act in made],
        [pairing.counted(act, rules) for act in gold],
        order,
        after,
    )
    return Overlap(matched=len(found), made=len(made), gold=len(gold))


def plan_steps(
    made: Sequence[str],
    gold: Sequence[str],
    order: Order = "sequence",
    after: Dependencies = (),
) -> Overlap:
    """A plan against a gold plan, a name or a sentence a step; no word on how it was carried out.

    Steps are the same where their words are, letter case and white space aside. `recall` 1 says
    that the gold plan stands in the plan, in its order.
    """
    found = pairing.pairs(
        [_said(each) for each in made], [_said(each) for each in gold], order, after
    )
    return Overlap(matched=len(found), made=len(made), gold=len(gold))


def _said(text: str) -> Counted:
    return Counted(" ".join(text.casefold().split()))


PlanVerdict: TypeAlias = Literal[
    "right plan, carried out",
    "right plan, wrong execution",
    "wrong plan, carried out",
    "wrong plan, wrong execution",
]


def plan_verdict(*, planned: bool | None, executed: bool | None) -> PlanVerdict | None:
    """The plan judged apart from its execution; None where either is not known."""
    match planned, executed:
        case True, True:
            return "right plan, carried out"
        case True, False:
            return "right plan, wrong execution"
        case False, True:
            return "wrong plan, carried out"
        case False, False:
            return "wrong plan, wrong execution"
        case _:
            return None


class Share(Struct, frozen=True, kw_only=True):
    """A rate over what is known, and how many are not."""

    rate: Rate
    unknown: int


def share(held: Iterable[bool | None]) -> Share:
    """How many of those decided are true.

    Over runs, by the verifier's word, that is the outcome; over the items of a rubric its score.
    """
    values = list(held)
    known = [value for value in values if value is not None]
    return Share(rate=rate(sum(known), len(known)), unknown=len(values) - len(known))


def weighted(scores: Scores, weights: Sequence[float]) -> float | None:
    """Σ score · weight / Σ weight: sub-goals by what hangs on them (1, 2 or 3).

    Source: the ARC article, which prints .64 for an example whose value by this formula is .722.
    A goal without a finite score is left out with its weight, a goal beyond the weights too;
    None where no weight above nothing remains.
    """
    known = [
        (score, weight)
        for score, weight in zip(scores, weights, strict=False)
        if score is not None and math.isfinite(score) and math.isfinite(weight) and weight > 0
    ]
    whole = math.fsum(weight for _, weight in known)
    return math.fsum(score * weight for score, weight in known) / whole if whole else None


Layer: TypeAlias = bool | None
"""Does a layer of the eval pyramid hold? None where it was not measured."""


def look_at(
    *, tool_calls: Layer, trajectory: Layer, outcome: Layer, descriptions_edited: bool = False
) -> str | None:
    """Where to look, by which layer of the eval pyramid gave way; None where no rule holds.

    Source: the article on agent evals. Layers: L1 tool calls, L2 trajectory, L3 end to end.
    The lowest layer that gave way speaks first.
    """
    if tool_calls is False and descriptions_edited:
        return "the edit of the tool descriptions"
    if trajectory is False and tool_calls is True:
        return "plan drift or context"
    if outcome is False and trajectory is True:
        return "environment or verifier"
    return None
