"""What the steps of a run say, read for the cursor: the step under it first, then those it is
likely to come to next.

One question at a time is under way. It reads whatever step is wanted by then, so a step that the
cursor has left again costs nothing, and the step shown last is the one under the cursor.
"""

from __future__ import annotations

from threading import Event

from textual.message import Message
from textual.worker import Worker

from arc_tui.ui.screen import ArcScreen
from arc_tui.views.step import StepView, build_step
from arc_tui.views.trace import EMPTY_TRACE, TraceView
from replay.store.handle import Store

AHEAD = 8
"""Steps that are read before the cursor comes to them, in the direction in which it moves."""

LOW = 4
"""Of these so many are left when more are read: a database is not opened for each."""

HELD = 4_000_000
"""Characters of read steps that are held; where steps are larger, fewer are read ahead."""

DRAWN_S = 0.03
"""What was wanted is drawn before more is read."""


class StepReader:
    """Reads steps for a screen; one that was not known yet comes as a message."""

    class Loaded(Message):
        """The step under the cursor was read."""

        def __init__(self, detail: StepView) -> None:
            super().__init__()
            self.detail = detail

    class Done(Message):
        """No more is read now."""

    def __init__(self, screen: ArcScreen, trace: str) -> None:
        self._screen = screen
        self._trace = trace
        self._run = EMPTY_TRACE
        self._known: dict[int, StepView] = {}
        self._wanted = 0
        self._forward = True
        self._due = Event()
        """Is the step under the cursor still to be read?"""
        self._reading: Worker[None] | None = None
        self._ahead: Worker[None] | None = None

    def forget(self) -> None:
        """Something may have been written: what was read before is not shown any more."""
        self._known = {}
        self._reading = self._ahead = None
        if self._due.is_set():
            self._read()

    def show(self, run: TraceView, step: int) -> StepView | None:
        """A step of a run, where it was read already; else it is read, and comes as a message."""
        if run is not self._run:
            self._run, self._known, self._reading, self._ahead = run, {}, None, None
        if step != self._wanted:
            self._wanted, self._forward = step, step > self._wanted
        for known in list(self._known):  # a worker may add one meanwhile
            if abs(known - step) > AHEAD:
                self._known.pop(known, None)
        found = self._known.get(step)
        if found is None:
            self._due.set()
            self._read()
        else:
            self._due.clear()
            if self._missing(LOW) is not None:
                self.read_ahead()
        return found

    def go_on(self) -> None:
        """The question is answered: the cursor may have moved since it looked where that is."""
        self._reading = None
        if self._due.is_set():
            self._read()

    def read_ahead(self) -> None:
        """Read what the cursor is likely to come to; what fails then is said when it is there."""
        if self._is_at(self._ahead):
            return
        known = self._known

        def read(store: Store) -> None:
            self._due.wait(DRAWN_S)
            while not self._due.is_set() and (step := self._missing(AHEAD)) is not None:
                made = self._build(store, step)
                if known is not self._known:
                    return
                known[step] = made

        self._ahead = self._screen.ask(read, None, group="steps ahead")

    def _missing(self, ahead: int) -> int | None:
        """The step to read next, of so many ahead; None where all are known, or enough is held."""
        if sum(len(each.raw) for each in list(self._known.values())) > HELD:
            return None
        way = range(1, ahead + 1) if self._forward else range(-1, -ahead - 1, -1)
        steps = (self._wanted + far for far in way)
        return next(
            (at for at in steps if 0 <= at < len(self._run.steps) and at not in self._known), None
        )

    def _read(self) -> None:
        if self._is_at(self._reading):
            return
        known = self._known

        def read(store: Store) -> None:
            while self._due.is_set() and known is self._known:
                step = self._wanted
                made = self._build(store, step)
                if known is not self._known:
                    return
                known[step] = made
                self._due.clear()
                if step == self._wanted:
                    self._screen.post_message(self.Loaded(made))
                else:  # the cursor moved on, perhaps before it was said that nothing is due
                    self._due.set()

        self._reading = self._screen.ask(read, lambda _: self.Done(), group="step")

    def _build(self, store: Store, step: int) -> StepView:
        run = self._run
        return build_step(
            store, self._trace, step, rows=run.steps, said=run.diagnosis, blind=run.blind
        )

    @staticmethod
    def _is_at(worker: Worker[None] | None) -> bool:
        return worker is not None and not worker.is_finished
