"""The probes of a step, over the run they are of: one letter runs one.

Each changes one thing and asks again; only what came of it names a cause. Nothing is asked of a
server but under a limit given for that one probe; what was answered is kept, and a probe that was
cut short leaves no line in the log.
"""

from __future__ import annotations

from pathlib import Path

from msgspec import structs
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.getters import query_one
from textual.screen import ModalScreen

from arc_tui.jobs.probe.plan import Wanted
from arc_tui.jobs.probe.probing import probing
from arc_tui.screens.going import Ended, Going, Moved
from arc_tui.screens.probing.wish import Wishing
from arc_tui.screens.question import allowed
from arc_tui.views.probing.stage import ProbeStage
from arc_tui.views.probing.view import ProbeView
from arc_tui.views.prospect import asking_price
from arc_tui.widgets.key_bar import KeyBar
from arc_tui.widgets.keyed import with_keys
from arc_tui.widgets.page import Page
from arc_tui.widgets.probing.head import ProbeHead
from arc_tui.widgets.probing.page import probe_page
from arc_tui.widgets.probing.rows import ProbeRows
from replay.errors import ArcError, OfflineMiss
from taxonomy.probes.table import PROBES

RUN = Binding.Group("ask", compact=True)
LOOK = Binding.Group("look", compact=True)
SCROLL = Binding.Group("scroll", compact=True)
WORDS = Binding.Group("words", compact=True)
SUMMARY = Binding.Group("summary", compact=True)

SUMMARIES = ("summary", "midpoint")


class ProbeScreen(Wishing, ModalScreen[None]):
    """What can be probed at one step, and what came of it."""

    CSS_PATH = "screen.tcss"
    HELP = "probes"

    BINDINGS = [
        Binding("enter", "run_chosen", "ask", id="probe.run", group=RUN,
                tooltip="Ask the model again under the probe that is looked at"),
        *(
            Binding(entry.key, f"run('{entry.name}')", entry.name, id=f"probe.{entry.name}",
                    group=RUN, tooltip=f"Ask the model again: {entry.change}")
            for entry in PROBES
        ),
        Binding("j,down", "look(1)", "next probe", id="probe.next", group=LOOK,
                tooltip="Look at the next probe"),
        Binding("k,up", "look(-1)", "probe before", id="probe.before", group=LOOK,
                tooltip="Look at the probe before"),
        Binding("x", "stop", "stop", id="probe.stop",
                tooltip="Ask nothing more; what was answered is kept"),
        Binding("tab,shift+tab", "pane", "scroll the text", id="probe.pane", group=SCROLL,
                tooltip="Go to the text to scroll in it, or back to the probes"),
        Binding("w", "words", "your constraint", id="probe.words", group=WORDS,
                tooltip="Say in your own words what would have been right"),
        Binding("escape", "back", "close", id="probe.back",
                tooltip="Stop what runs, else back to the run"),
        Binding("a", "summary", "who sums up", id="probe.who_sums_up", group=SUMMARY,
                tooltip="Have the model write the summary, or make it by rule again"),
        Binding("n", "samples", "samples", id="probe.samples",
                tooltip="Choose how often either arm is asked"),
        Binding("M,f3", "model", "model", id="probe.model",
                tooltip="Choose the model to ask"),
    ]  # fmt: skip

    AUTO_FOCUS = ""

    page = query_one("#probe-text", Page)

    def __init__(self, path: Path, trace: str, step: int, model: str | None = None) -> None:
        """`model` None asks the trace's own."""
        super().__init__(path, Wanted(trace=trace, step=step, model=model))
        self._going: Going[ProbeView] | None = None
        self._missed = False

    def compose(self) -> ComposeResult:
        with Vertical(id="probes"):
            yield ProbeHead().data_bind(Wishing.stage)
            yield ProbeRows().data_bind(Wishing.stage)
            yield Page(id="probe-text")
            yield KeyBar()

    def on_mount(self) -> None:
        self.wish()

    def on_unmount(self) -> None:
        if self._going is not None:
            self._going.stop()

    # --- asking

    def tell(self, error: ArcError) -> None:
        """What goes wrong stands where the sentence would."""
        if isinstance(error, OfflineMiss):
            self._missed = True
            error = OfflineMiss(error.message, "its letter again asks what it may cost")
        self.move(at="failed", trouble=error)

    def action_run_chosen(self) -> None:
        self.action_run(self.stage.chosen)

    def action_run(self, name: str) -> None:
        """Ask, after what it may cost was asked of the person."""
        self.move(chosen=name)
        if self.stage.listed.model is None:
            self.action_model()
        else:
            self.run_worker(self._submit(name), group="submit", exclusive=True, exit_on_error=False)

    async def _submit(self, name: str) -> None:
        stage, wanted = self.stage, structs.replace(self.wanted, probe=name)
        offer = stage.offered(name)
        estimate = offer.estimate if offer is not None else None
        if estimate is not None and not stage.local and (estimate.calls or self._missed):
            self._missed = False
            limits = await allowed(self.app, asking_price((str(stage.listed.model),), estimate))
            if limits is not None:
                wanted = structs.replace(wanted, live=True, limits=limits)
        self.move(at="asking", view=None, trouble=None)
        self._going = Going(
            self,
            lambda store, hold: probing(store, wanted, hold=hold),
            group="probe",
            cut_short=lambda view: view.ended is not None,
        )

    def on_moved(self, event: Moved[ProbeView]) -> None:
        self.move(view=event.view)

    def on_ended(self, event: Ended) -> None:
        self._going = None
        if event.trouble is not None:
            self.tell(event.trouble)
        else:
            self.move(at="stopped" if event.stopped else "done")
        self.list_again()  # what was answered costs nothing now

    def action_stop(self) -> None:
        if self._going is not None:
            self._going.stop()
            self.move(at="stopping")

    # --- around it

    def watch_stage(self, before: ProbeStage, stage: ProbeStage) -> None:
        if not self.is_mounted:
            return
        self.query_one("#probes").border_title = Text(stage.title)
        self.page.document = with_keys(self, probe_page(stage))
        before_keys, keys = ((each.at, each.chosen, each.listed) for each in (before, stage))
        if before_keys != keys:
            self.refresh_bindings()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        stage = self.stage
        match action, parameters:
            case "run", (str(name),):
                return stage.can(name) or None
            case "run_chosen", _:
                return stage.can(stage.chosen) or None
            case "stop", _:
                return stage.running
            case "summary", _:
                return stage.chosen in SUMMARIES and not stage.local and not stage.running
            case (("words" | "samples" | "model" | "look"), _):
                return not stage.running
            case _:
                return True

    def on_probe_rows_picked(self, event: ProbeRows.Picked) -> None:
        if not self.stage.running:
            self._look_at(event.name)

    def action_look(self, places: int) -> None:
        names = [each.name for each in self.stage.listed.offers]
        if names:
            self._look_at(names[max(0, min(self.stage.place + places, len(names) - 1))])

    def _look_at(self, name: str) -> None:
        """What a probe would do, in place of what the last one came to."""
        self.move(chosen=name, view=None, at="ready", trouble=None)

    def action_pane(self) -> None:
        self.set_focus(None if self.focused is self.page else self.page)

    def action_back(self) -> None:
        if self.stage.at == "asking":
            self.action_stop()
        elif self.focused is self.page:
            self.set_focus(None)
        else:
            self.dismiss()
