"""The panes of a replay: which one is in front, what tab goes through, the step in full.

Actions of the replay screen that change nothing but what is looked at, and the one that hands the
open text to an editor outside.
"""

from __future__ import annotations

from pathlib import Path

from textual.getters import query_one
from textual.widget import Widget

from arc_tui.screens.base import ArcScreen
from arc_tui.screens.editing import edited
from arc_tui.views.replay.view import ReplayRow
from arc_tui.widgets.page import Page
from arc_tui.widgets.replay.diff import StepDiff
from arc_tui.widgets.replay.edit_pane import EditPane
from arc_tui.widgets.replay.pages import step_page
from arc_tui.widgets.rows import RowList
from replay.errors import ArcError
from replay.locked.tally import BreakTest


class Panes(ArcScreen):
    """An edit at the left, the steps at the right, one of them in full below."""

    edit_pane = query_one(EditPane)
    steps = query_one(StepDiff)
    page = query_one("#step", Page)

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._shown: tuple[ReplayRow, BreakTest | None] | None = None

    def on_row_list_moved(self, event: RowList.Moved) -> None:
        if event.rows is self.steps:
            self._show_step()

    def on_step_diff_chosen(self) -> None:
        self.go_to(self.page)

    def _show_step(self) -> None:
        row, broken = self.steps.row, self.steps.broken
        if row is not None and (row, broken) != self._shown:
            self._shown = row, broken
            self.page.border_title = f"step {row.step}"
            self.page.document = step_page(row, broken)

    def action_diff(self) -> None:
        self.edit_pane.diffed = not self.edit_pane.diffed
        self.go_to(self._panes[1])

    @property
    def _panes(self) -> tuple[Widget, Widget, Widget, Widget]:
        """What tab goes through."""
        pane = self.edit_pane
        return pane.targets, pane.page if pane.diffed else pane.area, self.steps, self.page

    def action_pane(self, direction: int) -> None:
        panes = self._panes
        here = panes.index(self.focused) if self.focused in panes else -1
        self.go_to(panes[(here + direction) % len(panes)])

    def go_to(self, pane: Widget) -> None:
        """Focus a pane; a narrow terminal shows the half it is in."""
        self.set_class(pane in (self.steps, self.page), "-result")
        pane.focus()

    def action_editor(self) -> None:
        pane = self.edit_pane
        try:
            pane.put(edited(self.app, pane.text))
        except ArcError as error:
            self.tell(error)
        pane.diffed = False
        self.go_to(pane.area)
