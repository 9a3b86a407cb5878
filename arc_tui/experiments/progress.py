"""How far an experiment is: the state that its screen draws, the line or bar of a command."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Literal, Protocol, TypeAlias, TypeVar

from msgspec import Struct
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from arc_tui.experiments.models import Spending
from arc_tui.ui import format
from replay.budget import Limits
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
        """The first sentence, then what it means."""
        raise NotImplementedError

    @property
    def notices(self) -> tuple[str, ...]:
        """What stands against it."""
        return ()


def as_sentence(words: str) -> str:
    """A message of an error as a sentence."""
    return f"{words[:1].upper()}{words[1:]}".rstrip(".") + "."


NO_LIMITS = Limits()

BETWEEN_VIEWS_S = 0.1
"""A view costs a look at every step: answers that are all there come faster than anyone reads."""


def resting(guessed: int, runs: int) -> str:
    """`2 of 5 runs use guessed tool results`; "" for none."""
    return f"{guessed} of {format.count(runs, 'run')} use guessed tool results" if guessed else ""


def spending_line(spent: Spending, limits: Limits = NO_LIMITS) -> str:
    """What was called and what it cost, each of its limit: `68 calls · 0 cached · $0.11`."""
    return " · ".join((_calls(spent, limits), f"{format.number(spent.cached)} cached",
                       _usd(spent, limits)))  # fmt: skip


def progress_line(
    doing: str, done: int, total: int, spent: Spending, limits: Limits, found: str = ""
) -> str:
    """`Replaying step 4 of 12 · $0.03 of $0.50`; `found` is what is known by now."""
    place = f"{doing} {format.number(min(done + 1, total))} of {format.number(total)}"
    return " · ".join(filter(None, (place, found, spent_so_far(spent, limits))))


def spent_so_far(spent: Spending, limits: Limits) -> str:
    """`$0.03 of $0.50`, or `3 of 20 calls`: what is limited; without a limit, all of it."""
    limited = (
        _calls(spent, limits) if limits.calls is not None else "",
        _usd(spent, limits) if limits.usd is not None else "",
    )
    return " · ".join(filter(None, limited)) or spending_line(spent)


def _calls(spent: Spending, limits: Limits) -> str:
    if limits.calls is not None:
        return f"{format.number(spent.calls)} of {format.count(limits.calls, 'call')}"
    return format.count(spent.calls, "call")


def _usd(spent: Spending, limits: Limits) -> str:
    usd = format.usd(spent.usd, complete=spent.complete)
    return usd if limits.usd is None else f"{usd} of {format.usd(limits.usd)}"


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
    with out.status("Starting") as status:
        for view in views:
            status.update(line(view))
            yield view


def with_bar(
    views: Iterable[CountedView], line: Callable[[CountedView], str], out: Console
) -> Iterator[CountedView]:
    """The views as they come, each as a bar with a line after it where `out` is a terminal."""
    columns = (BarColumn(), TextColumn("{task.fields[line]}"))
    with Progress(*columns, console=out, transient=True, disable=not out.is_terminal) as bar:
        task = bar.add_task("", total=None, line="Starting")
        for view in views:
            bar.update(task, completed=view.done, total=view.total, line=line(view))
            yield view
