"""The screen of an edit test: an edit on every run behind a bar, at the step where each broke, and
at healthy steps, a row each, with both arms. Above them the rates and notices.

Nothing is asked before a person says so, and of a server only under a limit given for that one
try.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

from msgspec import structs
from rich.cells import cell_len
from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.getters import query_one
from textual.reactive import reactive
from typing_extensions import override

from arc_tui.experiments.progress import ExperimentState, as_sentence, progress_line
from arc_tui.experiments.request import CostEstimate
from arc_tui.experiments.screen import (
    ExperimentFooter,
    ExperimentHead,
    ExperimentScreen,
    model_key,
    run_key,
    samples_key,
    stop_key,
)
from arc_tui.features.edit_test import view as views
from arc_tui.features.edit_test.plan import SavedEditTest, estimate_cost, newest_prompt
from arc_tui.features.edit_test.run import run_edit_test
from arc_tui.features.edit_test.text import (
    COUNTED_AT_STEPS,
    arms,
    basis,
    counted_at_breaks,
    effect_words,
    extent,
    headline,
    mark,
    moment,
    notices,
    sentence,
    spent,
    whom,
)
from arc_tui.features.edit_test.view import (
    EditTestRequest,
    EditTestView,
    TestedRun,
    TestedStep,
    build_edit_test,
)
from arc_tui.navigation import OpenTrace
from arc_tui.ui import format
from arc_tui.ui.bindings import bind
from arc_tui.ui.dialogs import AskBox
from arc_tui.ui.editor import edit_in_terminal
from arc_tui.ui.format import cost, fit, spread
from arc_tui.ui.keys import KeyBar
from arc_tui.ui.list import RowList
from arc_tui.ui.styles import fold_sentence
from replay.edit.changes import Edit, SetSystem
from replay.errors import ArcError
from replay.models.choose import label
from replay.store.edits import short
from replay.store.handle import Store

# --- where it stands

NO_EDIT = "No edit yet. ‹try.choose› choose an edit or a file, ‹try.editor› write one."


class EditTestEstimate(CostEstimate, frozen=True, eq=False, kw_only=True):
    """The runs and steps a try reaches, and what asking them would come to; before there is an edit
    that is not known.

    `prompt` is the newest run's, to start an edit from. `before` is what the same edit came to on
    the same runs, where that was tried.
    """

    view: EditTestView
    prompt: str
    before: SavedEditTest | None = None

    @property
    def shown(self) -> EditTestView:
        """What is known without asking: what was tried before, else what would be."""
        return self.view if self.before is None else self.before.view


def build_estimate(store: Store, request: EditTestRequest) -> EditTestEstimate:
    """The estimate of a try. Asks nothing. Raises as `plan_edit_test` does."""
    plan, models, estimate, before = estimate_cost(store, request)
    return EditTestEstimate(
        models=models,
        calls=estimate if request.edit is not None else None,
        view=build_edit_test(request, plan),
        prompt=newest_prompt(store, plan),
        before=before,
    )


class EditTestState(ExperimentState, frozen=True, eq=False, kw_only=True):
    """A request, what it would ask, what was asked so far, and how that ended."""

    request: EditTestRequest
    estimate: EditTestEstimate | None = None
    view: EditTestView = views.EMPTY

    @property
    def title(self) -> str:
        """The edit and what it is tried on."""
        edit = self.request.edit
        named = format.one_line(edit.name) if edit is not None else "an edit"
        return f"test {named} on {format.one_line(self.request.query)}"

    @property
    def lines(self) -> tuple[str, ...]:
        """The rates, then what they mean."""
        if self.trouble is not None:
            kept = "Completed calls are saved." if self.view.done else ""
            return (f"{as_sentence(self.trouble.message)} {kept}".rstrip(),)
        if self.phase == "estimating":
            return ("Finding runs and steps.",)
        if self.phase == "idle":
            return (*self._tested_before, self._estimate_sentence)
        if self.running:
            so_far = f"So far: {headline(self.view)}" if self.view.done else ""
            return (so_far or "Testing the first run.",)
        stopped = "Stopped. Completed calls are saved." if self.phase == "stopped" else ""
        if not self.view.done:
            return (stopped or "No step was tested.",)
        return f"{stopped} {headline(self.view)}".lstrip(), sentence(self.view)

    @property
    def _tested_before(self) -> tuple[str, ...]:
        """What is kept of the same try, with its day."""
        if self.estimate is None or self.estimate.before is None:
            return ()
        before = self.estimate.before
        when = f"Tested {moment(before.ran_ns)}"
        return f"{when}: {headline(before.view)}", sentence(before.view)

    @property
    def _estimate_sentence(self) -> str:
        if self.estimate is None or self.estimate.calls is None:
            return NO_EDIT
        estimate, models = self.estimate.calls, self.estimate.models
        whom = ", ".join(format.one_line(label(name)) for name in models)
        what = f"‹try.run› test with {whom}: {extent(self.estimate.view, estimate)}"
        if not estimate.calls:
            return f"{what}."
        limited = f"{cost(estimate)}; the run asks for a limit first"
        return f"{what}, {'free' if self.estimate.is_free else limited}."

    @property
    def notices(self) -> tuple[str, ...]:
        """What a reader must know besides."""
        said = notices(self.view)
        hint = self.trouble.hint if self.trouble is not None else ""
        return (format.one_line(hint), *said) if hint else said

    @property
    def basis(self) -> tuple[str, ...]:
        """By which rules the rates are counted, where there are some."""
        return basis(self.view) if self.view.done and not self.running else ()


EMPTY = EditTestState(request=EditTestRequest(edit=None))


# --- its parts

Row: TypeAlias = TestedRun | TestedStep

MARK, STEP, ARM = 14, 4, 7
MOST_RUN = 28
WIDE = 100
"""Cells from which on what was recorded has a place beside what the edit does."""


class EditTestList(RowList):
    """Runs by task, under a heading the healthy steps; enter opens one where it is asked."""

    HELP = "the tested runs"
    HEAD = 1
    STYLES = {
        "good": "bold $good",
        "bad": "bold $bad",
        "open": "$secondary",
        "quiet": "$quiet",
        "heading": "$quiet",
    }

    BINDINGS = [
        bind("enter", "open", id="try.open",
             tooltip="Open the run under the cursor at the step that is tested"),
    ]  # fmt: skip

    state: reactive[EditTestState] = reactive(EMPTY, repaint=False)

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._rows: tuple[Row | str, ...] = ()
        self._widest = 0

    @property
    def row(self) -> Row | None:
        """The row under the cursor."""
        row = self._rows[self.cursor] if self.cursor < len(self._rows) else ""
        return None if isinstance(row, str) else row

    @property
    def row_count(self) -> int:
        return len(self._rows)

    def watch_state(self, before: EditTestState, state: EditTestState) -> None:
        if before.view is state.view:
            return
        runs, steps = state.view.runs, state.view.steps
        rows: list[Row | str] = []
        if runs:
            rows += [f"at the break: {counted_at_breaks(state.view)}", *runs]
        if steps:
            rows += [f"at healthy steps: {COUNTED_AT_STEPS}", *steps]
        self._rows = tuple(rows)
        names = [*(row.run for row in runs), *(row.run for row in steps)]
        self._widest = min(max(map(cell_len, names), default=0), MOST_RUN)
        self.rows_changed()

    @override
    def validate_cursor(self, cursor: int) -> int:
        """The cursor skips headings."""
        at = super().validate_cursor(cursor)
        if at < len(self._rows) and isinstance(self._rows[at], str):
            at += -1 if 0 < at < self.cursor else 1
        return at

    @override
    def draw_head(self, line: int, width: int) -> Text:
        del line
        cells = (fit("", MARK), fit("run", self._room(width)), fit("step", STEP, right=True))
        arms_ = (fit("control", ARM, right=True), fit("edited", ARM, right=True))
        last = "edited action" if self.state.view.done else "why this step"
        return Text(" " + "  ".join((*cells, *arms_, last)))

    @override
    def draw(self, index: int, width: int) -> Text:
        row = self._rows[index]
        if isinstance(row, str):
            return Text(fit(f" {row}", width).rstrip(), self.style_of("heading"))
        control, edited = arms(row)
        line = Text.assemble(
            " ",
            (fit(mark(row), MARK), self.style_of(_style_name(row))),
            f"  {fit(row.run, self._room(width))}  ",
            (f"{row.step:>{STEP}}", self.style_of("quiet")),
            f"  {control:>{ARM}}  {edited:>{ARM}}  ",
        )
        style = self.style_of("quiet") if row.why else ""
        return line.append(_did(row, width - line.cell_len, wide=width >= WIDE).rstrip(), style)

    def _room(self, width: int) -> int:
        """Cells of what a run is called: a quarter of the line at most."""
        return min(self._widest, width // 4)

    def action_open(self) -> None:
        row = self.row
        if row is not None:
            self.post_message(OpenTrace(row.trace, row.step))

    def on_click(self, event: events.Click) -> None:
        if event.chain == 2 and self.row_at(event.y - self.gutter.top) is not None:
            self.action_open()


def _style_name(row: Row) -> str:
    match row.ruling if isinstance(row, TestedRun) else row.effect:
        case "fixed":
            return "good"
        case "not fixed" | "broke":
            return "bad"
        case "unknown" | "inconclusive" | "changed":
            return "open"
        case _:
            return "quiet"


def _did(row: Row, room: int, *, wide: bool) -> str:
    """What the edit does there, after what was recorded where that is something else."""
    told = effect_words(row) or _whence(row)
    recorded = format.one_line(row.recorded)
    if not wide or row.why or not row.did or recorded == told:
        return fit(told, room)
    before = fit(recorded, min(cell_len(recorded), (room - 3) // 2))
    return f"{before} → {fit(told, room - cell_len(before) - 3)}"


def _whence(row: Row) -> str:
    """Why it is asked there, before it was."""
    if isinstance(row, TestedRun):
        return format.one_line(row.by)
    return "run passed" if row.passed else "before the break"


class EditTestHead(ExperimentHead[EditTestState]):
    """The rates and what they mean; in a tall terminal, the rules too."""

    state: reactive[EditTestState] = reactive(EMPTY, layout=True)

    @override
    def parts(self, width: int) -> Iterator[tuple[str, list[str]]]:
        yield from super().parts(width)
        for each in self.state.basis if self.is_tall else ():
            yield "basis", fold_sentence(each, width)


class EditTestFoot(ExperimentFooter[EditTestState]):
    """Steps that are in, then who was asked."""

    STOP = "try.stop"

    state: reactive[EditTestState] = reactive(EMPTY)

    @override
    def progress(self, width: int) -> Text:
        view = self.state.view
        limits = self.state.request.limits
        words = progress_line("Testing step", view.done, view.total, view.spent.spending, limits)
        return self.bar(view.done, view.total, words)

    @override
    def figures(self, width: int) -> Text:
        view = self.state.view
        said = (
            " · ".join(filter(None, (whom(view), spent(view, self.state.request.limits))))
            if view.done
            else ""
        )
        return spread(Text(said, self.style_of("figures")), Text(""), width)


# --- the screen

MOST = {"samples": 100, "controls": 1000}


class EditTestScreen(ExperimentScreen[EditTestState]):
    """One edit tried on the runs behind a bar."""

    CSS_PATH = "screen.tcss"
    HELP = "an edit test"
    MISS_HINT = "‹try.run› run again with a limit"
    AT_REST = ExperimentScreen.AT_REST | {"choose", "controls", "editor"}

    BINDINGS = [
        run_key("try", "Call the model at every break and at the healthy steps, both arms"),
        stop_key("try"),
        bind("o", "choose", id="try.choose", label="choose edit",
             tooltip="Choose a saved edit, or a file with a system prompt or changes"),
        bind("E", "editor", id="try.editor",
             tooltip="Edit the newest run's system prompt in your own editor"),
        samples_key("try", "Choose the number of samples of each request"),
        bind("H", "controls", id="try.controls",
             tooltip="Choose how many healthy steps are tested beside the runs"),
        model_key("try"),
        bind("esc", "back", id="try.back", tooltip="Back to where you came from"),
    ]  # fmt: skip

    state: reactive[EditTestState] = reactive(EMPTY, repaint=False)
    request: EditTestRequest

    rows = query_one(EditTestList)

    def __init__(
        self, path: Path, label: str, traces: Sequence[str], edit: Edit | None = None
    ) -> None:
        """`label` says what the runs have in common."""
        super().__init__(path, EditTestRequest(edit=edit, query=label, traces=tuple(traces)))

    def compose(self) -> ComposeResult:
        yield EditTestHead().data_bind(EditTestScreen.state)
        yield EditTestList(id="tried").data_bind(EditTestScreen.state)
        yield EditTestFoot().data_bind(EditTestScreen.state)
        yield KeyBar()

    def on_mount(self) -> None:
        self.rows.focus()
        self.request_changed()

    # --- what is asked

    def request_changed(self) -> None:
        self.state = EditTestState(request=self.request)
        request = self.request
        self.read(
            lambda store: build_estimate(store, request), self._show_estimate, group="estimate"
        )

    def _show_estimate(self, estimate: EditTestEstimate) -> None:
        self.change(phase="idle", estimate=estimate, view=estimate.shown, trouble=None)

    def action_choose(self) -> None:
        self.pick_edit("which edit?", lambda edit: self.change_request(edit=edit))

    def action_editor(self) -> None:
        estimate = self.state.estimate
        if estimate is None:
            return
        try:
            text = edit_in_terminal(self.app, estimate.prompt)
        except ArcError as error:
            self.show_error(error)
            return
        if text != estimate.prompt:
            edit = Edit(name="", changes=(SetSystem(text),))
            self.change_request(edit=structs.replace(edit, name=f"prompt {short(edit.digest)}"))

    def action_samples(self) -> None:
        words = f"now {format.count(self.request.samples, 'sample')} per request"
        box = AskBox("samples per request", words, hint="a number, such as 5")
        self.app.push_screen(box, lambda typed: self._count("samples", typed))

    def action_controls(self) -> None:
        words = f"now at most {format.count(self.request.controls, 'healthy step')}"
        box = AskBox("healthy steps", words, hint="a number, such as 40")
        self.app.push_screen(box, lambda typed: self._count("controls", typed))

    def _count(self, what: str, typed: str | None) -> None:
        """A number of samples from 1, or of healthy steps from 0."""
        if typed is None:
            return
        if typed.isdecimal() and (int(typed) or what == "controls"):
            self.change_request(**{what: min(int(typed), MOST[what])})
        else:
            least = 0 if what == "controls" else 1
            self.say(f"{typed!r} is not a number from {least}", severity="error")

    # --- the run

    def action_run(self) -> None:
        """Ask, after what it may cost was asked of the person."""
        if self.request.edit is None:
            self.action_choose()
        elif not self.state.running and self.state.estimate is not None:
            self.submit(self._submit(self.state.estimate))

    async def _submit(self, estimate: EditTestEstimate) -> None:
        request = await self.ask_permission(self.request, estimate)
        view = estimate.view if self.state.phase == "idle" else self.state.view
        self.change(phase="running", request=request, view=view, trouble=None)
        self.start(run_edit_test, request, cut_short=lambda view: view.ended is not None)

    # --- around it

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "editor" and self.state.estimate is None:
            return False
        return super().check_action(action, parameters)
