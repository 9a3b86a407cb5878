"""The probes of a step, over the run they are of: one letter runs one.

Each changes one thing and asks again; only what came of it names a cause. Nothing is asked of a
server but under a limit given for that one probe; what was answered is kept, and a probe that
was cut short leaves no line in the log. Another request is another estimate, so the probes are
listed anew.
"""

from __future__ import annotations

from pathlib import Path

from msgspec import structs
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.getters import query_one
from textual.reactive import reactive
from textual.screen import ModalScreen

from arc_tui.experiments.runner import JobFinished
from arc_tui.experiments.screen import (
    ExperimentScreen,
    model_key,
    run_key,
    sample_count,
    samples_key,
    stop_key,
)
from arc_tui.features.probes.plan import ProbeRequest
from arc_tui.features.probes.run import offered, run_probe
from arc_tui.features.probes.widgets import (
    EMPTY_PROBE,
    ProbeHead,
    ProbeRows,
    ProbeState,
    probe_page,
)
from arc_tui.ui import format
from arc_tui.ui.bindings import bind, choice
from arc_tui.ui.dialogs import ask_until_read
from arc_tui.ui.keys import KeyBar, with_keys
from arc_tui.ui.page import Page
from arc_tui.views.probe_offers import ProbeOffer, ProbesView
from taxonomy.probes.symptoms import PROBES

RUN = Binding.Group("run", compact=True)
LOOK = Binding.Group("probe", compact=True)

SUMMARIES = ("summary", "midpoint")


