"""What is a good answer expected to do, in the words of a person?"""

from __future__ import annotations

from msgspec import Struct

from arc_tui.jobs import expecting
from arc_tui.jobs.bisect.versions import BadVersions
from replay.errors import ArcError
from replay.predicate import BadPredicate
from replay.store import Store, read
from replay.store.rows import trace_row
from taxonomy.expectations import GoldEnding, NothingExpected


class Expected(Struct, frozen=True, kw_only=True):
    """What a good answer does, as a person says it; `judge` names who judges."""

    words: str
    judge: str | None = None


def expected(store: Store, name: str, step: int | None, words: str) -> Expected:
    """The expectation in words, held against the tools offered. `judge NAME` names a judge.

    Raises BadPredicate, NothingExpected.
    """
    first, _, who = words.partition(" ")
    if first == expecting.JUDGE and "=" not in who:
        return Expected(words=expecting.JUDGE, judge=who.strip() or None)
    trace = read.load(store, trace_row(store, name).trace)
    if words == expecting.GOLD:
        GoldEnding(trace)
    elif words != expecting.RULE:
        expecting.expected(trace, words, step)
    return Expected(words=words)


READABLE: tuple[type[ArcError], ...] = (BadPredicate, NothingExpected, BadVersions)
"""What a person can put right by typing something else."""
