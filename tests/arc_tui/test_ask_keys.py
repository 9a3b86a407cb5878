"""What keys do on the screens that ask a model: probes, steps, a tried edit, replay, bisection."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from threading import Event

import pytest
from msgspec import structs
from textual.pilot import Pilot
from textual.widgets import Input

from arc_tui.experiments.dialogs import AttachBox
from arc_tui.features.bisect.screen import BisectScreen
from arc_tui.features.bisect_steps.screen import StepsScreen
from arc_tui.features.edit_test.screen import EditTestScreen
from arc_tui.features.probes.screen import ProbeScreen
from arc_tui.features.replay.screen import ReplayScreen
from arc_tui.ui.dialogs import AskBox
from replay.edit.changes import Edit, InjectConstraint
from replay.models.demo import Demo
from replay.store.rows import trace_row
from replay.trace import NO_TOOLS, Fidelity, Level, ModelCall
from taxonomy.first_contradiction.question import DemoBeliefs
from taxonomy.judgements.schema import open_ledger
from taxonomy.probes import result
from tests.arc_tui import opening, sample, try_case
from tests.arc_tui.bisect_case import put_runs
from tests.arc_tui.opening import PATIENCE_S, until
from tests.arc_tui.test_every_screen import LARGE, SMALL, at, by_key, demo, offered
from tests.arc_tui.test_walk_keys import offered_here
from tests.build import trace
from tests.messages_api import Body, MessagesApi
from tests.replay.live_case import MODEL
from tests.screen import press, rows, settle, text

__all__ = ["demo"]

START, LATE, LONG = "shop-refund-v1-0", "shop-many-wishes-v5-0", "shop-long-v6-0"
LIMIT = "cost limit"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("asked") / "arc.db"
    try_case.put(path, START, LONG)
    return path


@pytest.fixture
def db(shared: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(shared, tmp_path / "arc.db"))


def key(db: Path, name: str) -> str:
    with open_ledger(db) as store:
        return trace_row(store, name).trace


def written(pilot: Pilot[None], said: str) -> None:
    """Words in the line of the box that is open."""
    assert isinstance(pilot.app.screen, AskBox)
    line = pilot.app.screen.query_one(Input)
    line.value = said
    line.focus()


async def answer(pilot: Pilot[None], said: str) -> None:
    """Say that in the box that is open, and wait for what follows."""
    written(pilot, said)
    await press(pilot, "enter")


# --- probes


@asynccontextmanager
async def probing(
    db: Path, name: str, step: int, size: tuple[int, int] = LARGE
) -> AsyncIterator[Pilot[None]]:
    async with opening.opened(ProbeScreen(db, key(db, name), step), size) as pilot:
        yield pilot


def words(pilot: Pilot[None]) -> str:
    """What the dialog in front says, wherever its lines break."""
    return " ".join(row.strip(" │") for row in rows(pilot.app))


def looked_at(pilot: Pilot[None]) -> str:
    """The probe that the arrow points to, by its digit."""
    (line,) = (row for row in rows(pilot.app) if "▸" in row)
    return line.partition("▸")[2].split()[0]


@pytest.mark.pilot
async def test_the_probes_are_looked_at_in_turn_and_their_ends_hold(db: Path) -> None:
    async with probing(db, START, 0) as pilot:
        for name, digit in (
            ("before", "1"), ("next", "2"), ("next", "3"), ("next", "4"), ("next", "4"),
            ("before", "3"),
        ):  # fmt: skip
            await by_key(pilot, f"probe.{name}")
            assert looked_at(pilot) == digit
        assert "get_order → tool_1" in text(pilot.app)


@pytest.mark.pilot
async def test_enter_asks_under_the_probe_that_is_looked_at(db: Path) -> None:
    async with probing(db, START, 0) as pilot:
        await press(pilot, "j", "j")
        await by_key(pilot, "probe.run")
        assert "The failure persists with the probe (the tools are renamed" in words(pilot)
    with open_ledger(db) as store:
        assert [(line.step, line.probe) for line in result.kept(store)] == [(0, "rename")]


@pytest.mark.parametrize(
    ("name", "digit", "said", "put_in"),
    [
        (
            "rename",
            "3",
            "Likely cause: goal misread, not tool selection.",
            "get_order → tool_1",
        ),
        (
            "midpoint",
            "4",
            "Inconclusive: accumulated context or capability gradient",
            "Summary of the conversation",
        ),
    ],
)
@pytest.mark.pilot
async def test_its_digit_asks_under_a_probe_and_keeps_what_it_came_to(
    name: str, digit: str, said: str, put_in: str, db: Path
) -> None:
    async with probing(db, LATE, 4) as pilot:
        assert looked_at(pilot) == "2"
        await by_key(pilot, f"probe.{name}")
        assert looked_at(pilot) == digit
        shown = words(pilot)
        assert said in shown
        assert put_in in shown
    with open_ledger(db) as store:
        assert [(line.step, line.probe) for line in result.kept(store)] == [(4, name)]


@pytest.mark.pilot
async def test_tab_goes_into_the_text_to_scroll_it_and_back_to_the_probes(db: Path) -> None:
    async with probing(db, LATE, 4, SMALL) as pilot:
        last = "arc experiment probe"  # the command, on the last line of the text
        assert last not in text(pilot.app)
        await by_key(pilot, "probe.pane")
        await press(pilot, "G")
        assert last in text(pilot.app)
        assert looked_at(pilot) == "2", "it was scrolled, and no other probe looked at"
        await by_key(pilot, "probe.pane")
        await press(pilot, "j")
        assert looked_at(pilot) == "1"


# --- the steps of a run


@pytest.mark.pilot
async def test_tools_that_were_not_recorded_are_attached_and_the_step_can_be_tested(
    tmp_path: Path,
) -> None:
    db = tmp_path / "arc.db"
    run = trace(sample.PARTS, system=sample.SYSTEM)
    silent = Fidelity(level=Level.PARTIAL, reasons=(NO_TOOLS,))
    spans = [
        structs.replace(span, fidelity=silent) if isinstance(span, ModelCall) else span
        for span in run.spans
    ]
    lacking = sample.put(db, sample.header("26", "1", sample.FAILED), spans, sample.SAID)
    async with opening.opened(StepsScreen(db, lacking)) as pilot:
        await by_key(pilot, "steps.model")
        await answer(pilot, MODEL)
        assert "Cannot confirm: tools were called, but" in text(pilot.app)
        await by_key(pilot, "steps.attach")
        assert isinstance(pilot.app.screen, AttachBox)
        assert "5 tools (inferred)" in text(pilot.app)
        await by_key(pilot, "ask.choose")
        assert "attached 5 tools (inferred)" in text(pilot.app)
        assert "V confirm: 8 samples per arm" in text(pilot.app)
        assert "steps.attach" not in offered_here(pilot), "nothing is missing any more"


AGAIN = Edit(
    name="read again", changes=(InjectConstraint("Read an order again before you change it."),)
)
SAVED = "tool=refund_order, args.amount=8150"


@asynccontextmanager
async def letting_go_on(db: Path) -> AsyncIterator[Pilot[None]]:
    """The steps of a run, one run from each to go on under a fix that reads an order again."""
    screen = StepsScreen(db, key(db, LONG))
    screen.request = structs.replace(screen.request, detector="recoverable", fix=AGAIN, samples=1)
    async with opening.opened(screen) as pilot:
        yield pilot


@pytest.mark.pilot
async def test_what_a_saved_run_does_is_said_and_may_be_said_otherwise(db: Path) -> None:
    async with letting_go_on(db) as pilot:
        assert "w set what a recovered run does" in text(pilot.app)
        await expecting(pilot, SAVED)
        assert "1 free run of demo, rule-based with the fix, from each" in text(pilot.app)
        await pilot.press(offered(pilot, "steps.expect").key)
        await until(pilot, SAVED)  # what was said, to be changed
        await answer(pilot, "gold")
        assert "his run has no gold actions" in text(pilot.app)


async def expecting(pilot: Pilot[None], said: str) -> None:
    await pilot.press(offered(pilot, "steps.expect").key)
    await until(pilot, "what a recovered run does")
    await answer(pilot, said)


@pytest.mark.pilot
async def test_reads_of_another_moment_answer_once_they_are_allowed_and_no_longer_afterwards(
    db: Path,
) -> None:
    async with letting_go_on(db) as pilot:
        await expecting(pilot, SAVED)
        await by_key(pilot, "steps.run")
        assert "Inconclusive: no step has enough usable runs." in text(pilot.app)
        assert "! allow stale results" in text(pilot.app)
        await by_key(pilot, "steps.stale")
        assert "Stale results allowed. ! disallow" in text(pilot.app)
        assert "questions ran out" not in text(pilot.app)
        await by_key(pilot, "steps.run")
        assert "Recoverable from every step with enough usable runs" in text(pilot.app)
        await by_key(pilot, "steps.stale")
        assert "Stale results allowed" not in text(pilot.app)
        await by_key(pilot, "steps.run")
        assert "Inconclusive: no step has enough usable runs." in text(pilot.app)


# --- stopped by a key


class Server:
    """Answers as the demo model does: two requests at once, the others when told to `go_on`."""

    def __init__(self) -> None:
        self.go_on = Event()
        self.held = Event()
        self._asked = iter(range(10_000))

    def __call__(self, body: Body) -> Body:
        if next(self._asked) >= 2:
            self.held.set()
            self.go_on.wait(PATIENCE_S)
        model = DemoBeliefs() if body.get("output_config") else Demo()
        return {**model.complete(body, 0), "model": body["model"]}


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def api(api: MessagesApi, server: Server) -> Iterator[MessagesApi]:
    yield api
    server.go_on.set()  # whoever is held would keep the server from closing


async def ask_until_held(pilot: Pilot[None], server: Server, run: str) -> None:
    """Press the key that asks; two answers are in, and a third is awaited."""
    await pilot.press(offered(pilot, run).key)
    await until(pilot, LIMIT)
    written(pilot, "40 calls")
    await pilot.press("enter")
    assert await asyncio.to_thread(server.held.wait, PATIENCE_S)
    await until(pilot, "x stop")


async def stop(pilot: Pilot[None], name: str) -> None:
    """Press the key that stops; the answer that is awaited never comes."""
    await pilot.press(offered(pilot, name).key)
    await until(pilot, "  r run")
    await settle(pilot)


async def ask_for_the_rest(pilot: Pilot[None], server: Server, run: str) -> None:
    server.go_on.set()
    await pilot.press(offered(pilot, run).key)
    await until(pilot, LIMIT)
    await answer(pilot, "40 calls")


@pytest.mark.pilot
async def test_x_stops_the_search_for_a_step_and_what_was_answered_is_asked_no_second_time(
    db: Path, api: MessagesApi, server: Server
) -> None:
    screen = StepsScreen(db, key(db, LONG))
    screen.request = structs.replace(screen.request, detector="belief", model=MODEL)
    async with opening.opened(screen) as pilot:
        await ask_until_held(pilot, server, "steps.run")
        await stop(pilot, "steps.stop")
        stopped = (
            " Stopped. Completed calls are saved. No contradiction found in 2 steps; the others"
        )
        assert rows(pilot.app)[1].startswith(stopped)
        assert " 1 sample per step: not conclusive." in text(pilot.app)
        await ask_for_the_rest(pilot, server, "steps.run")
        assert rows(pilot.app)[1].startswith(" First contradiction: step 15")
        assert " 2 cached " in rows(pilot.app)[-2]


@pytest.mark.pilot
async def test_x_stops_a_try_and_what_was_answered_is_asked_no_second_time(
    db: Path, api: MessagesApi, server: Server
) -> None:
    broken = [key(db, name) for name in try_case.BROKEN]
    screen = EditTestScreen(db, "hallucinated state", broken, try_case.V4_EDIT)
    screen.request = structs.replace(screen.request, model=MODEL, samples=1, controls=1)
    async with opening.opened(screen) as pilot:
        await ask_until_held(pilot, server, "try.run")
        await stop(pilot, "try.stop")
        stopped = " Stopped. Completed calls are saved. fixed 0/3 "
        assert any(row.startswith(stopped) for row in rows(pilot.app))
        assert text(pilot.app).count("  waiting ") == 1, "the healthy step"
        assert " 2 of 40 calls · 0 cached · " in rows(pilot.app)[-2]
        await ask_for_the_rest(pilot, server, "try.run")
        assert "  waiting " not in text(pilot.app)
        assert " 2 of 40 calls · 2 cached · " in rows(pilot.app)[-2]


# --- an edit in parts


@pytest.mark.pilot
async def test_which_part_of_the_edit_it_is_is_asked_with_the_edit_as_it_stands(demo: Path) -> None:
    async with at(demo, ("runs.open", "trace.edit"), LARGE) as pilot:
        replay = pilot.app.screen
        assert isinstance(replay, ReplayScreen)
        await press(pilot, *"Ahoy. ")
        await pilot.press("f10")
        await settle(pilot)
        assert isinstance(pilot.app.screen, BisectScreen)
        assert rows(pilot.app)[0].startswith(" bisect hunks of edit 1 of ")
        await press(pilot, "j")
        assert "old → new" in text(pilot.app)
        assert "+Ahoy. # Fjord & Finch support" in text(pilot.app)
        await by_key(pilot, "bisect.back")
        assert replay.is_current
        assert "Ahoy. # Fjord & Finch support" in text(pilot.app)


@pytest.mark.pilot
async def test_enter_goes_to_what_a_version_changes_to_read_on_there(tmp_path: Path) -> None:
    db = tmp_path / "arc.db"
    put_runs(db)
    async with opening.opened(BisectScreen(db, key(db, LATE), 4), SMALL) as pilot:
        await press(pilot, "enter", "j")
        shown = text(pilot.app)
        assert "v3 → v4" in shown
        last = "+- When you are stuck, hand the conversation over to a human."
        assert last not in shown
        await by_key(pilot, "bisect.diff")
        await press(pilot, "G")
        assert last in text(pilot.app)
        await by_key(pilot, "bisect.back")
        await press(pilot, "j")
        assert "v4 → v5" in text(pilot.app)
