"""A free run behind a screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from arc_tui.jobs.freeing import FreeWanted, freeing
from arc_tui.screens.going import Ended, Going, Moved
from arc_tui.views.free.view import FreeView

if TYPE_CHECKING:
    from arc_tui.screens.base import ArcScreen


class FreeMoved(Moved[FreeView]):
    """The run has come further, or is over."""


class FreeEnded(Ended):
    """Nothing more will be asked."""


def free_going(screen: ArcScreen, wanted: FreeWanted) -> Going[FreeView]:
    """Start a free run."""
    return Going(
        screen,
        lambda store, hold: freeing(store, wanted, hold=hold),
        moved=FreeMoved,
        ended=FreeEnded,
        group="free",
    )
