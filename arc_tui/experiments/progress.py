"""How far an experiment is: the state that its screen draws, the line or bar of a command."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Literal, Protocol, TypeAlias, TypeVar

from msgspec import Struct
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from arc_tui.ui import format
from replay.errors import ArcError

Phase: TypeAlias = Literal["estimating", "idle", "running", "stopping", "stopped", "failed", "done"]
"""`estimating`: what a run would ask is being read; `idle`: it waits for a person; `stopping`: the
calls in flight are being cancelled; `stopped`, `failed` and `done` tell how a run ended."""


class ExperimentState(Struct, frozen=True, eq=False, kw_only=True):
    """What a screen draws. `trouble` is why it goes no further, None where nothing is wrong."""

    phase: Phase = "estimating"
    trouble: ArcError | None = None

    @property
    def running(self) -> bool:
        return self.phase in ("running", "stopping")

    @property
    def title(self) -> str:
        """What is asked, "" where another line says it."""
        return ""

    @property
    def lines(self) -> tuple[str, ...]:
        """What is to be said first, then what it means."""
        raise NotImplementedError

    @property
    def notices(self) -> tuple[str, ...]:
        """What stands against it."""
        return ()


def as_sentence(words: str) -> str:
    """A message of an error as a sentence."""
    return f"{words[:1].upper()}{words[1:]}".rstrip(".") + "."


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
