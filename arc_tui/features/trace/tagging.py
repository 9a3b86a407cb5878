"""What a person says of a run, tags on its steps or that nothing is wrong: given, repeated, taken
back; and from run to run through the review queue, blind or not.

Every run of the queue is a trace screen of its own; the app puts the next in its place. In a
blind pass nothing that others, rules or judges say is shown until the person's own mark is kept;
then theirs stands beside it, and what is marked from there on is no longer blind.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from threading import Lock
from typing import TYPE_CHECKING

from msgspec import structs
from textual.message import Message

from arc_tui.navigation import OpenQueue, read_queue
from arc_tui.places import author
from arc_tui.ui.screen import ArcScreen
from arc_tui.views.queue import Compared, HumanMark, Visit, build_compared, mark_text
from arc_tui.views.trace import TraceView, build_tags
from replay.errors import StoreUnusable
from replay.store.handle import Store
from replay.store.rows import StepRow
from replay.store.trouble import patiently
from taxonomy.judgements.schema import open_ledger
from taxonomy.judgements.tags import (
    CleanMark,
    Tag,
    TagRow,
    mark_clean,
    put_tag,
    remove_tag,
    unmark_clean,
)

if TYPE_CHECKING:
    from arc_tui.features.trace.tag_picker import Choice, CleanChoice, QueueLine


class Tagging:
    """Turns choices of a person into changes of the judgements, and remembers those of this visit.

    Changes are written one after the other in the order they were made, and none is dropped. The
    `queue` says what is hidden from the person, and hears of each mark: it may go on from there.
    """

    class Tagged(Message):
        """The tags of the run were read; `said`: of changes of this screen's that are kept now."""

        def __init__(self, tags: tuple[TagRow, ...], said: Sequence[str] = ()) -> None:
            super().__init__()
            self.tags = tags
            self.said = said

        @property
        def kept(self) -> bool:
            """Is it so after a change of this screen's?"""
            return bool(self.said)

    def __init__(self, screen: ArcScreen, trace: str, queue: ReviewQueue) -> None:
        self._screen = screen
        self._trace = trace
        self._queue = queue
        self._given: list[HumanMark] = list(queue.visit.marks) if queue.visit else []
        self._last: Choice | None = None
        self._changes: deque[tuple[Callable[[Store], object], str]] = deque()
        self._writing = Lock()

    @property
    def is_writing(self) -> bool:
        """Is a change not kept yet, or are the tags being read?"""
        return any(
            worker.group == "tags"
            and worker.node is self._screen
            and not (worker.is_finished or worker.is_cancelled)
            for worker in self._screen.workers
        )

    @property
    def can_repeat(self) -> bool:
        return self._last is not None

    @property
    def can_undo(self) -> bool:
        return bool(self._given)

    def open_picker(self, view: TraceView, row: StepRow) -> None:
        """Let a person choose what kind of failure a step is."""
        from arc_tui.features.trace.tag_picker import CleanChoice, TagPicker

        def take(choice: Choice | CleanChoice | None) -> None:
            if isinstance(choice, CleanChoice):
                self.mark_clean(view, choice.note)
            elif choice is not None:
                self._tag(choice, row)

        findings = (*(view.diagnosis.findings if view.diagnosis else ()), *view.judged)
        suggested = [found for found in findings if found.step == row.step]
        tags = [tag for tag in view.tags if tag.step == row.step]
        self._screen.app.push_screen(TagPicker(row.step, suggested, tags), take)

    def repeat(self, row: StepRow) -> None:
        """Give a step the tag given last."""
        if self._last is not None:
            self._tag(self._last, row)

    def undo(self) -> None:
        """Take back what was given last."""
        if not self._given:
            return
        mark = self._given.pop()
        words = f"{mark_text(mark)}: undone"
        if isinstance(mark, Tag):
            self._write(lambda store: remove_tag(store, mark), words)
        else:
            self._write(lambda store: unmark_clean(store, mark), words)
        self._queue.mark_taken_back(mark, self._given)

    def mark_clean(self, view: TraceView, note: str | None = None) -> None:
        """Mark the run as clean."""
        own = next((tag for tag in view.tags if tag.by == author()), None)
        if own is not None:
            words = f"You tagged step {own.step} {own.failure.value}."
            self._screen.say(f"{words} Remove that tag to mark the run clean.", severity="warning")
            return
        mark = CleanMark(trace=self._trace, by=author(), note=note, blind=self._queue.hidden)
        self._give(mark, lambda store: mark_clean(store, mark))

    def _tag(self, choice: Choice, row: StepRow) -> None:
        tag = Tag(
            trace=row.trace,
            span=row.span,
            step=row.step,
            failure=choice.failure,
            by=author(),
            sub=choice.sub,
            attribution=choice.attribution,
            note=choice.note,
            evidence=choice.evidence,
            blind=self._queue.hidden,
        )
        self._last = choice
        self._give(tag, lambda store: put_tag(store, tag))

    def _give(self, mark: HumanMark, change: Callable[[Store], object]) -> None:
        self._given.append(mark)
        undo = self._screen.key_of("trace.undo") or "u"
        self._write(change, f"{mark_text(mark)}; {undo} undo")
        self._queue.mark_given(self._given)

    def _write(self, change: Callable[[Store], object], words: str) -> None:
        """Make a change; the words follow once it is kept: what was said outlives the app."""
        self._changes.append((change, words))
        self.read_tags()

    def read_tags(self) -> None:
        """Write what is not written yet, then read the tags of the run as far as they are shown."""
        hidden = self._queue.hidden

        def work() -> None:
            said: list[str] = []
            with self._writing:
                tags = patiently(lambda: self._write_changes(said, hidden=hidden))
                self._screen.post_message(self.Tagged(tags, said))

        self._screen.run_worker(work, group="tags", thread=True, exit_on_error=False)

    def _write_changes(self, said: list[str], *, hidden: bool) -> tuple[TagRow, ...]:
        """The tags of the run, none where they are hidden, once all changes are written; what was
        written is added to `said`."""
        with open_ledger(self._screen.path) as store:
            while self._changes:
                change, words = self._changes.popleft()
                try:
                    change(store)
                except StoreUnusable:  # not written: it waits for another try
                    self._changes.appendleft((change, words))
                    raise
                said.append(words)
            return () if hidden else build_tags(store, self._trace)


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
        from arc_tui.features.trace.tag_picker import QueueLine

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

    def show_compared(self, compared: Compared) -> None:
        """Say beside the run what others said of it."""
        from arc_tui.features.trace.tag_picker import QueueLine

        line = self._screen.query_one(QueueLine)
        line.compared, line.agreed = compared.lines, compared.same

    def compare(self) -> None:
        """Read what others said of the run."""
        if self.visit is not None:
            run, by = self.visit.here.run, author()
            self._screen.ask(
                lambda store: build_compared(store, run, by), self.ComparedRead, group="compared"
            )
