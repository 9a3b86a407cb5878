"""The steps screen: what the rules say at once, what a model is asked, the test, and its keys."""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec import structs
from textual.pilot import Pilot
from textual.screen import Screen
from textual.widgets import Input

from arc_tui import importing
from arc_tui.app import ArcApp
from arc_tui.experiments.dialogs import AttachBox
from arc_tui.experiments.request import views_of
from arc_tui.experiments.runner import JobProgressed
from arc_tui.features.bisect_steps.plan import BisectStepsRequest
from arc_tui.features.bisect_steps.run import run_step_bisection
from arc_tui.features.bisect_steps.screen import StepsScreen
from arc_tui.features.bisect_steps.view import StepsView
from arc_tui.features.trace.screen import TraceScreen
from arc_tui.places import fixtures
from arc_tui.ui.dialogs import AskBox
from replay import kept
from replay.edit.changes import Edit, InjectConstraint
from replay.free.recorded_results import Stub
from replay.models.demo import Demo
from replay.store import edits
from replay.store.rows import trace_row
from taxonomy.first_contradiction.question import DemoBeliefs
from taxonomy.judgements.schema import open_ledger
from tests.arc_tui.opening import SIZES, looks_like, until
from tests.messages_api import Body, MessagesApi
from tests.replay.live_case import MODEL
from tests.screen import rows, settle
from tests.screen import text as drawn
from tests.shared import DATA, needs_shared

TOUR, LONG, CLEAN = "shop-many-wishes-v5-0", "shop-long-v6-0", "shop-long-v8-0"
READ_FIRST = Edit(
    name="read first",
    changes=(InjectConstraint("Never make up an amount. Read what an order cost before."),),
)


class Opener(ArcApp):
    """The app over a blank screen."""

    def get_default_screen(self) -> Screen[None]:
        return Screen()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("steps") / "arc.db"
    with open_ledger(path) as store:
        files = [fixtures() / "traces" / f"{name}.jsonl" for name in (TOUR, LONG, CLEAN)]
        list(importing.take_in(store, files))
    return path


@pytest.fixture
def db(shared: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(shared, tmp_path / "arc.db"))


def key(db: Path, name: str) -> str:
    with open_ledger(db) as store:
        return trace_row(store, name).trace


@asynccontextmanager
async def opened(
    db: Path, name: str, **request: object
) -> AsyncIterator[tuple[Pilot[None], StepsScreen]]:
    app = Opener(db)
    async with app.run_test(size=SIZES[1], notifications=True) as pilot:
        screen = StepsScreen(db, key(db, name), step=2)
        screen.request = structs.replace(screen.request, **request)
        app.push_screen(screen)
        await settle(pilot)
        await settle(pilot)
        yield pilot, screen


async def press(pilot: Pilot[None], *keys: str) -> None:
    """Keys, and all that follows: an answer that is in may start the next question."""
    for each in keys:
        await pilot.press(each)
        await settle(pilot)
        await settle(pilot)


async def type_in(pilot: Pilot[None], words: str) -> None:
    """Type an answer into the box that is open."""
    assert isinstance(pilot.app.screen, AskBox)
    line = pilot.app.screen.query_one(Input)
    line.value = words
    line.focus()
    await pilot.press("enter")


@pytest.mark.pilot
async def test_it_opens_with_the_step_that_the_rules_name(db: Path) -> None:
    async with opened(db, TOUR) as (pilot, screen):
        assert screen.state.phase == "done"
        await looks_like(pilot, "steps")


@pytest.mark.pilot
async def test_a_tested_step_says_first_what_the_test_came_to(db: Path) -> None:
    async with opened(db, TOUR) as (pilot, screen):
        await press(pilot, "V")
        assert screen.state.view.confirmation is not None
        await looks_like(pilot, "steps_confirmed")


@pytest.mark.pilot
async def test_beliefs_are_asked_after_their_estimate(db: Path) -> None:
    async with opened(db, LONG) as (pilot, screen):
        await press(pilot, "right")
        await looks_like(pilot, "steps_ready")
        assert screen.state.view.calls == 0
        await press(pilot, "r")
        await looks_like(pilot, "steps_belief")


@pytest.mark.pilot
@needs_shared
async def test_the_airline_run_shows_both_sources_and_what_it_lacks(airline: Path) -> None:
    async with opened(airline, "26/1") as (pilot, screen):
        await looks_like(pilot, "steps_airline")
        screen.change_request(model=MODEL)
        await until(pilot, "tool definitions not recorded (a adds them)")
        await pilot.press("a")
        await pilot.pause()
        assert isinstance(pilot.app.screen, AttachBox)


@pytest.fixture(scope="module")
def airline(tmp_path_factory: pytest.TempPathFactory) -> Path:
    db = tmp_path_factory.mktemp("airline") / "arc.db"
    with open_ledger(db) as store:
        list(importing.take_in(store, [DATA / "tau_bench" / "gpt-4o-airline.json"]))
    return db


