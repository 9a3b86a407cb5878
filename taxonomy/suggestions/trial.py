"""Which suggested edit is a fix? Split by task, compared on one half, looked at once on the other.

The runs of a task are alike, so a task is never in both halves. On the first half every edit is
compared with control; their tests are corrected together (Holm). The best that holds is looked at
once, at breaks and healthy steps that nothing was chosen by. It is called a fix where that single
test holds and the failure is more than halved in most of the tasks held back: a change of wording
moves a model at some step of some task, and one task so moved is no fix.

The test of a half is exact and stratified by break: at one request the samples of both arms are
alike if the edit does nothing, whichever runs and tasks were chosen, so the false alarms of the
look are bounded by its level. What a half says of other tasks is in the interval, which minds that
runs of a task are alike.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct

from replay import digests
from replay.statistics import ALPHA, Clustered, Table, clustered, holm, stratified
from taxonomy.edit_test import Arms, own_test, ruling_of

FEWEST_TASKS = 2
"""Tasks that must be held back before an edit can be called a fix."""


class Halves(NamedTuple):
    """Tasks by the half they are in. `held_back` is empty where there is one task."""

    compared: frozenset[str]
    held_back: frozenset[str]

    def is_held_back(self, task: str) -> bool:
        """Is it of the second half? A task of neither, which only has healthy runs, is dealt to one
        as if by a coin."""
        if task in self.compared or not self.held_back:
            return False
        return task in self.held_back or digests.digest("half", task)[-1] in "02468ace"


def halves(runs: Mapping[str, int]) -> Halves:
    """The tasks in two halves, with about as many runs each: the same halves whenever they are
    made. `runs` counts the runs of each task."""
    order = sorted(runs, key=lambda task: (-runs[task], digests.digest("half", task)))
    sides: tuple[list[str], list[str]] = ([], [])
    counts = [0, 0]
    for task in order:
        side = min((0, 1), key=lambda each: (counts[each], len(sides[each])))
        sides[side].append(task)
        counts[side] += runs[task]
    return Halves(frozenset(sides[0]), frozenset(sides[1]))


class Tried(NamedTuple):
    """A question at a break: its task, and the answers of both arms that show the failure."""

    task: str
    arms: Arms


class Score(Struct, frozen=True, kw_only=True):
    """What an edit came to on one half.

    `fixed` is the share of breaks, with what `by_chance` alone would give; `p` is of the failures
    at all of them, `rarer`: there are fewer of them under the edit. `halved` of the `tasks` in
    which control shows the failure: it is more than halved there. `left` is the share of the
    edited samples that still show it, 1 where there is none.
    """

    fixed: Clustered
    by_chance: float
    p: float
    rarer: bool
    left: float
    halved: int
    tasks: int

    @property
    def is_fix(self) -> bool:
        """Would it be called a fix, were this the half that is looked at once?"""
        most = 2 * self.halved > self.tasks
        return self.tasks >= FEWEST_TASKS and most and self.rarer and self.p <= ALPHA


def score(tried: Iterable[Tried]) -> Score:
    """The score of a half; each question once."""
    every = list(tried)
    judged = [(each.task, each.arms, ruling_of(each.arms)) for each in every]
    told = [(task, arms, ruling == "fixed") for task, arms, ruling in judged if ruling != "unknown"]
    tables = [
        (task, Table(arms[2], arms[3], arms[0], arms[1]))
        for task, arms in every
        if arms[1] and arms[3]
    ]
    by_task: dict[str, list[Table]] = {}
    for task, table in tables:
        by_task.setdefault(task, []).append(table)
    known = [each for each in map(_total, by_task.values()) if each.other_hits]
    whole = _total(table for _, table in tables)
    return Score(
        fixed=clustered((task, fixed) for task, _, fixed in told),
        by_chance=math.fsum(own_test(arms, ruling_of, "fixed").by_chance for _, arms, _ in told),
        p=stratified(table for _, table in tables),
        rarer=_is_rarer(whole, 1),
        left=whole.hits / whole.n if whole.n else 1.0,
        halved=sum(_is_rarer(each, 2) for each in known),
        tasks=len(known),
    )


def _total(tables: Iterable[Table]) -> Table:
    found = list(tables)
    return Table(*(sum(each) for each in zip(*found, strict=True))) if found else Table(0, 0, 0, 0)


def _is_rarer(table: Table, times: int) -> bool:
    """Is the failure more than so many times as frequent in control?"""
    return times * table.hits * table.other_n < table.other_hits * table.n


def holding(scores: Sequence[Score]) -> list[int]:
    """The edits, by their places, that make the failure rarer on the half they are compared on,
    tested together; the best first: more tasks halved, fewer failures left, the earlier."""
    held = holm({at: each.p for at, each in enumerate(scores)})
    found = [at for at, each in enumerate(scores) if at in held and each.rarer]
    return sorted(
        found,
        key=lambda at: (
            -scores[at].halved / max(scores[at].tasks, 1),
            scores[at].left,
            at,
        ),
    )
