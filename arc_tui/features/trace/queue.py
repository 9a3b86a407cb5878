"""From run to run through the tagging queue, blind or not.

Every run of the queue is a trace screen of its own; the app puts the next in its place. In a
blind pass nothing that others, rules or judges say is shown until the person's own word is kept;
then theirs stands beside it, and what is said from there on is no longer a blind word.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from msgspec import structs
from textual.binding import Binding
from textual.message import Message
from typing_extensions import override

from arc_tui.features.trace.span_tree import SpanTree
from arc_tui.features.trace.tag_picker import QueueLine
from arc_tui.features.trace.tagging import Tagging
from arc_tui.navigation import OpenQueue, read_queue
from arc_tui.places import author
from arc_tui.views.queue import Compared, HumanMark, Visit, build_compared
from arc_tui.views.trace import EMPTY_TRACE, TraceView, blinded
from replay.store.handle import Store

TELLING = frozenset(
    {"edit", "replay", "free", "bisect", "bisect_steps", "probes", "money", "origins", "compare"}
)
"""Actions that show what the rules think of a run."""


class Walking(Tagging):
    """A run as one of the queue, where `visit` says so. Actions of the trace screen."""

    BINDINGS = [
        Binding("T", "walk", "queue", id="queue.walk", show=False,
                tooltip="Walk the runs that want a tag of yours; in the queue, the next run"),
        Binding("h", "turn_blind", "blind", id="queue.blind", show=False,
                tooltip="Walk runs that others tagged, their tags hidden; in there, back"),
        Binding("s", "skip", "skip", id="queue.skip", show=False,
                tooltip="Go on to the next run of the queue without a word on this one"),
        Binding("o", "clear", "nothing wrong", id="queue.clear", show=False,
                tooltip="Say that nothing is wrong with this run of the queue"),
    ]  # fmt: skip

    visit: Visit | None = None

    class ComparedRead(Message):
        """What others said of the run was read."""

        def __init__(self, compared: Compared) -> None:
            super().__init__()
            self.compared = compared

    _then: Callable[[], object] | None = None
    """What follows once what was said is kept."""

    _whole: TraceView = EMPTY_TRACE
    """The run with all that is said of it."""

    @property
    @override
    def hidden(self) -> bool:
        visit = self.visit
        return visit is not None and visit.blind and visit.here.trace not in visit.seen

    def shown(self, view: TraceView) -> TraceView:
        """As much of the run as may be seen now."""
        self._whole = view
        return blinded(view) if self.hidden else view

    @override
    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in {"skip", "clear"}:
            return self.visit is not None
        if action in TELLING and self.hidden:
            return None
        return super().check_action(action, parameters)

    def on_mount(self) -> None:
        if self.visit is None:
            return
        self._given = list(self.visit.said)
        line = QueueLine()
        line.place, line.blind = self.visit.line, self.visit.blind
        self.mount(line, before=0)
        if self.visit.blind and not self.hidden:
            self._compare(self.visit.here.run)

    def on_screen_resume(self) -> None:
        """In another screen the run may have been tagged meanwhile."""
        if self.view.run.run and not self.hidden:
            self.read_tags()

    def action_walk(self) -> None:
        if self.visit is None:
            self._read_queue(blind=False)
        else:
            self.action_skip()

    def action_turn_blind(self) -> None:
        self._read_queue(blind=self.visit is None or not self.visit.blind)

    def _read_queue(self, *, blind: bool) -> None:
        read_queue(self, blind=blind, in_place=self.visit is not None)

    def action_skip(self) -> None:
        visit = self.visit
        if visit is None:
            return
        visit = structs.replace(visit, said=tuple(self._given))
        if visit.last:
            self.say(visit.ended)
            self.dismiss()
        else:
            self.post_message(OpenQueue(visit.at(visit.place + 1), in_place=True))

    def action_clear(self) -> None:
        self.clear()

    @override
    def give(self, mark: HumanMark, change: Callable[[Store], object]) -> None:
        """A word on a run of the queue goes on to the next; a blind one shows what others say."""
        super().give(mark, change)
        if self.hidden:
            self._then = self._reveal
        elif self.visit is not None and not self.visit.blind:
            self._then = self.action_skip

    @override
    def take_back(self, mark: HumanMark) -> None:
        """A word on a run that is behind leads back to it."""
        super().take_back(mark)
        visit = self.visit
        if visit is not None and mark.trace != visit.here.trace:
            back = structs.replace(visit, said=tuple(self._given)).at(visit.place_of(mark))
            self._then = partial(self.post_message, OpenQueue(back, in_place=True))

    def on_tagging_tagged(self, event: Tagging.Tagged) -> None:
        if event.kept and self._then is not None:
            then, self._then = self._then, None
            then()

    def _reveal(self) -> None:
        """The blind word is kept: show the run as it is, and what others say."""
        visit, here = self.visit, self.step_here()
        if visit is None or here is None:
            return
        self.visit = structs.replace(visit, seen=visit.seen | {visit.here.trace})
        self.view = self._whole
        self.read_tags()
        self.post_message(SpanTree.StepShown(here.step))
        self._compare(visit.here.run)

    def _compare(self, run: str) -> None:
        by = author()
        self.ask(lambda store: build_compared(store, run, by), self.ComparedRead, group="compared")

    def on_walking_compared_read(self, event: ComparedRead) -> None:
        line = self.query_one(QueueLine)
        line.compared, line.agreed = event.compared.lines, event.compared.same
