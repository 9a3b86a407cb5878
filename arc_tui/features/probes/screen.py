"""The probes of a step, over the run they are of: one letter runs one.

Each changes one thing and asks again; only what came of it names a cause. Nothing is asked of a
server but under a limit given for that one probe; what was answered is kept, and a probe that
was cut short leaves no line in the log.

What is request of the probes of a step, said in dialogs: by whom, how often, in which words.

Actions of the probe screen. Another wish is another estimate, so the probes are listed anew.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec import structs
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.getters import query_one
from textual.message import Message
from textual.reactive import reactive
from textual.screen import ModalScreen

from arc_tui.experiments.dialogs import allowed
from arc_tui.experiments.estimate import asking_price
from arc_tui.experiments.runner import BackgroundRun, JobFinished, JobProgressed
from arc_tui.features.probes.plan import ProbeRequest
from arc_tui.features.probes.run import offered, run_probe
from arc_tui.features.probes.state import EMPTY_PROBE, ProbeState
from arc_tui.features.probes.view import ProbeView
from arc_tui.features.probes.widgets import ProbeHead, ProbeRows, probe_page
from arc_tui.ui import format
from arc_tui.ui.dialogs import AskBox, Option, answered
from arc_tui.ui.key_bar import KeyBar
from arc_tui.ui.key_names import with_keys
from arc_tui.ui.page import Page
from arc_tui.ui.screen import ArcScreen
from arc_tui.views.probe_offers import ProbesView
from replay.errors import ArcError, BadEdit, OfflineMiss
from replay.models.choose import DEMO
from taxonomy.probes.symptoms import PROBES

MOST_SAMPLES = 100


class Wishing(ArcScreen):
    """Turns answers to questions into what is wanted."""

    class Listed(Message):
        """The probes of the step were found."""

        def __init__(self, listed: ProbesView) -> None:
            super().__init__()
            self.listed = listed

    state: reactive[ProbeState] = reactive(EMPTY_PROBE, repaint=False)

    def __init__(self, path: Path, request: ProbeRequest) -> None:
        super().__init__(path)
        self.request = request

    def move(self, **changes: Any) -> None:
        """The state with some of it changed."""
        self.state = structs.replace(self.state, **changes)

    def wish(self, **changes: Any) -> None:
        """Want something else, and see what it would ask."""
        self.request = request = structs.replace(self.request, **changes)
        self.move(request=request, at="loading", view=None, trouble=None)
        self.list_again()

    def list_again(self) -> None:
        """See what is wanted would ask now."""
        request = self.request
        self.ask(lambda store: offered(store, request), self.Listed, group="listed")

    def on_wishing_listed(self, event: Listed) -> None:
        """The first that fits is looked at, unless another one is."""
        first = next(iter((*event.listed.ready, *event.listed.offers)), None)
        chosen = self.state.chosen or (first.name if first is not None else "")
        at = "ready" if self.state.at == "loading" else self.state.at
        self.move(at=at, listed=event.listed, chosen=chosen)

    def action_words(self) -> None:
        self.run_worker(self._words(), group="words", exclusive=True, exit_on_error=False)

    async def _words(self) -> None:
        title = "what would have been right?"
        words = "One sentence that the agent is told before it acts; it is all that changes."
        said = await answered(
            self.app, title, str, words, answer=self.request.constraint or self._constraint
        )
        if said is not None:
            self.move(chosen="constraint")
            self.wish(constraint=said)

    @property
    def _constraint(self) -> str:
        """What the probe would say by itself, to start from."""
        found = self.state.offered("constraint")
        return format.one_line(found.text) if found is not None else ""

    def action_summary(self) -> None:
        self.wish(ask_summary=not self.request.ask_summary)

    def action_samples(self) -> None:
        self.run_worker(self._samples(), group="samples", exclusive=True, exit_on_error=False)

    async def _samples(self) -> None:
        words = f"{format.count(self.request.samples, 'sample')} now; of few none can be told"
        title, hint = "how many samples of each arm?", "a number, as 8"
        count = await answered(self.app, title, _count, words, hint=hint)
        if count is not None:
            self.wish(samples=count)

    def action_model(self) -> None:
        choices = [Option(DEMO, "rule-based, on this machine, free")]
        box = AskBox("which model?", hint="or another model's name", choices=choices)
        self.app.push_screen(box, lambda name: self.wish(model=name) if name else None)


def _count(said: str) -> int:
    """A number of samples. Raises BadEdit for anything else."""
    if said.isdecimal() and 1 <= int(said) <= MOST_SAMPLES:
        return int(said)
    raise BadEdit(f"{said!r} is no number from 1 to {MOST_SAMPLES}")


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
        super().__init__(path, ProbeRequest(trace=trace, step=step, model=model))
        self._going: BackgroundRun[ProbeRequest, ProbeView] | None = None
        self._missed = False

    def compose(self) -> ComposeResult:
        with Vertical(id="probes"):
            yield ProbeHead().data_bind(Wishing.state)
            yield ProbeRows().data_bind(Wishing.state)
            yield Page(id="probe-text")
            yield KeyBar()

    def on_mount(self) -> None:
        self.wish()

    def on_unmount(self) -> None:
        if self._going is not None:
            self._going.stop()

    # --- asking

    def show_error(self, error: ArcError) -> None:
        """What goes wrong stands where the sentence would."""
        if isinstance(error, OfflineMiss):
            self._missed = True
            error = OfflineMiss(error.message, "its letter again asks what it may cost")
        self.move(at="failed", trouble=error)

    def action_run_chosen(self) -> None:
        self.action_run(self.state.chosen)

    def action_run(self, name: str) -> None:
        """Ask, after what it may cost was asked of the person."""
        self.move(chosen=name)
        if self.state.listed.model is None:
            self.action_model()
        else:
            self.run_worker(self._submit(name), group="submit", exclusive=True, exit_on_error=False)

    async def _submit(self, name: str) -> None:
        state, request = self.state, structs.replace(self.request, probe=name)
        offer = state.offered(name)
        estimate = offer.estimate if offer is not None else None
        if estimate is not None and not state.local and (estimate.calls or self._missed):
            self._missed = False
            limits = await allowed(self.app, asking_price((str(state.listed.model),), estimate))
            if limits is not None:
                request = structs.replace(request, live=True, limits=limits)
        self.move(at="asking", view=None, trouble=None)
        self._going = BackgroundRun(
            self,
            run_probe,
            request,
            cut_short=lambda view: view.ended is not None,
        )

    def on_job_progressed(self, event: JobProgressed[ProbeView]) -> None:
        self.move(view=event.view)

    def on_job_finished(self, event: JobFinished) -> None:
        self._going = None
        if event.trouble is not None:
            self.show_error(event.trouble)
        else:
            self.move(at="stopped" if event.stopped else "done")
        self.list_again()  # what was answered costs nothing now

    def action_stop(self) -> None:
        if self._going is not None:
            self._going.stop()
            self.move(at="stopping")

    # --- around it

    def watch_state(self, before: ProbeState, state: ProbeState) -> None:
        if not self.is_mounted:
            return
        self.query_one("#probes").border_title = Text(state.title)
        self.page.document = with_keys(self, probe_page(state))
        before_keys, keys = ((each.at, each.chosen, each.listed) for each in (before, state))
        if before_keys != keys:
            self.refresh_bindings()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        state = self.state
        match action, parameters:
            case "run", (str(name),):
                return state.can(name) or None
            case "run_chosen", _:
                return state.can(state.chosen) or None
            case "stop", _:
                return state.running
            case "summary", _:
                return state.chosen in SUMMARIES and not state.local and not state.running
            case (("words" | "samples" | "model" | "look"), _):
                return not state.running
            case _:
                return True

    def on_probe_rows_picked(self, event: ProbeRows.Picked) -> None:
        if not self.state.running:
            self._look_at(event.name)

    def action_look(self, places: int) -> None:
        names = [each.name for each in self.state.listed.offers]
        if names:
            self._look_at(names[max(0, min(self.state.place + places, len(names) - 1))])

    def _look_at(self, name: str) -> None:
        """What a probe would do, in place of what the last one came to."""
        self.move(chosen=name, view=None, at="ready", trouble=None)

    def action_pane(self) -> None:
        self.set_focus(None if self.focused is self.page else self.page)

    def action_back(self) -> None:
        if self.state.at == "asking":
            self.action_stop()
        elif self.focused is self.page:
            self.set_focus(None)
        else:
            self.dismiss()
