"""From run to run through the review queue, blind or not.

Every run of the queue is a trace screen of its own; the app puts the next in its place. In a
blind pass nothing that others, rules or judges say is shown until the person's own mark is kept;
then theirs stands beside it, and what is marked from there on is no longer blind.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import structs
from textual.message import Message

from arc_tui.features.trace.tag_picker import QueueLine
from arc_tui.navigation import OpenQueue, read_queue
from arc_tui.places import author
from arc_tui.ui.screen import ArcScreen
from arc_tui.views.queue import Compared, HumanMark, Visit, build_compared


class ReviewQueue:
    """The queue that a run is shown in where there is a `visit`: what is hidden, what follows."""

    class Revealed(Message):
        """A blind mark is kept: from now on the run is shown as it is."""

    class ComparedRead(Message):
        """What others said of the run was read."""

        def __init__(self, compared: Compared) -> None:
            super().__init__()
            self.compared = compared

    def __init__(self, screen: ArcScreen, visit: Visit | None) -> None:
        self.visit = visit
        self._screen = screen
        self._next: Callable[[], object] | None = None
        """What follows once what was marked is kept."""

    @property
    def hidden(self) -> bool:
        """Is what others say kept from the person who tags?"""
        visit = self.visit
        return visit is not None and visit.blind and visit.here.trace not in visit.seen

    @property
    def has_others(self) -> bool:
        """Does what others say stand beside the person's own mark?"""
        return self.visit is not None and self.visit.blind and not self.hidden

    def line(self) -> QueueLine | None:
        """What stands above a run of the queue."""
        if self.visit is None:
            return None
        line = QueueLine()
        line.place, line.blind = self.visit.line, self.visit.blind
        return line

    def walk(self) -> None:
        """Into the queue, or on to its next run."""
        if self.visit is None:
            read_queue(self._screen, blind=False)
        else:
            self.skip()

    def turn_blind(self) -> None:
        """Into the blind queue, or from there into the other one."""
        blind = self.visit is None or not self.visit.blind
        read_queue(self._screen, blind=blind, in_place=self.visit is not None)

    def skip(self) -> None:
        """On to the next run."""
        visit = self.visit
        if visit is None:
            return
        if visit.last:
            self._screen.say(visit.ended)
            self._screen.dismiss()
        else:
            self._open(visit.at(visit.place + 1))

    def _open(self, visit: Visit) -> None:
        self._screen.post_message(OpenQueue(visit, in_place=True))

    def mark_given(self, given: Sequence[HumanMark]) -> None:
        """A mark on a run of the queue goes on to the next; a blind one shows what others say."""
        self._take(given)
        if self.hidden:
            self._next = self._reveal
        elif self.visit is not None and not self.visit.blind:
            self._next = self.skip

    def mark_taken_back(self, mark: HumanMark, given: Sequence[HumanMark]) -> None:
        """A mark on a run that is behind leads back to it."""
        self._take(given)
        visit = self.visit
        if visit is not None and mark.trace != visit.here.trace:
            back = visit.at(visit.place_of(mark))
            self._next = lambda: self._open(back)

    def _take(self, given: Sequence[HumanMark]) -> None:
        if self.visit is not None:
            self.visit = structs.replace(self.visit, marks=tuple(given))

    def marks_kept(self) -> None:
        """What was marked is written: go on from there."""
        if self._next is not None:
            follow, self._next = self._next, None
            follow()

    def _reveal(self) -> None:
        visit = self.visit
        if visit is not None:
            self.visit = structs.replace(visit, seen=visit.seen | {visit.here.trace})
            self._screen.post_message(self.Revealed())

    def compare(self) -> None:
        """Read what others said of the run."""
        if self.visit is not None:
            run, by = self.visit.here.run, author()
            self._screen.ask(
                lambda store: build_compared(store, run, by), self.ComparedRead, group="compared"
            )
