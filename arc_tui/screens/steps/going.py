"""The search for a step, or its test, behind the screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.message import Message

from arc_tui.jobs.bisect.bisecting_steps import bisecting_steps
from arc_tui.jobs.bisect.step_plan import StepsWanted
from arc_tui.screens.going import Going
from arc_tui.views.steps.view import StepsView
from replay.errors import ArcError

if TYPE_CHECKING:
    from arc_tui.screens.base import ArcScreen


class StepsMoved(Message):
    """More steps were looked at."""

    def __init__(self, view: StepsView) -> None:
        super().__init__()
        self.view = view

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, StepsMoved)


class StepsEnded(Message):
    """Nothing more will be asked: a person cut it short (`stopped`), there is `trouble`, or all
    was asked."""

    def __init__(self, stopped: bool = False, trouble: ArcError | None = None) -> None:
        super().__init__()
        self.stopped = stopped
        self.trouble = trouble


def steps_going(screen: ArcScreen, wanted: StepsWanted) -> Going[StepsView]:
    """Start the search."""
    return Going(
        screen,
        lambda store, hold: bisecting_steps(store, wanted, hold=hold),
        moved=StepsMoved,
        ended=StepsEnded,
        group="steps",
    )
