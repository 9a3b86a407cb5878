"""How far an experiment is: when a view of it is worth making, and what its answers rest on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from arc_tui.ui import format

BETWEEN_VIEWS_S = 0.1
"""A view costs a look at every step: answers that are all there come faster than anyone reads."""


def resting(guessed: int, runs: int) -> str:
    """`2 of 5 runs rest on guessed tool results`; "" for none."""
    return (
        f"{guessed} of {format.count(runs, 'run')} rest on guessed tool results" if guessed else ""
    )


class Counted(Protocol):
    """A view that says how much of it is in."""

    @property
    def done(self) -> int: ...

    @property
    def total(self) -> int: ...


View = TypeVar("View")
CountedView = TypeVar("CountedView", bound=Counted)


def with_status(views: Iterable[View], line: Callable[[View], str], out: Console) -> Iterator[View]:
    """The views as they come, each as a line where `out` is a terminal."""
    with out.status("asking") as status:
        for view in views:
            status.update(line(view))
            yield view


def with_bar(
    views: Iterable[CountedView], line: Callable[[CountedView], str], out: Console
) -> Iterator[CountedView]:
    """The views as they come, each as a bar with a line beside it where `out` is a terminal."""
    beside = TextColumn("{task.fields[line]}")
    columns = (TextColumn("asking"), BarColumn(), MofNCompleteColumn(), beside)
    with Progress(*columns, console=out, transient=True, disable=not out.is_terminal) as bar:
        task = bar.add_task("", total=None, line="")
        for view in views:
            bar.update(task, completed=view.done, total=view.total, line=line(view))
            yield view
