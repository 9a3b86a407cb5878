"""The versions of a bisection: how many answers were bad, and how likely each broke it."""

from __future__ import annotations

from rich.cells import cell_len
from rich.style import Style
from rich.text import Text
from textual import events
from textual.binding import Binding
from textual.message import Message
from textual.reactive import reactive
from typing_extensions import override

from arc_tui import format
from arc_tui.views.bisect.stage import EMPTY, BisectStage
from arc_tui.views.bisect.view import BisectView, VersionRow
from arc_tui.views.trying.words import interval
from arc_tui.widgets.cells import fit
from arc_tui.widgets.rows import RowList

MARK, BAD, RATE, LIKELY = 2, 6, 8, 4
MOST_NAME = 26
NARROW, WIDE = 8, 16
ROOMY = 76
"""Cells from which on the bar of the posterior is a wide one."""

UNCHANGED = "nothing changed"
SEEN = 0.005
"""A posterior under it prints as .00 and has no bar."""


class BisectList(RowList):
    """The oldest version first, then how likely it is that nothing changed."""

    HELP = "the versions"
    HEAD = 1
    INKS = {
        "named": "bold $bad",
        "misfit": "bold $secondary",
        "next": "bold $warning",
        "quiet": "$quiet",
        "bar": "$primary",
    }

    BINDINGS = [
        Binding("enter", "choose", "diff", id="bisect.diff",
                tooltip="Go to what the version changes"),
    ]  # fmt: skip

    stage: reactive[BisectStage] = reactive(EMPTY, repaint=False)

    class Chosen(Message):
        """What the version under the cursor changes is to be looked at."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._rows: tuple[VersionRow, ...] = ()
        self._unchanged: float | None = None
        self._widest = 0

    @property
    def row_count(self) -> int:
        return len(self._rows) + (self._unchanged is not None)

    @property
    def row(self) -> VersionRow | None:
        """The version under the cursor."""
        return self._rows[self.cursor] if self.cursor < len(self._rows) else None

    def watch_stage(self, before: BisectStage, stage: BisectStage) -> None:
        if before.view is not stage.view:
            self._show(stage)
        if before.view is not stage.view or before.at != stage.at:
            self.post_message(self.Moved(self))

    def _show(self, stage: BisectStage) -> None:
        self._rows, self._unchanged = stage.view.rows, stage.view.unchanged
        names = [cell_len(format.one_line(row.name)) for row in self._rows]
        if self._unchanged is not None:
            names.append(len(UNCHANGED))
        self._widest = min(max(names, default=0), MOST_NAME)
        self.rows_changed()
        named = named_at(stage.view)
        if named is not None:
            self.cursor = named

    @override
    def draw_head(self, line: int, width: int) -> Text:
        del line
        version = "fix from" if self.stage.view.kind == "prefix" else "version"
        cells = (
            fit(version, self._room(width)), fit("bad", BAD, right=True), fit("interval", RATE),
            "first bad?",
        )  # fmt: skip
        return Text(" " * (MARK + 1) + "  ".join(cells))

    @override
    def draw(self, index: int, width: int) -> Text:
        if index == len(self._rows):
            return self._draw_unchanged(width)
        row = self._rows[index]
        ink = self._ink(row)
        line = Text.assemble(
            (f" {fit(_mark(row), MARK)}", ink),
            (fit(format.one_line(row.name), self._room(width)), ink),
            "  ",
            fit(f"{row.hits}/{row.bad.n}" if row.bad.n else format.UNKNOWN, BAD, right=True),
            (f"  {fit(interval(row.bad) if row.bad.n else '', RATE)}  ", self._quiet),
        )
        self._append_likely(line, row.likely, width)
        if row.next:
            line.append(f"next ×{row.next}  ", self.ink("next"))
        line.append(" · ".join(_beside(row)), self._quiet)
        line.truncate(width, overflow="ellipsis")
        return line

    def _draw_unchanged(self, width: int) -> Text:
        name = fit(UNCHANGED, self._room(width))
        line = Text.assemble(" " * (MARK + 1), (name, self._quiet), " " * (BAD + RATE + 6))
        self._append_likely(line, self._unchanged, width)
        return line

    def _append_likely(self, line: Text, likely: float | None, width: int) -> None:
        """The posterior as a figure and a bar."""
        room = WIDE if width >= ROOMY else NARROW
        said = "" if likely is None else f"{likely:.2f}"
        shown = likely is not None and likely >= SEEN
        line.append(fit(said, LIKELY, right=True) + " ")
        bar = format.bar(likely or 0.0, room) if shown else ""
        line.append(fit(bar, room) + "  ", self.ink("bar"))

    @property
    def _quiet(self) -> Style:
        return self.ink("quiet")

    def _ink(self, row: VersionRow) -> Style | str:
        name = "named" if row.among else "misfit" if row.misfit else ""
        return self.ink(name) if name else ""

    def _room(self, width: int) -> int:
        """Cells of a version's name: a third of the line at most."""
        return min(max(self._widest, len("version")), width // 3)

    def action_choose(self) -> None:
        self.post_message(self.Chosen())

    def on_click(self, event: events.Click) -> None:
        if event.chain == 2 and self.row_at(event.y - self.gutter.top) is not None:
            self.action_choose()


def named_at(view: BisectView) -> int | None:
    """Where the first named version stands, None where none is."""
    return next((at for at, row in enumerate(view.rows) if row.among), None)


def _mark(row: VersionRow) -> str:
    return "▸" if row.among else "?" if row.misfit else ""


def _beside(row: VersionRow) -> list[str]:
    said = [f"{row.censored} not judged"] if row.censored else []
    return [*said, format.one_line(row.note)] if row.note else said
