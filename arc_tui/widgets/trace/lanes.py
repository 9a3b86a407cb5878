"""Score, latency, tokens and cost over the steps, or over their time; the cursor in all of them.

The score is the best known of each step, or one scorer's own; a line says whose.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby, repeat
from operator import itemgetter

from rich.cells import cell_len
from rich.style import Style
from rich.text import Text
from textual import events
from textual.geometry import Size
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip
from typing_extensions import override

from arc_tui import format
from arc_tui.views.trace.view import EMPTY, Lane, TraceView
from arc_tui.widgets.cells import fit, spread, wrap
from arc_tui.widgets.ink import Inked
from arc_tui.widgets.rows import strip
from arc_tui.widgets.trace.binning import Bins, Drawn, draw, fit_steps, notes, spikes
from arc_tui.widgets.trace.timeline import TimeBins, fit_time, has_times, time_words

ZOOMED = 20
"""Cells for the range that a zoom shows."""

GUTTER = 18
"""Cells before the columns: a lane's name and its value at the cursor."""


class Lanes(Inked):
    """A lane a figure that is known, marks under them, one line for what else is to be known.

    `whose` is 0 for the best score of each step, else the place of one of the view's scorers.
    `zoom` is how many steps are shown on either side of the cursor, 0 for all. `timed` draws over
    time, as far as times are known.
    """

    ALLOW_SELECT = False
    INKS = {
        "name": "$quiet",
        "value": "$foreground",
        "bar": "$calm",
        "spike": "bold $warning",
        "here": "$primary on $cursor | reverse",
        "cursor": "on $cursor | reverse",
        "candidate": "bold $warning",
        "error": "$bad",
        "mark": "bold $secondary",
    }

    view: reactive[TraceView] = reactive(EMPTY, layout=True)
    step: reactive[int] = reactive(0)
    zoom: reactive[int] = reactive(0, layout=True)
    timed: reactive[bool] = reactive(False, layout=True)
    marks: reactive[frozenset[int]] = reactive(frozenset())
    whose: reactive[int] = reactive(0, layout=True)

    class Picked(Message):
        """A column was clicked."""

        def __init__(self, step: int) -> None:
            super().__init__()
            self.step = step

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._shown: tuple[Lane, ...] = ()
        self._spikes: tuple[frozenset[int], ...] = ()
        self._lane_notes = ""
        self._time_note = ""
        self._has_times = False
        self._drawn: tuple[Drawn, ...] = ()
        self._candidates: frozenset[int] = frozenset()
        self._errors: frozenset[int] = frozenset()
        self._drawn_in: Bins | TimeBins | None = None
        self._bins: tuple[object, Bins | TimeBins] | None = None

    def watch_view(self) -> None:
        self._take()

    def watch_whose(self) -> None:
        self._take()

    def _take(self) -> None:
        lanes, partial = self.view.lanes_by(self.whose), self.view.partial
        awaited = "score" if partial else ""
        self._shown = tuple(lane for lane in lanes if not lane.empty or lane.name == awaited)
        self._spikes = tuple(map(spikes, self._shown))
        self._lane_notes = "" if partial else notes(lanes)
        self._has_times = has_times(self.view.steps)
        self._bins = None
        self._drawn_in = None

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
        width = self._width - GUTTER
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
            line = Text(below[0] if below else "", self.ink("name"))
        return strip(line, self._width, self.rich_style)

    def _draw(self) -> Bins | TimeBins:
        """The bins of now, with all that only they change drawn in them."""
        bins = self.bins()
        if bins is not self._drawn_in:
            self._drawn = tuple(map(draw, self._shown, self._spikes, repeat(bins)))
            self._candidates = bins.columns(self.view.marked)
            self._errors = bins.columns(self.view.errors)
            self._drawn_in = bins
        return bins

    def _lane(self, place: int) -> Text:
        bins, lane = self._draw(), self._shown[place]
        here, drawn = bins.column(self.step), self._drawn[place]
        bar, spike = self.ink("bar"), self.ink("spike")
        inks = [spike if column in drawn.high else bar for column in range(bins.count)]
        if here is not None:
            inks[here] += self.ink("here")
        return Text.assemble(
            (f"{lane.name:<8}", self.ink("name")),
            (f"{_value(lane, self.step):>8}  ", self.ink("value")),
            *_runs(zip((block * bins.cells for block in drawn.blocks), inks, strict=True)),
        )

    def _marks(self) -> Text:
        """The line under the lanes: candidates ◆, errors ✗, and which step the cursor is on."""
        bins = self._draw()
        here = bins.column(self.step)
        cells = [(" ", Style.null())] * bins.count
        for mark, name, columns in (  # of two in a column the last one stands
            ("'", "mark", bins.columns(self.marks)),
            ("✗", "error", self._errors),
            ("◆", "candidate", self._candidates),
        ):
            for column in columns:
                cells[column] = (mark, self.ink(name))
        if here is not None:
            mark, style = cells[here]
            cells[here] = (mark, style + self.ink("cursor"))
        last = self.view.run.steps - 1
        place = f"step {self.step}  (0–{last})" if self.view.steps else "no steps"
        line = Text.assemble(
            (fit(place, GUTTER), self.ink("value")),
            *_runs((f"{mark:^{bins.cells}}", style) for mark, style in cells),
        )
        if self.zoom and isinstance(bins, Bins) and self.view.steps:
            line.append(f"  steps {bins.first}–{bins.last - 1}", self.ink("name"))
        if self._notes_fit:
            line = spread(line, Text.assemble((self._notes, self.ink("name"))), self._width)
        return line

    def on_click(self, event: events.Click) -> None:
        step = self.bins().step_at(event.x - self.gutter.left - GUTTER)
        if step is not None and self.view.steps:
            self.post_message(self.Picked(step))


def _runs(cells: Iterable[tuple[str, Style]]) -> Iterator[tuple[str, Style]]:
    """Neighbours in one style as one."""
    for style, same in groupby(cells, key=itemgetter(1)):
        yield "".join(text for text, _ in same), style


def _value(lane: Lane, step: int) -> str:
    value = lane.values[step] if step < len(lane.values) else None
    if value is None:
        return format.UNKNOWN
    match lane.name:
        case "score":
            return format.score(value)
        case "latency":
            return format.duration(round(value * 1e9))
        case "cost":
            return format.usd(value)
        case _:
            return format.tokens(round(value))
