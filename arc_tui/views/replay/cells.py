"""A step of a replay in a few words: its mark, and what an arm did, as a cell of a table."""

from __future__ import annotations

from arc_tui import format
from arc_tui.views.replay.view import MARKS, ArmRow, ReplayRow

WIDTH = 48
"""Characters of a phrase in a cell that nothing else limits."""


def mark_words(row: ReplayRow) -> str:
    """What the edit did to a step, as a mark and a word; "" where nobody asked it."""
    if row.refused is not None:
        return "– not asked"
    return "" if row.mark is None else MARKS.get(row.mark, "? unclear")


def is_beyond_chance(row: ReplayRow) -> bool:
    """Do samples show that the arms differ here, in what they do or in showing the failure?"""
    return bool(row.effect) or (row.mark == "fixed" and row.p is not None)


def arm_cell(arm: ArmRow | None) -> str:
    """What an arm mostly does; of several samples, how many of them: `same 7/8`."""
    return f"{format.cut(phrase(arm), WIDTH)} {tally(arm)}".rstrip()


def phrase(arm: ArmRow | None) -> str:
    """What an arm mostly does, `same` where that is what was recorded."""
    if arm is None:
        return format.UNKNOWN
    if arm.mostly.same:
        return "same"
    if arm.mostly.same is None and arm.counts.reworded:
        return "other words"
    return format.one_line(arm.mostly.phrase) or format.UNKNOWN


def tally(arm: ArmRow | None) -> str:
    """How many of several samples do as most do, and how many other answers stand behind those
    that depart: `7/8 +1`. "" of one sample, and where none can be compared."""
    if arm is None or arm.counts.asked <= 1 or not arm.counts.decided:
        return ""
    found, departing = arm.counts, arm.mostly.same is False
    times = found.departs if departing else found.decided - found.departs
    others = len(arm.answers) - 1 if departing else 0
    return f"{times}/{found.decided}{f' +{others}' if others else ''}"
