"""The trace screen: what it shows at two sizes, and what its keys do."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest
from msgspec import structs
from textual.message import Message
from textual.pilot import Pilot

from arc_tui.app import ArcApp
from arc_tui.features.replay.screen import ReplayScreen
from arc_tui.features.trace.detail import NAMES
from arc_tui.features.trace.lanes import GUTTER, Lanes
from arc_tui.features.trace.screen import TraceScreen
from arc_tui.features.trace.search import Finder
from arc_tui.navigation import OpenCost, OpenReplay, OpenTrace
from replay.store import connection, trouble
from replay.store.rows import step_rows
from replay.trace import Outcome
from taxonomy.classes import FailureClass
from taxonomy.judgements.schema import open_ledger
from taxonomy.judgements.scores import HumanScore, give
from taxonomy.judgements.tags import TagRow
from taxonomy.query.failures import tag_rows
from tests.arc_tui import opening, sample
from tests.arc_tui.opening import SIZES, WIDE, looks_like
from tests.build import trace
from tests.screen import matches_golden, press, rows, settle, text

Opened = tuple[Pilot[None], TraceScreen]


@asynccontextmanager
async def opened(db: Path, key: str, size: tuple[int, int] = (120, 40)) -> AsyncIterator[Opened]:
    screen = TraceScreen(db, key)
    async with opening.opened(screen, size) as pilot:
        yield pilot, screen


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return tmp_path / "arc.db"


@pytest.fixture
def key(db: Path) -> str:
    return sample.put_failed(db)


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
@pytest.mark.pilot
async def test_the_screen_looks_like_this(db: Path, key: str, size: tuple[int, int]) -> None:
    async with opened(db, key, size) as (pilot, _):
        matches_golden(pilot.app, f"trace_{size[0]}x{size[1]}")


@pytest.mark.pilot
async def test_the_pages_of_a_step_look_like_this(db: Path, key: str) -> None:
    async with opened(db, key) as (pilot, screen):
        screen.spans.go_to(4)
        for digit, name in ("2", "request"), ("3", "response"), ("4", "observations"), ("5", "raw"):
            await press(pilot, digit)
            await looks_like(pilot, f"trace_{name}", (*SIZES, WIDE))


@pytest.mark.pilot
async def test_a_failed_run_opens_at_its_first_candidate_with_the_reasons_in_front(
    db: Path, key: str
) -> None:
    async with opened(db, key) as (_, screen):
        assert (screen.step, NAMES[screen.tab]) == (3, "Why")


@pytest.mark.pilot
@pytest.mark.parametrize("outcome", [sample.FAILED, sample.PASSED, Outcome()])
async def test_candidates_are_walked_from_the_likeliest_on_whatever_became_of_the_run(
    tmp_path: Path, outcome: Outcome
) -> None:
    path = tmp_path / "arc.db"
    first, second = sample.SAID.candidates
    third = structs.replace(first, step=9, weight=1.0)
    likely = (structs.replace(second, weight=3.0), first, third)
    said = structs.replace(sample.SAID, candidates=likely)
    head = sample.header("26", "1", outcome)
    key = sample.put(path, head, sample.failed_run().spans, said)
    async with opened(path, key) as (pilot, screen):
        assert "candidate: step 5 (also 3, 9)" in text(pilot.app)
        walked = [screen.step]
        for pressed in "cccCCJcJC":
            await press(pilot, pressed)
            walked.append(screen.step)
        assert walked == [5, 3, 9, 5, 9, 3, 4, 5, 6, 5]
        await press(pilot, "ampersand", *"-tool:reservation", "enter", "g", "c")
        assert screen.filtered is not None
        assert 5 not in screen.filtered
        assert screen.step == 3, "of those that are shown"
        await press(pilot, "c")
        assert screen.step == 9


@pytest.mark.pilot
async def test_a_run_that_passed_opens_at_its_start(db: Path) -> None:
    key = sample.put(
        db, sample.header("26", "0", sample.PASSED), sample.failed_run().spans, sample.HEALTHY
    )
    async with opened(db, key) as (pilot, screen):
        assert (screen.step, NAMES[screen.tab]) == (0, "Response")
        assert "No break candidates" in rows(pilot.app)[1]


@pytest.mark.pilot
async def test_a_run_without_steps_opens_and_says_so(db: Path) -> None:
    spans = trace([]).spans
    key = sample.put(db, sample.header("1", "0", Outcome()), spans)
    async with opened(db, key) as (pilot, _):
        assert "no steps" in text(pilot.app)
        await press(pilot, "J", "t", "z", "y")
        assert "No break candidates" in text(pilot.app)
        assert "steps 0" not in text(pilot.app)


@pytest.mark.pilot
async def test_rows_steps_candidates_and_errors_are_one_key_away(db: Path, key: str) -> None:
    async with opened(db, key) as (pilot, screen):
        await press(pilot, "J")
        assert screen.detail.row.step == 4
        await press(pilot, "c")
        assert screen.step == 3, "from a step that is none, to the likeliest"
        await press(pilot, "c")
        assert screen.step == 5
        await press(pilot, "c")
        assert screen.step == 3, "round the end, back to the first"
        await press(pilot, "C")
        await press(pilot, "less_than_sign")
        assert screen.step == 7, "round the start, to the last error"
        await press(pilot, "greater_than_sign")
        assert screen.step == 5
        await press(pilot, "g", "j", "k")
        assert screen.step == 0


@pytest.mark.pilot
async def test_repeats_unfold_where_a_step_inside_is_wanted(db: Path, key: str) -> None:
    async with opened(db, key) as (pilot, screen):
        assert "×3 get_reservation NQNUSR" in text(pilot.app)
        screen.spans.go_to(6)
        await settle(pilot)
        assert screen.step == 6
        assert "▾ ×3 get_reservation NQNUSR" in text(pilot.app)
        await press(pilot, "h", "h")
        assert "▸ ×3 get_reservation NQNUSR" in text(pilot.app)
        assert screen.step == 5


@pytest.mark.pilot
async def test_lanes_zoom_and_follow_the_cursor(db: Path, key: str) -> None:
    async with opened(db, key) as (pilot, screen):
        await press(pilot, "z")
        assert "steps 0–8" in text(pilot.app)
        await pilot.click(Lanes, offset=(1 + GUTTER + 3 * 7, 0))
        await settle(pilot)
        assert screen.step == 7


@pytest.mark.pilot
async def test_the_pages_of_a_step_turn_by_digit_and_by_tab(db: Path, key: str) -> None:
    async with opened(db, key) as (pilot, screen):
        screen.spans.go_to(2)
        await press(pilot, "4")
        assert '"created_at": "2024-05-12T09:14:00"' in text(pilot.app)
        await press(pilot, "tab")
        assert NAMES[screen.tab] == "Raw"
        await press(pilot, "tab", "shift+tab")
        assert NAMES[screen.tab] == "Raw"


async def test_enter_goes_into_the_detail_and_escape_comes_back(db: Path, key: str) -> None:
    async with opened(db, key) as (pilot, screen):
        screen.spans.go_to(4)
        await press(pilot, "2", "enter")
        assert screen.page.has_focus
        fold = next(i for i, row in enumerate(screen.page._rows) if row.key == "earlier")
        screen.page.cursor = fold
        await press(pilot, "enter")
        assert "May I have your user id?" in text(pilot.app)
        await press(pilot, "escape")
        assert screen.spans.has_focus


@pytest.mark.pilot
async def test_find_marks_the_steps_that_say_it_and_n_goes_on(db: Path, key: str) -> None:
    async with opened(db, key) as (pilot, screen):
        await press(pilot, "slash", *"HAT201", "enter")
        assert screen.found == {2}
        assert screen.step == 2
        assert "“HAT201” 1 of 1 step" in text(pilot.app)
        screen.post_message(Finder.Found(frozenset({0, 4, 8})))
        await settle(pilot)
        await press(pilot, "n")
        assert screen.step == 8
        await press(pilot, "N", "N")
        assert screen.step == 0


@pytest.mark.pilot
async def test_what_nobody_says_is_said_to_be_not_there(db: Path, key: str) -> None:
    async with opened(db, key) as (pilot, screen):
        await press(pilot, "slash", "q", "q", "enter")
        assert "No match for 'qq'." in text(pilot.app)
        assert screen.step == 3


def tags(db: Path) -> list[TagRow]:
    with open_ledger(db) as store:
        return tag_rows(store, "accepted")


@pytest.mark.pilot
async def test_a_letter_tags_the_step_and_u_takes_it_back(
    db: Path, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARC_USER", "ada")
    async with opened(db, key) as (pilot, screen):
        await press(pilot, "t", "l")
        assert [(tag.step, tag.failure, tag.by) for tag in tags(db)] == [(3, "loop", "ada")]
        assert "tagged loop" in text(pilot.app)
        await press(pilot, "J", "full_stop")
        assert [tag.step for tag in tags(db)] == [3, 4]
        await press(pilot, "u")
        assert [tag.step for tag in tags(db)] == [3]
        assert [tag.step for tag in screen.view.tags] == [3]


@pytest.mark.pilot
async def test_a_tag_that_another_writer_keeps_out_is_written_after_it(
    db: Path, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "BUSY_TIMEOUT_S", 0.01)
    monkeypatch.setattr(trouble, "PATIENCE", 2)
    async with opened(db, key) as (pilot, _):
        with closing(sqlite3.connect(db, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            await press(pilot, "t", "l")
            assert not tags(db)
        await press(pilot, "J", "t", "w")
        assert [(tag.step, tag.failure) for tag in tags(db)] == [(3, "loop"), (4, "wrong tool")]


@pytest.mark.pilot
async def test_enter_accepts_the_suggestion_with_its_evidence(db: Path, key: str) -> None:
    async with opened(db, key) as (pilot, _):
        await press(pilot, "t")
        assert "hallucinated state: falsely claims 12 May is within 24 h of 15 May" in text(
            pilot.app
        )
        await press(pilot, "enter")
        (tag,) = tags(db)
        assert (tag.failure, tag.source) == (FailureClass.HALLUCINATED_STATE, "human")


@pytest.mark.pilot
async def test_other_asks_for_a_sub_label(db: Path, key: str) -> None:
    async with opened(db, key) as (pilot, _):
        await press(pilot, "t", "o", "3", "enter")
        assert [(tag.failure, tag.sub) for tag in tags(db)] == [("other", "missing step")]


@pytest.mark.pilot
async def test_a_note_is_kept_with_the_tag(db: Path, key: str) -> None:
    async with opened(db, key) as (pilot, _):
        await press(pilot, "t", "tab", "o", "h", "enter", "a")
        assert [(tag.failure, tag.why) for tag in tags(db)] == [("bad args", "oh")]


@pytest.mark.pilot
async def test_escape_leaves_the_picker_without_a_tag(db: Path, key: str) -> None:
    async with opened(db, key) as (pilot, screen):
        await press(pilot, "t")
        assert screen.app.screen_stack[-1].HELP == "tag a step"
        matches_golden(pilot.app, "tag_picker_120x40")
        await press(pilot, "escape")
        assert screen.is_current
        assert not tags(db)


@pytest.mark.pilot
async def test_p_says_where_a_value_came_from_and_enter_goes_there(db: Path, key: str) -> None:
    async with opened(db, key) as (pilot, screen):
        screen.spans.go_to(5)
        await press(pilot, "p")
        assert "not found in context" in text(pilot.app)
        await press(pilot, "escape")
        screen.spans.go_to(4)
        await press(pilot, "p")
        assert "IFOYYZ" in text(pilot.app)
        await press(pilot, "enter")
        assert screen.is_current
        assert screen.step < 4


@pytest.mark.pilot
async def test_enter_on_evidence_of_another_step_goes_there(db: Path, key: str) -> None:
    async with opened(db, key) as (pilot, screen):
        await press(pilot, "enter")
        screen.page.cursor = 3
        await press(pilot, "enter")
        assert screen.step == 2
        assert screen.page.has_focus


@pytest.mark.pilot
async def test_the_view_menu_shows_the_scores_of_each_source_and_says_whose(
    db: Path, key: str
) -> None:
    with open_ledger(db) as store:
        rows_ = step_rows(store, key)
        give(
            store,
            HumanScore(trace=key, span=rows_[2].span, step=2, value=0.4, by="ada"),
        )
    async with opened(db, key) as (pilot, screen):
        assert "score by human, else rule" in text(pilot.app)
        await press(pilot, "v", "2")
        assert "score by human · ada" in text(pilot.app)
        assert screen.lanes.scorer == 1
        await press(pilot, "v", "2", "v", "2")
        assert "score by human, else rule" in text(pilot.app)


@pytest.mark.pilot
async def test_what_a_step_rests_on_joins_its_reasons(db: Path, key: str) -> None:
    async with opened(db, key) as (pilot, screen):
        screen.spans.go_to(5)
        await settle(pilot)
        assert "✗ reservation_id  NQNUSR" in text(pilot.app)


@pytest.mark.pilot
async def test_m_asks_where_the_money_went(db: Path, key: str) -> None:
    posted: list[Message] = []
    app = ArcApp(db)
    async with app.run_test(message_hook=posted.append) as pilot:
        await settle(pilot)
        app.push_screen(TraceScreen(db, key, at=7))
        await settle(pilot)
        assert isinstance(app.screen, TraceScreen)
        assert app.screen.step == 7, "opened at the step that was asked for"
        app.screen.action_money()
        await settle(pilot)
    asked = [each for each in posted if isinstance(each, OpenCost)]
    assert {each.trace for each in asked} == {key}


@pytest.mark.pilot
async def test_p_on_a_step_without_calls_says_so(db: Path, key: str) -> None:
    async with opened(db, key) as (pilot, _):
        await press(pilot, "p")
        assert "Step 3 has no call with values." in text(pilot.app)


@pytest.mark.pilot
async def test_y_copies_the_step_as_markdown(db: Path, key: str) -> None:
    async with opened(db, key) as (pilot, screen):
        screen.spans.go_to(2)
        await settle(pilot)
        await press(pilot, "y")
        assert pilot.app.clipboard.startswith("## Step 2 of trace")
        assert "calls `get_reservation`" in pilot.app.clipboard


@pytest.mark.pilot
@pytest.mark.parametrize(("pressed", "edit"), [("e", True), ("r", False)])
async def test_e_and_r_ask_for_a_replay_of_the_step_under_the_cursor(
    db: Path, key: str, pressed: str, edit: bool
) -> None:
    posted: list[Message] = []
    app = ArcApp(db)
    async with app.run_test(message_hook=posted.append) as pilot:
        await settle(pilot)
        app.screen.post_message(OpenTrace(key))
        await settle(pilot)
        await pilot.press(pressed)
        await settle(pilot)
        assert isinstance(app.screen, ReplayScreen)
    asked = [each for each in posted if isinstance(each, OpenReplay)]
    assert {(each.trace, each.step, each.edit) for each in asked} == {(key, 3, edit)}


@pytest.mark.pilot
async def test_what_there_is_nothing_to_do_with_is_not_offered(db: Path) -> None:
    key = sample.put(
        db, sample.header("1", "0", sample.PASSED), trace(["Done."]).spans, sample.HEALTHY
    )
    async with opened(db, key) as (pilot, _):
        keys = rows(pilot.app)[-1]
        assert "tag" in keys
        assert "candidate" not in keys
        assert "error" not in keys
