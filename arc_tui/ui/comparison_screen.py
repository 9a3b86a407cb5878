"""A screen that holds two groups of runs against each other: a verdict above, a list of what
differs, and the figures beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from textual.app import ComposeResult
from textual.containers import Container
from textual.getters import query_one
from textual.message import Message
from textual.reactive import reactive

from arc_tui.ui import format
from arc_tui.ui.group_choice import GroupChoice, GroupsFound, Queries, Refused, refusal
from arc_tui.ui.keys import KeyBar
from arc_tui.ui.list import RowList
from arc_tui.ui.page import Page
from arc_tui.ui.screen import ArcScreen
from arc_tui.ui.styles import SummaryLines
from replay.errors import ArcError
from replay.store.handle import Store

View = TypeVar("View")


class ComparisonHead(SummaryLines, Generic[View]):
    """What the comparison says; while it has nothing to say, what is waited for."""

    view: reactive[View | None] = reactive(None, layout=True)
    waiting: reactive[str] = reactive("", layout=True)


class ComparisonScreen(ArcScreen, Generic[View]):
    """Two groups of runs. A screen says how they are compared (`build`), what its list and its
    figures are, and binds its own keys to the actions here; its keys are named `NAME.back` and so
    on. Its sheet is `comparison_screen.tcss`, which Textual looks for beside the subclass."""

    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (110, "-wide")]
    NAME: ClassVar[str]
    TITLES: ClassVar[tuple[str, str]]
    """What is asked for where a person chooses the first group and the second."""
    NEED_VIEW: ClassVar[frozenset[str]] = frozenset({"copy", "pane"})
    """Actions that wait until both groups were compared."""

    view: reactive[View | None]
    """What was found; each screen declares it with its own type."""

    head = query_one(ComparisonHead)
    page = query_one("#figures", Page)
    rows = query_one("#rows", RowList)

    class Loaded(Message):
        """Both groups were read, or why they cannot be compared."""

        def __init__(self, found: Any) -> None:
            super().__init__()
            self.found = found

    def __init__(
        self, path: Path, find_groups: Callable[[Store], Queries], queries: tuple[str, str]
    ) -> None:
        """Without both queries a person is asked for them, from those that `find_groups` gives."""
        super().__init__(path)
        self._groups = GroupChoice(self, self.TITLES, find_groups, queries)

    # --- what a screen says of itself

    def build(self, store: Store, queries: tuple[str, str]) -> View:
        """Compare both groups. Raises ArcError where they cannot be."""
        raise NotImplementedError

    def head_and_list(self) -> tuple[ComparisonHead[View], RowList]:
        """The verdict, and the list, which has the id `rows`."""
        raise NotImplementedError

    def sides(self, queries: tuple[str, str]) -> str:
        """How a refusal names both groups."""
        raise NotImplementedError

    def show_figures(self, view: View) -> None:
        """Fill the page of figures."""
        raise NotImplementedError

    def text(self, view: View) -> tuple[str, str]:
        """What is copied, and what it is called."""
        raise NotImplementedError

    # --- which groups

    def compose(self) -> ComposeResult:
        head, rows = self.head_and_list()
        yield head
        with Container(id="compared"):
            yield rows
            yield Page(id="figures")
        yield KeyBar()

    def on_mount(self) -> None:
        self.rows.focus()
        if self._groups.is_made:
            self._compare()
        else:
            self.action_choose()

    def action_choose(self) -> None:
        """Offer the groups there are, once they are known."""
        if self.view is None:
            self._wait("Finding groups of runs")
        self._groups.look()

    def on_groups_found(self, event: GroupsFound) -> None:
        if self.is_current:
            if self.view is None:
                self.head.waiting = "No runs chosen yet."
            self._groups.offer(event.groups, self._take_groups)

    def _take_groups(self, made: bool) -> None:
        if made:
            self._compare()
        elif not self._groups.is_made:
            self.dismiss()

    # --- the comparison

    def _compare(self) -> None:
        self._wait("Comparing")
        queries = self._groups.queries

        def build(store: Store) -> View | Refused:
            try:
                return self.build(store, queries)
            except ArcError as error:
                return refusal(error)

        self.ask(build, self.Loaded, group="comparison")

    def on_comparison_screen_loaded(self, event: Loaded) -> None:
        refused = isinstance(event.found, Refused)
        self.view = None if refused else event.found
        if isinstance(event.found, Refused):
            first, second = map(format.one_line, self._groups.queries)
            self.head.waiting = f"{self.sides((first, second))}\n{event.found.why}"
            choose = self.key_of(f"{self.NAME}.choose")
            self.rows.nothing = f"No answer.\n\n{choose}   other runs"
            self.rows.rows_changed()
        elif self.view is not None:
            self.show_figures(self.view)
        self.set_class(refused, "-refused")
        self.refresh_bindings()

    def _wait(self, words: str) -> None:
        self.head.waiting = f"{words} · {self.key_of(f'{self.NAME}.back')} cancel"

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        del parameters
        return self.view is not None if action in self.NEED_VIEW else True

    def action_refresh(self) -> None:
        if self._groups.is_made:
            self._compare()

    def action_pane(self) -> None:
        (self.rows if self.focused is self.page else self.page).focus()

    def action_copy(self) -> None:
        assert self.view is not None
        text, name = self.text(self.view)
        self.app.copy_to_clipboard(text)
        self.say(f"{name}, {len(text)} characters")

    def action_back(self) -> None:
        if self.focused is self.page:
            self.rows.focus()
        else:
            self.dismiss()
