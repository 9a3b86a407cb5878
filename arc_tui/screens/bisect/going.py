"""A bisection behind a screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from arc_tui.jobs.bisect.bisecting import bisecting
from arc_tui.jobs.bisect.plan import Wanted
from arc_tui.screens.going import Ended, Going, Moved
from arc_tui.views.bisect.view import BisectView

if TYPE_CHECKING:
    from arc_tui.screens.base import ArcScreen


class BisectMoved(Moved[BisectView]):
    """A round is asked, or it is over."""


class BisectEnded(Ended):
    """Nothing more will be asked."""


def bisect_going(screen: ArcScreen, wanted: Wanted) -> Going[BisectView]:
    """Start a bisection."""
    return Going(
        screen,
        lambda store, hold: bisecting(store, wanted, hold=hold),
        moved=BisectMoved,
        ended=BisectEnded,
        group="bisect",
    )
