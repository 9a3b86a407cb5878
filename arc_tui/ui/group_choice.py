"""Two groups of runs that a screen holds against each other, each named by a query: chosen by a
person one after the other, or typed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from msgspec import Struct
from textual.message import Message

from arc_tui.ui import format
from arc_tui.ui.dialogs import AskBox, Option
from arc_tui.ui.screen import ArcScreen
from replay.errors import ArcError
from replay.store.handle import Store

Queries: TypeAlias = tuple[tuple[str, str], ...]
"""Queries to choose from, each with what it means."""

HINT = "or a query, such as variant=v4 since:2026-11-01"


class GroupsFound(Message):
    """What groups of runs there are was looked for."""

    def __init__(self, groups: Queries) -> None:
        super().__init__()
        self.groups = groups


class Refused(Struct, frozen=True):
    """Why two groups cannot be compared, and what to do."""

    why: str


def refusal(error: ArcError) -> Refused:
    """What a screen shows where a comparison is refused."""
    said = (format.one_line(error.message), format.one_line(error.hint))
    return Refused("\n".join(filter(None, said)))


class GroupChoice:
    """The two groups of a screen. `queries` are "" until they are chosen."""

    def __init__(
        self,
        screen: ArcScreen,
        titles: tuple[str, str],
        find: Callable[[Store], Queries],
        queries: tuple[str, str] = ("", ""),
    ) -> None:
        self._screen = screen
        self._titles = titles
        self._find = find
        self.queries = queries

    @property
    def is_made(self) -> bool:
        return all(self.queries)

    def look(self) -> None:
        """Look for what there is to choose from: `GroupsFound` says it."""
        self._screen.hold_keys(self._screen.ask(self._find, GroupsFound, group="groups"))

    def offer(self, groups: Queries, done: Callable[[bool], None]) -> None:
        """Ask for the query of each group. `done` is told whether both were named; where a
        question is left, the queries stay what they were."""

        def ask(title: str, queries: Queries, named: Callable[[str], None]) -> None:
            def take(query: str | None) -> None:
                done(False) if query is None else named(query)

            choices = [Option(query, words) for query, words in queries]
            self._screen.app.push_screen(AskBox(title, hint=HINT, choices=choices), take)

        def first_named(first: str) -> None:
            left = tuple(each for each in groups if each[0] != first)
            ask(self._titles[1], left, lambda second: both_named(first, second))

        def both_named(first: str, second: str) -> None:
            self.queries = (first, second)
            done(True)

        ask(self._titles[0], groups, first_named)
