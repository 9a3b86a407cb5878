"""An edit being tried behind a screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.message import Message

from arc_tui.jobs.tryout.trying import trying
from arc_tui.jobs.tryout.wish import Wanted
from arc_tui.screens.going import Going
from arc_tui.views.trying.view import TryView
from replay.errors import ArcError

if TYPE_CHECKING:
    from arc_tui.screens.base import ArcScreen


class TryMoved(Message):
    """More runs or steps are in."""

    def __init__(self, view: TryView) -> None:
        super().__init__()
        self.view = view

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, TryMoved)


class TryEnded(Message):
    """Nothing more will be asked: a person cut it short (`stopped`), there is `trouble`, or all
    was asked."""

    def __init__(self, stopped: bool = False, trouble: ArcError | None = None) -> None:
        super().__init__()
        self.stopped = stopped
        self.trouble = trouble


def try_going(screen: ArcScreen, wanted: Wanted) -> Going[TryView]:
    """Start a try."""
    return Going(
        screen,
        lambda store, hold: trying(store, wanted, hold=hold),
        moved=TryMoved,
        ended=TryEnded,
        group="try",
        cut_short=lambda view: view.ended is not None,
    )
