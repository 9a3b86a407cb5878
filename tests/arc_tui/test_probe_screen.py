"""The probes of a step on a screen: what they would do, what they came to, what stays beside the
step."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path

import pytest
from msgspec import structs
from textual.pilot import Pilot
from textual.screen import Screen
from textual.widgets import Input

from arc_tui.app import ArcApp
from arc_tui.features.probes.offers import build_why_probes
from arc_tui.features.probes.screen import ProbeScreen
from arc_tui.features.trace.screen import WHY, TraceScreen
from arc_tui.ui.dialogs import AskBox
from replay.models.demo import Demo
from replay.trace import ModelCall
from taxonomy.judgements.schema import open_ledger
from taxonomy.probes import result
from taxonomy.probes.result import LogLine
from taxonomy.probes.symptoms import PROBES
from tests.arc_tui import sample, try_case
from tests.arc_tui.opening import looks_like, until
from tests.build import trace
from tests.messages_api import Body, MessagesApi, Policy, message, text
from tests.replay.live_case import MODEL
from tests.screen import matches_golden, press, settle
from tests.screen import text as drawn

START = "shop-refund-v1-0"
LATE = "shop-many-wishes-v5-0"
LIMIT = "cost limit"
TODAY = "2026-03-14"


class Opener(ArcApp):
    """The app over a blank screen."""

    def get_default_screen(self) -> Screen[None]:
        return Screen()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    path = tmp_path_factory.mktemp("probes") / "arc.db"
    return path, try_case.put(path, START)


@pytest.fixture
def db(shared: tuple[Path, dict[str, str]], tmp_path: Path) -> Path:
    return Path(shutil.copy(shared[0], tmp_path / "arc.db"))


@pytest.fixture
def ids(shared: tuple[Path, dict[str, str]]) -> dict[str, str]:
    return shared[1]


@pytest.fixture(autouse=True)
def today(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log is written on one day, that of the goldens."""
    ns = int(datetime.fromisoformat(f"{TODAY}T12:00:00+00:00").timestamp()) * 10**9
    monkeypatch.setattr("taxonomy.probes.result.now_ns", lambda: ns)


Opened = tuple[Pilot[None], ProbeScreen]


@asynccontextmanager
async def opened(
    db: Path, trace: str, step: int, model: str | None = None, size: tuple[int, int] = (120, 40)
) -> AsyncIterator[Opened]:
    app = Opener(db)
    async with app.run_test(size=size, notifications=True) as pilot:
        screen = ProbeScreen(db, trace, step, model)
        app.push_screen(screen)
        await settle(pilot)
        yield pilot, screen


def at(screen: ProbeScreen) -> str:
    return screen.state.phase


async def answer(pilot: Pilot[None], words: str) -> None:
    """Type an answer into the box that is open."""
    assert isinstance(pilot.app.screen, AskBox)
    line = pilot.app.screen.query_one(Input)
    line.value = words
    line.focus()
    await press(pilot, "enter")


def lines(db: Path) -> list[LogLine]:
    with open_ledger(db) as store:
        return result.kept(store)


# --- before one is run


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
@pytest.mark.pilot
async def test_the_probes_of_a_step_look_like_this(
    db: Path, ids: dict[str, str], size: tuple[int, int]
) -> None:
    async with opened(db, ids[START], 0, size=size) as (pilot, _):
        matches_golden(pilot.app, f"probes_{size[0]}x{size[1]}")
        await press(pilot, "j")
        assert "there is nothing before step 0 to summarise" in drawn(pilot.app)


@pytest.mark.pilot
async def test_each_says_what_it_changes_and_what_it_would_ask_and_names_no_cause(
    db: Path, ids: dict[str, str]
) -> None:
    async with opened(db, ids[LATE], 4) as (pilot, screen):
        shown = drawn(pilot.app)
        for entry in PROBES:
            assert entry.change in shown
            assert " or ".join(entry.candidates) in shown
        assert "22 calls, free" in shown
        assert screen.state.chosen == "summary"
        assert screen.state.view is None
        assert "speaks for" not in shown


@pytest.mark.pilot
async def test_what_cannot_be_made_is_not_run_by_its_letter(db: Path, ids: dict[str, str]) -> None:
    async with opened(db, ids[START], 0) as (pilot, screen):
        await press(pilot, "2")
        assert at(screen) == "idle"
        assert "r/1/3 run" in drawn(pilot.app)
        await press(pilot, "j")
        assert "r/1/3 run" not in drawn(pilot.app)
        assert "1/3 run" in drawn(pilot.app)


