"""Keys in a real pty, at a typist's pace and held down, in long runs with contexts of 1 MB.

The machine's mood is in every time; CPU time a key, frames and bytes written are not. The limit is
Textual's own: a list of plain lines in an app that has nothing else, at the same pace.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import quantiles

from tests.bench.measure import Row, ms
from tests.bench.shown import long_trace, only_trace
from tests.bench.terminal import Pace, Terminal

BARE = """
from textual.app import App
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip
from rich.segment import Segment
from rich.style import Style
class Rows(ScrollView, can_focus=True):
    BINDINGS = [("j", "move", "down")]
    at = 0
    def on_mount(self):
        self.virtual_size = Size(80, 100_000)
        self.focus()
    def action_move(self):
        self.at += 1
        self.refresh_line(self.at - 1)
        self.refresh_line(self.at)
        if self.at >= self.scroll_offset.y + self.size.height:
            self.scroll_to(y=self.at - self.size.height + 1, animate=False)
    def render_line(self, y):
        row = y + self.scroll_offset.y
        style = Style(reverse=row == self.at)
        return Strip([Segment(f"row {row}".ljust(self.size.width), style)])
class Bare(App):
    def compose(self):
        yield Rows()
Bare().run()
"""
"""What Textual itself takes for a key that moves a cursor by a row."""

SPANS = (1_000, 10_000, 100_000)
CONTEXT = 1 << 20
TYPED_S, HELD_S = 0.11, 1 / 30
PRESSES = 60
KINDS = (("typed", TYPED_S), ("held", HELD_S))
"""Nine keys a second, and the rate at which keyboards repeat."""

A_ROW = "read_file"


def rows(_: Path, *, most: int = SPANS[-1]) -> Iterator[Row]:
    """`most` is the length of the longest trace."""
    bare = {}
    with Terminal("-c", BARE) as terminal:
        terminal.until("row 7")
        for kind, gap in KINDS:
            bare[kind] = terminal.hold("j", PRESSES, gap)
            yield from _rows(f"{kind}, a bare list", bare[kind], bare[kind])
    for count in SPANS:
        if count <= most:
            yield from trace(count, bare)


def trace(spans: int, bare: dict[str, Pace]) -> Iterator[Row]:
    """A long run whose every request begins with a message of 1 MB: at its start and at its end."""
    path = long_trace(spans, CONTEXT)
    with Terminal("-m", "arc_tui", "--db", str(path), "open", only_trace(path)) as terminal:
        terminal.until(A_ROW)
        terminal.settle()
        for place, keys in (("start", "j"), ("end", "k")):
            if place == "end":
                terminal.press("G")
            for kind, gap in KINDS:
                done = terminal.hold(keys, PRESSES, gap)
                yield from _rows(f"{kind}, {spans:,} spans, {place}", done, bare[kind])


def _rows(what: str, done: Pace, bare: Pace) -> Iterator[Row]:
    first, settled = map(_p50_p90, (done.first, done.settled))
    drawn = f"first p50 {ms(first[0])}, p90 {ms(first[1])}"
    times = f"{drawn}; settled {ms(settled[0])}, {ms(settled[1])}"
    yield Row(what, times, "first ≤ 16, 33 ms; settled ≤ 50, 100 ms")
    yield Row(
        "",
        f"CPU {ms(done.cpu)} a key, {done.cpu / bare.cpu:.1f}×; {done.frames:.1f} frames,"
        f" {done.written:,.0f} bytes; {ms(done.after)} after the last",
        "a bare list",
    )


def _p50_p90(seconds: Sequence[float]) -> tuple[float, float]:
    tenths = quantiles(seconds, n=10)
    return tenths[4], tenths[8]
