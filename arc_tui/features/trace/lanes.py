"""Score, latency, context and cost over the steps, or over their time; the cursor in all of them.

Steps share columns where there are more of them than columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, repeat
from operator import itemgetter

from msgspec import Struct
from rich.cells import cell_len
from rich.style import Style
from rich.text import Text
from textual import events
from textual.geometry import Size
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip
from typing_extensions import override

from arc_tui.ui.format import count, duration, fit, spread, wrap
from arc_tui.ui.list import strip
from arc_tui.ui.styles import StyledWidget
from arc_tui.views.lane_scale import Drawn, draw, notes, write_value
from arc_tui.views.trace import EMPTY_TRACE, Lane, TraceView
from replay.store.rows import StepRow

ZOOMED = 20
"""Cells for the range that a zoom shows."""

GUTTER = 18
"""Cells before the columns: a lane's name and its value at the cursor."""

SCALE = 15
"""Cells behind the columns for the scale of a lane, where the screen is `ROOMY` cells wide."""

ROOMY = 100


class Lanes(StyledWidget):
    """A lane a figure that is known, marks under them, one line for what else is to be known.

    `scorer` is 0 for the best score of each step, else the place of one of the view's scorers.
    `zoom` is how many steps are shown on either side of the cursor, 0 for all. `timed` draws over
    time, as far as times are known.
    """

    ALLOW_SELECT = False
    STYLES = {
        "name": "$quiet",
        "value": "$foreground",
        "bar": "$calm",
        "spike": "bold $warning",
        "here": "$primary on $cursor | reverse",
        "cursor": "on $cursor | reverse",
        "candidate": "bold $warning",
        "error": "$bad",
        "bookmark": "bold $secondary",
    }

    view: reactive[TraceView] = reactive(EMPTY_TRACE, layout=True)
    step: reactive[int] = reactive(0)
    zoom: reactive[int] = reactive(0, layout=True)
    timed: reactive[bool] = reactive(False, layout=True)
    bookmarks: reactive[frozenset[int]] = reactive(frozenset())
    scorer: reactive[int] = reactive(0, layout=True)

    class Picked(Message):
        """A column was clicked."""

        def __init__(self, step: int) -> None:
            super().__init__()
            self.step = step

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._shown: tuple[Lane, ...] = ()
        self._lane_notes = ""
        self._time_note = ""
        self._has_times = False
        self._drawn: tuple[Drawn, ...] = ()
        self._lines: list[tuple[tuple[str, Style], ...]] = []
        self._lines_for: object = None
        """The bins, the cursor's column and the look that the lines were drawn for."""
        self._candidates: frozenset[int] = frozenset()
        self._errors: frozenset[int] = frozenset()
        self._drawn_in: Bins | TimeBins | None = None
        self._bins: tuple[object, Bins | TimeBins] | None = None

    def watch_view(self) -> None:
        self._take()

    def watch_scorer(self) -> None:
        self._take()

    def change_zoom(self, direction: int) -> None:
        """Show fewer steps, or more; past the last level all again."""
        levels = zooms(len(self.view.steps))
        self.zoom = levels[(levels.index(self.zoom) + direction) % len(levels)]

    def change_scorer(self, direction: int) -> None:
        """Show the scores of the next source alone, after the last one the best of all again."""
        self.scorer = (self.scorer + direction) % (len(self.view.scorers) + 1)

    def _take(self) -> None:
        lanes, partial = self.view.lanes_by(self.scorer), self.view.partial
        awaited = "score" if partial else ""
        self._shown = tuple(lane for lane in lanes if not lane.empty or lane.name == awaited)
        self._lane_notes = "" if partial else notes(lanes)
        self._has_times = has_times(self.view.steps)
        self._bins = None
        self._drawn_in = self._lines_for = None

    @override
    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return len(self._shown) + 1 + len(self._below())

    def _below(self) -> list[str]:
        """The notes as lines under the others, none where they fit beside the marks."""
        if not self._notes or self._notes_fit:
            return []
        return [self._notes[start:end] for start, end in wrap(self._notes, self._width)]

    @property
    def _notes(self) -> str:
        """What is said of the lanes, and of the time that they are drawn over."""
        self.bins()
        return " · ".join(filter(None, (self._time_note, self._lane_notes)))

    @property
    def _width(self) -> int:
        return self.content_size.width

    @property
    def _notes_fit(self) -> bool:
        """Has the line under the lanes room for the notes?"""
        zoomed = ZOOMED if self.zoom else 2
        return GUTTER + self.bins().width + zoomed + cell_len(self._notes) < self._width

    def bins(self) -> Bins | TimeBins:
        """Which steps stand in which columns now."""
        width = self._width - GUTTER - (SCALE if self._width >= ROOMY else 0)
        around = self.step if self.zoom else None
        timed = self.timed and self._has_times
        asked = (width, around, self.zoom, timed)
        if self._bins is None or self._bins[0] != asked:
            steps = self.view.steps
            made: Bins | TimeBins
            if timed:
                made = fit_time(steps, width, around=around, near=self.zoom)
                self._time_note = time_words(steps, made)
            else:
                made = fit_steps(self.view.run.steps, width, around=around, near=self.zoom)
                self._time_note = ""
            self._bins = (asked, made)
        return self._bins[1]

    def render_line(self, y: int) -> Strip:
        if y < len(self._shown):
            line = self._lane(y)
        elif y == len(self._shown):
            line = self._marks()
        else:
            below = self._below()[y - len(self._shown) - 1 :]
            line = Text(below[0] if below else "", self.style_of("name"))
        return strip(line, self._width, self.rich_style)

    def _draw(self) -> Bins | TimeBins:
        """The bins of now, with all that only they change drawn in them."""
        bins = self.bins()
        if bins is not self._drawn_in:
            self._drawn = tuple(map(draw, self._shown, repeat(bins)))
            self._candidates = bins.columns(self.view.marked)
            self._errors = bins.columns(self.view.errors)
            self._drawn_in = bins
        return bins

    def _lane(self, place: int) -> Text:
        lane, drawn = self._shown[place], self._draw_here()[place]
        value = lane.values[self.step] if self.step < len(lane.values) else None
        line = Text.assemble(
            (f"{lane.name:<8}", self.style_of("name")),
            (f"{write_value(lane, value):>8}  ", self.style_of("value")),
            *drawn,
        )
        around = f"  {self._drawn[place].scale}"
        if line.cell_len + cell_len(around) <= self._width:
            line.append(around, self.style_of("name"))
        return line

    def _draw_here(self) -> Sequence[Sequence[tuple[str, Style]]]:
        """The columns of each lane; in a long run most steps leave the cursor in its column."""
        bins = self._draw()
        here = bins.column(self.step)
        bar, spike, cursor = map(self.style_of, ("bar", "spike", "here"))
        drawn_for = bins, here, bar, spike, cursor
        if self._lines_for != drawn_for:
            self._lines = []
            for drawn in self._drawn:
                styles = [spike if column in drawn.high else bar for column in range(bins.count)]
                if here is not None:
                    styles[here] += cursor
                blocks = (block * bins.cells for block in drawn.blocks)
                self._lines.append(tuple(_runs(zip(blocks, styles, strict=True))))
            self._lines_for = drawn_for
        return self._lines

    def _marks(self) -> Text:
        """The line under the lanes: candidates ◆, errors ✗, and which step the cursor is on."""
        bins = self._draw()
        here = bins.column(self.step)
        cells = [(" ", Style.null())] * bins.count
        for mark, name, columns in (  # of two in a column the last one stands
            ("'", "bookmark", bins.columns(self.bookmarks)),
            ("✗", "error", self._errors),
            ("◆", "candidate", self._candidates),
        ):
            for column in columns:
                cells[column] = (mark, self.style_of(name))
        if here is not None:
            mark, style = cells[here]
            cells[here] = (mark, style + self.style_of("cursor"))
        last = self.view.run.steps - 1
        place = f"step {self.step}  (0–{last})" if self.view.steps else "no steps"
        line = Text.assemble(
            (fit(place, GUTTER), self.style_of("value")),
            *_runs((f"{mark:^{bins.cells}}", style) for mark, style in cells),
        )
        if self.zoom and isinstance(bins, Bins) and self.view.steps:
            line.append(f"  steps {bins.first}–{bins.last - 1}", self.style_of("name"))
        if self._notes_fit:
            line = spread(line, Text.assemble((self._notes, self.style_of("name"))), self._width)
        return line

    def on_click(self, event: events.Click) -> None:
        step = self.bins().step_at(event.x - self.gutter.left - GUTTER)
        if step is not None and self.view.steps:
            self.post_message(self.Picked(step))