@pytest.mark.pilot
async def test_a_step_where_the_run_did_not_break_says_where_it_did(
    db: Path, ids: dict[str, str]
) -> None:
    async with opened(db, ids[LATE], 6) as (pilot, _):
        assert "break candidate: step 4, not this step" in drawn(pilot.app)


@pytest.mark.pilot
async def test_your_own_words_make_a_constraint_where_nothing_was_found(
    db: Path, ids: dict[str, str]
) -> None:
    async with opened(db, ids[LATE], 5) as (pilot, screen):
        constraint = screen.state.offered("constraint")
        assert constraint is not None
        assert constraint.why_not is not None
        await pilot.press("i")
        await until(pilot, "constraint")
        await answer(pilot, "Read order 1039 before you pay anything back.")
        assert screen.state.can("constraint")
        assert screen.state.chosen == "constraint"
        assert "Read order 1039 before you pay anything back." in drawn(pilot.app)
        assert "from          yours" in drawn(pilot.app)


@pytest.mark.pilot
async def test_a_run_whose_model_is_not_known_asks_for_one_before_it_asks_it(
    tmp_path: Path,
) -> None:
    path = tmp_path / "arc.db"
    trace = sample.put_failed(path)
    async with opened(path, trace, 3) as (pilot, screen):
        assert "cost unknown: no model" in drawn(pilot.app)
        await press(pilot, "2")
        assert "which model?" in str(pilot.app.screen.query_one("#ask").border_title)
        await answer(pilot, "claude-haiku-4-5")
        assert screen.state.listed.model == "claude-haiku-4-5"
        assert "calls, about $" in drawn(pilot.app)


# --- a probe


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
@pytest.mark.pilot
async def test_one_letter_runs_a_probe_and_what_it_came_to_is_logged(
    db: Path, ids: dict[str, str], size: tuple[int, int]
) -> None:
    async with opened(db, ids[START], 0, size=size) as (pilot, screen):
        await press(pilot, "1")
        assert at(screen) == "done"
        (line,) = lines(db)
        assert (line.date, line.classification, line.step) == (TODAY, "goal misread", 0)
        matches_golden(pilot.app, f"probe_done_{size[0]}x{size[1]}")


@pytest.mark.pilot
async def test_few_samples_decide_nothing_and_more_may(db: Path, ids: dict[str, str]) -> None:
    async with opened(db, ids[START], 0) as (pilot, screen):
        await pilot.press("s")
        await until(pilot, "samples of each arm")
        await answer(pilot, "1")
        await press(pilot, "1")
        assert screen.state.lines[0].startswith("Inconclusive: hallucination or goal misread")
        assert "s more samples" in drawn(pilot.app)
        assert lines(db)[-1].classification is None


# --- a model on a server


SUMMED = "The user wants a refund of order 1039."


@pytest.fixture
def server() -> Policy:
    """The demo model; asked for a summary it leaves out what was seen."""

    def answer(body: Body) -> Body:
        if body.get("tools"):
            return {**Demo().complete(body, 0), "model": body["model"]}
        return message(text(SUMMED), model=body["model"])

    return answer


@pytest.mark.pilot
async def test_a_server_is_asked_under_a_limit_and_a_probe_cut_short_leaves_no_line(
    db: Path, ids: dict[str, str], api: MessagesApi
) -> None:
    async with opened(db, ids[START], 0, MODEL) as (pilot, screen):
        await pilot.press("1")
        await until(pilot, LIMIT)
        assert "Server: http://127.0.0.1" in drawn(pilot.app)
        await press(pilot, "escape")
        assert "run again with a limit" in drawn(pilot.app)
        assert api.asked == 0
        await pilot.press("1")
        await until(pilot, LIMIT)
        await answer(pilot, "5 calls")
        assert at(screen) == "stopped"
        assert "Unfinished: hallucination or goal misread" in drawn(pilot.app)
        assert "11 calls" in drawn(pilot.app)
        assert not lines(db)
        await pilot.press("1")
        await until(pilot, LIMIT)
        await answer(pilot, "20 calls")
        assert at(screen) == "done"
        assert api.asked == 16
        assert len(lines(db)) == 1


