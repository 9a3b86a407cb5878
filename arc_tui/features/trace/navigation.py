"""From step to step: to the next, to another of a kind, to a text, by number, through a filter."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from textual.message import Message

from arc_tui.features.trace.pages import SayingPage, saying_page
from arc_tui.features.trace.span_tree import SpanTree, next_of
from arc_tui.features.trace.tree_filter import matching_steps, steps_labelled, terms
from arc_tui.ui import format
from arc_tui.ui.document import pattern
from arc_tui.ui.screen import ArcScreen
from arc_tui.views.step import EMPTY, StepView
from arc_tui.views.trace import TraceView
from arc_tui.views.tree import Branch
from replay.store.handle import Store
from replay.store.search import steps_saying

REMEMBERED = 100
"""Jumps that can be taken back."""


class Jumps:
    """The steps that jumps started from, the latest last."""

    def __init__(self) -> None:
        self._left: list[int] = []

    @property
    def can_return(self) -> bool:
        return bool(self._left)

    def leave(self, step: int) -> None:
        """A jump goes away from a step."""
        self._left = [*self._left[1 - REMEMBERED :], step]

    def take_back(self) -> int | None:
        """The step that the last jump started from, which is forgotten; None after the first."""
        return self._left.pop() if self._left else None


def nearest(tree: SpanTree, steps: Collection[int], direction: int) -> int | None:
    """The next of these steps, of those shown as far as there are any, round the end."""
    return next_of(_only_shown(tree, steps), tree.step, direction)


def next_step(tree: SpanTree, direction: int) -> int | None:
    """One step on, or back, of those that are shown."""
    if tree.filtered is None:
        return tree.step + direction
    return next_of(tree.filtered, tree.step, direction, round_the_end=False)


def next_candidate(tree: SpanTree, direction: int) -> int:
    """In their order, the likeliest first, round the end; from any other step to that one."""
    marked, here = _only_shown(tree, tree.view.marked), tree.step
    place = marked.index(here) + direction if here in marked else 0
    return marked[place % len(marked)]


def _only_shown(tree: SpanTree, steps: Collection[int]) -> list[int]:
    """Those of the steps that are shown, all where none is; their order stays."""
    shown = tree.filtered
    return [step for step in steps if shown is None or step in shown] or [*steps]


def tools_here(tree: SpanTree) -> frozenset[str]:
    """The tools of the row under the cursor, else those of its step."""
    row, called = frozenset(tree.spans_here), tree.view.called
    return frozenset(name for span, _, name in called if span in row) or frozenset(
        name for _, step, name in called if step == tree.step
    )


def steps_with(view: TraceView, tools: Collection[str]) -> set[int]:
    """The steps that call one of these tools; with no tools, the steps that call none."""
    if tools:
        return {step for _, step, name in view.called if name in tools}
    return {row.step for row in view.steps if not row.calls}


def step_number(typed: str, here: int, steps: int) -> int | None:
    """The step that is typed: `12`, or `+5` and `-5` from here; this one where nothing is typed,
    None where it is no step of a run of so many."""
    typed = typed.strip()
    if not typed:
        return here
    if not (typed[1:] if typed[0] in "+-" else typed).isdecimal() or len(typed) > 9:
        return None
    step = here + int(typed) if typed[0] in "+-" else int(typed)
    return step if 0 <= step < steps else None


def number_hint(steps: int) -> str:
    """What can be typed for a step of a run of so many."""
    return f"a step from 0 to {steps - 1}, or as +5 or -5 from here" if steps else "no steps"


class TreeFilter:
    """The filter of the tree: what is typed, and the steps that match it."""

    class Matched(Message):
        """The steps that match what was typed."""

        def __init__(self, typed: str, steps: frozenset[int]) -> None:
            super().__init__()
            self.typed = typed
            self.steps = steps

    def __init__(self, screen: ArcScreen, trace: str) -> None:
        self.typed = ""
        self._screen = screen
        self._trace = trace

    def apply(self, view: TraceView) -> bool:
        """Look for the steps that match; False where nothing is filtered. Raises BadFilter."""
        typed, trace = self.typed, self._trace
        wanted = terms(typed)
        if not wanted:
            return False

        def find(store: Store) -> frozenset[int]:
            return matching_steps(view, wanted, lambda text: steps_saying(store, trace, text))

        finding = self._screen.ask(find, lambda steps: self.Matched(typed, steps), group="filter")
        self._screen.hold_keys(finding)
        return True

    def title(self, steps: Collection[int], of: int) -> str:
        """How many steps of all are shown, and of what kind."""
        what = format.cut(format.one_line(self.typed), 24)
        return f"{format.number(len(steps))} of {format.count(of, 'step')}: {what}"


class Finder:
    """A text that is looked for in the run, and the steps that say it."""

    class Found(Message):
        """The steps that say what was looked for."""

        def __init__(self, steps: frozenset[int]) -> None:
            super().__init__()
            self.steps = steps

    def __init__(self, screen: ArcScreen, trace: str) -> None:
        self.text = ""
        self.steps: frozenset[int] = frozenset()
        self.pattern: re.Pattern[str] | None = None
        self._screen = screen
        self._trace = trace
        self._to_show: int | None = None

    def look_for(self, text: str, tree: Sequence[Branch]) -> None:
        """Look in labels and in everything that is said; "" looks for nothing."""
        self.text = text = text.strip()
        self.steps, self.pattern = frozenset(), pattern(text)
        if not text:
            return
        labelled, trace = steps_labelled(tree, text), self._trace
        finding = self._screen.ask(
            lambda store: labelled | steps_saying(store, trace, text), self.Found, group="find"
        )
        self._screen.hold_keys(finding)

    def show_in(self, step: int) -> None:
        """A person came to the step for the text: `page` tells where it is said, once."""
        self._to_show = step

    def page(self, view: TraceView, step: StepView, tab: int) -> SayingPage | None:
        """Where the step says the text, if a person came to it for that; `tab` is in front."""
        if self._to_show != step.row.step or step is EMPTY or self.pattern is None:
            return None
        self._to_show = None
        return saying_page(view, step, self.pattern, tab)

    def title(self, here: int) -> str:
        """Which of the steps that say it the cursor is on, and how many there are."""
        if not self.steps:
            return ""
        text, steps = format.cut(format.one_line(self.text), 20), sorted(self.steps)
        place = f"{steps.index(here) + 1} of " if here in self.steps else "in "
        return f"“{text}” {place}{format.count(len(steps), 'step')}"
