"""A step of a replay in few words and in full: counts, tests, and what is not known."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs
from rich.cells import cell_len

from arc_tui.experiments.locked_view import (
    EMPTY,
    ArmRow,
    Given,
    ReplayRow,
    StepRow,
    arm_cell,
    is_beyond_chance,
    mark_words,
    sentences,
)
from arc_tui.features.replay.arms import arm_lines, arm_shown, columns, in_sight
from arc_tui.features.replay.pages import arms_page, step_page
from arc_tui.features.replay.widgets import caption, shown, widths
from arc_tui.ui.document import Block, lay_out, row_text
from arc_tui.ui.format import Cell
from replay.action import Act
from replay.locked.tally import BreakTest, Counts
from replay.locked.verdict import summary
from replay.trace import Level

LOOKUP = Act(tool="get_order", arguments={"order_id": 1042})
SAME = Given(times=8, phrase="refund(order_id=7)", same=True)
OTHER = Given(
    times=7, phrase="get_order(order_id=1042)", same=False, why="refund → get_order",
    text="I look it up.", calls=(LOOKUP,),
)  # fmt: skip
SPOKEN = Given(times=1, phrase="text", same=None, why="other words", text="Done!")


def arm(*answers: Given, **counted: int) -> ArmRow:
    return ArmRow(answers=answers, counts=Counts(**counted))


def row(**fields: Any) -> ReplayRow:
    return ReplayRow(**{"step": 3, "fidelity": Level.EXACT, "recorded": "refund()", **fields})


CELLS = [
    (None, "–"),
    (arm(SAME, repeats=1), "same"),
    (arm(SAME, repeats=8), "same 8/8"),
    (arm(SAME, OTHER, repeats=7, diverges=1), "same 7/8"),
    (arm(OTHER, diverges=1), "get_order(order_id=1042)"),
    (arm(OTHER, SAME, diverges=7, repeats=1), "get_order(order_id=1042) 7/8 +1"),
    (arm(SPOKEN, reworded=3), "reworded 3/3"),
    (arm(SPOKEN, unclear=3), "text"),
]


@pytest.mark.parametrize(("found", "cell"), CELLS)
def test_an_arm_is_what_it_mostly_does_and_how_often(found: ArmRow | None, cell: str) -> None:
    assert arm_cell(found) == cell


@pytest.mark.parametrize("width", range(10, 40))
def test_a_narrow_cell_cuts_the_words_and_never_the_figures(width: int) -> None:
    cell = Cell("get_order(order_id=1042)", "7/8 +1").fit(width)
    assert cell_len(cell) == width
    assert cell.rstrip().endswith("7/8 +1")


@pytest.mark.parametrize("room", range(0, 120, 7))
def test_the_columns_fill_the_room_and_no_more(room: int) -> None:
    rows = [row(control=arm(SAME, repeats=8), edited=arm(OTHER, diverges=8))]
    found = widths(rows, room)
    assert min(found) >= 0
    assert sum(found) == max(room - 4, 0)


def test_an_edit_the_model_declined_stands_in_its_column() -> None:
    _, control, edited = shown(row(control=arm(SAME, repeats=3), edited_refused="too long"))
    assert (control.words, control.figures) == ("same", "3/3")
    assert edited.words == "skipped: too long"


def test_only_what_samples_show_is_beyond_chance() -> None:
    assert is_beyond_chance(row(mark="changed", effect=True, p=0.001))
    assert is_beyond_chance(row(mark="fixed", effect=False, p=0.4))  # its own test says so
    assert not is_beyond_chance(row(mark="fixed"))
    assert not is_beyond_chance(row(mark="unclear", effect=False, p=0.1))


def test_the_caption_explains_only_the_marks_that_are_there() -> None:
    tested = row(mark="changed", effect=True, p=0.001)
    assert caption([row()]) == "steps"
    assert caption([row(), tested]) == "steps · ┃ significant"
    assert "after divergence" in caption([row(dimmed=True)])
    assert mark_words(row(refused="held by the server")) == "– skipped"


def page(found: ReplayRow, broken: BreakTest | None = None) -> str:
    verdict = structs.replace(summary(()), at_break_test=broken)
    rows = list(lay_out(step_page(found, verdict), 400, ()))
    lines = []
    for each in rows:
        label = each.item.label if isinstance(each.item, Block) else ""
        lines.append(f"{label} {row_text(each)}".strip())
    return "\n".join(lines)


TESTED = row(
    mark="changed",
    effect=True,
    p=0.00012,
    control=arm(SAME, repeats=8),
    edited=arm(OTHER, SAME, SPOKEN, diverges=7, repeats=1, reworded=1),
    masked=2,
    losses=("thinking is left out",),
)


def test_a_step_in_full_shows_every_answer_with_its_times_and_the_rates() -> None:
    said = page(TESTED)
    assert "divergence significant, p = 0.00012" in said
    assert "control   diverges in 0 of 8: 0 % (0–32 %, n = 8)" in said
    assert "edited    diverges in 7 of 9: 78 % (45–94 %, n = 9); 1 reworded" in said
    assert "7 ×   refund → get_order" in said
    assert '{"order_id":1042}' in said
    assert "1 ×   other words\nDone!" in said
    assert said.endswith("fidelity exact, 2 masked\nlost thinking is left out")


def test_one_sample_has_no_rate_and_no_test() -> None:
    said = page(row(mark="changed", control=arm(SAME, repeats=1), edited=arm(OTHER, diverges=1)))
    assert "≠ changed   refund → get_order" in said
    assert "control   as recorded" in said
    assert " %" not in said
    assert "chance" not in said


def test_the_failure_at_the_break_has_a_test_of_its_own() -> None:
    broken = BreakTest(detector="loop, by rule", control=8, control_n=8, edited=0, edited_n=8)
    said = page(
        row(mark="fixed", at_break=True, effect=False, p=0.47, edited=arm(OTHER, diverges=8)),
        broken,
    )
    assert "failure in 0/8 edited, 8/8 control (loop, by rule)" in said
    assert "divergence not significant, p = 0.47" in said


def test_why_the_edit_alone_was_not_asked_is_said() -> None:
    said = page(row(control=arm(SAME, repeats=3), edited_refused="the prompt is too long"))
    assert "edited  skipped\nthe prompt is too long" in said


# --- several arms

NAMES = ("v4", "a prompt with a rather long name", "gpt-5")
THREE = StepRow(
    (
        row(control=arm(SAME, repeats=8), edited=arm(SAME, repeats=3), mark="same"),
        row(control=arm(SAME, repeats=8), edited=arm(OTHER, diverges=8), mark="changed"),
        row(control=arm(SAME, repeats=8), edited_refused="the prompt is too long"),
    )
)


@pytest.mark.parametrize("room", range(40, 200, 13))
@pytest.mark.parametrize("first", range(3))
def test_the_columns_of_arms_fill_the_room_and_no_more(room: int, first: int) -> None:
    found = columns([THREE], NAMES, room, first)
    used = found.recorded + found.control + sum(found.arms) + 2 * (1 + len(found.arms))
    assert used == room
    assert 1 <= len(found.arms) <= 3 - first


def test_in_a_wide_terminal_all_arms_are_in_sight_and_else_it_says_which() -> None:
    assert in_sight(NAMES, columns([THREE], NAMES, 200, 0)) == ""
    one, last = (columns([THREE], NAMES, 50, first) for first in (0, 2))
    assert in_sight(NAMES, one).startswith("arm 1 of 3")
    assert in_sight(NAMES, last).startswith("arm 3 of 3")


def test_an_arm_shows_what_differs_and_not_how_its_call_begins() -> None:
    same, other, refused = (arm_shown(each) for each in THREE.arms)
    assert (same.words, same.figures) == ("· same", "3/3")
    assert (other.words, other.figures) == ("≠ refund → get_order", "8/8")
    assert refused.words == "skipped: the prompt is too long"


def test_of_arms_that_nothing_is_known_of_nothing_is_claimed() -> None:
    other = structs.replace(EMPTY, edit="v6")
    view = structs.replace(EMPTY, edit="v4", others=(other,))
    assert sentences(view) == ("No step was replayed.",)
    assert list(arm_lines(view)) == ["v4: not replayed", "v6: not replayed"]


def test_a_step_in_full_says_what_each_arm_does_after_control() -> None:
    rows = zip(NAMES, THREE.arms, (None, None, None), strict=True)
    lines = [row_text(each) for each in lay_out(arms_page(list(rows)), 400, ())]
    said = "\n".join(lines)
    at = [said.index(each) for each in ("recorded", "control", *NAMES)]
    assert at == sorted(at)
    assert "gpt-5  skipped" in said
