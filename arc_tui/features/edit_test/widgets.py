"""The runs an edit is tried on, then the healthy steps: a row each, with both arms.

The first lines of a tried edit: the rates, what they mean, and what stands against them.

The last line of a tried edit: how far it is, then who was asked and what that cost.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from rich.cells import cell_len
from rich.text import Text
from textual import events
from textual.binding import Binding
from textual.reactive import reactive
from typing_extensions import override

from arc_tui.experiments.screen import ExperimentFooter, ExperimentHead, limit_words
from arc_tui.features.edit_test.state import EMPTY, EditTestState
from arc_tui.features.edit_test.text import (
    COUNTED_AT_STEPS,
    arms,
    counted_at_breaks,
    effect_words,
    mark,
    spent,
    whom,
)
from arc_tui.features.edit_test.view import TriedRun, TriedStep
from arc_tui.navigation import OpenTrace
from arc_tui.ui import format
from arc_tui.ui.format import fit, spread
from arc_tui.ui.list import RowList
from arc_tui.ui.styles import fold_sentence

Row: TypeAlias = TriedRun | TriedStep

MARK, STEP, ARM = 14, 4, 7
MOST_RUN = 28
WIDE = 100
"""Cells from which on what was recorded has a place beside what the edit does."""


class TryList(RowList):
    """Runs by task, under a heading the healthy steps; enter opens one where it is asked."""

    HELP = "the runs tried"
    HEAD = 1
    STYLES = {
        "good": "bold $good",
        "bad": "bold $bad",
        "open": "$secondary",
        "quiet": "$quiet",
        "heading": "$quiet",
    }

    BINDINGS = [
        Binding("enter", "open", "open", id="try.open",
                tooltip="Open the run under the cursor at the step that is asked"),
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
        """The heading is no place to stand on: the cursor goes past it."""
        at = super().validate_cursor(cursor)
        if at < len(self._rows) and isinstance(self._rows[at], str):
            at += -1 if 0 < at < self.cursor else 1
        return at

    @override
    def draw_head(self, line: int, width: int) -> Text:
        del line
        cells = (fit("", MARK), fit("run", self._room(width)), fit("step", STEP, right=True))
        arms_ = (fit("control", ARM, right=True), fit("edited", ARM, right=True))
        return Text(" " + "  ".join((*cells, *arms_, "the edit mostly")))

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
    match row.ruling if isinstance(row, TriedRun) else row.effect:
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
    if isinstance(row, TriedRun):
        return format.one_line(row.by)
    return "of a run that passed" if row.passed else "before the break"


class TryHead(ExperimentHead[EditTestState]):
    """The rates and what they mean; in a tall terminal, the rules too."""

    state: reactive[EditTestState] = reactive(EMPTY, layout=True)

    @override
    def parts(self, width: int) -> Iterator[tuple[str, list[str]]]:
        yield from super().parts(width)
        for each in self.state.basis if self.is_tall else ():
            yield "basis", fold_sentence(each, width)


class TryFoot(ExperimentFooter[EditTestState]):
    """Steps that are in, then who was asked."""

    STOP = "try.stop"

    state: reactive[EditTestState] = reactive(EMPTY)

    @override
    def progress(self, width: int) -> Text:
        view = self.state.view
        done = f"{view.done} of {format.count(view.total, 'step')}"
        words = f"{done} · {spent(view)}{limit_words(self.state.request.limits)}"
        return self.bar(view.done, view.total, words)

    @override
    def figures(self, width: int) -> Text:
        view = self.state.view
        said = " · ".join(filter(None, (whom(view), spent(view)))) if view.done else ""
        return spread(Text(said, self.style_of("figures")), Text(""), width)
