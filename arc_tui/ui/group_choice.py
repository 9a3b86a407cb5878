"""Two groups of runs, named by a person one after the other: chosen from queries, or typed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from textual.app import App

from arc_tui.ui.dialogs import AskBox, Option

Queries: TypeAlias = tuple[tuple[str, str], ...]
"""Queries to choose from, each with what it means."""

HINT = "or a query, such as variant=v4 since:2026-11-01"


def ask_groups(
    app: App[None],
    titles: tuple[str, str],
    offered: Queries,
    taken: Callable[[tuple[str, str] | None], None],
) -> None:
    """Ask for the query of each group; `taken` is given both, None where a question is left."""

    def ask(title: str, queries: Queries, named: Callable[[str], None]) -> None:
        def take_answer(query: str | None) -> None:
            taken(None) if query is None else named(query)

        choices = [Option(query, words) for query, words in queries]
        app.push_screen(AskBox(title, hint=HINT, choices=choices), take_answer)

    def first_named(first: str) -> None:
        left = tuple(each for each in offered if each[0] != first)
        ask(titles[1], left, lambda second: taken((first, second)))

    ask(titles[0], offered, first_named)
