"""A replay behind a screen: it says how far it is, and stops when it is told to."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from textual.message import Message
from textual.worker import Worker, get_current_worker

from arc_tui.replaying import Wanted, replaying
from arc_tui.views.replay import ReplayView
from replay.errors import ArcError
from taxonomy.ledger import open_ledger

if TYPE_CHECKING:
    from arc_tui.screens.base import ArcScreen
    from replay.models.cached import Cached


class ReplayMoved(Message):
    """One step more was asked."""

    def __init__(self, view: ReplayView) -> None:
        super().__init__()
        self.view = view

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, ReplayMoved)


class ReplayEnded(Message):
    """Nothing more will be asked: a person stopped it, `trouble` did, or all was asked."""

    def __init__(self, *, stopped: bool = False, trouble: ArcError | None = None) -> None:
        super().__init__()
        self.stopped = stopped
        self.trouble = trouble


class Asking:
    """A running replay."""

    def __init__(self, screen: ArcScreen, wanted: Wanted) -> None:
        self._screen = screen
        self._wanted = wanted
        self._model: Cached | None = None
        self._worker: Worker[None] = screen.run_worker(
            self._work, group="replay", thread=True, exit_on_error=False
        )

    def stop(self) -> None:
        """Cancel the call in flight and ask no other. What was answered is kept."""
        self._worker.cancel()
        if self._model is not None:
            self._model.stop()

    def _work(self) -> None:
        worker = get_current_worker()
        try:
            ended = ReplayEnded(stopped=self._asked(worker))
        except ArcError as error:
            stopped = worker.is_cancelled
            ended = ReplayEnded(stopped=stopped, trouble=None if stopped else error)
        self._screen.post_message(ended)

    def _asked(self, worker: Worker[None]) -> bool:
        """Ask until the end; was it stopped before?"""
        with (
            closing(open_ledger(self._screen.path)) as store,
            closing(replaying(store, self._wanted, hold=self._hold)) as going,
        ):
            for view in going:
                self._screen.post_message(ReplayMoved(view))
                if worker.is_cancelled and view.digest is None:
                    return True
        return False

    def _hold(self, model: Cached) -> None:
        self._model = model
        if self._worker.is_cancelled:
            model.stop()
