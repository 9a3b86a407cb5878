"""The search for a step, or its test, behind the screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from arc_tui.jobs.bisect.bisecting_steps import bisecting_steps
from arc_tui.jobs.bisect.step_plan import StepsWanted
from arc_tui.screens.going import Ended, Going, Moved
from arc_tui.views.steps.view import StepsView

if TYPE_CHECKING:
    from arc_tui.screens.base import ArcScreen


class StepsMoved(Moved[StepsView]):
    """More steps were looked at."""


class StepsEnded(Ended):
    """Nothing more will be asked."""


def steps_going(screen: ArcScreen, wanted: StepsWanted) -> Going[StepsView]:
    """Start the search."""
    return Going(
        screen,
        lambda store, hold: bisecting_steps(store, wanted, hold=hold),
        moved=StepsMoved,
        ended=StepsEnded,
        group="steps",
    )
