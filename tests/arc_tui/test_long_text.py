"""A text of any length is opened, turned, searched and folded as if it were short."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs
from rich.segment import Segment
from rich.style import Style
from rich.text import Span, Text
from textual.app import ComposeResult
from textual.pilot import Pilot

from arc_tui.ui.document import PIECE, Block, LazyRows, Row, lay_out, value
from arc_tui.ui.list import CONSOLE, strip
from arc_tui.ui.page import Page
from tests.arc_tui.opening import Bare

LINES = 30_000
NEEDLE = 20_000
LONG = "\n".join("needle" if line == NEEDLE else f"line {line}" for line in range(LINES))


def opened(text: str) -> Block:
    """A text that nothing is hidden of."""
    return Block(text=text, key="", shown=len(text))


class Reading(Bare):
    """A page with the focus and nothing else."""

    def __init__(self, *items: Block) -> None:
        super().__init__()
        self.items = items

    def compose(self) -> ComposeResult:
        yield Page()

    def on_mount(self) -> None:
        page = self.query_one(Page)
        page.document = self.items
        page.focus()


def page_of(pilot: Pilot[None]) -> Page:
    return pilot.app.query_one(Page)


async def all_laid_out(pilot: Pilot[None]) -> None:
    await pilot.app.workers.wait_for_complete()
    await pilot.pause()


async def again(pilot: Pilot[None]) -> Page:
    """The page as it is where the same is shown once more: most of it not laid out yet."""
    await all_laid_out(pilot)
    page = page_of(pilot)
    page.document = tuple(map(structs.replace, page.document))
    assert page.row_count <= PIECE
    return page


def drawn(pilot: Pilot[None]) -> str:
    page = page_of(pilot)
    return "\n".join(page.render_line(y).text.rstrip() for y in range(page.page_rows))


def test_rows_are_made_as_they_are_asked_for() -> None:
    made: list[int] = []

    def rows() -> Iterator[Row]:
        for row in lay_out((opened(LONG),), 80, ()):
            made.append(row.start)
            yield row

    laid = LazyRows(rows())
    assert len(laid) == len(made) == PIECE
    assert not laid.complete
    assert laid[3 * PIECE].start == LONG.index(f"line {3 * PIECE}\n")
    assert len(made) == 4 * PIECE
    assert next(row.end - row.start for row in laid if LONG[row.start :].startswith("needle")) == 6
    assert len(made) == NEEDLE + PIECE
    assert len(laid.all()) == len(made) == LINES
    assert laid.complete


@given(st.integers(0, 3 * PIECE + 1))
def test_the_last_row_is_known_wherever_it_falls(count: int) -> None:
    laid = LazyRows(lay_out([Block(text="x")] * count, 80, ()))
    assert [row.end for row in laid] == [1] * count
    assert laid.complete or not laid.more()


async def test_a_long_text_is_shown_before_it_is_laid_out_and_the_scroll_bar_ends_right() -> None:
    async with Reading(opened(LONG)).run_test() as pilot:
        await all_laid_out(pilot)
        page = page_of(pilot)
        assert page.row_count == page.virtual_size.height == LINES
        assert "line 0" in drawn(pilot)


async def test_any_row_is_gone_to_though_it_is_not_laid_out_yet() -> None:
    async with Reading(opened(LONG)).run_test() as pilot:
        page = await again(pilot)
        page.cursor = 5 * PIECE
        assert (page.cursor, page.row_count) == (5 * PIECE, 6 * PIECE)
        assert f"line {5 * PIECE}" in drawn(pilot)
        page = await again(pilot)
        page.action_last()
        assert page.cursor == LINES - 1
        assert f"line {LINES - 1}" in drawn(pilot)


async def test_what_is_far_below_is_found_and_gone_back_from() -> None:
    async with Reading(opened(LONG)).run_test() as pilot:
        page = await again(pilot)
        page.search = re.compile("needle|line 7$", re.MULTILINE)
        assert page.go_to_found(1)
        assert page.cursor == 7
        assert page.go_to_found(1)
        assert page.cursor == NEEDLE
        assert "needle" in drawn(pilot)
        assert page.go_to_found(-1)
        assert page.cursor == 7


async def test_a_level_of_json_far_below_is_folded_where_it_stands() -> None:
    said = value(json.dumps([{"number": place} for place in range(2000)]), key="said")
    async with Reading(said).run_test() as pilot:
        page = await again(pilot)
        page.cursor = page.row_count - 1
        page.action_unfold()
        page.cursor = 1 + 3 * 1500
        page.action_unfold()
        assert page.cursor == 1 + 3 * 1500
        assert "{ … 1 line … }," in drawn(pilot)
        assert len(page._rows.all()) == 2 + 3 * 2000 - 2
        page.action_unfold()
        assert (page.cursor, len(page._rows.all())) == (1 + 3 * 1500, 2 + 3 * 2000)


STYLES = [Style(bold=True), Style(italic=True, color="red"), Style(bgcolor="blue"), Style.null()]
PAPER = Style(color="green", bgcolor="black")


def cells(segments: list[Segment]) -> list[tuple[str, Style | None]]:
    return [(letter, segment.style) for segment in segments for letter in segment.text]


@given(
    st.text(alphabet="ab 漢", max_size=20),
    st.lists(
        st.tuples(st.integers(0, 20), st.integers(0, 20), st.sampled_from(STYLES)), max_size=5
    ),
    st.sampled_from(["", "bold", *STYLES]),
)
def test_a_line_is_drawn_as_rich_draws_it(
    words: str, styles: list[tuple[int, int, Style]], own: str | Style
) -> None:
    spans = [Span(start, min(end, len(words)), style) for start, end, style in styles]
    line = Text(words, style=own, spans=[span for span in spans if span.end > span.start])
    rich = list(Segment.apply_style(Text.assemble(line).render(CONSOLE, end=""), PAPER))
    ours = list(strip(line, line.cell_len, PAPER))
    assert [letter for letter, _ in cells(ours)] == list(words)
    assert [str(style) for _, style in cells(ours)] == [str(style) for _, style in cells(rich)]
    assert strip(line, 7, PAPER).cell_length == 7