def _runs(cells: Iterable[tuple[str, Style]]) -> Iterator[tuple[str, Style]]:
    """Neighbours in one style as one."""
    for style, same in groupby(cells, key=itemgetter(1)):
        yield "".join(text for text, _ in same), style


WIDEST = 3
"""Cells one step takes where there is room to spare."""

NEAR = (60, 15, 5)
"""Steps shown on either side of the cursor at each level of zoom."""


class Bins(Struct, frozen=True, kw_only=True):
    """Steps `first` to `last` (not included) in columns of `per` steps, each `cells` wide."""

    first: int
    last: int
    per: int
    cells: int

    @property
    def count(self) -> int:
        return -(-(self.last - self.first) // self.per)

    @property
    def width(self) -> int:
        return self.count * self.cells

    def steps(self, column: int) -> range:
        start = self.first + column * self.per
        return range(start, min(start + self.per, self.last))

    def column(self, step: int) -> int | None:
        """The column of a step, None where it is not shown."""
        return (step - self.first) // self.per if self.first <= step < self.last else None

    def columns(self, steps: Iterable[int]) -> frozenset[int]:
        return frozenset(column for step in steps if (column := self.column(step)) is not None)

    def values(self, lane: Lane, column: int) -> Sequence[float | None]:
        """Those of a column's steps."""
        here = self.steps(column)
        return lane.values[here.start : here.stop]

    def step_at(self, cell: int) -> int | None:
        """The first step of the column under a cell."""
        column = cell // self.cells
        return self.steps(column)[0] if 0 <= column < self.count else None


def zooms(steps: int) -> tuple[int, ...]:
    """The levels of zoom that show less than all of a run, 0 first, which shows it all."""
    return (0, *(near for near in NEAR if 2 * near + 1 < steps))


def fit_steps(steps: int, width: int, *, around: int | None = None, near: int = NEAR[1]) -> Bins:
    """All steps in `width` cells, or only those within `near` of `around`."""
    first, last = 0, steps
    if around is not None:
        first, last = max(around - near, 0), min(around + near + 1, steps)
    shown = max(last - first, 1)
    per = -(-shown // max(width, 1))
    cells = max(min(WIDEST, width // -(-shown // per)), 1)
    return Bins(first=first, last=last, per=per, cells=cells)


class StepTime(Struct, frozen=True, gc=False):
    """A step with its time."""

    step: int
    start_ns: int
    end_ns: int


def step_times(steps: Iterable[StepRow]) -> Iterator[StepTime]:
    """The steps of which it is known when they began."""
    for row in steps:
        if row.start_ns is not None and row.time_quality != "none":
            yield StepTime(row.step, row.start_ns, max(row.end_ns or 0, row.start_ns))


def has_times(steps: Sequence[StepRow]) -> bool:
    """Are there two moments to draw a line between?"""
    moments = (at for each in step_times(steps) for at in (each.start_ns, each.end_ns))
    first = next(moments, None)
    return any(at != first for at in moments)


class TimeBins(Struct, frozen=True, eq=True, kw_only=True):
    """Columns of equal time from `first_ns` on, `inside` are the steps of each; `of` is the column
    in which each step begins."""

    first_ns: int
    last_ns: int
    inside: tuple[tuple[int, ...], ...]
    of: dict[int, int]
    cells: int = 1

    @property
    def count(self) -> int:
        return len(self.inside)

    @property
    def width(self) -> int:
        return len(self.inside)

    def column(self, step: int) -> int | None:
        """The column in which a step begins, None where it is not shown."""
        return self.of.get(step)

    def columns(self, steps: Iterable[int]) -> frozenset[int]:
        return frozenset(self.of[step] for step in steps if step in self.of)

    def values(self, lane: Lane, column: int) -> Sequence[float | None]:
        """Those of the steps in a column."""
        return [lane.values[step] for step in self.inside[column]]

    def step_at(self, cell: int) -> int | None:
        """The step that runs under a cell, else the one before it."""
        if not 0 <= cell < self.count:
            return None
        return next((steps[0] for steps in self.inside[cell::-1] if steps), None)


def fit_time(steps: Sequence[StepRow], width: int, *, around: int | None, near: int) -> TimeBins:
    """The time of all steps in `width` columns, or of those within `near` of `around`."""
    shown = steps if around is None else steps[max(around - near, 0) : around + near + 1]
    known = list(step_times(shown))
    if not known:
        return TimeBins(first_ns=0, last_ns=0, inside=(), of={})
    first = min(each.start_ns for each in known)
    last = max(each.end_ns for each in known)
    width, span = max(width, 1), max(last - first, 1)
    inside: list[list[int]] = [[] for _ in range(width)]
    of: dict[int, int] = {}
    for each in known:
        begins, ends = (
            min((at - first) * width // span, width - 1) for at in (each.start_ns, each.end_ns)
        )
        of[each.step] = begins
        for column in range(begins, ends + 1):
            inside[column].append(each.step)
    return TimeBins(first_ns=first, last_ns=last, inside=tuple(map(tuple, inside)), of=of)


def time_words(steps: Sequence[StepRow], bins: TimeBins) -> str:
    """Which part of the run's time is drawn, and what of it is not known."""
    known = list(step_times(steps))
    if not known:
        return ""
    start = min(each.start_ns for each in known)
    derived = any(row.time_quality == "derived" for row in steps)
    without = len(steps) - len(known)
    parts = [
        f"{duration(bins.first_ns - start)} to {duration(bins.last_ns - start)} of the run",
        "times derived" if derived else "",
        f"{count(without, 'step')} without a time" if without else "",
    ]
    return " · ".join(filter(None, parts))