@pytest.mark.pilot
async def test_x_stops_it_what_was_answered_is_kept_and_no_cause_is_named(
    db: Path, ids: dict[str, str], api: MessagesApi
) -> None:
    answering = api.policy

    def policy(body: Body) -> Body:
        if api.asked == 3:
            api.left.wait()
        return answering(body)

    api.policy = policy
    async with opened(db, ids[START], 0, MODEL) as (pilot, screen):
        await pilot.press("1")
        await until(pilot, LIMIT)
        line = pilot.app.screen.query_one(Input)
        line.value = "20 calls"
        await pilot.press("enter")
        while api.asked < 3:
            await pilot.pause(0.01)
        assert "x stop" in drawn(pilot.app)
        await pilot.press("x")
        while screen.state.running:
            await pilot.pause(0.01)
        await settle(pilot)
        assert at(screen) == "stopped"
        assert "Completed calls are saved." in drawn(pilot.app)
        estimate = screen.state.listed.offers[0].estimate
        assert estimate is not None
        assert 0 < estimate.stored < 16
        assert not lines(db)


@pytest.mark.pilot
async def test_a_summary_that_the_model_wrote_decides_too(
    db: Path, ids: dict[str, str], api: MessagesApi
) -> None:
    async with opened(db, ids[LATE], 4, MODEL) as (pilot, screen):
        await press(pilot, "O")
        assert f"{MODEL} writes it: 1 call" in drawn(pilot.app)
        await pilot.press("2")
        await until(pilot, LIMIT)
        await answer(pilot, "50 calls")
        view = screen.state.view
        assert view is not None
        assert SUMMED in view.text
        assert (view.result, view.classification) == ("persists", "capability gap")


# --- beside the step


@pytest.mark.pilot
async def test_the_reasons_of_the_break_have_its_probes_and_then_the_last_one(
    db: Path, ids: dict[str, str]
) -> None:
    app = Opener(db)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = TraceScreen(db, ids[START])
        app.push_screen(screen)
        await settle(pilot)
        shown = drawn(app)
        assert "probes   P, then a digit, runs one" in shown
        assert "hallucination or goal misread?   16 calls, free" in shown
        assert "probed" not in shown
        await press(pilot, "P")
        await press(pilot, "1")
        await press(pilot, "escape")
        await settle(pilot)
        assert app.screen is screen
        shown = drawn(app)
        await looks_like(pilot, "why_probed")
        assert f"probed {TODAY}: goal misread → clarification prompt" in shown
        assert "failure in 0/8 with" in shown
        await press(pilot, "j")
        assert screen.detail.probes is not None
        assert screen.detail.probes.listed is None
        assert "P, then a letter" not in drawn(app)


@pytest.mark.pilot
async def test_a_break_that_cannot_be_asked_again_says_so_in_the_place_of_its_probes(
    tmp_path: Path,
) -> None:
    path = tmp_path / "arc.db"
    spans = [
        structs.replace(each, request=structs.replace(each.request, model=MODEL))
        if isinstance(each, ModelCall)
        else each
        for each in trace(sample.PARTS[:7], system=sample.SYSTEM).spans
    ]
    key = sample.put(path, sample.header("26", "1", sample.FAILED), spans, sample.SAID)
    app = Opener(path)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        screen = TraceScreen(path, key)
        app.push_screen(screen)
        await settle(pilot)
        why = "Cannot replay step 3: tools were called"
        screen.page.focus()
        await press(pilot, "G")
        assert why in drawn(app)
        assert not app._notifications
        await press(pilot, "P")
        assert why in drawn(app)


@pytest.mark.pilot
async def test_no_probe_is_looked_for_where_the_reasons_are_not_seen(
    db: Path, ids: dict[str, str]
) -> None:
    app = Opener(db)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = TraceScreen(db, ids[START])
        app.push_screen(screen)
        await settle(pilot)
        screen.tab = WHY + 1
        await press(pilot, "j")
        assert screen.detail.probes is None


def test_only_the_break_is_offered_probes_and_only_those_that_fit(
    db: Path, ids: dict[str, str]
) -> None:
    with open_ledger(db) as store:
        at_break, later = (build_why_probes(store, ids[LATE], at) for at in (4, 6))
    assert at_break.listed is not None
    assert [each.name for each in at_break.listed.offers] == ["summary"]
    assert (later.listed, later.last) == (None, None)
