"""From step to step: to the next, to another of a kind, to a mark, by number, and back.

A jump remembers where it began; a filter of the tree bounds where the next step of a kind is
looked for, and a step that it hides lifts it.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from textual import on
from textual.getters import query_one
from textual.reactive import reactive

from arc_tui.screens.base import ArcScreen
from arc_tui.views.trace.view import TraceView
from arc_tui.widgets.prompt_line import PromptLine
from arc_tui.widgets.trace.span_tree import SpanTree, next_of

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
