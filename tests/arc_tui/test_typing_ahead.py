"""Keys that come in one burst, or before what they are meant for is there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from textual import events
from textual.binding import Binding
from textual.keys import _character_to_key
from textual.pilot import Pilot
from textual.widgets import Input

from arc_tui.app import ArcApp
from arc_tui.features.help.screen import HelpScreen
from arc_tui.features.runs.screen import RunsScreen
from arc_tui.features.runs.widgets import RunTable
from arc_tui.features.trace.screen import TraceScreen
from arc_tui.navigation import OpenTrace
from arc_tui.places import fixtures
from arc_tui.ui import textual_private
from arc_tui.ui.dialogs import AskBox
from arc_tui.ui.screen import ArcScreen
from arc_tui.views.runs import build_runs
from arc_tui.views.trace import build_beginning
from replay.errors import NotFound
from replay.store.handle import Store
from taxonomy.classes import FailureClass
from taxonomy.judgements.schema import open_ledger
from taxonomy.judgements.tags import human_tags
from tests.arc_tui import opening
from tests.arc_tui.opening import PATIENCE_S, until
from tests.arc_tui.six_runs import db
from tests.arc_tui.test_app import tau_file
from tests.screen import handled, settle, text

__all__ = ["db"]

H = FailureClass.HALLUCINATED_STATE
RUN = fixtures() / "traces" / "shop-many-wishes-v5-0.jsonl"


def key(name: str) -> events.Key:
    if len(name) == 1:
        return events.Key(name if name.isalnum() else _character_to_key(name), name)
    return events.Key(name, None)


def burst(app: ArcApp, *keys: str) -> None:
    """All of them at once, as the terminal gives what it holds."""
    for each in keys:
        app.post_message(key(each))


def tagged(db: Path) -> list[FailureClass]:
    with open_ledger(db) as store:
        return [tag.failure for tag in human_tags(store)]


class Slow:
    """A question whose answer comes when the test says so."""

    def __init__(self, answer: Callable[..., Any]) -> None:
        self._answer = answer
        self.begun, self.go_on = Event(), Event()

    def __call__(self, store: Store, *given: object, **named: object) -> object:
        self.begun.set()
        assert self.go_on.wait(60)
        return self._answer(store, *given, **named)


@pytest.fixture
def slow_trace(monkeypatch: pytest.MonkeyPatch) -> Iterator[Slow]:
    slow = Slow(build_beginning)
    monkeypatch.setattr("arc_tui.features.trace.screen.build_beginning", slow)
    yield slow
    slow.go_on.set()


@pytest.fixture
def slow_list(monkeypatch: pytest.MonkeyPatch) -> Iterator[Slow]:
    slow = Slow(build_runs)
    monkeypatch.setattr("arc_tui.features.runs.screen.build_runs", slow)
    yield slow
    slow.go_on.set()


@asynccontextmanager
async def opened(db: Path, imports: Sequence[Path] = ()) -> AsyncIterator[Pilot[None]]:
    async with ArcApp(db, imports=tuple(imports)).run_test(
        size=(100, 30), notifications=True
    ) as pilot:
        yield pilot


def app_of(pilot: Pilot[None]) -> ArcApp:
    assert isinstance(pilot.app, ArcApp)
    return pilot.app


async def begun(pilot: Pilot[None], slow: Slow) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not slow.begun.is_set():
            await pilot.pause(0.01)


# --- from the list to a tag


@pytest.mark.pilot
@pytest.mark.parametrize("ready", [True, False], ids=["list shown", "app not begun"])
async def test_a_run_is_open_and_tagged_in_three_keys_of_one_burst(db: Path, ready: bool) -> None:
    async with opened(db) as pilot:
        if ready:
            await settle(pilot)
        burst(app_of(pilot), "enter", "t", "h")
        await settle(pilot)
        assert isinstance(pilot.app.screen, TraceScreen)
    assert tagged(db) == [H]


@pytest.mark.pilot
async def test_a_tag_waits_for_the_run_that_is_still_read(db: Path, slow_trace: Slow) -> None:
    async with opened(db) as pilot:
        await settle(pilot)
        burst(app_of(pilot), "enter")
        await begun(pilot, slow_trace)
        burst(app_of(pilot), "t")
        await pilot.pause(0.1)
        assert isinstance(pilot.app.screen, TraceScreen), "nothing to tag yet"
        burst(app_of(pilot), "h", "?")
        slow_trace.go_on.set()
        await settle(pilot)
        assert isinstance(pilot.app.screen, HelpScreen), "? had its turn"
    assert tagged(db) == [H]


@pytest.mark.pilot
async def test_every_key_of_a_long_burst_has_its_turn(db: Path) -> None:
    async with opened(db) as pilot:
        await settle(pilot)
        burst(app_of(pilot), *"j", "enter", *"th", *"jjt", "tab", *"why so", "enter", *"l", "?")
        await settle(pilot)
        assert isinstance(pilot.app.screen, HelpScreen)
    with open_ledger(db) as store:
        first, second = human_tags(store)
    assert second.step == first.step + 2
    assert second.note == "why so"


@pytest.mark.pilot
async def test_what_is_found_is_gone_to_before_the_key_behind_it(db: Path) -> None:
    async with opened(db) as pilot:
        await settle(pilot)
        for key in ("enter", "/", *"reservation", "enter", "n"):
            await pilot.press(key)
            await settle(pilot)
        assert isinstance(pilot.app.screen, TraceScreen)
        there = pilot.app.screen.spans.step
    async with opened(db) as pilot:
        await settle(pilot)
        burst(app_of(pilot), "enter", "/", *"reservation", "enter", *"nth")
        await settle(pilot)
    with open_ledger(db) as store:
        assert [tag.step for tag in human_tags(store)] == [there]


@pytest.mark.pilot
async def test_what_is_typed_behind_slash_arrives_whole_and_its_list_is_waited_for(
    db: Path,
) -> None:
    async with opened(db) as pilot:
        await settle(pilot)
        burst(app_of(pilot), *"/task:4", "enter", "enter")
        await settle(pilot)
        assert isinstance(pilot.app.screen, TraceScreen)
        assert pilot.app.screen.view.run.task == "4"


@pytest.mark.pilot
async def test_what_is_pasted_behind_slash_arrives_in_the_line(db: Path) -> None:
    async with opened(db) as pilot:
        await settle(pilot)
        burst(app_of(pilot), "/")
        pilot.app.post_message(events.Paste("refund"))
        burst(app_of(pilot), "s", "enter")
        await settle(pilot)
        assert pilot.app.screen.query_one(Input).value == "refunds"


# --- an import that was asked for with the app


@pytest.mark.pilot
@pytest.mark.parametrize("known", [False, True], ids=["no runs", "runs"])
async def test_a_file_is_imported_open_and_tagged_in_three_keys(
    db: Path, slow_list: Slow, known: bool
) -> None:
    if not known:
        db.unlink()
    async with opened(db, [RUN]) as pilot:
        burst(app_of(pilot), "enter", "t", "h")
        await handled(pilot)
        slow_list.go_on.set()
        await settle(pilot)
        assert isinstance(pilot.app.screen, TraceScreen)
        shown = pilot.app.screen.view.run
        assert shown.task == "many-wishes"
    with open_ledger(db) as store:
        (tag,) = human_tags(store)
    assert (tag.trace, tag.failure) == (shown.trace, H)


@pytest.mark.pilot
async def test_a_run_that_a_person_opens_is_not_hidden_by_one_that_was_imported(db: Path) -> None:
    async with opened(db) as pilot:
        await settle(pilot)
        table = pilot.app.screen.query_one(RunTable)
        table.post_message(OpenTrace(table.at))
        pilot.app.screen.post_message(OpenTrace(table.listed.traces[1]))
        await settle(pilot)
        assert len(pilot.app.screen_stack) == 2
        await pilot.press("escape")
        burst(app_of(pilot), "j", "enter")
        await settle(pilot)
        assert isinstance(pilot.app.screen, TraceScreen), "it is left again"


@pytest.mark.pilot
async def test_what_was_typed_for_a_file_that_cannot_be_read_tags_no_other_run(
    db: Path, tmp_path: Path, slow_list: Slow
) -> None:
    bad = tmp_path / "bad.json"
    bad.write_text('[{"task_id": 1, "reward": 1, "info": {}, "traj"')
    async with opened(db, [bad]) as pilot:
        burst(app_of(pilot), "enter", "t", "h")
        await handled(pilot)
        slow_list.go_on.set()
        await settle(pilot)
        assert "bad.json" in text(pilot.app)
        assert isinstance(pilot.app.screen, RunsScreen)
    assert not tagged(db)


@pytest.mark.pilot
async def test_of_many_runs_the_list_is_waited_for(tmp_path: Path) -> None:
    async with opened(tmp_path / "new.db", [tau_file(tmp_path / "runs.json", 1, 2, 3)]) as pilot:
        burst(app_of(pilot), "j", "enter")
        await settle(pilot)
        assert isinstance(pilot.app.screen, TraceScreen)
        assert pilot.app.screen.view.run.task == "2"


@pytest.mark.pilot
async def test_a_list_that_is_shown_is_walked_while_a_run_is_imported(db: Path) -> None:
    async with opened(db) as pilot:
        await settle(pilot)
        screen = pilot.app.screen
        assert isinstance(screen, RunsScreen)
        screen.import_path(RUN)
        burst(app_of(pilot), "j")
        await handled(pilot)
        assert screen.table.cursor == 1
        assert screen.bar.display
        await settle(pilot)


# --- while something is being read


@pytest.mark.parametrize("back", ["escape", "q"])
@pytest.mark.pilot
async def test_going_back_acts_at_once_and_forgets_what_was_typed(
    db: Path, slow_trace: Slow, back: str
) -> None:
    async with opened(db) as pilot:
        await settle(pilot)
        burst(app_of(pilot), "enter")
        await begun(pilot, slow_trace)
        burst(app_of(pilot), "t", "h", back)
        await handled(pilot)
        assert isinstance(pilot.app.screen, RunsScreen)
        slow_trace.go_on.set()
        await settle(pilot)
        assert isinstance(pilot.app.screen, RunsScreen)
        assert "nothing waits" not in text(pilot.app), "h asks for the blind queue here"
    assert not tagged(db)


@pytest.mark.parametrize("before", [(), ("t", "h")], ids=["alone", "behind others"])
@pytest.mark.pilot
async def test_leaving_waits_for_nothing(
    db: Path, slow_trace: Slow, before: tuple[str, ...]
) -> None:
    async with opened(db) as pilot:
        await settle(pilot)
        burst(app_of(pilot), "enter")
        await begun(pilot, slow_trace)
        burst(app_of(pilot), *before)
        burst(app_of(pilot), "ctrl+q")
        async with asyncio.timeout(PATIENCE_S):
            while pilot.app.is_running:
                await asyncio.sleep(0)
        slow_trace.go_on.set()
    assert not tagged(db)


@pytest.mark.pilot
async def test_what_was_typed_for_a_run_that_is_gone_does_nothing_else(
    db: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*_: object) -> None:
        raise NotFound("no such run", "")

    monkeypatch.setattr("arc_tui.features.trace.screen.build_beginning", gone)
    async with opened(db) as pilot:
        await settle(pilot)
        burst(app_of(pilot), "enter", "t", "h")
        await settle(pilot)
        assert "no such run" in text(pilot.app)
        assert "nothing waits" not in text(pilot.app)
        burst(app_of(pilot), "?")
        await settle(pilot)
        assert isinstance(pilot.app.screen, HelpScreen), "keys act again"


@pytest.mark.pilot
async def test_a_bug_ends_the_app_with_keys_waiting(
    db: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr("arc_tui.features.trace.screen.build_beginning", broken)

    async def typed() -> None:
        async with opened(db) as pilot:
            await settle(pilot)
            burst(app_of(pilot), "enter", "t", "h")
            await settle(pilot)

    with pytest.raises(RuntimeError, match="a bug"):
        await typed()


@pytest.mark.pilot
async def test_a_screen_that_is_never_told_anything_lets_keys_through_in_the_end(
    db: Path, slow_trace: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(db) as pilot:
        await settle(pilot)
        burst(app_of(pilot), "enter")
        await begun(pilot, slow_trace)
        monkeypatch.setattr(textual_private, "PATIENCE_S", 0.05)
        burst(app_of(pilot), "t", "h")
        await until(pilot, "discarded")
        burst(app_of(pilot), "?")
        async with asyncio.timeout(PATIENCE_S):
            while not isinstance(pilot.app.screen, HelpScreen):
                await asyncio.sleep(0.01)
        slow_trace.go_on.set()


# --- handlers that take their time


class Asking(ArcScreen):
    """Asks a person in a worker, and from a handler that waits for the app."""

    BINDINGS = [Binding("x", "work"), Binding("y", "show")]

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.go_on = Event()
        self.said: list[str | None] = []

    def action_work(self) -> None:
        self.run_worker(self._work())

    async def _work(self) -> None:
        await asyncio.to_thread(self.go_on.wait, PATIENCE_S)
        for title in ("one", "two"):
            self.said.append(await self.app.push_screen_wait(AskBox(title)))

    async def action_show(self) -> None:
        await self.app.push_screen(AskBox("shown"), self.said.append)


@pytest.mark.pilot
async def test_what_is_typed_for_questions_of_a_worker_is_their_answer(db: Path) -> None:
    screen = Asking(db)
    async with opening.opened(screen) as pilot:
        burst(app_of(pilot), *"xhello", "enter", *"you", "enter")
        screen.go_on.set()
        await settle(pilot)
        assert screen.said == ["hello", "you"]


@pytest.mark.pilot
async def test_a_handler_may_wait_for_the_app(db: Path) -> None:
    screen = Asking(db)
    async with opening.opened(screen) as pilot:
        burst(app_of(pilot), *"yhello", "enter", *"y", "escape", *"yx", "enter")
        await settle(pilot)
        assert screen.said == ["hello", None, "x"]


@pytest.mark.pilot
async def test_a_key_that_is_held_down_passes_at_once(db: Path) -> None:
    async with opened(db) as pilot:
        await settle(pilot)
        app = app_of(pilot)
        burst(app, *"jjjj")
        await handled(pilot)
        assert not app._typed
        assert app.screen.query_one(RunTable).cursor == 4
