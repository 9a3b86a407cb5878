"""The screen of an experiment: what a run would ask, the leave to ask it, the run, its end.

A feature's screen says what to estimate and what to run; the dialogs, the actions every experiment
has and the messages between its worker and the screen are written here. So are its first and last
lines: what is known and what stands against it; how far a run is, and what it may cost.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from msgspec import structs
from rich.text import Text
from textual.binding import Binding
from textual.message import Message
from textual.reactive import reactive
from textual.worker import Worker
from typing_extensions import override

from arc_tui.experiments.dialogs import allowed, edit_option
from arc_tui.experiments.models import Spending, configured_words
from arc_tui.experiments.progress import ExperimentState
from arc_tui.experiments.request import MOST_SAMPLES, CostEstimate, ExperimentRequest, Run
from arc_tui.experiments.runner import BackgroundRun, JobFinished, JobProgressed
from arc_tui.ui import format
from arc_tui.ui.bindings import bind
from arc_tui.ui.dialogs import AskBox, Option
from arc_tui.ui.format import spread
from arc_tui.ui.keys import stops, write_keys
from arc_tui.ui.screen import ArcScreen
from arc_tui.ui.styles import (
    BAR,
    MOST,
    TALL,
    StyledWidget,
    SummaryLines,
    fold_sentence,
    notice_lines,
    progress_bar,
)
from replay.budget import Limits
from replay.edit.changes import Edit
from replay.errors import ArcError, BadEdit, OfflineMiss
from replay.models.choose import DEMO
from replay.store.edits import KeptEdit, edit_named, listed
from replay.store.handle import Store

S = TypeVar("S", bound=ExperimentState)
T = TypeVar("T")
R = TypeVar("R", bound=ExperimentRequest)
View = TypeVar("View")


def run_key(
    name: str,
    tooltip: str,
    *,
    action: str = "run",
    label: str = "",
    group: Binding.Group | None = None,
) -> Binding:
    """The key that runs the experiment of that name."""
    return bind("r", action, id=f"{name}.run", label=label, group=group, tooltip=tooltip)


def stop_key(name: str) -> Binding:
    return bind("x", "stop", id=f"{name}.stop", tooltip="Stop the run; completed calls are saved")


def samples_key(name: str, tooltip: str) -> Binding:
    return bind("s", "samples", id=f"{name}.samples", tooltip=tooltip)


def model_key(name: str, tooltip: str = "Choose the model") -> Binding:
    return bind("m", "model", id=f"{name}.model", tooltip=tooltip)


def sample_count(typed: str) -> int:
    """A number of samples. Raises BadEdit for anything else."""
    if typed.isdecimal() and 1 <= int(typed) <= MOST_SAMPLES:
        return int(typed)
    raise BadEdit(f"{typed!r} is not a number from 1 to {MOST_SAMPLES}")


class Answered(Message):
    """What a worker read of the database is there."""

    def __init__(self, take: Callable[[], None]) -> None:
        super().__init__()
        self.take = take


class ExperimentScreen(ArcScreen, Generic[S]):
    """One experiment. `request` is what the next run asks, `S` is what is drawn."""

    MODEL_QUESTION: ClassVar[str] = "which model?"
    MISS_HINT: ClassVar[str] = ""
    """What to do where stored answers did not do."""

    AT_REST: ClassVar[frozenset[str]] = frozenset({"run", "model", "samples"})
    """Actions that wait until a run is over."""

    state: reactive[S]

    def __init__(self, path: Path, request: ExperimentRequest) -> None:
        super().__init__(path)
        self.request = request
        self._job: BackgroundRun[Any, Any] | None = None
        self._missed = False

    def on_unmount(self) -> None:
        if self._job is not None:
            self._job.stop()

    def change(self, **changes: Any) -> None:
        """The state with some of it changed."""
        self.state = structs.replace(self.state, **changes)

    def read(
        self, question: Callable[[Store], T], take: Callable[[T], None], *, group: str
    ) -> Worker[None]:
        """Ask the database in a worker; `take` gets the answer when its message is handled."""
        return self.ask(question, lambda found: Answered(partial(take, found)), group=group)

    def on_answered(self, event: Answered) -> None:
        event.take()

    def submit(self, work: Coroutine[Any, Any, None]) -> None:
        """Ask a person what is open, in a worker; the last one counts."""
        self.run_worker(work, group="submit", exclusive=True, exit_on_error=False)

    # --- what is asked

    def change_request(self, **changes: Any) -> None:
        """Ask something else, and see what that would be."""
        self.request = structs.replace(self.request, **changes)
        self.request_changed()

    def request_changed(self) -> None:
        """Draw the new request, and estimate it."""
        raise NotImplementedError

    @property
    def recorded_model(self) -> str | None:
        """The model the run was recorded with, where it can be chosen."""
        return None

    def action_model(self) -> None:
        recorded = self.recorded_model
        choices = [] if recorded in (None, DEMO) else [Option(str(recorded), "the recorded model")]
        choices += [Option(*each) for each in configured_words()]
        choices.append(Option(DEMO, "rule-based, local, free"))
        hint = "or another name, as openai:gpt-4o or claude-opus-5"
        box = AskBox(self.MODEL_QUESTION, hint=hint, choices=choices)
        self.app.push_screen(box, lambda name: self.model_chosen(name) if name else None)

    def model_chosen(self, name: str) -> None:
        self.change_request(model=name)

    def pick_edit(
        self, title: str, take: Callable[[Edit | None], None], none: Option | None = None
    ) -> None:
        """Have a person choose a kept edit, or name one of a file. `take` gets it, and None for the
        option `none`."""

        def choose(kept: tuple[KeptEdit, ...]) -> None:
            hint = "or a file: a system prompt (.md, .txt) or changes (.toml)"
            first = [] if none is None else [none]
            box = AskBox(title, hint=hint, choices=[*first, *map(edit_option, kept)])
            self.app.push_screen(box, find)

        def find(word: str | None) -> None:
            if none is not None and word == none.answer:
                take(None)
            elif word is not None:
                self.read(lambda store: edit_named(store, word), take, group="edits")

        self.read(lambda store: tuple(listed(store)), choose, group="edits")

    # --- the run

    async def ask_permission(self, request: R, estimate: CostEstimate) -> R:
        """The request with leave to ask a server, under a limit that a person gives; as it is where
        it needs none, or where they leave. From a worker."""
        if estimate.is_free or not (estimate.asks or self._missed):
            return request
        self._missed = False
        limits = await allowed(self.app, estimate.question(), estimate.models)
        return request if limits is None else structs.replace(request, live=True, limits=limits)

    def start(
        self,
        run: Run[R, View],
        request: R,
        *,
        cut_short: Callable[[View], bool] = lambda _: False,
    ) -> None:
        """Run it in the background. A view that is `cut_short` is the last one."""
        self._job = BackgroundRun(self, run, request, cut_short=cut_short)

    @property
    def spending(self) -> Spending | None:
        """What the run has spent by this moment, None where none goes on."""
        return self._job.spending if self._job is not None else None

    def on_job_progressed(self, event: JobProgressed[object]) -> None:
        phase = "stopping" if self.state.phase == "stopping" else "running"
        self.change(phase=phase, view=event.view)

    def on_job_finished(self, event: JobFinished) -> None:
        self._job = None
        self.show_end(event)

    def show_end(self, event: JobFinished) -> None:
        """Draw how a run ended."""
        if event.trouble is not None:
            self.show_error(event.trouble)
        else:
            self.change(phase="stopped" if event.stopped else "done")

    def show_error(self, error: ArcError) -> None:
        """What goes wrong stands where the result would."""
        if isinstance(error, OfflineMiss):
            self._missed = True
            error = OfflineMiss(error.message, self.MISS_HINT)
        self.change(phase="failed", trouble=error)

    def action_stop(self) -> None:
        if self._job is not None:
            self._job.stop()
            self.change(phase="stopping")

    # --- around it

    @property
    @override
    def has_job(self) -> bool:
        return self.state.running

    def watch_state(self, before: S, state: S) -> None:
        if before.phase != state.phase:
            self.refresh_bindings()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        del parameters
        if action == "stop":
            return self.state.running
        return action not in self.AT_REST or not self.state.running

    def action_back(self) -> None:
        self.leave()

    def leave(self) -> None:
        """Back to where this was opened from, unless a run would end with the screen."""
        if self.state.phase == "running":
            stop = next(each.id for _, each in self._bindings if each.action == "stop")
            self.say(f"A run is in progress. {self.key_of(str(stop))} stops it.")
        else:
            self.dismiss()


class ExperimentHead(SummaryLines, Generic[S]):
    """What is asked, the first sentence in bold, what it means, and what stands against it."""

    STYLES = {
        "title": "$quiet",
        "first": "bold",
        "trouble": "bold $bad",
        "notice": "$warning",
        "basis": "$quiet",
    }
    TYPING: ClassVar[bool] = False
    """Are letters typed on this screen? Then sentences name keys that are none."""

    TITLE_LINES: ClassVar[int] = MOST
    """Lines that the title may take."""

    state: reactive[S]

    @override
    def lines(self, width: int) -> list[Text]:
        return self.styled_lines(self.parts(width))

    def parts(self, width: int) -> Iterator[tuple[str, list[str]]]:
        """Lines by the name of their ink, from above."""
        yield from self.sentences(width)
        yield self.warnings(width)

    def sentences(self, width: int) -> Iterator[tuple[str, list[str]]]:
        """The title, the first sentence, and those after it."""
        if self.state.title:
            yield "title", fold_sentence(self.state.title, width)[: self.TITLE_LINES]
        first, *more = map(self.with_keys, self.state.lines)
        yield "first" if self.state.trouble is None else "trouble", fold_sentence(first, width)
        for each in more:
            yield "", fold_sentence(each, width)

    def warnings(self, width: int) -> tuple[str, list[str]]:
        """What stands against it."""
        return "notice", notice_lines(map(self.with_keys, self.state.notices), width)

    def with_keys(self, words: str) -> str:
        """Words with the keys that they name."""
        return write_keys(self.screen, words, typing=self.TYPING)

    @property
    def is_tall(self) -> bool:
        """Is there a place for what the sentences rest on?"""
        return self.app.size.height >= TALL


class ExperimentFooter(StyledWidget, Generic[S]):
    """How far a run is and the key that stops it; figures while none goes on."""

    ALLOW_SELECT = False
    STYLES = {"done": "$primary", "left": "$line", "figures": "$quiet"}
    STOP: ClassVar[str]
    """The binding that stops the run."""

    state: reactive[S]

    def render(self) -> Text:
        state, width = self.state, self.content_size.width
        if not state.running:
            return self.figures(width)
        ends = stops(self.screen, self.STOP, stopping=state.phase == "stopping")
        return spread(self.progress(width), Text(ends), width)

    def progress(self, width: int) -> Text:
        """How far the run is."""
        raise NotImplementedError

    def figures(self, width: int) -> Text:
        """Which model was called and what that cost."""
        raise NotImplementedError

    def bar(self, done: int, total: int, words: str, cells: int = BAR) -> Text:
        """A bar, and the words beside it."""
        drawn = progress_bar(done, total, self.style_of("done"), self.style_of("left"), cells)
        return drawn.append(f"  {words}")


def limit_words(limits: Limits) -> str:
    """What may be spent in all, after what was: ` of $0.50`; "" without a limit."""
    if limits.usd is not None:
        return f" of {format.usd(limits.usd)}"
    return f" of {format.count(limits.calls, 'call')}" if limits.calls is not None else ""
