"""A free run behind a screen: it says how far it is, and stops when it is told to."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from textual.message import Message
from textual.worker import Worker, get_current_worker

from arc_tui.jobs.freeing import FreeWanted, freeing
from arc_tui.views.free.view import FreeView
from replay.errors import ArcError
from taxonomy.ledger import open_ledger

if TYPE_CHECKING:
    from arc_tui.screens.base import ArcScreen
    from replay.models.cached import Cached


class FreeMoved(Message):
    """The run has come further, or is over."""

    def __init__(self, view: FreeView) -> None:
        super().__init__()
        self.view = view

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, FreeMoved)


class FreeEnded(Message):
    """Nothing more will be asked: a person cut it short (`stopped`), there is `trouble`, or the
    run is over."""

    def __init__(self, *, stopped: bool = False, trouble: ArcError | None = None) -> None:
        super().__init__()
        self.stopped = stopped
        self.trouble = trouble


class Going:
    """A free run under way."""

    def __init__(self, screen: ArcScreen, wanted: FreeWanted) -> None:
        self._screen = screen
        self._wanted = wanted
        self._model: Cached | None = None
        self._worker: Worker[None] = screen.run_worker(
            self._work, group="free", thread=True, exit_on_error=False
        )

    def stop(self) -> None:
        """Cancel the call in flight and ask no other. What was answered is kept."""
        self._worker.cancel()
        if self._model is not None:
            self._model.stop()

    def _work(self) -> None:
        worker = get_current_worker()
        try:
            ended = FreeEnded(stopped=not self._ran(worker))
        except ArcError as error:
            stopped = worker.is_cancelled
            ended = FreeEnded(stopped=stopped, trouble=None if stopped else error)
        self._screen.post_message(ended)

    def _ran(self, worker: Worker[None]) -> bool:
        """Run on until it is over; is it?"""
        with (
            open_ledger(self._screen.path) as store,
            closing(freeing(store, self._wanted, hold=self._hold)) as going,
        ):
            for view in going:
                self._screen.post_message(FreeMoved(view))
                if view.stop is not None:
                    return True
                if worker.is_cancelled:
                    return False
        return False

    def _hold(self, model: Cached) -> None:
        self._model = model
        if self._worker.is_cancelled:
            model.stop()
