"""What can be probed at the step that is shown, and what the last probe there came to.

Actions of the trace screen. It is asked only where a step's reasons are looked at, and once a step:
what fits a run takes the whole of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import structs
from textual.message import Message
from textual.reactive import reactive

from arc_tui.screens.trace.finding import Finding
from arc_tui.views.probing.reasons import WhyProbes
from arc_tui.views.trace.step import EMPTY, StepView

if TYPE_CHECKING:
    from replay.store import Store


class Probed(Finding):
    """Looks for the probes of a step, and leaves for them."""

    detail: reactive[StepView]

    class ProbesKnown(Message):
        """What can be probed at a step was found."""

        def __init__(self, probes: WhyProbes) -> None:
            super().__init__()
            self.probes = probes

    class ProbesWanted(Message):
        """Two causes of the failure at a step are to be told apart."""

        def __init__(self, trace: str, step: int) -> None:
            super().__init__()
            self.trace = trace
            self.step = step

    _probes: WhyProbes | None = None
    """Those found last."""

    _away = False
    """Is a person at the probes?"""

    def look_for_probes(self) -> None:
        """Ask what can be probed at the step that is shown, where that is not known."""
        if self.detail is EMPTY:
            return
        step = self.detail.row.step
        if self._probes is not None and self._probes.step == step:
            self._show_probes(self._probes)
            return

        def find(store: Store) -> WhyProbes:
            from arc_tui.views.probing.offers import build_why_probes  # not for a first frame

            return build_why_probes(store, self.trace, step)

        self.ask(find, self.ProbesKnown, group="probes")

    def on_probed_probes_known(self, event: ProbesKnown) -> None:
        self._probes = event.probes
        self._show_probes(event.probes)

    def _show_probes(self, probes: WhyProbes) -> None:
        detail = self.detail
        if detail.row.step == probes.step and detail.probes is not probes:
            self.detail = structs.replace(detail, probes=probes)

    def action_probes(self) -> None:
        self._away = True
        self.post_message(self.ProbesWanted(self.trace, self.spans.step))

    def on_screen_resume(self) -> None:
        """What came of a probe is read anew."""
        if self._away:
            self._away, self._probes = False, None
            self._look_deeper()

    def _look_deeper(self) -> None:
        """Look for what only the whole run tells of the step, where that is to be seen."""
        raise NotImplementedError
