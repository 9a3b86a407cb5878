"""An edit being tried behind a screen: it says how far it is, and stops when it is told to."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from textual.message import Message
from textual.worker import Worker, get_current_worker

from arc_tui.jobs.tryout.trying import trying
from arc_tui.jobs.tryout.wish import Wanted, Whom
from arc_tui.views.trying import TryView
from replay.errors import ArcError
from taxonomy.ledger import open_ledger

if TYPE_CHECKING:
    from arc_tui.screens.base import ArcScreen


class TryMoved(Message):
    """More runs or steps are in."""

    def __init__(self, view: TryView) -> None:
        super().__init__()
        self.view = view

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, TryMoved)


class TryEnded(Message):
    """Nothing more will be asked: a person cut it short (`stopped`), there is `trouble`, or all
    was asked."""

    def __init__(self, *, stopped: bool = False, trouble: ArcError | None = None) -> None:
        super().__init__()
        self.stopped = stopped
        self.trouble = trouble


class TryGoing:
    """A try under way."""

    def __init__(self, screen: ArcScreen, wanted: Wanted) -> None:
        self._screen = screen
        self._wanted = wanted
        self._whom: Whom | None = None
        self._worker: Worker[None] = screen.run_worker(
            self._work, group="try", thread=True, exit_on_error=False
        )

    def stop(self) -> None:
        """Cancel the calls in flight and ask no other. What was answered is kept."""
        self._worker.cancel()
        if self._whom is not None:
            self._whom.stop()

    def _work(self) -> None:
        worker = get_current_worker()
        try:
            ended = TryEnded(stopped=not self._asked(worker))
        except ArcError as error:
            stopped = worker.is_cancelled
            ended = TryEnded(stopped=stopped, trouble=None if stopped else error)
        self._screen.post_message(ended)

    def _asked(self, worker: Worker[None]) -> bool:
        """Ask until the end; was everything asked?"""
        with (
            closing(open_ledger(self._screen.path)) as store,
            closing(trying(store, self._wanted, hold=self._hold)) as going,
        ):
            for view in going:
                self._screen.post_message(TryMoved(view))
                if worker.is_cancelled or view.ended is not None:
                    return False
        return True

    def _hold(self, whom: Whom) -> None:
        self._whom = whom
        if self._worker.is_cancelled:
            whom.stop()
