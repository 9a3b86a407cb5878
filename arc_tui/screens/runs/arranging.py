"""Which runs are listed, in which order: what is typed, and what is pressed."""

from __future__ import annotations

from msgspec import structs
from textual.getters import query_one
from textual.reactive import reactive

from arc_tui.screens.base import ArcScreen
from arc_tui.views.runs.arrangement import Arrangement
from arc_tui.widgets.prompt_line import PromptLine
from arc_tui.widgets.runs.table import RunTable


class Arranging(ArcScreen):
    """Actions of the runs screen, which lists what the arrangement says."""

    arrangement: reactive[Arrangement] = reactive(Arrangement(), repaint=False)

    table = query_one(RunTable)
    prompt = query_one(PromptLine)

    def on_prompt_line_changed(self, event: PromptLine.Changed) -> None:
        self.arrangement = structs.replace(self.arrangement, words=event.words)

    def on_prompt_line_closed(self, event: PromptLine.Closed) -> None:
        self.arrangement = structs.replace(self.arrangement, words=event.words)
        self.table.focus()

    def action_filter(self) -> None:
        self.prompt.open()

    def action_failed(self) -> None:
        wanted = self.arrangement
        self.arrangement = structs.replace(wanted, failed_only=not wanted.failed_only)

    def action_sort(self) -> None:
        order = self.arrangement.next_order()
        self.arrangement = structs.replace(self.arrangement, order=order)
