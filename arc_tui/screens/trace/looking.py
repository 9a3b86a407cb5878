"""What a step rests on, which only the whole run can tell: where its values came from.

It is asked where the step's reasons are looked at, or where a person asks for it. The run is read
once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import structs
from textual.message import Message
from textual.reactive import reactive
from typing_extensions import override

from arc_tui.screens.probing.probed import Probed
from arc_tui.views.trace import step as steps
from arc_tui.widgets.trace.detail import NAMES

if TYPE_CHECKING:
    from arc_tui.views.trace.grounds import Grounds
    from arc_tui.views.trace.origins import Ground
    from replay.store import Store

WHY = NAMES.index("Why")


class Looking(Probed):
    """Looks deeper into a step. Actions of the trace screen."""

    tab: reactive[int] = reactive(0, repaint=False)

    _ground: Ground | None = None

    class GroundsKnown(Message):
        """What a step rests on was found; `asked`: a person wants to see where values came from."""

        def __init__(self, grounds: Grounds, *, asked: bool) -> None:
            super().__init__()
            self.grounds = grounds
            self.asked = asked

    def watch_tab(self) -> None:
        self._look_deeper()

    @override
    def _look_deeper(self) -> None:
        """Ask what the step rests on, where its reasons are looked at and it is not known."""
        if self.tab != WHY or self.detail is steps.EMPTY or self.view.blind:
            return
        if self.detail.grounds is None:
            self._find_grounds(asked=False)
        self.look_for_probes()

    def forget_grounds(self) -> None:
        """The run is another one than was read."""
        self._ground = None

    def _find_grounds(self, *, asked: bool) -> None:
        step = self.spans.step

        def find(store: Store) -> Grounds:
            from arc_tui.views.trace.origins import (
                Ground,  # reads the whole run: not for a first frame
            )

            if self._ground is None:
                self._ground = Ground(store, self.trace)
            return self._ground.under(step)

        finding = self.ask(
            find,
            lambda found: self.GroundsKnown(found, asked=asked),
            group="asked grounds" if asked else "grounds",
        )
        if asked:
            self.hold_keys(finding)

    def on_looking_grounds_known(self, event: GroundsKnown) -> None:
        if event.asked:
            self._show_origins(event.grounds)
        elif event.grounds.step == self.detail.row.step:
            self.detail = structs.replace(self.detail, grounds=event.grounds)

    def action_origins(self) -> None:
        self._find_grounds(asked=True)

    def _show_origins(self, grounds: Grounds) -> None:
        from arc_tui.widgets.trace.origins_box import OriginsBox

        if not grounds.values:
            self.say(f"step {grounds.step} calls nothing with a value")
            return
        self.app.push_screen(OriginsBox(grounds, self.page.value), self.go_to)
