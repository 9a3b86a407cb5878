"""The Pareto as a list, what a class is, the runs behind the bar under the cursor; and the layers
of the eval pyramid as a page."""

from __future__ import annotations

from collections.abc import Iterator

from rich.cells import cell_len
from rich.text import Text
from textual.geometry import Size
from textual.message import Message
from textual.reactive import reactive
from typing_extensions import override

from arc_tui.navigation import OpenTrace
from arc_tui.ui import format
from arc_tui.ui.bindings import bind
from arc_tui.ui.document import Block, Document
from arc_tui.ui.format import fit, wrap
from arc_tui.ui.list import RowList
from arc_tui.ui.styles import StyledWidget
from arc_tui.views.failures import (
    NOT_HERE,
    BarRow,
    BehindBar,
    Labelled,
    is_here,
    owner,
    run_name,
    source_name,
)
from arc_tui.views.layers import (
    LayersView,
    assert_cells,
    basis,
    groups_line,
    notices,
    short_lines,
)
from arc_tui.views.layers import sentence as layers_sentence
from arc_tui.views.runs import bar_cells
from taxonomy.failures import RunBehind

OWNER = 14
"""The widest owner; a longer one is cut with `…`."""
LEAST = 12
"""Cells that labels and bars keep in a narrow list."""


