"""Tags on the step under the cursor: given, repeated, taken back. Actions of the trace screen."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from textual.message import Message
from textual.reactive import reactive
from typing_extensions import override

from arc_tui.places import author
from arc_tui.ui.screen import ArcScreen
from arc_tui.views.queue import HumanMark, mark_text
from arc_tui.views.trace import TraceView, build_tags
from replay.errors import StoreUnusable
from replay.store.handle import Store
from replay.store.rows import StepRow
from replay.store.trouble import patiently
from taxonomy.findings import Finding
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
    from arc_tui.features.trace.tag_picker import Choice, NothingWrong


class Tagging(ArcScreen):
    """Turns choices into changes of the ledger and remembers those of this visit.

    Changes are written one after the other in the order they were made, and none is dropped.
    """

    view: reactive[TraceView]

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

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._given: list[HumanMark] = []
        self._last: Choice | None = None
        self._changes: deque[tuple[Callable[[Store], object], str]] = deque()
        self._writing = Lock()

    def step_here(self) -> StepRow | None:
        """The step under the cursor."""
        raise NotImplementedError

    @property
    @override
    def awaits(self) -> bool:
        """A word is kept before a key typed behind it may leave."""
        return super().awaits or any(
            worker.group == "tags"
            and worker.node is self
            and not (worker.is_finished or worker.is_cancelled)
            for worker in self.workers
        )

    @property
    def hidden(self) -> bool:
        """Is what others say kept from the person who tags?"""
        return self.view.blind

    @property
    def can_repeat(self) -> bool:
        return self._last is not None

    @property
    def can_undo(self) -> bool:
        return bool(self._given)

    def action_tag(self) -> None:
        row = self.step_here()
        if row is None:
            return
        from arc_tui.features.trace.tag_picker import NothingWrong, TagPicker

        def chosen(choice: Choice | NothingWrong | None) -> None:
            if isinstance(choice, NothingWrong):
                self.clear(choice.note)
            elif choice is not None:
                self._tag(choice, row)

        tags = [tag for tag in self.view.tags if tag.step == row.step]
        self.app.push_screen(TagPicker(row.step, self._suggested(row.step), tags), chosen)

    def _suggested(self, step: int) -> list[Finding]:
        """What the rules say of a step, first things first."""
        said = self.view.diagnosis.findings if self.view.diagnosis else ()
        return [found for found in said if found.step == step]

    def action_repeat(self) -> None:
        row = self.step_here()
        if row is not None and self._last is not None:
            self._tag(self._last, row)

    def action_undo(self) -> None:
        if self._given:
            self.take_back(self._given.pop())

    def clear(self, note: str | None = None) -> None:
        """Say that nothing is wrong with the run."""
        own = next((tag for tag in self.view.tags if tag.by == author()), None)
        if own is not None:
            words = f"you tagged step {own.step} {own.failure.value}: take that back before"
            self.say(f"{words} you say that nothing is wrong", severity="warning")
            return
        trace = self.view.run.trace
        given = CleanMark(trace=trace, by=author(), note=note, blind=self.hidden)
        self.give(given, lambda store: mark_clean(store, given))

    def _tag(self, choice: Choice, row: StepRow) -> None:
        tag = Tag(
            trace=row.trace,
            span=row.span,
            step=row.step,
            failure=choice.failure,
            by=author(),
            sub=choice.sub,
            fault=choice.fault,
            note=choice.note,
            evidence=choice.evidence,
            blind=self.hidden,
        )
        self._last = choice
        self.give(tag, lambda store: put_tag(store, tag))

    def give(self, mark: HumanMark, change: Callable[[Store], object]) -> None:
        """Keep a word on the run."""
        self._given.append(mark)
        self._write(change, f"{mark_text(mark)}; {self.key_of('trace.undo') or 'u'} takes it back")

    def take_back(self, mark: HumanMark) -> None:
        """Forget a word on the run."""
        words = f"{mark_text(mark)}: taken back"
        if isinstance(mark, Tag):
            self._write(lambda store: remove_tag(store, mark), words)
        else:
            self._write(lambda store: unmark_clean(store, mark), words)

    def _write(self, change: Callable[[Store], object], words: str) -> None:
        """Make a change, and say so once it is kept: what was said outlives the app."""
        self._changes.append((change, words))
        self.read_tags()

    def on_tagging_tagged(self, event: Tagged) -> None:
        for words in event.said:
            self.say(words)

    def read_tags(self) -> None:
        """Write what is not written yet, then read the tags of the run as far as they are shown."""
        trace, hidden = self.view.run.trace, self.hidden

        def work() -> None:
            said: list[str] = []
            with self._writing:
                tags = patiently(lambda: self._written(None if hidden else trace, said))
                self.post_message(self.Tagged(tags, said))

        self.run_worker(work, group="tags", thread=True, exit_on_error=False)

    def _written(self, trace: str | None, said: list[str]) -> tuple[TagRow, ...]:
        """The tags of a run, if one is named, once all that was said is written; what was written
        is added to `said`."""
        with open_ledger(self.path) as store:
            while self._changes:
                change, words = self._changes.popleft()
                try:
                    change(store)
                except StoreUnusable:  # not written: it waits for another try
                    self._changes.appendleft((change, words))
                    raise
                said.append(words)
            return build_tags(store, trace) if trace is not None else ()
