"""An edit being tried behind a screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from arc_tui.jobs.tryout.trying import trying
from arc_tui.jobs.tryout.wish import Wanted
from arc_tui.screens.going import Ended, Going, Moved
from arc_tui.views.trying.view import TryView

if TYPE_CHECKING:
    from arc_tui.screens.base import ArcScreen


class TryMoved(Moved[TryView]):
    """More runs or steps are in."""


class TryEnded(Ended):
    """Nothing more will be asked."""


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
