"""The money screen: what it says first, its rows by cost, one in full, and where its keys lead."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest
from textual.pilot import Pilot

from arc_tui.app import ArcApp
from arc_tui.features.cost.screen import CostScreen
from arc_tui.features.cost.text import CostRow, CostRows, build_cost_rows, sentence
from arc_tui.features.trace.screen import TraceScreen
from arc_tui.ui.format import cost_of_sends
from arc_tui.ui.list import RowList
from replay.store.rows import trace_row
from taxonomy.judgements.schema import open_ledger
from tests.arc_tui.test_money import PARTS, USAGES, heron, stored
from tests.build import call, heard, step
from tests.screen import matches_golden, settle, text
from tests.taxonomy.waste_case import paid, usage

Opened = tuple[Pilot[None], CostScreen]


class MoneyApp(ArcApp):
    """The app, begun at one run."""

    def get_default_screen(self) -> TraceScreen:
        with closing(open_ledger(self.path)) as store:
            return self.apply_sheets(TraceScreen(self.path, trace_row(store, "last").trace))


@asynccontextmanager
async def opened(db: Path, size: tuple[int, int] = (120, 40)) -> AsyncIterator[Opened]:
    app = MoneyApp(db)
    async with app.run_test(size=size, notifications=True) as pilot:
        await settle(pilot)
        await pilot.press("dollar_sign")
        await settle(pilot)
        assert isinstance(app.screen, CostScreen)
        yield pilot, app.screen


def step_of_run(pilot: Pilot[None]) -> int:
    """The step of the run that is shown again."""
    run = pilot.app.screen
    assert isinstance(run, TraceScreen)
    return run.step


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return stored(tmp_path / "arc.db", heron())


def found(db: Path) -> CostRows:
    with open_ledger(db) as store:
        return build_cost_rows(store, "last")


def of_kind(rows: tuple[CostRow, ...], kind: str) -> CostRow:
    return next(row for row in rows if row.kind == kind)


@pytest.mark.pilot
@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_the_screen_looks_like_this(db: Path, size: tuple[int, int]) -> None:
    async with opened(db, size) as (pilot, screen):
        kinds = [row.kind for row in screen.found.rows] if screen.found else []
        screen.costs.cursor = kinds.index("cache break")
        await settle(pilot)
        matches_golden(pilot.app, f"money_{size[0]}x{size[1]}")


@pytest.mark.pilot
async def test_enter_asks_for_the_step_in_the_run(db: Path) -> None:
    async with opened(db) as (pilot, screen):
        screen.costs.cursor = 1
        await pilot.press("enter")
        await settle(pilot)
        assert screen.found is not None
        assert step_of_run(pilot) == screen.found.rows[1].step


@pytest.mark.pilot
async def test_a_line_from_another_step_leads_there(db: Path) -> None:
    async with opened(db) as (pilot, screen):
        kinds = [row.kind for row in screen.found.rows] if screen.found else []
        screen.costs.cursor = kinds.index("cache break")
        await settle(pilot)
        await pilot.press("tab")
        screen.page.cursor = next(
            at for at in range(screen.page.row_count) if "step 2" in str(screen.page.draw(at, 60))
        )
        await pilot.press("enter")
        await settle(pilot)
        assert step_of_run(pilot) == 2


@pytest.mark.pilot
async def test_another_model_is_reckoned_and_says_that_it_is_about_cost_only(db: Path) -> None:
    async with opened(db) as (pilot, screen):
        screen._route("gpt-4o-mini short")
        await settle(pilot)
        assert screen.routed is not None
        assert screen.routed.route is not None
        assert screen.routed.route.where == "steps with a short response"
        assert "must be re-measured" in " ".join(text(pilot.app).split())
        assert "– a resolved task" in " ".join(text(pilot.app).split())
        screen._route("gpt-4o-mini short .6")
        await settle(pilot)
        assert "resolution .60 assumed" in " ".join(text(pilot.app).split())


@pytest.mark.pilot
async def test_a_word_that_names_no_steps_is_told(db: Path) -> None:
    async with opened(db) as (pilot, screen):
        screen._route("gpt-4o-mini some")
        await settle(pilot)
        assert screen.routed is None
        assert "all, short, read-only" in text(pilot.app)


def test_rows_stand_by_cost_and_each_names_its_step(db: Path) -> None:
    rows = found(db).rows
    costs = [row.usd or 0.0 for row in rows]
    assert costs == sorted(costs, reverse=True)
    assert {row.kind for row in rows} == {"expensive step", "cache break", "resent", "loop"}


def test_a_call_made_again_outside_a_loop_says_which_one_it_repeats(tmp_path: Path) -> None:
    again = step(call("get_order", "shipped", id=7))
    run = paid([again, again, "Done."], [usage(2000, 10), usage(2020, 10), usage(2040, 5)])
    row = of_kind(found(stored(tmp_path / "arc.db", run)).rows, "repeated")
    assert (row.step, row.what) == (1, "get_order returned the same as step 0")
    assert row.facts[1].step == 0


def test_a_cache_break_says_what_differs_first(db: Path) -> None:
    row = of_kind(found(db).rows, "cache break")
    assert row.step == 3
    assert row.facts[0].text == "tools changed: sweep added"


def test_an_unused_observation_is_shown_with_its_call_and_its_text(db: Path) -> None:
    row = of_kind(found(db).rows, "resent")
    assert "unused" in row.what
    said = {fact.label: fact.text for fact in row.facts}
    assert "pond.txt" in said["call"]
    assert said["returned"].startswith("A silver heron.")


def test_a_loop_lists_its_steps_with_what_each_cost(db: Path) -> None:
    row = of_kind(found(db).rows, "loop")
    steps = [fact for fact in row.facts if fact.label.startswith("step ")]
    assert [fact.step for fact in steps] == [2, 3]
    assert all("get_order" in fact.text and "$" in fact.text for fact in steps)


def test_a_step_is_counted_once_among_what_was_wasted(db: Path) -> None:
    wasted = found(db).view.wasted
    parts = {part.what: part for part in wasted.parts}
    assert "cache breaks" not in parts, "the one break is at a step of the loop"
    assert parts["repeated calls"].times == 2
    assert wasted.at_most, "what was sent again was in those steps too"


def test_without_a_price_tokens_say_how_much(tmp_path: Path) -> None:
    db = stored(tmp_path / "arc.db", heron(model="no-such-model"))
    rows = found(db)
    said = sentence(rows.view)
    assert said.startswith("102k tokens in, 650 out, cost of 5 steps unknown")
    assert "repeated calls 41.1k tokens" in said
    assert "$" not in said
    assert all(row.usd is None for row in rows.rows)
    assert [row.tokens for row in rows.rows] == sorted(
        (row.tokens for row in rows.rows), reverse=True
    )


def test_a_part_of_unknown_price_makes_the_sum_a_lower_bound(tmp_path: Path) -> None:
    run = paid(PARTS, [*USAGES[:4], None])
    said = sentence(found(stored(tmp_path / "arc.db", run)).view)
    assert said.startswith("Spent ≥ $")
    assert "(cost of 1 unknown)" in said


def test_a_run_that_wasted_nothing_says_so(tmp_path: Path) -> None:
    run = paid([step("What is it?"), heard("A heron."), "Ah."], [usage(2000, 10), usage(2020, 5)])
    rows = found(stored(tmp_path / "arc.db", run))
    assert sentence(rows.view).endswith("no likely waste.")
    assert {row.kind for row in rows.rows} == {"expensive step"}


@pytest.mark.pilot
async def test_a_run_of_which_nothing_is_known_says_so(tmp_path: Path) -> None:
    run = paid(["Done."], [None], model=None)
    async with opened(stored(tmp_path / "arc.db", run), (80, 24)) as (pilot, screen):
        drawn = text(pilot.app)
        assert "waste unknown" in drawn
        assert "No step has a recorded size or cost." in drawn
        screen.on_row_list_moved(RowList.Moved(screen.costs))
        assert screen.costs.row is None


def test_a_lower_bound_too_small_to_show_is_not_shown_as_nothing() -> None:
    assert cost_of_sends(0.00003, priced=1, sends=2, at_most=False) == "≥ $0.000030"
    assert cost_of_sends(0.00003, priced=2, sends=2, at_most=False) == "< $0.0001"
    assert cost_of_sends(None, priced=0, sends=2, at_most=False) == "cost unknown"
    assert cost_of_sends(0.5, priced=2, sends=2, at_most=True) == "≤ $0.50"
