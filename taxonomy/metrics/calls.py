"""How much of a run is right: its calls and its plan against gold, its outcome, its goals.

Functions take numbers, calls and names, not traces. Which calls made answer which gold calls is
the largest pairing of two lists under an order. Formulas: article 001, "Tool-call F1".
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple, TypeAlias

from msgspec import Struct

from replay.action import Act
from replay.compare import likeness
from replay.compare.likeness import Counted
from replay.compare.rules import PLAIN, Rules, arguments_of
from replay.statistics import Rate, rate
from taxonomy.metrics.gold import Order
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
    say what else does not count. `order` and `after`: see `pairs`. The article's own code compares
    sets, to which five copies of a gold call are perfect; here four of them are wrong.
    """
    found = pairs(
        [counted(act, rules) for act in made],
        [counted(act, rules) for act in gold],
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
    found = pairs(
        [_normal_text(each) for each in made], [_normal_text(each) for each in gold], order, after
    )
    return Overlap(matched=len(found), made=len(made), gold=len(gold))


def _normal_text(text: str) -> Counted:
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


Pairs: TypeAlias = list[tuple[int, int]]
Dependencies: TypeAlias = Iterable[tuple[int, int]]
"""(earlier, later) places in the gold list."""

_MAX_STATES = 50_000
"""So many half-made pairings are looked at in a graph; beyond, the best one found is taken."""


def counted(act: Act, rules: Rules = PLAIN) -> Counted:
    """What counts of a call: its tool, and of its arguments what the rules leave."""
    arguments = {} if act.arguments is None and act.raw is None else act.arguments
    found = likeness.counted(arguments, arguments_of(act.tool, rules))
    raw = "" if act.raw is None else f" {act.raw.split()}"
    return Counted(f"{act.tool!r} {found.text}{raw}", found.near)


def pairs(
    made: Sequence[Counted], gold: Sequence[Counted], order: Order = "any", after: Dependencies = ()
) -> Pairs:
    """(place in `made`, place in `gold`) of as many like entries as the order allows.

    No entry is used twice. `after` is read for `graph` alone; a dependency on a place that does
    not exist is none, and of calls that depend on each other in a circle one counts.
    """
    match order:
        case "any":
            return likeness.pairs(made, gold)
        case "sequence":
            return _in_sequence(made, gold)
        case "graph":
            return _in_graph(made, gold, after)


def _in_sequence(made: Sequence[Counted], gold: Sequence[Counted]) -> Pairs:
    """A longest common subsequence."""
    longest = [[0] * (len(gold) + 1) for _ in range(len(made) + 1)]
    for row in reversed(range(len(made))):
        for column in reversed(range(len(gold))):
            if made[row].like(gold[column]):
                longest[row][column] = 1 + longest[row + 1][column + 1]
            else:
                longest[row][column] = max(longest[row + 1][column], longest[row][column + 1])
    found: Pairs = []
    row = column = 0
    while row < len(made) and column < len(gold):
        if made[row].like(gold[column]):
            found.append((row, column))
            row, column = row + 1, column + 1
        elif longest[row + 1][column] >= longest[row][column + 1]:
            row += 1
        else:
            column += 1
    return found


class _Half(NamedTuple):
    """A pairing of the first `at` useful calls.

    `shut` is the set of gold places that are taken, or that should have come before one taken.
    """

    at: int
    shut: int
    found: tuple[tuple[int, int], ...]


def _in_graph(made: Sequence[Counted], gold: Sequence[Counted], after: Dependencies) -> Pairs:
    """Depth first, pairing before leaving out; a branch that cannot beat the best is cut."""
    before = predecessors(len(gold), "graph", after)
    useful = [
        (row, [column for column, theirs in enumerate(gold) if mine.like(theirs)])
        for row, mine in enumerate(made)
    ]
    useful = [(row, columns) for row, columns in useful if columns]
    most = len(likeness.pairs(made, gold))
    best: tuple[tuple[int, int], ...] = ()
    open_states = [_Half(0, 0, ())]
    for _ in range(_MAX_STATES):
        if not open_states or len(best) == most:
            break
        half = open_states.pop()
        if len(half.found) > len(best):
            best = half.found
        if len(half.found) + _reach(useful[half.at :], half.shut) <= len(best):
            continue
        row, columns = useful[half.at]
        open_states.append(half._replace(at=half.at + 1))
        for column in reversed(columns):
            if not half.shut >> column & 1:
                shut = half.shut | before[column] | 1 << column
                open_states.append(_Half(half.at + 1, shut, (*half.found, (row, column))))
    return list(best)


def _reach(useful: Sequence[tuple[int, list[int]]], shut: int) -> int:
    """At most so many more pairs: calls that have a gold call left, and gold calls left."""
    left = 0
    calls = 0
    for _, columns in useful:
        still = [column for column in columns if not shut >> column & 1]
        calls += bool(still)
        for column in still:
            left |= 1 << column
    return min(calls, left.bit_count())


def predecessors(size: int, order: Order, after: Dependencies = ()) -> list[int]:
    """For each of `size` gold places the set of those that must come before it, near or far, as
    bits."""
    if order == "any":
        return [0] * size
    if order == "sequence":
        return [(1 << place) - 1 for place in range(size)]
    direct = [0] * size
    for earlier, later in after:
        if 0 <= earlier < size and 0 <= later < size:
            direct[later] |= 1 << earlier
    found = []
    for place in range(size):
        seen, waiting = 0, direct[place]
        while waiting:
            one = waiting.bit_length() - 1
            seen |= 1 << one
            waiting = (waiting | direct[one]) & ~seen
        found.append(seen)
    return found
