"""Which calls made answer which gold calls? The largest pairing of two lists under an order.

Three orders: `any`; `sequence`, the longest common subsequence; `graph`, in which a call counts
only after those it depends on. A graph without dependencies is `any`, one that is a chain is
`sequence`. Takes what counts of each entry (`replay.compare.likeness`), so that tolerance of
arguments is said once, by the rules that replay compares with.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple, TypeAlias

from replay.action import Act
from replay.compare import PLAIN, Rules, likeness, matching
from replay.compare.likeness import Counted
from replay.compare.place import arguments_of

Order: TypeAlias = Literal["any", "sequence", "graph"]
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
            return matching.pairs(made, gold)
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
    before = _ancestors(len(gold), after)
    useful = [
        (row, [column for column, theirs in enumerate(gold) if mine.like(theirs)])
        for row, mine in enumerate(made)
    ]
    useful = [(row, columns) for row, columns in useful if columns]
    most = len(matching.pairs(made, gold))
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


def _ancestors(size: int, after: Dependencies) -> list[int]:
    """For each gold place, the set of those that must come before it, near or far."""
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
