"""The screen of suggested edits: one a row with what came of it, below them the diff and the
evidence of the row under the cursor; enter puts it into the replay editor.

Nothing is asked before a person says so, and of a server only under a limit given for that one
test. Nothing is saved before a person names it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import structs
from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.getters import query_one
from textual.reactive import reactive
from typing_extensions import override

from arc_tui.experiments.edits import diff_page
from arc_tui.experiments.models import configured_words
from arc_tui.experiments.progress import ExperimentState, as_sentence, progress_line
from arc_tui.experiments.request import CostEstimate
from arc_tui.experiments.screen import (
    ExperimentFooter,
    ExperimentHead,
    ExperimentScreen,
    model_key,
    run_key,
    sample_count,
    samples_key,
    stop_key,
)
from arc_tui.features.edit_test.suggest.run import (
    estimate_cost,
    run_suggestions,
    save_edit,
)
from arc_tui.features.edit_test.suggest.view import (
    EMPTY as NO_VIEW,
)
from arc_tui.features.edit_test.suggest.view import (
    VERDICTS,
    SuggestedEdit,
    SuggestRequest,
    SuggestView,
    basis,
    edit_lines,
    headline_of,
    notices,
    spent_line,
    split_sentence,
    verdict_sentence,
)
from arc_tui.features.edit_test.text import counted, moment
from arc_tui.navigation import OpenReplay
from arc_tui.ui import format
from arc_tui.ui.bindings import bind, pane_keys
from arc_tui.ui.dialogs import AskBox, Option
from arc_tui.ui.document import Block, Document
from arc_tui.ui.format import cost, fit
from arc_tui.ui.keys import KeyBar
from arc_tui.ui.list import RowList
from arc_tui.ui.page import Page
from arc_tui.ui.styles import fold_sentence
from replay.edit.changes import Edit
from replay.errors import BadEdit
from replay.models.choose import label
from replay.store.handle import Store


class SuggestEstimate(CostEstimate, frozen=True, eq=False, kw_only=True):
    """What testing would ask; `view` has the edits, `before` what the same came to earlier."""

    view: SuggestView
    before: SuggestView | None = None

    @property
    def shown(self) -> SuggestView:
        return self.view if self.before is None else self.before


def build_estimate(store: Store, request: SuggestRequest) -> SuggestEstimate:
    """The estimate of a test. Asks nothing. Raises as `plan_suggestions` does."""
    found = estimate_cost(store, request)
    return SuggestEstimate(
        models=found.models, calls=found.estimate, view=found.view, before=found.before
    )


class SuggestState(ExperimentState, frozen=True, eq=False, kw_only=True):
    """A request, what it would ask, what is known so far, and how that ended."""

    request: SuggestRequest
    estimate: SuggestEstimate | None = None
    view: SuggestView = NO_VIEW

    @property
    def title(self) -> str:
        return f"suggested edits for {format.one_line(self.request.query)}"

    @property
    def lines(self) -> tuple[str, ...]:
        """What came of it, or what a test would ask; then how the runs are split."""
        if self.trouble is not None:
            kept = "Completed calls are saved." if self.view.tested else ""
            return (f"{as_sentence(self.trouble.message)} {kept}".rstrip(),)
        if self.phase == "estimating":
            return ("Writing edits.",)
        split = tuple(filter(None, (split_sentence(self.view),)))
        if self.phase == "idle":
            return (*self._tested_before, *split, self._estimate_sentence)
        stopped = "Stopped. Completed calls are saved. " if self.phase == "stopped" else ""
        return (f"{stopped}{headline_of(self.view)}", *split)

    @property
    def _tested_before(self) -> tuple[str, ...]:
        """What is kept of the same test, with its day."""
        before = self.estimate.before if self.estimate is not None else None
        if before is None or before.ran_ns is None:
            return ()
        return (f"Tested {moment(before.ran_ns)}: {headline_of(before)}",)

    @property
    def _estimate_sentence(self) -> str:
        proposals = self.request.proposals if self.request.reflect is not None else 0
        nothing = not self.view.edits and not proposals
        if self.estimate is None or self.estimate.calls is None or nothing:
            return "No edit to suggest."
        calls = self.estimate.calls
        if not self.estimate.models:
            return "Not testable as recorded: the notices say why."
        reflect = self.request.reflect
        asked = [name for name in self.estimate.models if name != reflect] or self.estimate.models
        whom = ", ".join(format.one_line(label(name)) for name in asked)
        edits = format.count(len(self.view.edits), "edit")
        if reflect is not None:
            by = format.one_line(label(reflect))
            edits += f" and up to {format.count(proposals, 'proposal')} by {by}"
        stored = f", {format.number(calls.stored)} cached" if calls.stored else ""
        what = (
            f"‹suggest.run› test {edits} with {whom}: {format.count(calls.calls, 'call')}{stored}"
        )
        if not calls.calls:
            return f"{what}."
        limited = f"{cost(calls)}; the run asks for a limit first"
        return f"{what}, {'free' if self.estimate.is_free else limited}."

    @property
    def notices(self) -> tuple[str, ...]:
        hint = self.trouble.hint if self.trouble is not None else ""
        return (format.one_line(hint), *notices(self.view)) if hint else notices(self.view)

    @property
    def basis(self) -> tuple[str, ...]:
        return basis(self.view) if not self.running else ()


EMPTY = SuggestState(request=SuggestRequest())


# --- its parts

VERDICT, COUNTS = 14, 18


class SuggestList(RowList):
    """An edit a row: its verdict, what it fixed on each half, its name; enter opens the editor."""

    HELP = "the suggested edits"
    HEAD = 1
    STYLES = {"good": "bold $good", "bad": "bold $bad", "quiet": "$quiet"}

    BINDINGS = [
        bind("enter", "open", id="suggest.open", label="edit and replay",
             tooltip="Put the edit under the cursor into the replay editor"),
    ]  # fmt: skip

    state: reactive[SuggestState] = reactive(EMPTY, repaint=False)

    @property
    def edits(self) -> tuple[SuggestedEdit, ...]:
        return self.state.view.edits

    @property
    def row(self) -> SuggestedEdit | None:
        """The edit under the cursor."""
        return self.edits[self.cursor] if self.cursor < len(self.edits) else None

    @property
    def row_count(self) -> int:
        return len(self.edits)

    def watch_state(self, before: SuggestState, state: SuggestState) -> None:
        if before.view is not state.view:
            self.rows_changed()

    @override
    def draw_head(self, line: int, width: int) -> Text:
        del line
        cells = (fit("", VERDICT), fit("compared", COUNTS), fit("held back", COUNTS), "edit")
        return Text(fit(" " + "  ".join(cells), width).rstrip())

    @override
    def draw(self, index: int, width: int) -> Text:
        edit = self.edits[index]
        style = {"fix": "good", "no fix": "bad"}.get(edit.verdict, "quiet")
        counts = [
            counted(test.fixed, None) if test is not None and test.done else format.UNKNOWN
            for test in (edit.compared, edit.looked)
        ]
        line = Text.assemble(
            " ",
            (fit(VERDICTS[edit.verdict], VERDICT), self.style_of(style)),
            "  ",
            "  ".join(fit(each, COUNTS) for each in counts),
            "  ",
        )
        name = format.one_line(edit.name.removeprefix("suggested: "))
        where = ", ".join(map(format.one_line, edit.targets))
        return line.append(fit(f"{name} · {where}", width - line.cell_len).rstrip())

    def action_open(self) -> None:
        edit = self.row
        if edit is not None:
            made = Edit(name=edit.name, changes=edit.changes, thread=edit.thread)
            self.post_message(OpenReplay(edit.trace, edit.step, edit=True, start=made))

    def on_click(self, event: events.Click) -> None:
        if event.chain == 2 and self.row_at(event.y - self.gutter.top) is not None:
            self.action_open()


def edit_page(edit: SuggestedEdit | None, *, held_back: int) -> Document:
    """Why an edit is suggested, what came of it, and its diff."""
    if edit is None:
        return ()
    because = f"{format.one_line(edit.because)} · {edit.by}"
    if edit.runs > 1:
        because += f" · leads from {format.count(edit.runs, 'run')}"
    said = edit_lines(edit, held_back=held_back)
    sentence = verdict_sentence(edit)
    evidence = [
        Block(text=format.plain(each), style="strong" if each == sentence else "") for each in said
    ]
    return (Block(text=because, style="quiet"), *evidence, *diff_page(edit.diff))


class SuggestHead(ExperimentHead[SuggestState]):
    """What came of it and how the runs are split; in a tall terminal, the rules too."""

    state: reactive[SuggestState] = reactive(EMPTY, layout=True)

    @override
    def parts(self, width: int) -> Iterator[tuple[str, list[str]]]:
        yield from super().parts(width)
        for each in self.state.basis if self.is_tall else ():
            yield "basis", fold_sentence(each, width)


class SuggestFoot(ExperimentFooter[SuggestState]):
    """Steps that are in, then who was asked."""

    STOP = "suggest.stop"

    state: reactive[SuggestState] = reactive(EMPTY)

    @override
    def progress(self, width: int) -> Text:
        view = self.state.view
        doing = view.doing or "Writing edits, step"
        limits = self.state.request.limits
        words = progress_line(doing, view.done, view.total, view.spent.spending, limits)
        return self.bar(view.done, view.total, words)

    @override
    def figures(self, width: int) -> Text:
        view = self.state.view
        said = spent_line(view, self.state.request.limits) if view.tested else ""
        return Text(fit(said, width).rstrip(), self.style_of("figures"))


# --- the screen


BY_RULE_ALONE = "by rule alone"
"""Answers the question for a model that proposes where none is wanted."""


class SuggestScreen(ExperimentScreen[SuggestState]):
    """Edits for a run, or for the runs behind a bar."""

    CSS_PATH = "screen.tcss"
    HELP = "suggested edits"
    MISS_HINT = "‹suggest.run› run again with a limit"
    AT_REST = ExperimentScreen.AT_REST | {"reflect"}

    BINDINGS = [
        run_key("suggest", "Test every edit on one half of the runs, and the best on the other"),
        stop_key("suggest"),
        samples_key("suggest", "Choose the number of samples of each request"),
        model_key("suggest"),
        bind("i", "reflect", id="suggest.reflect", label="proposals",
             tooltip="Have a model propose edits beside those by rule"),
        bind("o", "save", id="suggest.save", label="save edit",
             tooltip="Save the edit under the cursor under a name, for replays and tests"),
        *pane_keys("suggest", "Switch between the edits and the diff of one"),
        bind("esc", "back", id="suggest.back", tooltip="Back to where you came from"),
    ]  # fmt: skip

    state: reactive[SuggestState] = reactive(EMPTY, repaint=False)
    request: SuggestRequest

    rows = query_one(SuggestList)
    page = query_one(Page)

    def __init__(self, path: Path, named: str, traces: Sequence[str]) -> None:
        """`named` says what the runs have in common."""
        super().__init__(path, SuggestRequest(query=named, traces=tuple(traces)))

    def compose(self) -> ComposeResult:
        yield SuggestHead().data_bind(SuggestScreen.state)
        yield SuggestList(id="edits").data_bind(SuggestScreen.state)
        yield Page(id="edit")
        yield SuggestFoot().data_bind(SuggestScreen.state)
        yield KeyBar()

    def on_mount(self) -> None:
        self.rows.focus()
        self.request_changed()

    def watch_state(self, before: SuggestState, state: SuggestState) -> None:
        super().watch_state(before, state)
        if before.view is not state.view and self.is_mounted:
            self._show_edit()

    def on_row_list_moved(self, event: RowList.Moved) -> None:
        if event.rows is self.rows:
            self._show_edit()

    def _show_edit(self) -> None:
        """The edit under the cursor, in full."""
        view = self.state.view
        row = view.edits[self.rows.cursor] if self.rows.cursor < len(view.edits) else None
        self.page.document = edit_page(row, held_back=view.held_back)

    # --- what is asked

    def request_changed(self) -> None:
        self.state = SuggestState(request=self.request)
        request = self.request
        self.read(
            lambda store: build_estimate(store, request), self._show_estimate, group="estimate"
        )

    def _show_estimate(self, estimate: SuggestEstimate) -> None:
        self.change(phase="idle", estimate=estimate, view=estimate.shown, trouble=None)

    def action_reflect(self) -> None:
        """Have a model propose edits too, or none."""
        choices = [Option(*each) for each in configured_words()]
        if self.request.reflect is not None:
            choices.append(Option(BY_RULE_ALONE, "no model proposes edits"))
        hint = "its name, as openai:gpt-4o or claude-opus-5"
        box = AskBox("which model proposes edits?", hint=hint, choices=choices)
        self.app.push_screen(box, self._take_reflect)

    def _take_reflect(self, name: str | None) -> None:
        if name is not None:
            self.change_request(reflect=None if name == BY_RULE_ALONE else name)

    def action_save(self) -> None:
        """Save the edit under the cursor under a name that a person gives."""
        edit = self.rows.row
        if edit is None:
            self.say("No edit to save.")
            return

        query = self.request.query

        def save(name: str | None) -> None:
            if name is not None:
                named = structs.replace(edit, name=name)
                self.read(
                    lambda store: save_edit(store, named, query), self._say_saved, group="save"
                )

        self.app.push_screen(AskBox("name of the edit", answer=edit.name), save)

    def _say_saved(self, name: str) -> None:
        self.say(f"Saved: {format.one_line(name)}. Replays and tests offer it among saved edits.")

    def action_samples(self) -> None:
        words = f"now {format.count(self.request.samples, 'sample')} per request"
        box = AskBox("samples per request", words, hint="a number, such as 5")
        self.app.push_screen(box, self._take_samples)

    def _take_samples(self, typed: str | None) -> None:
        if typed is None:
            return
        try:
            self.change_request(samples=sample_count(typed))
        except BadEdit as error:
            self.say(error.message, severity="error")

    # --- the run

    def action_run(self) -> None:
        """Ask, after what it may cost was asked of the person."""
        if not self.state.running and self.state.estimate is not None:
            self.submit(self._submit(self.state.estimate))

    async def _submit(self, estimate: SuggestEstimate) -> None:
        request = await self.ask_permission(self.request, estimate)
        view = estimate.view if self.state.phase == "idle" else self.state.view
        self.change(phase="running", request=request, view=view, trouble=None)
        self.start(run_suggestions, request, cut_short=lambda view: view.ended is not None)

    # --- around it

    def action_pane(self) -> None:
        (self.rows if self.focused is self.page else self.page).focus()

    def action_back(self) -> None:
        if self.focused is self.page:
            self.rows.focus()
        else:
            self.leave()
