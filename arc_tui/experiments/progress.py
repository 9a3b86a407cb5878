"""How far an experiment is: when a view of it is worth making, and what its answers rest on."""

from __future__ import annotations

from arc_tui.ui import format

BETWEEN_VIEWS_S = 0.1
"""A view costs a look at every step: answers that are all there come faster than anyone reads."""


def resting(guessed: int, runs: int) -> str:
    """`2 of 5 runs rest on guessed tool results`; "" for none."""
    return (
        f"{guessed} of {format.count(runs, 'run')} rest on guessed tool results" if guessed else ""
    )
