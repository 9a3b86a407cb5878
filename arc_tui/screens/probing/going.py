"""A probe under way behind a screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.message import Message

from arc_tui.jobs.probe.plan import Wanted
from arc_tui.jobs.probe.probing import probing
from arc_tui.screens.going import Going
from arc_tui.views.probing.view import ProbeView
from replay.errors import ArcError

if TYPE_CHECKING:
    from arc_tui.screens.base import ArcScreen


class ProbeMoved(Message):
    """More answers are in."""

    def __init__(self, view: ProbeView) -> None:
        super().__init__()
        self.view = view

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, ProbeMoved)


class ProbeEnded(Message):
    """Nothing more will be asked: it was cut short (`stopped`, by a person or a limit), there is
    `trouble`, or all was asked."""

    def __init__(self, stopped: bool = False, trouble: ArcError | None = None) -> None:
        super().__init__()
        self.stopped = stopped
        self.trouble = trouble


def probe_going(screen: ArcScreen, wanted: Wanted) -> Going[ProbeView]:
    """Start a probe."""
    return Going(
        screen,
        lambda store, hold: probing(store, wanted, hold=hold),
        moved=ProbeMoved,
        ended=ProbeEnded,
        group="probe",
        cut_short=lambda view: view.ended is not None,
    )
