"""Find a text in a run: in the labels of its tree and in everything its messages say.

A step that says it is shown with the page that says it in front, what hides it unfolded.
"""

from __future__ import annotations

import re
from pathlib import Path

from textual import on
from textual.getters import query_one
from textual.message import Message
from textual.reactive import reactive

from arc_tui import format
from arc_tui.screens.trace.filtering import Filtering
from arc_tui.views.trace.sifting import labelled
from arc_tui.views.trace.step import EMPTY, StepView
from arc_tui.widgets.finding import pattern
from arc_tui.widgets.placed_page import PlacedPage
from arc_tui.widgets.prompt_line import PromptLine
from arc_tui.widgets.trace.pages import saying_page
from replay.store.search import steps_saying


class Finding(Filtering):
    """Asks for words, goes through the steps that say them. Actions of the trace screen."""

    detail: reactive[StepView]
    tab: reactive[int]

    found: reactive[frozenset[int]] = reactive(frozenset(), repaint=False)
    wanted: reactive[re.Pattern[str] | None] = reactive(None, repaint=False)

    page = query_one(PlacedPage)

    class Found(Message):
        """The steps that say what was looked for."""

        def __init__(self, steps: frozenset[int]) -> None:
            super().__init__()
            self.steps = steps

    class EverywhereWanted(Message):
        """All runs that say something are wanted."""

        def __init__(self, words: str) -> None:
            super().__init__()
            self.words = words

    def __init__(self, path: Path, trace: str) -> None:
        super().__init__(path, trace)
        self._words = ""
        self._reveals: int | None = None

    @property
    def has_words(self) -> bool:
        return bool(self._words)

    def action_find(self) -> None:
        self.query_one("#find-line", PromptLine).open()

    def action_found(self, direction: int) -> None:
        """To the next step that says it; in the detail, first to the next line that does."""
        if not self._words:
            self.action_find()
        elif self.focused is not self.page or not self.page.go_to_found(direction):
            self._arrive(direction)

    def _arrive(self, direction: int) -> None:
        here = self.spans.step
        self.go_to_next(self.found, direction)
        self._reveals = self.spans.step
        if self._reveals == here:
            self.reveal()

    def reveal(self) -> None:
        """Show where the step says what was looked for, once it was come to for that."""
        if self._reveals != self.detail.row.step or self.detail is EMPTY or self.wanted is None:
            return
        self._reveals = None
        said = saying_page(self.view, self.detail, self.wanted, self.tab)
        if said is not None:
            self.tab = said.tab
            self.page.reveal(folds=said.folds)

    @on(PromptLine.Closed, "#find-line")
    def _look_for(self, event: PromptLine.Closed) -> None:
        self.spans.focus()
        self._words = event.words.strip()
        self.found = frozenset()
        self.wanted = pattern(self._words)
        self._say_found()
        self.refresh_bindings()
        if self._words:
            words = self._words
            shown = labelled(self.view.tree, words)
            finding = self.ask(
                lambda store: shown | steps_saying(store, self.trace, words),
                self.Found,
                group="find",
            )
            self.hold_keys(finding)

    def on_finding_found(self, event: Found) -> None:
        self.found = event.steps
        if not event.steps:
            self.say(f"nothing in this run says {self._words}")
            return
        if self.spans.step not in event.steps:
            self._arrive(1)
        else:
            self._reveals = self.spans.step
            self.reveal()
        self._say_found()

    def watch_step(self) -> None:
        self._say_found()

    def _say_found(self) -> None:
        """Which of the steps that say it the cursor is on, and how many there are."""
        words = format.cut(format.one_line(self._words), 20)
        steps, here = sorted(self.found), self.spans.step
        place = f"{steps.index(here) + 1} of " if here in self.found else "in "
        self._saying = f"“{words}” {place}{format.count(len(steps), 'step')}" if steps else ""
        self.entitle()

    def action_everywhere(self) -> None:
        self.post_message(self.EverywhereWanted(self._words))
