"""Work under way behind a screen: it says how far it is, and stops when it is told to.

The work is a generator of views over a store of its own. A worker drains it and posts each view;
what was paid for is kept however it ends.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing
from typing import TYPE_CHECKING, Generic, Protocol, TypeAlias, TypeVar

from textual.message import Message
from textual.worker import Worker, get_current_worker
from typing_extensions import override

from replay.errors import ArcError
from replay.store.handle import Store
from taxonomy.judgements.schema import open_ledger

if TYPE_CHECKING:
    from arc_tui.ui.screen import ArcScreen


class Stoppable(Protocol):
    """Who is asked."""

    def stop(self) -> None:
        """Cancel the calls in flight and make no other. From any thread."""
        ...


View = TypeVar("View")
Hold: TypeAlias = Callable[[Stoppable], None]
Work: TypeAlias = Callable[[Store, Hold], Generator[View]]


class JobProgressed(Message, Generic[View]):
    """The work has come further, or is over."""

    def __init__(self, view: View) -> None:
        super().__init__()
        self.view = view

    @override
    def can_replace(self, message: Message) -> bool:
        return isinstance(message, JobProgressed)


class JobFinished(Message):
    """Nothing more will be asked: it was cut short (`stopped`, by a person, a limit or a refusal),
    there is `trouble`, or it is over."""

    def __init__(self, *, stopped: bool = False, trouble: ArcError | None = None) -> None:
        super().__init__()
        self.stopped = stopped
        self.trouble = trouble


class BackgroundRun(Generic[View]):
    """Work whose views are posted as `JobProgressed`, and its end as `JobFinished`."""

    def __init__(
        self,
        screen: ArcScreen,
        work: Work[View],
        *,
        group: str,
        cut_short: Callable[[View], bool] = lambda _: False,
    ) -> None:
        """`work` gives who is asked to the function it is given. A view that is
        `cut_short` is the last one."""
        self._screen = screen
        self._views = work
        self._cut_short = cut_short
        self._held: Stoppable | None = None
        self._worker: Worker[None] = screen.run_worker(
            self._work, group=group, thread=True, exit_on_error=False
        )

    def stop(self) -> None:
        """Cancel the calls in flight and ask no other. What was answered is kept."""
        self._worker.cancel()
        if self._held is not None:
            self._held.stop()

    def _work(self) -> None:
        worker = get_current_worker()
        try:
            ended = JobFinished(stopped=not self._drained(worker))
        except ArcError as error:
            stopped = worker.is_cancelled
            ended = JobFinished(stopped=stopped, trouble=None if stopped else error)
        self._screen.post_message(ended)

    def _drained(self, worker: Worker[None]) -> bool:
        """Ask until the end; was everything asked?"""
        with (
            open_ledger(self._screen.path) as store,
            closing(self._views(store, self._hold)) as going,
        ):
            for view in going:
                self._screen.post_message(JobProgressed(view))
                if worker.is_cancelled or self._cut_short(view):
                    return False
        return True

    def _hold(self, held: Stoppable) -> None:
        self._held = held
        if self._worker.is_cancelled:
            held.stop()
