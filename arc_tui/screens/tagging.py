"""Tags on the step under the cursor: given, repeated, taken back. Actions of the trace screen."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from textual.message import Message

from arc_tui.places import author
from arc_tui.screens.base import ArcScreen
from arc_tui.views.trace import build_tags
from arc_tui.widgets.tag_picker import Choice, TagPicker
from replay.store import Store
from replay.store.rows import StepRow
from taxonomy import ledger
from taxonomy.findings import Finding
from taxonomy.ledger import Tag
from taxonomy.query import TagRow


class Tagging(ArcScreen):
    """Turns choices into changes of the ledger and remembers those of this visit."""

    class Tagged(Message):
        """The tags of the run are others."""

        def __init__(self, tags: tuple[TagRow, ...]) -> None:
            super().__init__()
            self.tags = tags

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._given: list[Tag] = []
        self._last: Choice | None = None

    @property
    def run(self) -> str:
        """The run whose steps are tagged."""
        raise NotImplementedError

    def step_here(self) -> StepRow | None:
        """The step under the cursor."""
        raise NotImplementedError

    def suggested_here(self) -> Finding | None:
        """What the rules say of that step first."""
        raise NotImplementedError

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

        def chosen(choice: Choice | None) -> None:
            if choice is not None:
                self._give(choice, row)

        self.app.push_screen(TagPicker(row.step, self.suggested_here()), chosen)

    def action_repeat(self) -> None:
        row = self.step_here()
        if row is not None and self._last is not None:
            self._give(self._last, row)

    def action_undo(self) -> None:
        if self._given:
            tag = self._given.pop()
            self._write(lambda store: ledger.untag(store, tag))
            self.say(f"{tag.failure} at step {tag.step} taken back")

    def _give(self, choice: Choice, row: StepRow) -> None:
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
        )
        self._last = choice
        self._given.append(tag)
        self._write(lambda store: ledger.tag(store, tag))
        self.say(f"step {tag.step} tagged {tag.failure}; u takes it back")

    def _write(self, change: Callable[[Store], object]) -> None:
        run = self.run

        def write(store: Store) -> tuple[TagRow, ...]:
            change(store)
            return build_tags(store, run)

        self.ask(write, self.Tagged, group="tags")
