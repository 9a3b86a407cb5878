"""A filter of the tree: only the steps of which all that was typed holds, and what they hang from.

Lives on the trace screen; it goes on while a person types, and escape on the tree lifts it.
"""

from __future__ import annotations

from rich.text import Text
from textual import on
from textual.message import Message
from textual.widgets import Input
from typing_extensions import override

from arc_tui import format
from arc_tui.screens.trace.jumping import Jumping
from arc_tui.views.trace.sifting import BadFilter, meant, terms
from arc_tui.widgets.prompt_line import PromptLine
from arc_tui.widgets.trace.span_tree import title
from replay.store import Store


class Filtering(Jumping):
    """Asks which steps are wanted. Actions of the trace screen."""

    _typed = ""
    _saying = ""
    _entitled = ""

    class Sifted(Message):
        """The steps that are meant by what was typed."""

        def __init__(self, typed: str, steps: frozenset[int]) -> None:
            super().__init__()
            self.typed = typed
            self.steps = steps

    def action_filter(self) -> None:
        self.query_one("#filter-line", PromptLine).open()

    @on(PromptLine.Changed, "#filter-line")
    def _sift_while_typed(self, event: PromptLine.Changed) -> None:
        self._typed = event.words
        self.sift()

    @on(PromptLine.Closed, "#filter-line")
    def _sift_for_good(self, event: PromptLine.Closed) -> None:
        self.spans.focus()
        if event.words != self._typed:
            self._typed = event.words
            self.sift()

    def sift(self) -> None:
        """Look for the steps that are meant by what is typed."""
        typed, view = self._typed, self.view
        line = self.query_one("#filter-line", PromptLine)
        try:
            asked = terms(typed)
        except BadFilter as refused:
            line.refusal = f"{refused.message}: {refused.hint}"
            return
        line.refusal = ""
        if not asked:
            self.sifted = None
            return

        def find(store: Store) -> frozenset[int]:
            from replay.store.search import steps_saying

            return meant(view, asked, lambda words: steps_saying(store, self.trace, words))

        sifting = self.ask(find, lambda steps: self.Sifted(typed, steps), group="sift")
        self.hold_keys(sifting)

    def on_filtering_sifted(self, event: Sifted) -> None:
        if event.typed == self._typed:
            self.sifted = event.steps
            self.entitle()

    def watch_sifted(self) -> None:
        self.entitle()
        self.refresh_bindings()

    @override
    def lift(self) -> None:
        self._typed = ""
        line = self.query_one("#filter-line", PromptLine)
        with line.prevent(Input.Changed):
            line.line.value = ""
        super().lift()

    def entitle(self) -> None:
        """Say over the tree which of it is shown, and what was looked for.

        A title that is set draws the whole tree anew, also where it is the same.
        """
        said = title(self.sifted_words, self._saying)
        if said != self._entitled:
            self._entitled = said
            self.spans.border_title = Text(said)

    @property
    def sifted_words(self) -> str:
        """How many steps are shown, and of what kind; "" where all are."""
        if self.sifted is None:
            return ""
        what = format.cut(format.one_line(self._typed), 24)
        of = format.count(len(self.view.steps), "step")
        return f"{format.number(len(self.sifted))} of {of}: {what}"
