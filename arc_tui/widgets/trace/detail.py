"""The detail of one step: tabs over pages, one page made when it is looked at."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.getters import query_one
from textual.message import Message
from textual.reactive import reactive

from arc_tui import format
from arc_tui.views.trace import step as steps
from arc_tui.views.trace import view as traces
from arc_tui.views.trace.step import StepView
from arc_tui.views.trace.view import TraceView
from arc_tui.widgets.document import EMPTY
from arc_tui.widgets.ink import Inked
from arc_tui.widgets.keyed import with_keys
from arc_tui.widgets.placed_page import PlacedPage
from arc_tui.widgets.trace.pages import PAGES

NAMES = tuple(PAGES)

AGENT = 24
"""Cells of the name of who took a step."""


class Tabs(Inked):
    """The names of the pages on one line, the one in front marked, each with its digit."""

    ALLOW_SELECT = False
    INKS = {
        "tab": "$quiet",
        "front": "bold $foreground on $cursor | bold reverse",
        "place": "$quiet",
    }

    step: reactive[StepView] = reactive(steps.EMPTY)
    tab: reactive[int] = reactive(0)

    class Picked(Message):
        """A tab was clicked."""

        def __init__(self, tab: int) -> None:
            super().__init__()
            self.tab = tab

    def render(self) -> Text:
        line = Text.assemble((self._place(), self.ink("place")))
        front = self.ink("front")
        behind = self.ink("tab")
        for index, _, shown in self._tabs():
            line.append(shown, front if index == self.tab else behind)
        return line

    def _place(self) -> str:
        """Which step it is, and who took it where the source says."""
        if self.step is steps.EMPTY:
            return ""
        who = format.cut(format.one_line(self.step.agent), AGENT)
        return f"step {self.step.row.step} {f'· {who} ' if who else ''}"

    def _tabs(self) -> Iterator[tuple[int, int, str]]:
        """(index, column, text) of each tab; the number of observations beside their name."""
        at = len(self._place())
        for index, name in enumerate(NAMES):
            seen = len(self.step.observations) if name == "Observations" else 0
            shown = f" {name} {seen} " if seen else f" {name} "
            yield index, at, shown
            at += len(shown)

    def on_click(self, event: events.Click) -> None:
        for index, at, shown in self._tabs():
            if at <= event.x - self.gutter.left < at + len(shown):
                self.post_message(self.Picked(index))


class Detail(Vertical):
    """Tabs and the page in front."""

    view: reactive[TraceView] = reactive(traces.EMPTY, repaint=False)
    step: reactive[StepView] = reactive(steps.EMPTY, repaint=False)
    tab: reactive[int] = reactive(0, repaint=False)
    wanted: reactive[re.Pattern[str] | None] = reactive(None, repaint=False)

    page = query_one(PlacedPage)

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._shown: tuple[str, int, int] | None = None

    def compose(self) -> ComposeResult:
        yield Tabs().data_bind(Detail.step, Detail.tab)
        yield PlacedPage().data_bind(Detail.wanted)

    def watch_view(self) -> None:
        self._show()

    def watch_step(self) -> None:
        self._show()

    def watch_tab(self) -> None:
        self._show()

    def _show(self) -> None:
        if not self.is_mounted:
            return
        if self.step is steps.EMPTY:
            self.page.document = EMPTY
            return
        shown = (self.step.trace, self.step.row.step, self.tab)
        made = with_keys(self.screen, PAGES[NAMES[self.tab]](self.view, self.step))
        self.page.show(made, again=shown == self._shown)
        self._shown = shown
