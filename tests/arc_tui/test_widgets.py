"""The parts of the screens that are plain functions, and the list that draws only what is seen."""

from __future__ import annotations

import json
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len, get_character_cell_size
from rich.text import Text
from textual.app import ComposeResult
from textual.reactive import reactive

from arc_tui.features.trace.lanes import fit_steps
from arc_tui.features.trace.tag_picker import sub_label
from arc_tui.ui import document
from arc_tui.ui.document import Block, Fold, lay_out, row_text, value
from arc_tui.ui.format import fit, spread, wrap
from arc_tui.ui.list import RowList
from arc_tui.ui.page import tokens
from arc_tui.views.lane_scale import (
    DROP,
    draw,
    notes,
    outliers,
    scale,
    spikes,
    write_scale,
)
from arc_tui.views.trace import Lane
from tests.arc_tui.opening import Bare
from tests.screen import press, settle, text

TEXTS = st.text(alphabet=st.sampled_from("ab  é漢字\n-"), max_size=200)


@given(TEXTS, st.integers(1, 30))
def test_wrapped_text_fits_and_loses_nothing_but_the_breaks(text: str, width: int) -> None:
    rows = list(wrap(text, width))
    assert all(cell_len(text[a:b]) <= max(width, 2) for a, b in rows)
    kept = "".join(text[a:b] for a, b in rows)
    assert kept.replace(" ", "") == text.replace("\n", "").replace(" ", "")


@given(st.text(alphabet="ab  é漢…\u0301\u200d👩-", min_size=1, max_size=60), st.integers(1, 20))
def test_text_of_any_letters_is_wrapped_as_it_is_letter_by_letter(text: str, width: int) -> None:
    rows: list[tuple[int, int]] = []
    start, used, space = 0, 0, -1
    for place, letter in enumerate(text):
        if used + get_character_cell_size(letter) > width and place > start:
            stop = space if space > start else place
            rows.append((start, stop))
            start = stop + 1 if stop == space else stop
            used = cell_len(text[start:place])
        space = place if letter == " " else space
        used += get_character_cell_size(letter)
    rows.append((start, len(text)))
    if cell_len(text) > width and not text.isascii():
        assert list(wrap(text, width)) == rows


@given(st.text(alphabet="ab漢é", max_size=30), st.integers(0, 20))
def test_a_fitted_text_has_exactly_its_cells(text: str, width: int) -> None:
    assert cell_len(fit(text, width)) == width


def test_a_cut_text_says_that_it_was_cut() -> None:
    assert fit("reservation", 6) == "reser…"
    assert fit("7", 3, right=True) == "  7"


def test_the_right_end_of_a_line_gives_way_to_the_left() -> None:
    assert spread(Text("ab"), Text("cd"), 10).plain == "ab      cd"
    assert spread(Text("abcdefg"), Text("cd"), 8).plain == "abcdefg"


def lane(name: str, *values: float | None, worst: str = "high") -> Lane:
    return Lane(name=name, values=values, worst=worst)


def test_steps_have_a_column_each_where_they_fit() -> None:
    bins = fit_steps(4, 40)
    assert (bins.count, bins.per, bins.cells) == (4, 1, 3)
    assert fit_steps(0, 40).count == 0


@given(st.integers(1, 500), st.integers(1, 120))
def test_binned_steps_stay_within_the_width_and_each_has_one_column(steps: int, width: int) -> None:
    bins = fit_steps(steps, width)
    assert bins.width <= max(width, 1)
    shown = [step for column in range(bins.count) for step in bins.steps(column)]
    assert shown == list(range(steps))
    assert all(step in bins.steps(bins.column(step) or 0) for step in shown)


def test_a_column_of_two_steps_shows_the_worse_one() -> None:
    latency = lane("latency", 1, 9, 2, 2, None, None)
    assert draw(latency, fit_steps(6, 3)).blocks == ("▇", "▂", " ")
    assert draw(latency, fit_steps(6, 3)).high == {0}


def test_a_column_of_more_steps_shows_their_median_and_marks_what_stands_out() -> None:
    latency = lane("latency", 2, 2, 2, 2, 2, 40, None, None, None)
    shown = draw(latency, fit_steps(9, 3))
    assert shown.blocks == ("▄", "▲", " ")
    assert shown.high == {1}
    score = lane("score", 1, 1, 1, 1, 0, 1, worst="low")
    assert draw(score, fit_steps(6, 2)).blocks == ("▇", "▇")
    assert draw(score, fit_steps(6, 2)).high == {1}


