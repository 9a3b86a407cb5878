"""From step to step: to the next, to another of a kind, to a text, by number, through a filter."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

from rich.text import Text
from textual import on
from textual.getters import query_one
from textual.message import Message
from textual.reactive import reactive
from textual.widgets import Input
from typing_extensions import override

from arc_tui.features.trace.pages import saying_page
from arc_tui.features.trace.span_tree import SpanTree, next_of, title
from arc_tui.features.trace.tree_filter import BadFilter, labelled, meant, terms
from arc_tui.navigation import SearchRuns
from arc_tui.ui import format
from arc_tui.ui.dialogs import PromptLine
from arc_tui.ui.document import pattern
from arc_tui.ui.page import PlacedPage
from arc_tui.ui.screen import ArcScreen
from arc_tui.views.step import EMPTY, StepView
from arc_tui.views.trace import TraceView
from replay.store.handle import Store
from replay.store.search import steps_saying

REMEMBERED = 100
"""Jumps that can be taken back."""


class Jumping(ArcScreen):
    """Actions of the trace screen."""

    view: reactive[TraceView]
    sifted: reactive[frozenset[int] | None] = reactive(None, repaint=False)
    marks: reactive[frozenset[int]] = reactive(frozenset(), repaint=False)

    spans = query_one(SpanTree)

    def __init__(self, path: Path, trace: str) -> None:
        super().__init__(path)
        self.trace = trace
        self._left: list[int] = []

    @property
    def can_return(self) -> bool:
        return bool(self._left)

    def go_to(self, step: int | None) -> None:
        """Show a step; None stays where it is."""
        if step is None or step == self.spans.step:
            return
        self._left = [*self._left[1 - REMEMBERED :], self.spans.step]
        self._show_step(step)
        self.refresh_bindings()

    def _show_step(self, step: int) -> None:
        if self.sifted is not None and step not in self.sifted and step < len(self.view.steps):
            self.lift()
            self.say(f"step {step} is none of those shown: all are shown again")
        self.spans.go_to(step)

    def lift(self) -> None:
        """Show the whole tree again."""
        self.sifted = None

    def go_to_next(self, steps: Collection[int], direction: int) -> None:
        """To the nearest of these steps, of those shown as far as there are any, round the end."""
        self.go_to(next_of(self._shown(steps), self.spans.step, direction))

    def _shown(self, steps: Collection[int]) -> list[int]:
        """Those of the steps that are shown, all where none is; their order stays."""
        return [step for step in steps if self.sifted is None or step in self.sifted] or [*steps]

    def action_step(self, direction: int) -> None:
        """One step on, or back, of those that are shown."""
        here = self.spans.step
        if self.sifted is None:
            self.spans.go_to(here + direction)
            return
        step = next_of(self.sifted, here, direction, round_the_end=False)
        if step is not None:
            self.spans.go_to(step)

    def action_candidate(self, direction: int) -> None:
        """In their order, the likeliest first, round the end; from any other step to that one."""
        marked, here = self._shown(self.view.marked), self.spans.step
        place = marked.index(here) + direction if here in marked else 0
        self.go_to(marked[place % len(marked)])

    def action_error(self, direction: int) -> None:
        self.go_to_next(self.view.errors, direction)

    def action_peer(self, direction: int) -> None:
        """To a step with the tool of this row; from one without a tool, to another without."""
        names = self._tools_here()
        if names:
            peers = {step for _, step, name in self.view.called if name in names}
        else:
            peers = {row.step for row in self.view.steps if not row.calls}
        if peers <= {self.spans.step}:
            what = f"calls {' or '.join(sorted(names))}" if names else "calls no tool"
            self.say(f"no other step {what}")
        else:
            self.go_to_next(peers, direction)

    def _tools_here(self) -> frozenset[str]:
        """The tools of the row under the cursor, else those of its step."""
        row, step = frozenset(self.spans.spans_here), self.spans.step
        called = self.view.called
        return frozenset(name for span, _, name in called if span in row) or frozenset(
            name for _, of, name in called if of == step
        )

    def action_sibling(self, direction: int) -> None:
        self.spans.go_to_sibling(direction)

    def action_mark(self) -> None:
        if self.view.steps:
            self.marks ^= {self.spans.step}
            self.refresh_bindings()

    def action_marked(self) -> None:
        self.go_to_next(self.marks, 1)

    def action_return(self) -> None:
        if self._left:
            self._show_step(self._left.pop())
            self.refresh_bindings()

    def action_number(self) -> None:
        line = self.query_one("#number-line", PromptLine)
        line.line.value = ""
        line.open()

    @on(PromptLine.Changed, "#number-line")
    def _read_number(self, event: PromptLine.Changed) -> None:
        event.prompt.refusal = "" if self._numbered(event.words) is not None else self._numbers

    @on(PromptLine.Closed, "#number-line")
    def _go_to_number(self, event: PromptLine.Closed) -> None:
        self.spans.focus()
        self.go_to(self._numbered(event.words) if event.words else None)

    @property
    def _numbers(self) -> str:
        last = len(self.view.steps) - 1
        return f"a step from 0 to {last}, or as +5 or -5 from here" if last >= 0 else "no steps"

    def _numbered(self, words: str) -> int | None:
        """The step that a number means; this one where none is typed, None where it is none."""
        typed, here = words.strip(), self.spans.step
        if not typed:
            return here
        if not (typed[1:] if typed[0] in "+-" else typed).isdecimal() or len(typed) > 9:
            return None
        step = here + int(typed) if typed[0] in "+-" else int(typed)
        return step if 0 <= step < len(self.view.steps) else None


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
        self.post_message(SearchRuns(self._words))
