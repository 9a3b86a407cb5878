"""The parts of the compare screen: a head that says where the two diverge, the rows, a row in full.

In a wide terminal the rows stand side by side, in a narrow one under each other. What is the same
is folded; a fold opens by itself or all of them at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from rich.text import Text
from textual.binding import Binding
from textual.message import Message
from textual.reactive import reactive
from typing_extensions import override

from arc_tui.features.compare.pair import Line, PairView, Part, lines, quiet
from arc_tui.features.compare.view import MARKS, NOTE, CompareRow, CompareView, Who, facts, figures
from arc_tui.ui import format
from arc_tui.ui.bindings import bind
from arc_tui.ui.document import INDENT, Block, Document, Item, value
from arc_tui.ui.format import fit, pack_lines
from arc_tui.ui.list import RowList
from arc_tui.ui.styles import TALL, SummaryLines, fold_sentence

WIDE = 100
"""Cells from which on both stand side by side."""

STEP = 4
HUNK = Binding.Group("difference", compact=True)


class Drawn(NamedTuple):
    """A line as drawn: what of a row stands on it."""

    line: Line
    side: Literal["both", "a", "b"] = "both"


class CompareList(RowList):
    """The rows, and in their place the folds."""

    HELP = "the steps of both runs"
    HEAD = 1
    STYLES = {
        "same": "$quiet",
        "only_a": "$secondary",
        "only_b": "$primary",
        "regrouped": "$foreground",
        "differs": "$warning",
        "inconclusive": "$foreground",
        "fold": "italic $quiet",
        "step": "$quiet",
    }

    BINDINGS = [
        bind(">", "hunk(1)", id="compare.next", group=HUNK,
             tooltip="Go to the next place where they differ"),
        bind("<", "hunk(-1)", id="compare.before", group=HUNK,
             tooltip="Go to the previous place where they differ"),
        bind("X", "divergence", id="compare.divergence",
             tooltip="Go to where they diverge for good, else to the first difference"),
        bind("enter", "open_row", id="compare.open",
             tooltip="Open this step in its run, or unfold the steps"),
        bind("l", "unfold", id="compare.unfold", show=False,
             tooltip="Unfold the steps that are folded here"),
    ]  # fmt: skip

    view: reactive[CompareView | None] = reactive(None, repaint=False)
    every: reactive[bool] = reactive(False, repaint=False)
    """Is nothing folded?"""

    class Chosen(Message):
        """A row is to be opened; None are the prompts."""

        def __init__(self, row: CompareRow | None) -> None:
            super().__init__()
            self.row = row

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._drawn: list[Drawn] = []
        self._opened: set[int] = set()
        self._wide = True

    @property
    @override
    def row_count(self) -> int:
        return len(self._drawn)

    @property
    def line(self) -> Line | None:
        """The one under the cursor."""
        return self._drawn[self.cursor].line if self._drawn else None

    @property
    def row(self) -> CompareRow | None:
        """The row under the cursor, None on a fold or a heading."""
        line = self.line
        return self._row(line) if line is not None and line.kind == "row" else None

    def _row(self, line: Line) -> CompareRow:
        assert self.view is not None
        return self.view.rows[line.first]

    @property
    def side(self) -> Literal["both", "a", "b"]:
        """Whose line the cursor is on."""
        return self._drawn[self.cursor].side if self._drawn else "both"

    def watch_view(self) -> None:
        self._opened = set()
        self._lay_out()
        self.cursor = 0
        self.action_divergence()
        self.post_message(self.Moved(self))

    def watch_every(self) -> None:
        self._opened = set()
        self._lay_out_again()

    @override
    def rows_changed(self) -> None:
        if (self.row_width >= WIDE) is not self._wide:
            self._lay_out_again()
        else:
            super().rows_changed()

    def _lay_out(self) -> None:
        self._wide = self.row_width >= WIDE
        found = lines(self.view, every=self.every, opened=self._opened) if self.view else []
        self._drawn = [drawn for line in found for drawn in self._drawn_of(line)]
        super().rows_changed()

    def _drawn_of(self, line: Line) -> Sequence[Drawn]:
        if self._wide or line.kind != "row":
            return (Drawn(line),)
        row = self._row(line)
        if row.mark == "same" or row.a is None or row.b is None:
            return (Drawn(line),)
        return Drawn(line, "a"), Drawn(line, "b")

    def _lay_out_again(self) -> None:
        """The cursor stays on its row, or on the fold that has it."""
        line = self.line
        self._lay_out()
        if line is not None:
            self.go_to(line.first, line.kind)

    def go_to(self, row: int, kind: str = "row") -> None:
        """Put the cursor on a row, or on what hides it."""
        wanted = {"prompts"} if kind == "prompts" else {"row", "fold"}
        for place, (line, _) in enumerate(self._drawn):
            if line.kind in wanted and line.first <= row <= line.last:
                self.cursor = place
                return

    # --- drawing

    @override
    def draw_head(self, line: int, width: int) -> Text:
        del line
        if not self._wide:
            return Text(fit("        A     B  action", width))
        half = _half(width)
        return Text(f"     {fit('   A  action', half)}  {fit('   B  action', half)}")

    @override
    def draw(self, index: int, width: int) -> Text:
        line, side = self._drawn[index]
        if line.kind != "row":
            sign = {"fold": "⋯", "known": "·", "prompts": "≠", "threads": " "}[line.kind]
            style = "differs" if line.kind in ("known", "prompts") else "fold"
            return Text(fit(f"  {sign}  {line.text}", width), self.style_of(style))
        row = self._row(line)
        if side == "both" and self._wide:
            return self._both_columns(line, row, width)
        return self._under(line, row, side, width)

    def _sign(self, line: Line, row: CompareRow) -> Text:
        parts = self.view is not None and line.first == self.view.divergence
        style = self.style_of(row.mark)
        changed = "*" if row.results is False else " "
        return Text.assemble(
            ("◆" if parts else " ", self.style_of("differs")),
            (f" {MARKS[row.mark]}{changed} ", style),
        )

    def _both_columns(self, line: Line, row: CompareRow, width: int) -> Text:
        half = _half(width)
        text = self._sign(line, row)
        text.append_text(self._cell(row, row.a, row.action_a, half)).append("  ")
        return text.append_text(self._cell(row, row.b, row.action_b, half))

    def _cell(self, row: CompareRow, step: int | None, did: str, width: int) -> Text:
        if step is None:
            return Text(" " * width)
        number = Text(f"{step:>{STEP}}  ", self.style_of("step"))
        return number.append(fit(did, width - STEP - 2), self.style_of(row.mark))

    def _under(self, line: Line, row: CompareRow, side: str, width: int) -> Text:
        text = self._sign(line, row) if side != "b" else Text("     ")
        a, b = (None if side == other else step for other, step in (("b", row.a), ("a", row.b)))
        steps = "  ".join(f"{'' if each is None else each:>{STEP}}" for each in (a, b))
        text.append(f"{steps}  ", self.style_of("step"))
        did = row.action_b if a is None else row.action_a
        return text.append(fit(did, width - text.cell_len), self.style_of(row.mark))

    # --- moving

    def next_step(self, direction: int) -> None:
        """To the next row that is a step, past the other line of this one."""
        here = self.line
        end = self.row_count if direction > 0 else -1
        for place in range(self.cursor + direction, end, direction):
            line, side = self._drawn[place]
            if line.kind == "row" and line is not here and side != "b":
                self.cursor = place
                return

    def action_hunk(self, direction: int) -> None:
        """To the next stretch of rows that are not the same."""
        places = [at for at in range(self.row_count) if self._begins(at)]
        ahead = [at for at in places if (at - self.cursor) * direction > 0]
        if ahead:
            self.cursor = ahead[0] if direction > 0 else ahead[-1]

    def _begins(self, at: int) -> bool:
        return self._stands_out(at) and not (at and self._stands_out(at - 1))

    def _stands_out(self, at: int) -> bool:
        line, _ = self._drawn[at]
        if line.kind != "row":
            return False
        row = self._row(line)
        return row.mark not in ("inconclusive", "regrouped") and not quiet(row)

    def action_divergence(self) -> None:
        if self.view is not None and self.view.divergence is not None:
            self.go_to(self.view.divergence)

    def action_unfold(self) -> None:
        line = self.line
        if line is not None and line.kind == "fold":
            self._opened.add(line.first)
            self._lay_out()
            self.go_to(line.first)

    def action_open_row(self) -> None:
        line = self.line
        if line is None or line.kind == "threads":
            return
        if line.kind == "fold":
            self.action_unfold()
        else:
            self.post_message(self.Chosen(self.row))


def _half(width: int) -> int:
    """Cells of one side: what is left of a line beside the mark and the gap."""
    return max((width - 7) // 2, 0)


MOST_FIGURES, FEWEST_FIGURES = 3, 2
"""Lines of figures, and in a terminal that is not `TALL`."""


class CompareHead(SummaryLines):
    """The sentence in bold, a line each for A and B, the figures."""

    STYLES = {"sentence": "bold", "letter": "bold $primary", "quiet": "$quiet"}

    view: reactive[CompareView | None] = reactive(None, layout=True)
    waiting: reactive[str] = reactive("", layout=True)
    """What is said while there is nothing to show."""

    @override
    def lines(self, width: int) -> list[Text]:
        view = self.view
        if view is None:
            return [Text(self.waiting)]
        sentence = [
            Text(line, self.style_of("sentence")) for line in fold_sentence(view.sentence, width)
        ]
        who = [self._who("A", view.a, width), self._who("B", view.b, width)]
        counted = pack_lines([NOTE, *figures(view), *map(format.one_line, view.lacks)], width)
        most = MOST_FIGURES if self.app.size.height >= TALL else FEWEST_FIGURES
        if len(counted) > most:
            counted[most - 1 :] = [f"{fit(counted[most - 1], width - 2).rstrip()} …"]
        return [*sentence, *who, *(Text(line, self.style_of("quiet")) for line in counted)]

    def _who(self, letter: str, who: Who, width: int) -> Text:
        line = Text.assemble((f"{letter} ", self.style_of("letter")))
        named = format.one_line(who.name)
        heading = " · ".join([named, *facts(who), (who.digest or who.trace).rpartition(":")[2][:8]])
        return line.append(fit(heading, width - line.cell_len).rstrip())


BLANK = Block(text="")
_STYLES = {"new": "good", "gone": "error", "place": "role", "same": "quiet"}


def pair_page(pair: PairView) -> Document:
    """What both said, called and got: only in A red with −, only in B green with +."""
    items: list[Item] = []
    if pair.row is not None and pair.row.what:
        items.append(Block(text=pair.row.what, style="candidate"))
    for place, part in enumerate(pair.parts):
        if items:
            items.append(BLANK)
        items.extend(_part(part, place))
    return tuple(items) or (Block(text="No text, calls or results in either run.", style="quiet"),)


def _part(part: Part, place: int) -> Iterator[Item]:
    title = format.one_line(part.title)
    if part.diff is not None:
        yield Block(text=title, style="head", aside="− A   + B")
        for line in part.diff:
            yield Block(text=line.text, style=_STYLES[line.kind], strong=line.words, indent=INDENT)
        return
    if part.same:
        yield Block(text=title, style="head", aside="same")
        yield value(part.a or "", key=f"same {place}", style="quiet")
        return
    both = part.a is not None and part.b is not None
    aside = "too long to compare" if both else ""
    yield Block(text=title, style="head", aside=aside)
    for letter, text in (("A", part.a), ("B", part.b)):
        if text is not None:
            yield Block(text=letter if both else f"only {letter}", style="role", indent=INDENT)
            yield value(text, key=f"{letter} {place}", indent=2 * INDENT)