def test_the_lanes_of_a_long_run_are_no_wall() -> None:
    """A slow step in a hundred stands in nearly every column of as many: by its worst values each
    column would be full."""
    chance = Random(3)
    values = [chance.uniform(1, 3) * (9 if chance.random() < 0.01 else 1) for _ in range(20_000)]
    values[9_000:10_000] = [each / 2 for each in values[9_000:10_000]]
    values[15_000] = 400.0
    shown = draw(lane("latency", *values), fit_steps(20_000, 80))
    assert set(shown.blocks) == {"▂", "▃", "▲"}
    assert [at for at, block in enumerate(shown.blocks) if block == "▲"] == [60]
    assert {at for at, block in enumerate(shown.blocks) if block == "▂"} == {36, 37, 38, 39}
    assert shown.high == {60}


def test_zoom_shows_fifteen_steps_on_either_side() -> None:
    bins = fit_steps(200, 60, around=100)
    assert (bins.first, bins.last) == (85, 116)
    assert bins.column(84) is None
    assert bins.step_at(0) == 85


def test_spikes_follow_the_published_thresholds_where_they_are_worth_a_look() -> None:
    assert spikes(lane("latency", 1.0, 1.4, 3.0, None, 9.0)) == {2}
    assert spikes(lane("cost", 0.0, 0.5, 0.8)) == {2}
    assert spikes(lane("score", 1.0, 1.0 - DROP - 0.01, 0.75, worst="low")) == {1}
    assert spikes(lane("context", 10, 20, 1000)) == {2}, "from 10 to 20 is nothing beside 1000"


def test_a_usual_step_is_drawn_at_half_height_and_one_outlier_does_not_flatten_the_others() -> None:
    steady = lane("cost", *[0.5] * 40)
    assert set(draw(steady, fit_steps(40, 40)).blocks) == {"▄"}
    slow = lane("latency", *[1.0, 2.0] * 20, 900.0)
    drawn = draw(slow, fit_steps(41, 41))
    assert drawn.blocks == (*("▂", "▃") * 20, "▲")
    assert drawn.high == outliers(slow) == {40}
    assert write_scale(slow) == "▲ > 5.0 s"
    assert write_scale(lane("latency", 1.0, 2.0, 3.0)) == "max 3.0 s"


def test_at_most_a_twentieth_of_the_steps_are_outliers() -> None:
    heavy = lane("latency", *[1.0] * 160, *(10.0 * each for each in range(1, 41)))
    assert len(outliers(heavy)) == 10


def test_the_context_is_drawn_from_its_least_to_its_largest() -> None:
    grown = lane("context", *(20_000 + 100 * step for step in range(41)))
    blocks = draw(grown, fit_steps(41, 41)).blocks
    assert blocks[0] == "▁"
    assert blocks[-1] == "▇"
    assert list(blocks) == sorted(blocks)
    assert write_scale(grown) == "20.0k–24.0k"
    level = lane("context", 20_000, 20_010, 20_000)
    assert set(draw(level, fit_steps(3, 40)).blocks) == {"▁"}


def test_what_is_unknown_or_nothing_has_a_scale_too() -> None:
    assert draw(lane("cost", None, None), fit_steps(2, 40)).blocks == (" ", " ")
    assert draw(lane("cost", 0.0, 0.0), fit_steps(2, 40)).blocks == ("▁", "▁")
    assert draw(lane("cost", 0.4), fit_steps(1, 40)).blocks == ("▄",)
    assert scale(lane("score", 0.9, 1.0, worst="low")).top == 1.0


def test_whose_score_it_is_and_lanes_without_data_are_said_once() -> None:
    lanes = (
        Lane(name="score", values=(1.0,), worst="low", note="by human, else rule"),
        Lane(name="latency", values=(None,), worst="high", note="not recorded"),
        Lane(name="context", values=(7.0,), worst="high", note="not recorded"),
        Lane(name="cost", values=(None,), worst="high", note="unknown"),
    )
    assert notes(lanes) == "score by human, else rule · latency not recorded · cost unknown"


def shown(items: tuple[document.Item, ...], width: int, *opened: str) -> list[str]:
    return [
        document.rest_line(row, "⏎") if row.rest else row_text(row)
        for row in lay_out(items, width, opened)
    ]


def test_a_long_value_counts_what_it_hides_and_enter_shows_all_of_it() -> None:
    block = Block(text="x" * 52_213, key="value")
    assert shown((block,), 100)[-1] == "… 48 213 more characters (⏎)"
    assert "".join(shown((block,), 100, "value")) == "x" * 52_213


def test_a_fold_is_made_only_when_it_is_opened() -> None:
    made: list[int] = []

    def inside() -> tuple[document.Item, ...]:
        made.append(1)
        return (Block(text="hidden"),)

    fold = Fold(key="earlier", line="12 messages as in step 2", inside=inside)
    assert shown((fold,), 40) == ["12 messages as in step 2"]
    assert not made
    assert shown((fold,), 40, "earlier") == ["12 messages as in step 2", "hidden"]