@pytest.mark.pilot
async def test_where_nothing_contradicts_it_says_what_to_try_next(db: Path) -> None:
    async with opened(db, CLEAN) as (pilot, screen):
        assert rows(pilot.app)[1].startswith(" No contradiction found: ")
        assert '" choose a fact to ask about' in drawn(pilot.app)
        assert screen.rows.cursor == 2
        await pilot.press("quotation_mark")
        await until(pilot, "fact to ask about")
        await type_in(pilot, "total_cents of order_id 1047")
        await until(pilot, "true value")
        await type_in(pilot, "0:total_cents")
        await settle(pilot)
        assert (screen.state.phase, screen.request.detector) == ("idle", "belief")
        assert "1 fact at " in rows(pilot.app)[1]


@pytest.mark.pilot
async def test_an_answer_that_is_there_already_is_shown_without_asking(db: Path) -> None:
    with open_ledger(db) as store:
        list(views_of(run_step_bisection, store, BisectStepsRequest(trace=LONG, detector="belief")))
    async with opened(db, LONG) as (pilot, screen):
        await press(pilot, "D")
        assert "the model answers what the facts are at each step" in drawn(pilot.app)
        await press(pilot, "j", "enter")
        assert screen.state.phase == "done"
        assert (screen.state.view.decisive, screen.state.view.calls) == (15, 0)
        assert screen.rows.cursor == 15


@pytest.mark.pilot
async def test_few_answers_settle_nothing_and_more_may_be_asked_for(db: Path) -> None:
    async with opened(db, TOUR, samples=3) as (pilot, screen):
        await press(pilot, "V")
        assert "Inconclusive at step 4: failure in 0/3 edited, 3/3 control" in drawn(pilot.app)
        assert "s try more samples" in drawn(pilot.app)
        assert "Not confirmed yet." in drawn(pilot.app)
        await pilot.press("s")
        await until(pilot, "samples per arm")
        await type_in(pilot, "none")
        await until(pilot, "'none' is not a number from 1 to 100")
        await type_in(pilot, "8")
        await until(pilot, "V confirm: 8 samples per arm")
        assert screen.state.view.confirmation is None
        await press(pilot, "V")
        assert rows(pilot.app)[2].startswith(" Confirmed at step 4: ")
        assert "Not confirmed yet." not in drawn(pilot.app)


@pytest.mark.pilot
async def test_a_fix_that_does_not_help_is_refuted_and_another_one_is_taken(db: Path) -> None:
    with open_ledger(db) as store:
        edits.save(store, READ_FIRST)
    async with opened(db, LONG, samples=4) as (pilot, screen):
        await press(pilot, "V")
        assert rows(pilot.app)[2].startswith(" Refuted at step 16: failure in ")
        assert "o try another fix" in drawn(pilot.app)
        await press(pilot, "o")
        await type_in(pilot, "read first")
        await until(pilot, "constraint added to the system prompt: Never make up an amount")
        assert screen.state.view.confirmation is None
        await press(pilot, "o", "enter")
        assert screen.request.fix is None
        assert "constraint added at step 16" in drawn(pilot.app)


async def test_enter_opens_the_run_there_and_a_source_leads_to_its_step(db: Path) -> None:
    async with opened(db, LONG) as (pilot, screen):
        trace, app = screen.request.trace, pilot.app
        await press(pilot, "enter")
        shown = app.screen
        assert isinstance(shown, TraceScreen)
        assert (shown.trace, shown.step) == (trace, 16)
        await press(pilot, "escape")
        await press(pilot, "tab", "j", "j", "j", "enter")
        assert screen.rows.cursor == 0
        assert screen.page.border_title == "step 0"
        await press(pilot, "escape")
        assert screen.focused is screen.rows
        await press(pilot, "escape")
        assert app.screen is not screen


@pytest.mark.pilot
async def test_the_point_of_no_return_of_a_fix_is_asked_for_what_it_needs(db: Path) -> None:
    read = Stub(
        tool="get_order",
        arguments={"order_id": "1039"},
        result=json.dumps({"order_id": "1039", "status": "delivered", "total_cents": 12900}),
    )
    with open_ledger(db) as store:
        kept.put(store, key(db, TOUR), read, source="test")
        edits.save(store, READ_FIRST)
    async with opened(db, TOUR, samples=2) as (pilot, screen):
        await press(pilot, "left")
        assert "o choose the fix, w set what a recovered run does" in rows(pilot.app)[1]
        await press(pilot, "r")
        await type_in(pilot, "read first")
        await settle(pilot)
        await pilot.press("r")
        await until(pilot, "what a recovered run does")
        await type_in(pilot, "tool=refund_order, argh.amount=12900")
        await until(pilot, "argh")
        assert pilot.app.screen.query_one(Input).value == "tool=refund_order, argh.amount=12900"
        await type_in(pilot, "tool=refund_order, args.amount=12900")
        await settle(pilot)
        assert "with the fix, from each of about " in drawn(pilot.app)
        await press(pilot, "r")
        assert rows(pilot.app)[1].startswith(" Last recoverable step: 4. ")
        assert screen.rows.cursor == 4
        assert "V confirm: 2 runs per arm" in drawn(pilot.app)