class FailureBars(RowList):
    """Full blocks are tagged by a person, hatched ones suggested, dotted ones nobody named."""

    HELP = "the classes of failure"
    STYLES = {
        "tagged": "$primary",
        "suggested": "$primary",
        "apart": "$secondary",
        "quiet": "$quiet",
        "owner": "$secondary",
    }

    BINDINGS = [
        bind("enter", "choose", id="failures.choose", label="its runs",
             tooltip="Go to the runs of the bar under the cursor"),
    ]  # fmt: skip

    bars: reactive[tuple[BarRow, ...]] = reactive((), repaint=False)

    class Chosen(Message):
        """The runs behind the bar under the cursor are wanted."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._label = self._owner = self._digits = 0
        self._most = 1

    @property
    def row_count(self) -> int:
        return len(self.bars)

    @property
    def bar(self) -> BarRow | None:
        """The bar under the cursor, None where there is none."""
        return self.bars[self.cursor] if self.cursor < len(self.bars) else None

    def watch_bars(self, old: tuple[BarRow, ...], new: tuple[BarRow, ...]) -> None:
        """Keep the cursor on its label where that is still there, else go to the top."""
        at = old[self.cursor].label if self.cursor < len(old) else ""
        self._label = max((cell_len(_label(row)) for row in new if row.count), default=0)
        self._owner = max((cell_len(_owner(row)) for row in new), default=0)
        self._most = max((row.count for row in new), default=1)
        self._digits = len(str(self._most))
        self.rows_changed()
        self.cursor = next((i for i, row in enumerate(new) if row.label == at), 0)
        self.post_message(self.Moved(self))

    @override
    def validate_cursor(self, cursor: int) -> int:
        """The heading of a part is no place to stand on: the cursor goes past it."""
        at = super().validate_cursor(cursor)
        if at < len(self.bars) and self.bars[at].of == "heading":
            at += -1 if 0 < at < self.cursor else 1
        return at

    @override
    def draw(self, index: int, width: int) -> Text:
        row = self.bars[index]
        if row.of == "heading":
            return Text(f" {row.label}", self.style_of("quiet"))
        owners = min(self._owner, OWNER)
        left = width - self._digits - owners - (7 if owners else 5)
        label = min(self._label, max(left - LEAST, LEAST))
        room = max(left - label, 1)
        whole = len(format.bar(row.count / self._most, room))
        line = Text(f" {fit(_label(row), label)}  ")
        if row.of == "untagged":
            line.append("░" * whole, self.style_of("quiet"))
        else:
            tagged, suggested = bar_cells(row.tagged, row.count, self._most, room)
            strong = "apart" if row.of == "apart" else "tagged"
            line.append("█" * tagged, self.style_of(strong))
            line.append("▒" * suggested, self.style_of("suggested"))
        line.append(f"{' ' * (room - whole)} {row.count:>{self._digits}}")
        return line.append(f"  {fit(_owner(row), owners)}", self.style_of("owner"))

    def action_choose(self) -> None:
        self.post_message(self.Chosen())


def _label(row: BarRow) -> str:
    return format.one_line(row.label)


def _owner(row: BarRow) -> str:
    return owner(row.bar) if row.bar is not None else ""


CARD_LEAST = 10
"""Cells that the labels take at least."""


class FailureCard(StyledWidget):
    """Labels in a column of their own, what they label wrapped beside it."""

    ALLOW_SELECT = False
    STYLES = {"label": "$quiet"}

    labelled: reactive[tuple[Labelled, ...]] = reactive((), layout=True)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        del container, viewport
        return len(list(self._lines(width)))

    def render(self) -> Text:
        return Text("\n").join(self._lines(self.content_size.width))

    def _lines(self, width: int) -> Iterator[Text]:
        column = max([len(label) for label, _ in self.labelled] + [CARD_LEAST]) + 2
        quiet = self.style_of("label")
        for label, words in self.labelled:
            text = format.plain(words)
            for place, (start, end) in enumerate(wrap(text, width - column)):
                head = fit("" if place else label, column)
                yield Text.assemble((head, quiet), text[start:end])


def layers_page(view: LayersView) -> Document:
    """Where the layers point, their figures, the asserts, and what has to be known of them."""
    return tuple(_layer_blocks(view))


def _layer_blocks(view: LayersView) -> Iterator[Block]:
    yield Block(text=format.plain(layers_sentence(view)), style="head")
    yield Block(text=format.plain(groups_line(view)), style="quiet")
    yield Block(text="")
    for at, line in enumerate(short_lines(view)):
        yield Block(text=line, style="" if at else "quiet")
    if view.figures.asserts:
        yield Block(text="asserts, those that fell most first", style="role")
        for name, before, after, completions, unknown in assert_cells(view):
            facts = f"{before} → {after} · {completions} completions"
            yield Block(text=" · ".join(filter(None, [facts, unknown])), label=name)
    yield Block(text="notes", style="role")
    yield from (Block(text=format.plain(line)) for line in notices(view))
    yield Block(text="how it is decided", style="role")
    yield from (Block(text=line, style="quiet") for line in basis(view))


MOST = {"run": 26, "step": 5, "by": 18, "owner": 14}
"""The columns before the last and their widest cells; a longer text is cut with `…`."""
MEASURED = 500
ROOM = 64
"""In a narrower list only the mark says whose word it is, and only the bar whose run."""


class FailureRuns(RowList):
    """Failed runs, one a line: `█` tagged, `▒` suggested, `░` a hint that counts nowhere; `○` is in
    a trace store only."""

    HELP = "the runs behind a bar"
    HEAD = 1
    STYLES = {"tagged": "$primary", "suggested": "$primary", "quiet": "$quiet"}

    BINDINGS = [
        bind("enter", "open_row", id="failures.open",
             tooltip="Open the run under the cursor at the step it is counted for"),
    ]  # fmt: skip

    class NotHere(Message):
        """A run is wanted that is in a trace store only."""

        def __init__(self, run: RunBehind) -> None:
            super().__init__()
            self.run = run

    bar: reactive[BarRow | None] = reactive(None, repaint=False)
    behind: reactive[BehindBar] = reactive(BehindBar(), repaint=False)

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._widths: dict[str, int] = {}

    @property
    def runs(self) -> tuple[RunBehind, ...]:
        """Those of the bar, () until they were read."""
        known = self.bar is not None and self.behind.label == self.bar.label
        return self.behind.runs if known else ()

    @property
    def row_count(self) -> int:
        return len(self.runs)

    @property
    def has_cursor(self) -> bool:
        return self.has_focus

    def watch_bar(self, old: BarRow | None, new: BarRow | None) -> None:
        """Another bar begins at its first run; the same one, read again, stays where it was."""
        if old is None or new is None or old.label != new.label:
            self._lay_out()
            self.cursor = 0
            self.scroll_to(y=0, animate=False)

    def watch_behind(self) -> None:
        if self.runs:
            self._lay_out()

    def _lay_out(self) -> None:
        self._widths = self._measured()
        self.rows_changed()

    def on_focus(self) -> None:
        self.refresh_row(self.cursor)

    def on_blur(self) -> None:
        self.refresh_row(self.cursor)

    def _measured(self) -> dict[str, int]:
        """The columns before the last one with their widths; owners only where there are several.

        Runs far down are not looked at: a longer text there is cut.
        """
        several = self.bar is not None and self.bar.bar is not None and self.bar.bar.owners > 1
        cells = [self._cells(run) for run in self.runs[:MEASURED]]
        return {
            name: min(max([cell_len(name), *(cell_len(each[name]) for each in cells)]), most)
            for name, most in MOST.items()
            if several or name != "owner"
        }

    def _cells(self, run: RunBehind) -> dict[str, str]:
        """The texts of a run by column."""
        return {
            "run": run_name(run, self.behind.titles),
            "step": format.number(run.step),
            "by": source_name(run),
            "owner": format.one_line(run.owner) or format.UNKNOWN,
            "why": format.one_line(run.why) or format.UNKNOWN,
        }

    @override
    def draw_head(self, line: int, width: int) -> Text:
        return self._line(Text("   "), {name: name for name in (*MOST, "why")}, width)

    @override
    def draw(self, index: int, width: int) -> Text:
        run = self.runs[index]
        style = "tagged" if run.accepted else "suggested" if run.source else "quiet"
        mark = "█" if run.accepted else "▒" if run.source else "░"
        here = " " if is_here(run) else NOT_HERE
        start = Text.assemble((f" {mark}{here}", self.style_of(style)))
        return self._line(start, self._cells(run), width)

    def _line(self, line: Text, cells: dict[str, str], width: int) -> Text:
        quiet = self.style_of("quiet")
        for name, room in self._widths.items():
            if width >= ROOM or name in ("run", "step"):
                text = fit(cells[name], room, right=name == "step")
                line.append(text + "  ", quiet if name in ("by", "owner") else "")
        return line.append(fit(cells["why"], width - line.cell_len).rstrip())

    def action_open_row(self) -> None:
        if self.cursor < len(self.runs):
            run = self.runs[self.cursor]
            opens = OpenTrace(run.trace, run.step) if is_here(run) else self.NotHere(run)
            self.post_message(opens)