def test_recorded_json_is_laid_out_and_other_text_left_as_it_is() -> None:
    long = '{"id": "IFOYYZ", "cabin": "economy", "insurance": false, "price": 12}'
    assert value(long, key="v").text.split("\n")[1] == '  "id": "IFOYYZ",'
    assert value('{"id": 7}', key="v").text == '{"id": 7}'
    assert not value("{not json", key="v").json
    assert not value("[[SECRET:key:0a1b2c3d]]", key="v").json


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('  "id": "IFOYYZ",', "IFOYYZ"),
        ('  "n": -1.5', -1.5),
        ('  "a": "with \\"quotes\\"",', 'with "quotes"'),
        ("  true,", True),
        ('  "list": [', None),
        ("}", None),
    ],
)
def test_the_value_on_a_line_of_json_is_found(line: str, expected: object) -> None:
    block = Block(text="{\n" + line + "\n}", json=True)
    assert document.value_at(list(lay_out((block,), 80, ()))[1]) == expected


def test_json_is_coloured_by_what_it_is_also_after_a_string_was_wrapped() -> None:
    text = '{"name": "Mei Lee", "age": 3, "gold": true}'
    kinds = [(text[a:b], kind) for a, b, kind in tokens(text, 0, len(text))]
    assert kinds[:3] == [('"name"', "key"), ('"Mei Lee"', "string"), ('"age"', "key")]
    assert kinds[-1] == ("true", "word")
    half = text.index("Lee")
    assert [kind for *_, kind in tokens(text, half, half + 4)] == ["string"]


def test_a_string_of_very_many_rows_is_a_string_on_every_one() -> None:
    said = {"short": 1, "long": 'so, "they" say ' * 900, "next": "x"}
    text = value(json.dumps(said), key="said").text
    first, after = text.index("so, "), text.index(' ",') + 2
    for start in range(first, after, 60):
        end = min(start + 60, after)
        assert next(tokens(text, start, end))[2] == "string", text[start:end]
    assert list(tokens(text, after, after + 1)) == []
    assert [kind for *_, kind in tokens(text, after + 2, len(text))] == ["key", "string"]


def test_a_sub_label_is_a_number_or_own_words() -> None:
    assert sub_label("1") == "policy violation"
    assert sub_label("99") == "99"
    assert sub_label(" lost the thread ") == "lost the thread"
    assert sub_label("  ") is None


class Many(RowList):
    """A hundred thousand rows that remember which of them were drawn."""

    word: reactive[str] = reactive("row")

    def __init__(self) -> None:
        super().__init__()
        self.drawn: set[int] = set()
        self.words: dict[int, str] = {}

    @property
    def row_count(self) -> int:
        return 100_000

    def draw(self, index: int, width: int) -> Text:
        self.drawn.add(index)
        return Text(f"{self.words.get(index, self.word)} {index}"[:width])


class ManyApp(Bare):
    CSS = "RowList { height: 1fr; }"

    def compose(self) -> ComposeResult:
        yield Many()


@pytest.mark.pilot
async def test_a_long_list_draws_only_what_is_seen() -> None:
    app = ManyApp()
    async with app.run_test(size=(40, 10)) as pilot:
        many = app.query_one(Many)
        await pilot.press("G")
        assert many.cursor == 99_999
        await pilot.press("k")
        assert many.cursor == 99_998
        assert max(many.drawn) == 99_999
        assert len(many.drawn) <= 30


@pytest.mark.pilot
async def test_what_is_scrolled_is_not_drawn_again_and_what_changed_is() -> None:
    app = ManyApp()
    async with app.run_test(size=(40, 10)) as pilot:
        many = app.query_one(Many)
        await press(pilot, "G", "g")
        await press(pilot, *"jjjjjjjjjjjj")
        top = many.scroll_offset.y
        many.drawn.clear()
        await press(pilot, "j")
        assert many.scroll_offset.y == top + 1
        assert many.drawn <= {12, 13, 14}, (
            "what was under the cursor, what is, what came into sight"
        )
        many.word = "other"
        await settle(pilot)
        assert "other 5" in text(app)
        await press(pilot, "g")
        assert "other 0" in text(app), "what was out of sight as well"
        many.words[3] = "third"
        many.refresh_row(3)
        await settle(pilot)
        assert "third 3" in text(app)


async def test_the_cursor_stays_within_the_rows() -> None:
    app = ManyApp()
    async with app.run_test(size=(40, 10)):
        many = app.query_one(Many)
        many.cursor = -5
        assert many.cursor == 0
        many.cursor = 10**9
        assert many.cursor == 99_999


@pytest.mark.pilot
async def test_a_click_moves_the_cursor() -> None:
    app = ManyApp()
    async with app.run_test(size=(40, 10)) as pilot:
        await pilot.click(Many, offset=(3, 4))
        assert app.query_one(Many).cursor == 4
