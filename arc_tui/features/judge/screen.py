"""The screen on which a judge suggests classes for runs: what it would cost, a row a run as its
answer comes, what was dropped. Nothing is asked before a person says so and sets a limit.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.getters import query_one
from textual.reactive import reactive
from typing_extensions import override

from arc_tui.experiments.models import spending_of
from arc_tui.experiments.progress import (
    ExperimentState,
    as_sentence,
    progress_line,
    spending_line,
)
from arc_tui.experiments.request import CostEstimate
from arc_tui.experiments.screen import (
    ExperimentFooter,
    ExperimentHead,
    ExperimentScreen,
    model_key,
    run_key,
    stop_key,
)
from arc_tui.features.judge.classify import (
    CONFORMANCE,
    ClassifyRequest,
    ClassifyView,
    classes_line,
    estimate_classify,
    row_text,
    run_classify,
)
from arc_tui.navigation import OpenTrace
from arc_tui.ui import format
from arc_tui.ui.bindings import bind
from arc_tui.ui.format import cost, fit
from arc_tui.ui.keys import KeyBar
from arc_tui.ui.list import RowList
from replay.models.choose import label
from replay.store.handle import Store
from taxonomy.judge.classify import Classified

NO_JUDGE = "No judge yet. ‹classify.model› choose a model, of another family than the agent's."


class ClassifyEstimate(CostEstimate, frozen=True, eq=False, kw_only=True):
    """What classifying would come to; not known before there is a judge."""


def build_estimate(store: Store, request: ClassifyRequest) -> ClassifyEstimate:
    """The estimate of a request. Asks nothing."""
    if not request.model:
        return ClassifyEstimate()
    return ClassifyEstimate(models=(request.model,), calls=estimate_classify(store, request))


EMPTY_VIEW = ClassifyView(judge="", server="", by="", trust="")


class ClassifyState(ExperimentState, frozen=True, eq=False, kw_only=True):
    """A request, what it would ask, what was said so far, and how that ended."""

    request: ClassifyRequest
    named: str = ""
    estimate: ClassifyEstimate | None = None
    view: ClassifyView = EMPTY_VIEW

    @property
    def title(self) -> str:
        """The runs that are classified."""
        runs = format.count(len(self.request.traces), "run")
        return f"classify with a judge: {format.one_line(self.named)}, {runs}"

    @property
    def lines(self) -> tuple[str, ...]:
        if self.trouble is not None:
            kept = "Completed calls are saved." if self.view.done else ""
            return (f"{as_sentence(self.trouble.message)} {kept}".rstrip(),)
        if self.phase == "estimating":
            return ("Estimating.",)
        if self.phase == "idle":
            return (self._estimate_sentence,)
        runs = format.count(len(self.request.traces), "run")
        found = f"{self.view.count('suggested')} of {runs} classified"
        stopped = "Stopped. Completed calls are saved. " if self.phase == "stopped" else ""
        classes = classes_line(self.view)
        return (f"{stopped}{found}.", *((classes,) if classes else ()))

    @property
    def _estimate_sentence(self) -> str:
        if self.estimate is None or self.estimate.calls is None:
            return NO_JUDGE
        calls = self.estimate.calls
        if self.estimate.is_free:
            return f"‹classify.run› shows the rules' own findings. {CONFORMANCE}."
        whom = ", ".join(format.one_line(label(name)) for name in self.estimate.models)
        stored = f"{format.number(calls.stored)} cached"
        if not calls.calls:
            return f"‹classify.run› asks {whom}: no call, {stored}."
        return (
            f"‹classify.run› asks {whom}: {format.count(calls.calls, 'call')}, {stored},"
            f" {format.tokens(calls.input_tokens)} tokens in, {cost(calls)}; the run asks for a"
            " limit first."
        )

    @property
    def notices(self) -> tuple[str, ...]:
        hint = self.trouble.hint if self.trouble is not None else ""
        dropped = self.view.quotes_dropped
        said = (f"{format.count(dropped, 'quote')} not found where cited, dropped",)
        return tuple(
            format.one_line(each)
            for each in ((hint,) if hint else ()) + self.view.notices + (said if dropped else ())
        )


EMPTY = ClassifyState(request=ClassifyRequest(traces=()))

ID, STEP, CLASS, WHOSE = 8, 4, 28, 11


class ClassifiedList(RowList):
    """A row a run, as its answer comes; enter opens it at the step."""

    HELP = "the classified runs"
    HEAD = 1
    STYLES = {"suggested": "$candidate", "quiet": "$quiet"}

    BINDINGS = [
        bind("enter", "open", id="classify.open", tooltip="Open the run at the suggested step"),
    ]  # fmt: skip

    state: reactive[ClassifyState] = reactive(EMPTY, repaint=False)

    @property
    def row_count(self) -> int:
        return len(self.state.view.rows)

    def watch_state(self, before: ClassifyState, state: ClassifyState) -> None:
        if before.view is not state.view:
            self.rows_changed()

    @property
    def row(self) -> Classified | None:
        """The row under the cursor."""
        rows = self.state.view.rows
        return rows[self.cursor] if self.cursor < len(rows) else None

    @override
    def draw_head(self, line: int, width: int) -> Text:
        del line
        cells = (fit("id", ID), fit("step", STEP, right=True), fit("class", CLASS),
                 fit("attribution", WHOSE))  # fmt: skip
        return Text(fit(" " + "  ".join((*cells, "reason")), width).rstrip())

    @override
    def draw(self, index: int, width: int) -> Text:
        row = self.state.view.rows[index]
        step, name, whose, reason = row_text(row)
        cells = (fit(row.trace[:ID], ID), fit(step, STEP, right=True),
                 fit(format.one_line(name), CLASS), fit(whose, WHOSE))  # fmt: skip
        before = " " + "  ".join(cells) + "  "
        line = before + format.one_line(reason)
        style = "" if row.suggestion is not None else self.style_of("quiet")
        return Text(fit(line, width).rstrip(), style)

    def action_open(self) -> None:
        row = self.row
        if row is not None:
            self.post_message(OpenTrace(row.trace, row.suggestion.step if row.suggestion else 0))

    def on_click(self, event: events.Click) -> None:
        if event.chain == 2 and self.row_at(event.y - self.gutter.top) is not None:
            self.action_open()


class ClassifyHead(ExperimentHead[ClassifyState]):
    """What is classified, what it would cost or came to, and what stands against it."""

    state: reactive[ClassifyState] = reactive(EMPTY, layout=True)


class ClassifyFoot(ExperimentFooter[ClassifyState]):
    """Runs that are in, then who was asked and how its suggestions stand."""

    STOP = "classify.stop"

    state: reactive[ClassifyState] = reactive(EMPTY)

    @override
    def progress(self, width: int) -> Text:
        view = self.state.view
        total = view.total or len(self.state.request.traces)
        limits = self.state.request.limits
        words = progress_line("Classifying run", view.done, total, spending_of(view), limits)
        return self.bar(view.done, total, words)

    @override
    def figures(self, width: int) -> Text:
        view = self.state.view
        said = ""
        if view.done:
            parts = (f"judge {view.judge}", view.trust, spending_line(spending_of(view)))
            said = " · ".join(map(format.one_line, filter(None, parts)))
        return Text(fit(said, width).rstrip(), self.style_of("figures"))


class ClassifyScreen(ExperimentScreen[ClassifyState]):
    """A judge's classes of some runs."""

    CSS_PATH = "screen.tcss"
    HELP = "classifying with a judge"
    MODEL_QUESTION = "which judge?"
    MISS_HINT = "‹classify.run› run again with a limit"

    BINDINGS = [
        run_key("classify", "Ask the judge for the class of every run"),
        stop_key("classify"),
        model_key("classify", "Choose the judge"),
        bind("esc", "back", id="classify.back", tooltip="Back to where you came from"),
    ]  # fmt: skip

    state: reactive[ClassifyState] = reactive(EMPTY, repaint=False)
    request: ClassifyRequest

    rows = query_one(ClassifiedList)

    def __init__(self, path: Path, named: str, traces: Sequence[str]) -> None:
        """`named` says what the runs have in common."""
        super().__init__(path, ClassifyRequest(traces=tuple(traces)))
        self._named = named

    def compose(self) -> ComposeResult:
        yield ClassifyHead().data_bind(ClassifyScreen.state)
        yield ClassifiedList(id="classified").data_bind(ClassifyScreen.state)
        yield ClassifyFoot().data_bind(ClassifyScreen.state)
        yield KeyBar()

    def on_mount(self) -> None:
        self.rows.focus()
        self.request_changed()

    def request_changed(self) -> None:
        self.state = ClassifyState(request=self.request, named=self._named)
        request = self.request
        self.read(
            lambda store: build_estimate(store, request), self._show_estimate, group="estimate"
        )

    def _show_estimate(self, estimate: ClassifyEstimate) -> None:
        self.change(phase="idle", estimate=estimate, trouble=None)

    def action_run(self) -> None:
        """Ask, after what it may cost was asked of the person."""
        if not self.request.model:
            self.action_model()
        elif not self.state.running and self.state.estimate is not None:
            self.submit(self._submit(self.state.estimate))

    async def _submit(self, estimate: ClassifyEstimate) -> None:
        request = await self.ask_permission(self.request, estimate)
        self.change(phase="running", request=request, view=EMPTY_VIEW, trouble=None)
        self.start(run_classify, request)
