"""A probe under way behind a screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from arc_tui.jobs.probe.plan import Wanted
from arc_tui.jobs.probe.probing import probing
from arc_tui.screens.going import Ended, Going, Moved
from arc_tui.views.probing.view import ProbeView

if TYPE_CHECKING:
    from arc_tui.screens.base import ArcScreen


class ProbeMoved(Moved[ProbeView]):
    """More answers are in."""


class ProbeEnded(Ended):
    """Nothing more will be asked."""


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