class ProbeScreen(ExperimentScreen[ProbeState], ModalScreen[None]):
    """What can be probed at one step, and what came of it."""

    CSS_PATH = "screen.tcss"
    HELP = "probes"
    MISS_HINT = "‹probe.run› run again with a limit"
    AT_REST = frozenset({"words", "samples", "model", "look"})

    BINDINGS = [
        run_key("probe", "Run the selected probe", action="run_chosen", group=RUN),
        bind("enter", "run_chosen", id="probe.open", show=False, tooltip="Run the selected probe"),
        *(
            choice(place, f"run('{entry.name}')", entry.name, id=f"probe.{entry.name}",
                   show=True, group=RUN, tooltip=f"Run this probe: {entry.change}")
            for place, entry in enumerate(PROBES, 1)
        ),
        bind("j", "look(1)", id="probe.next", group=LOOK, tooltip="Select the next probe"),
        bind("k", "look(-1)", id="probe.before", group=LOOK, tooltip="Select the previous probe"),
        stop_key("probe"),
        bind("tab", "pane", id="probe.pane", label="scroll",
             tooltip="Go to the text to scroll in it, or back to the probes"),
        bind("shift+tab", "pane", id="probe.pane_before", show=False,
             tooltip="Go to the text to scroll in it, or back to the probes"),
        bind("i", "words", id="probe.words", label="own words",
             tooltip="Write in your own words what would have been right"),
        bind("esc", "back", id="probe.back", label="close", tooltip="Back to the run"),
        bind("O", "summary", id="probe.who_sums_up",
             tooltip="Have the model write the summary, or the built-in rule"),
        samples_key("probe", "Choose the number of samples of each arm"),
        model_key("probe"),
    ]  # fmt: skip

    AUTO_FOCUS = ""

    state: reactive[ProbeState] = reactive(EMPTY_PROBE, repaint=False)
    request: ProbeRequest

    page = query_one("#probe-text", Page)

    def __init__(self, path: Path, trace: str, step: int, model: str | None = None) -> None:
        """`model` None asks the trace's own."""
        super().__init__(path, ProbeRequest(trace=trace, step=step, model=model))

    def compose(self) -> ComposeResult:
        with Vertical(id="probes"):
            yield ProbeHead().data_bind(ProbeScreen.state)
            yield ProbeRows().data_bind(ProbeScreen.state)
            yield Page(id="probe-text")
            yield KeyBar()

    def on_mount(self) -> None:
        self.change_request()

    # --- what is asked

    def request_changed(self) -> None:
        self.change(request=self.request, phase="estimating", view=None, trouble=None)
        self._list()

    def _list(self) -> None:
        """See what the request would ask now."""
        request = self.request
        self.read(lambda store: offered(store, request), self._show_probes, group="estimate")

    def _show_probes(self, listed: ProbesView) -> None:
        """The first that fits is looked at, unless another one is."""
        first = next(iter((*listed.ready, *listed.offers)), None)
        chosen = self.state.chosen or (first.name if first is not None else "")
        phase = "idle" if self.state.phase == "estimating" else self.state.phase
        self.change(phase=phase, listed=listed, chosen=chosen)

    def action_words(self) -> None:
        self.submit(self._ask_words())

    async def _ask_words(self) -> None:
        title = "constraint"
        words = "The right action in one sentence, inserted before the step. Nothing else changes."
        offer = self.state.offered("constraint")
        own = format.one_line(offer.text) if offer is not None else ""
        constraint = await ask_until_read(
            self.app, title, str, words, answer=self.request.constraint or own
        )
        if constraint is not None:
            self.change(chosen="constraint")
            self.change_request(constraint=constraint)

    def action_summary(self) -> None:
        self.change_request(ask_summary=not self.request.ask_summary)

    def action_samples(self) -> None:
        self.submit(self._ask_samples())

    async def _ask_samples(self) -> None:
        words = f"now {format.count(self.request.samples, 'sample')}; few are inconclusive"
        title, hint = "samples of each arm", "a number, such as 8"
        count = await ask_until_read(self.app, title, sample_count, words, hint=hint)
        if count is not None:
            self.change_request(samples=count)

    # --- the run

    def action_run_chosen(self) -> None:
        self.action_run(self.state.chosen)

    def action_run(self, name: str) -> None:
        """Ask, after what it may cost was asked of the person."""
        self.change(chosen=name)
        offer = self.state.offered(name)
        if self.state.listed.model is None:
            self.action_model()
        elif offer is not None:
            self.submit(self._submit(offer))

    async def _submit(self, offer: ProbeOffer) -> None:
        request = structs.replace(self.request, probe=offer.name)
        cost = self.state.cost_of(offer)
        if cost is not None:
            request = await self.ask_permission(request, cost)
        self.change(phase="running", view=None, trouble=None)
        self.start(run_probe, request, cut_short=lambda view: view.ended is not None)

    def show_end(self, event: JobFinished) -> None:
        super().show_end(event)
        self._list()  # what was answered costs nothing now

    # --- around it

    def watch_state(self, before: ProbeState, state: ProbeState) -> None:
        if not self.is_mounted:
            return
        self.query_one("#probes").border_title = Text(state.border_title)
        self.page.document = with_keys(self, probe_page(state))
        before_keys, keys = ((each.phase, each.chosen, each.listed) for each in (before, state))
        if before_keys != keys:
            self.refresh_bindings()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        state = self.state
        match action, parameters:
            case "run", (str(name),):
                return state.can(name) or None
            case "run_chosen", _:
                return state.can(state.chosen) or None
            case "summary", _:
                return state.chosen in SUMMARIES and not state.is_free and not state.running
            case _:
                return super().check_action(action, parameters)

    def on_probe_rows_picked(self, event: ProbeRows.Picked) -> None:
        if not self.state.running:
            self._look_at(event.name)

    def action_look(self, places: int) -> None:
        names = [each.name for each in self.state.listed.offers]
        if names:
            self._look_at(names[max(0, min(self.state.place + places, len(names) - 1))])

    def _look_at(self, name: str) -> None:
        """What a probe would do, in place of what the last one came to."""
        self.change(chosen=name, view=None, phase="idle", trouble=None)

    def action_pane(self) -> None:
        self.set_focus(None if self.focused is self.page else self.page)

    def leave(self) -> None:
        if self.focused is self.page:
            self.set_focus(None)
        else:
            super().leave()
