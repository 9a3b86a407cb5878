"""The steps of a replay: as recorded, asked again as they were, and asked again with the edit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.cells import cell_len
from rich.style import Style
from rich.text import Text
from textual import events
from textual.binding import Binding
from textual.message import Message
from textual.reactive import reactive

from arc_tui import format
from arc_tui.views.replay import MARKS, ReplayRow
from arc_tui.views.stage import EMPTY, Stage
from arc_tui.widgets.cells import fit
from arc_tui.widgets.rows import RowList

MARK = 10
STEP = 6
GAP = 2
LEAST = 7
"""Cells of an arm's column at least: its title."""

MEASURED = 2000
"""Rows looked at to choose widths."""

DIMMED = "╎"
"""Stands before a step that comes after the edited arm left the road."""

TITLE = "steps"
CAPTION = f"{TITLE} · {DIMMED} the edited agent would not have been here"


class StepDiff(RowList):
    """One step a line under a head that names the arms."""

    HELP = "the steps"
    HEAD = 1

    COMPONENT_CLASSES = {
        "step-diff--fixed", "step-diff--broke", "step-diff--changed", "step-diff--same",
        "step-diff--unclear", "step-diff--refused", "step-diff--break", "step-diff--number",
        "step-diff--dimmed", "step-diff--quiet",
    }  # fmt: skip

    BINDINGS = [
        Binding("enter", "choose", "in full", id="steps.choose", show=False,
                tooltip="Go to the step in full; escape comes back"),
    ]  # fmt: skip

    stage: reactive[Stage] = reactive(EMPTY, repaint=False)

    class Chosen(Message):
        """The step under the cursor was chosen."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._rows: tuple[ReplayRow, ...] = ()
        self._widths = (0, 0, 0)

    @property
    def row_count(self) -> int:
        return len(self._rows)

    @property
    def row(self) -> ReplayRow | None:
        """The step under the cursor."""
        return self._rows[self.cursor] if self._rows else None

    def watch_stage(self, stage: Stage) -> None:
        """Other rows, and with them another one under the cursor."""
        self._rows = stage.rows
        self.border_title = CAPTION if any(row.dimmed for row in self._rows) else TITLE
        self.rows_changed()
        self.post_message(self.Moved(self))

    def rows_changed(self) -> None:
        self._widths = widths(self._rows[:MEASURED], self.row_width - MARK - STEP)
        super().rows_changed()

    def go_to(self, step: int) -> None:
        """Put the cursor on a step."""
        found = (place for place, row in enumerate(self._rows) if row.step == step)
        self.cursor = next(found, self.cursor)

    def draw_head(self, line: int, width: int) -> Text:
        del line, width
        titles = zip(("recorded", "control", "edited"), self._widths, strict=True)
        return Text(" " * MARK + fit("step", STEP) + _joined(fit(*title) for title in titles))

    def draw(self, index: int, width: int) -> Text:
        del width
        row = self._rows[index]
        name = "refused" if row.refused is not None else row.mark or ""
        line = Text.assemble(
            (DIMMED if row.dimmed else " ", self._ink("number", row)),
            (fit(marked(row), MARK - 1), self._ink(name, row)),
            (f"{row.step:>{STEP - 3}} ", self._ink("number", row)),
            ("◆ " if row.at_break else "  ", self._ink("break", row)),
        )
        for text, room in self._cells(row):
            quiet = text in ("same", format.UNKNOWN)
            line.append(fit(text, room), self._ink("quiet" if quiet else "", row))
            line.append(" " * GAP)
        return line

    def _cells(self, row: ReplayRow) -> Iterable[tuple[str, int]]:
        """The columns of a row with their widths; a refusal takes those of both arms."""
        if row.refused is None:
            return zip(shown(row), self._widths, strict=True)
        recorded, control, edited = self._widths
        arms = control + GAP + edited
        return (format.one_line(row.recorded), recorded), (format.one_line(row.refused), arms)

    def _ink(self, name: str, row: ReplayRow) -> Style:
        if row.dimmed:
            return self.ink("step-diff--dimmed")
        return self.ink(f"step-diff--{name}") if name else Style.null()

    def action_choose(self) -> None:
        self.post_message(self.Chosen())

    def on_click(self, event: events.Click) -> None:
        if event.chain == 2 and self.row_at(event.y - self.gutter.top) is not None:
            self.action_choose()


def marked(row: ReplayRow) -> str:
    """What the edit did to a step, as a mark and a word; "" where nobody asked it."""
    if row.refused is not None:
        return "not asked"
    return "" if row.mark is None else MARKS.get(row.mark, "? unclear")


def shown(row: ReplayRow) -> tuple[str, str, str]:
    """What each arm does, `same` where that is what was recorded."""
    if row.refused is not None:
        return format.one_line(row.recorded), "", ""
    return (
        format.one_line(row.recorded),
        _arm(row.control, row.control_same),
        _arm(row.edited, row.edited_same),
    )


def _arm(phrase: str | None, same: bool | None) -> str:
    return "same" if same else format.one_line(phrase) or format.UNKNOWN


def widths(rows: Sequence[ReplayRow], room: int) -> tuple[int, int, int]:
    """Columns for recorded, control and edited in `room` cells.

    An arm takes what it needs, control up to a third, edited up to half of what that leaves.
    """
    _, control, edited = (
        max((cell_len(text) for text in texts), default=0)
        for texts in (zip(*map(shown, rows), strict=True) if rows else ((), (), ()))
    )
    room = max(room - 2 * GAP, 0)
    control = min(max(control, LEAST), room // 3)
    edited = min(max(edited, LEAST), (room - control) // 2)
    return room - control - edited, control, edited


def _joined(cells: Iterable[str]) -> str:
    return (" " * GAP).join(cells)
