"""Find a text in a run: in the labels of its tree and in everything its messages say."""

from __future__ import annotations

from pathlib import Path

from rich.text import Text
from textual.getters import query_one
from textual.message import Message
from textual.reactive import reactive

from arc_tui import format
from arc_tui.screens.base import ArcScreen
from arc_tui.widgets.prompt_line import PromptLine
from arc_tui.widgets.trace.span_tree import SpanTree
from replay.store.search import steps_saying


class Finding(ArcScreen):
    """Asks for words, marks the steps that say them. Actions of the trace screen."""

    found: reactive[frozenset[int]] = reactive(frozenset(), repaint=False)

    spans = query_one(SpanTree)
    prompt = query_one(PromptLine)

    class Found(Message):
        """The steps that say what was looked for."""

        def __init__(self, steps: frozenset[int]) -> None:
            super().__init__()
            self.steps = steps

    def __init__(self, path: Path, trace: str) -> None:
        super().__init__(path)
        self.trace = trace
        self._words = ""

    def action_find(self) -> None:
        self.prompt.open()

    def action_found(self, direction: int) -> None:
        if self._words:
            self.spans.go_to_next(self.found, direction)
        else:
            self.action_find()

    def on_prompt_line_closed(self, event: PromptLine.Closed) -> None:
        self.spans.focus()
        self.spans.border_title = "spans"
        self._words = event.words
        self.found = frozenset()
        if event.words:
            labelled = self.spans.labelled(event.words)
            self.ask(
                lambda store: labelled | steps_saying(store, self.trace, event.words),
                self.Found,
                group="find",
            )

    def on_finding_found(self, event: Found) -> None:
        self.found = event.steps
        if not event.steps:
            self.say(f"nothing in this run says {self._words}")
            return
        words = format.cut(format.one_line(self._words), 20)
        number = format.count(len(event.steps), "step")
        self.spans.border_title = Text(f"spans · “{words}” in {number}")
        if self.spans.step not in event.steps:
            self.action_found(1)
