"""A bisection behind a screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.message import Message

from arc_tui.jobs.bisect.bisecting import bisecting
from arc_tui.jobs.bisect.plan import Wanted
from arc_tui.screens.going import Going
from arc_tui.views.bisect.view import BisectView
from replay.errors import ArcError

if TYPE_CHECKING:
    from arc_tui.screens.base import ArcScreen


class BisectMoved(Message):
    """A round is asked, or it is over."""

    def __init__(self, view: BisectView) -> None:
        super().__init__()
        self.view = view

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, BisectMoved)


class BisectEnded(Message):
    """Nothing more will be asked: a person cut it short (`stopped`), there is `trouble`, or it is
    over."""

    def __init__(self, stopped: bool = False, trouble: ArcError | None = None) -> None:
        super().__init__()
        self.stopped = stopped
        self.trouble = trouble


def bisect_going(screen: ArcScreen, wanted: Wanted) -> Going[BisectView]:
    """Start a bisection."""
    return Going(
        screen,
        lambda store, hold: bisecting(store, wanted, hold=hold),
        moved=BisectMoved,
        ended=BisectEnded,
        group="bisect",
    )
