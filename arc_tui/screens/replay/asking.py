"""A replay behind a screen: it says how far it is, and stops when it is told to."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from msgspec import structs
from textual.worker import Worker, get_current_worker

from arc_tui.jobs.replaying import Wanted, replaying
from arc_tui.screens.going import Ended, Moved
from arc_tui.views.replay.view import ReplayView
from replay.errors import ArcError
from taxonomy.ledger import open_ledger

if TYPE_CHECKING:
    from arc_tui.screens.base import ArcScreen
    from replay.locked.row import Models


class Asking:
    """A running replay."""

    def __init__(self, screen: ArcScreen, wanted: Wanted) -> None:
        self._screen = screen
        self._wanted = wanted
        self._models: Models | None = None
        self._worker: Worker[None] = screen.run_worker(
            self._work, group="replay", thread=True, exit_on_error=False
        )

    def stop(self) -> None:
        """Cancel the calls in flight and ask no other. What was answered is kept."""
        self._worker.cancel()
        self._stop_models()

    def counted(self, view: ReplayView) -> ReplayView:
        """The view with the calls and the money of this moment; itself where they are the same.

        Calls that are made together are counted as they are answered, though what they say is
        known only once all of them are.
        """
        if self._models is None:
            return view
        models = tuple(dict.fromkeys(self._models))
        asked, kept = (
            sum(counts) for counts in zip(*((m.asks, m.hits) for m in models), strict=True)
        )
        if (asked, kept) == (view.asked, view.kept):
            return view
        return structs.replace(
            view,
            asked=asked,
            kept=kept,
            spent_usd=sum(model.usd for model in models),
            spent_complete=all(model.usd_complete for model in models),
        )

    def _work(self) -> None:
        worker = get_current_worker()
        try:
            ended = Ended(stopped=not self._asked(worker))
        except ArcError as error:
            stopped = worker.is_cancelled
            ended = Ended(stopped=stopped, trouble=None if stopped else error)
        self._screen.post_message(ended)

    def _asked(self, worker: Worker[None]) -> bool:
        """Ask until the end; was everything asked?"""
        with (
            open_ledger(self._screen.path) as store,
            closing(replaying(store, self._wanted, hold=self._hold)) as going,
        ):
            for view in going:
                self._screen.post_message(Moved(view))
                if view.digest is not None:
                    return True
                if worker.is_cancelled:
                    return False
        return False

    def _hold(self, models: Models) -> None:
        self._models = models
        if self._worker.is_cancelled:
            self._stop_models()

    def _stop_models(self) -> None:
        for model in dict.fromkeys(self._models or ()):
            model.stop()
