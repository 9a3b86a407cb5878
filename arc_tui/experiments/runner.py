"""A run under way behind a screen: it posts how far it is, and can be stopped.

The run is a generator of views over a store and a model pool of its own. A worker drains it and
posts each view; answers that were paid for are stored however it ends.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing
from threading import Event
from typing import TYPE_CHECKING, Generic, TypeVar

from textual.message import Message
from textual.worker import get_current_worker
from typing_extensions import override

from arc_tui.experiments.models import ModelPool, Spending
from arc_tui.experiments.request import ExperimentRequest, Run
from replay.errors import ArcError
from taxonomy.judgements.schema import open_ledger

if TYPE_CHECKING:
    from arc_tui.ui.screen import ArcScreen

R = TypeVar("R", bound=ExperimentRequest)
View = TypeVar("View")


class JobProgressed(Message, Generic[View]):
    """The run has come further, or is over."""

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


class BackgroundRun(Generic[R, View]):
    """A run whose views are posted as `JobProgressed`, and its end as `JobFinished`."""

    def __init__(
        self,
        screen: ArcScreen,
        run: Run[R, View],
        request: R,
        *,
        cut_short: Callable[[View], bool] = lambda _: False,
    ) -> None:
        """A view that is `cut_short` is the last one."""
        self._screen = screen
        self._run = run
        self._request = request
        self._cut_short = cut_short
        self._models: ModelPool | None = None
        self._stop = Event()
        screen.run_worker(self._work, group="experiment", thread=True, exit_on_error=False)

    @property
    def spending(self) -> Spending:
        """What was spent by this moment, though what was answered may not be known yet."""
        return self._models.spending if self._models is not None else Spending()

    def stop(self) -> None:
        """Cancel the calls in flight and ask no other. Completed calls are saved."""
        self._stop.set()  # a worker that is cancelled before it begins would never post an end
        if self._models is not None:
            self._models.stop()

    def _work(self) -> None:
        worker = get_current_worker()

        def is_over() -> bool:
            return self._stop.is_set() or worker.is_cancelled

        try:
            finished = JobFinished(stopped=not self._drain(is_over))
        except ArcError as error:
            stopped = is_over()
            finished = JobFinished(stopped=stopped, trouble=None if stopped else error)
        self._screen.post_message(finished)

    def _drain(self, is_over: Callable[[], bool]) -> bool:
        """Ask until the end; was everything asked?"""
        request = self._request
        with open_ledger(self._screen.path) as store, request.model_pool(store) as models:
            self._models = models
            if is_over():
                models.stop()
            with closing(self._run(store, request, models)) as views:
                return self._post(views, is_over)

    def _post(self, views: Generator[View], is_over: Callable[[], bool]) -> bool:
        for view in views:
            self._screen.post_message(JobProgressed(view))
            if is_over() or self._cut_short(view):
                return False
        return True
