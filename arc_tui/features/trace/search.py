"""Which steps of a run are looked for: those that a filter of its tree means, those that say a
text.

    tool:bash is:error "no such file" -is:repeat

All of a filter must hold of a step. `tool:` is a part of the name of a tool that it called, `is:`
a kind of step, `tag:` the beginning of a class it was tagged with; anything else must stand in
its row or be said in it. A minus before a term turns it round.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from difflib import get_close_matches

from msgspec import Struct, structs
from textual.message import Message
from textual.widgets import Input

from arc_tui.features.trace.pages import MatchingPage, matching_page
from arc_tui.ui import format
from arc_tui.ui.dialogs import PromptLine
from arc_tui.ui.document import pattern
from arc_tui.ui.screen import ArcScreen
from arc_tui.views.step import EMPTY, StepView
from arc_tui.views.trace import TraceView
from arc_tui.views.tree import Branch
from replay.errors import ArcError
from replay.store.handle import Store
from replay.store.search import steps_saying

# --- what is typed, and the branches it leaves

_TERM = re.compile(r'(?P<no>-?)(?:(?P<field>tool|is|tag):)?(?:"(?P<quoted>[^"]*)"?|(?P<bare>\S+))')

KINDS: dict[str, Callable[[TraceView], Collection[int]]] = {
    "error": lambda view: view.errors,
    "candidate": lambda view: view.marked,
    "tagged": lambda view: [tag.step for tag in view.tags],
    "repeat": lambda view: _repeats(view.tree),
    "answer": lambda view: [row.step for row in view.steps if not row.calls],
}
"""Kinds of steps, by their name after `is:`."""


class BadFilter(ArcError):
    """A filter that cannot be read."""


class Term(Struct, frozen=True):
    """A part of a filter: a field, "" for what is said, and the text that it must hold."""

    field: str
    text: str
    negated: bool = False


def terms(typed: str) -> list[Term]:
    """What was typed, as terms. Raises BadFilter."""
    found: list[Term] = []
    for match in _TERM.finditer(typed):
        text = (match["quoted"] if match["quoted"] is not None else match["bare"]).strip()
        field = match["field"] or ""
        if field == "is" and text and text not in KINDS:
            near = get_close_matches(text, KINDS, 1)
            hint = f"did you mean is:{near[0]}?" if near else f"known kinds: {', '.join(KINDS)}"
            raise BadFilter(f"no step kind matches {text!r}", hint)
        if text:
            found.append(Term(field, text, bool(match["no"])))
    return found


TextSearch = Callable[[str], Collection[int]]
"""The steps that say a text."""


def matching_steps(view: TraceView, wanted: Sequence[Term], search: TextSearch) -> frozenset[int]:
    """The steps of which all terms hold."""
    every = frozenset(row.step for row in view.steps)
    kept = every
    for term in wanted:
        steps = frozenset(_steps(view, term, search))
        kept &= every - steps if term.negated else steps
    return kept


def _steps(view: TraceView, term: Term, search: TextSearch) -> Collection[int]:
    text = term.text.lower()
    match term.field:
        case "tool":
            return {step for _, step, name in view.called if text in name.lower()}
        case "is":
            return KINDS[term.text](view)
        case "tag":
            return {tag.step for tag in view.tags if tag.failure.value.startswith(text)}
        case _:
            return steps_labelled(view.tree, text) | frozenset(search(term.text))


def steps_labelled(tree: Sequence[Branch], text: str) -> frozenset[int]:
    """The steps with a row of which the label holds the text, in any case."""
    wanted = text.lower()
    return frozenset(
        branch.step
        for branch in _all(tree)
        if branch.step is not None and wanted in branch.label.lower()
    )


def _repeats(tree: Sequence[Branch]) -> set[int]:
    return {
        each.step
        for branch in _all(tree)
        if branch.role == "repeat"
        for each in branch.below
        if each.step is not None
    }


def _all(tree: Sequence[Branch]) -> Iterator[Branch]:
    stack = list(tree)
    while stack:
        branch = stack.pop()
        stack.extend(branch.below)
        yield branch


def filter_branches(tree: Sequence[Branch], steps: Collection[int]) -> tuple[Branch, ...]:
    """The branches of these steps with those that they hang from."""
    kept: dict[str, Branch | None] = {}
    for branch in reversed([*_all(tree)]):  # each after all that hangs from it
        kept[branch.id] = _filter_branch(branch, _there(branch.below, kept), steps)
    return _there(tree, kept)


def _there(branches: Sequence[Branch], kept: Mapping[str, Branch | None]) -> tuple[Branch, ...]:
    return tuple(found for each in branches if (found := kept[each.id]) is not None)


def _filter_branch(
    branch: Branch, below: tuple[Branch, ...], steps: Collection[int]
) -> Branch | None:
    if branch.role in ("step", "call"):
        own = branch.step in steps
        return structs.replace(branch, below=below) if own or below else None
    if branch.role == "repeat" and len(below) == 1:
        return below[0]
    if not below:
        return None
    if branch.role == "repeat":
        return structs.replace(branch, below=below, count=len(below), step=below[0].step)
    return structs.replace(branch, below=below, quiet=False)


# --- what the screen looks for


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

    def apply(self, view: TraceView, line: PromptLine) -> bool:
        """Look for the steps that match, or say on the line it was typed in why none can be found.
        Is nothing filtered any more?"""
        typed, trace = self.typed, self._trace
        try:
            wanted = terms(typed)
        except BadFilter as refused:
            line.refusal = f"{refused.message}: {refused.hint}"
            return False
        line.refusal = ""
        if not wanted:
            return True

        def find(store: Store) -> frozenset[int]:
            return matching_steps(view, wanted, lambda text: steps_saying(store, trace, text))

        finding = self._screen.ask(find, lambda steps: self.Matched(typed, steps), group="filter")
        self._screen.hold_keys(finding)
        return False

    def clear(self, line: PromptLine) -> None:
        """Filter by nothing, without being told so by the line."""
        self.typed = ""
        with line.prevent(Input.Changed):
            line.words = ""

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

    def page(self, view: TraceView, step: StepView, tab: int) -> MatchingPage | None:
        """Where the step says the text, if a person came to it for that; `tab` is in front."""
        if self._to_show != step.row.step or step is EMPTY or self.pattern is None:
            return None
        self._to_show = None
        return matching_page(view, step, self.pattern, tab)

    def title(self, here: int) -> str:
        """Which of the steps that say it the cursor is on, and how many there are."""
        if not self.steps:
            return ""
        text, steps = format.cut(format.one_line(self.text), 20), sorted(self.steps)
        place = f"{steps.index(here) + 1} of " if here in self.steps else "in "
        return f"“{text}” {place}{format.count(len(steps), 'step')}"
