"""Speeches that are given again: the same long words, by one speaker or by several in turn.

The part of the loop rule that reads words instead of calls. A terminal's turns are left out, and
so is a turn whose program somebody ran: what came back tells whether that was a repeat.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rapidfuzz import fuzz

from taxonomy.classes import FailureClass
from taxonomy.evidence.reading import Reading, Turn
from taxonomy.evidence.replies import cut
from taxonomy.findings import Finding
from taxonomy.rules.case import said

TIMES = 3
ALIKE = 95.0
"""Likeness in per cent from which two long texts are the same but for a few letters."""

LONGEST_ROUND = 3
"""So many speakers may take turns in saying the same again."""

_LONG = 80
_COMPARED = 4_000


def repeated_speeches(reading: Reading, turns: Sequence[Turn], rule: str) -> Iterator[Finding]:
    """The first words, or round of words, given three times with no call between."""
    found = next(speeches(reading, turns), None)
    if found is not None:
        yield Finding(
            failure=FailureClass.LOOP,
            step=found[1].index,
            span=found[1].ask.id,
            why=why_said(found),
            rule=rule,
            evidence=tuple(said(each, each.said) for each in found[: TIMES + 1]),
        )


def why_said(told: Sequence[Turn]) -> str:
    """What a run of the same speech is, in a phrase."""
    return f"says the same {len(told)} times: “{cut(told[0].said, 40)}”"


def speeches(reading: Reading, turns: Sequence[Turn]) -> Iterator[list[Turn]]:
    """The earliest speech, or round of them, that is given again in each silent stretch."""
    for run in _silent_runs(reading, turns):
        found = min(_rounds(run), key=lambda round_: round_[1].index, default=None)
        if found is not None:
            yield found


def alike(left: str, right: str) -> bool:
    """Are two texts the same but for a few letters?"""
    shorter, longer = sorted((len(left), len(right)))
    if shorter < 0.9 * longer:
        return False
    return fuzz.ratio(left[:_COMPARED], right[:_COMPARED], score_cutoff=ALIKE) >= ALIKE


def _silent_runs(reading: Reading, turns: Sequence[Turn]) -> Iterator[list[Turn]]:
    """Stretches of turns that only speak, at length."""
    run: list[Turn] = []
    for turn in turns:
        if turn.observer:
            continue
        if len(turn.said) < _LONG or reading.calls(turn):
            yield run
            run = []
        else:
            run.append(turn)
    yield run


def _rounds(run: Sequence[Turn]) -> Iterator[list[Turn]]:
    """The speeches at the same place of a round that is gone through three times or more."""
    for period in range(1, LONGEST_ROUND + 1):
        start = 0
        for at in range(period, len(run) + 1):
            if at < len(run) and alike(run[at - period].said, run[at].said):
                continue
            if at - start >= TIMES * period:
                yield list(run[start:at:period])
            start = at - period + 1