@pytest.mark.pilot
async def test_while_it_runs_it_says_how_far_it_is_and_stops(db: Path) -> None:
    halfway = views(db)[7]
    async with opened(db, LONG) as (pilot, screen):
        screen.state = structs.replace(screen.state, phase="running")
        screen.post_message(JobProgressed(halfway))
        await settle(pilot)
        assert rows(pilot.app)[1].startswith(" So far: No contradiction found in ")
        assert " of 22 steps · " in rows(pilot.app)[-2]
        assert rows(pilot.app)[-2].endswith("x stop")


def views(db: Path) -> list[StepsView]:
    """Every view of a search, in another database."""
    request = BisectStepsRequest(trace=LONG, detector="belief")
    with pytest.MonkeyPatch.context() as patch, open_ledger(":memory:") as store:
        patch.setattr("arc_tui.features.bisect_steps.run.BETWEEN_VIEWS_S", 0)
        with open_ledger(db) as source:
            source.db.backup(store.db)
        return list(views_of(run_step_bisection, store, request))


@pytest.mark.pilot
async def test_a_run_without_a_fact_says_which_key_names_one(tmp_path: Path) -> None:
    db = tmp_path / "arc.db"
    with open_ledger(db) as store:
        list(importing.take_in(store, [fixtures() / "traces" / "shop-prefix-v6-0.jsonl"]))
    async with opened(db, "shop-prefix-v6-0") as (pilot, screen):
        await press(pilot, "right")
        assert screen.state.phase == "failed"
        assert '! Try: "' in drawn(pilot.app)


@pytest.mark.pilot
async def test_the_rules_judge_at_once_and_who_judges_may_be_chosen(db: Path) -> None:
    async with opened(db, TOUR) as (pilot, screen):
        screen.change_request(detector="judge")
        await settle(pilot)
        await settle(pilot)
        assert screen.state.phase == "done"
        assert "No step scores under 0.5" in rows(pilot.app)[1]
        assert "no model call" in rows(pilot.app)[-2]
        await press(pilot, "U")
        await type_in(pilot, MODEL)
        await until(pilot, f" calls to {MODEL}, ")
        assert screen.state.view.calls == 0


# --- live


class Server:
    """Beliefs where those are asked, else the demo model; `then` happens at its third question."""

    def __init__(self) -> None:
        self.asked = 0
        self.then: Callable[[], object] | None = None

    def __call__(self, body: Body) -> Body:
        self.asked += 1
        if self.asked == 3 and self.then is not None:
            self.then()
        model = DemoBeliefs() if body.get("output_config") else Demo()
        return {**model.complete(body, 0), "model": body["model"]}


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.mark.pilot
async def test_a_server_is_asked_only_under_a_limit_and_what_it_said_is_kept(
    api: MessagesApi, db: Path
) -> None:
    async with opened(db, LONG, model=MODEL) as (pilot, screen):
        await press(pilot, "right")
        assert "needs a limit" in drawn(pilot.app)
        await pilot.press("r")
        await until(pilot, "http://127.0.0.1")
        await press(pilot, "escape")
        assert "r run, with a limit" in drawn(pilot.app)
        assert api.asked == 0
        await pilot.press("r")
        await until(pilot, "cost limit")
        await type_in(pilot, "7 calls")
        await settle(pilot)
        assert screen.state.phase == "failed"
        assert "Completed calls are saved." in drawn(pilot.app)
        assert api.asked == 7
        await pilot.press("r")
        await until(pilot, "cost limit")
        await type_in(pilot, "40 calls")
        await settle(pilot)
        assert screen.state.view.decisive == 15
        assert (api.asked, screen.state.view.cached) == (18, 7)


@pytest.mark.pilot
async def test_x_stops_what_is_asked_and_the_rest_is_asked_the_next_time(
    server: Server, api: MessagesApi, db: Path
) -> None:
    async with opened(db, LONG, model=MODEL) as (pilot, screen):
        server.then = lambda: pilot.app.call_from_thread(screen.action_stop)
        await press(pilot, "right")
        for _ in range(2):
            await pilot.press("r")
            await until(pilot, "cost limit")
            await type_in(pilot, "40 calls")
            await settle(pilot)
            if server.asked == 3:
                assert screen.state.phase == "stopped"
                assert rows(pilot.app)[1].startswith(" Stopped. Completed calls are saved.")
        view = screen.state.view
        assert (view.decisive, view.cached + view.calls) == (15, 18)
        assert view.cached in {2, 3}  # the third may have come in before the stop
