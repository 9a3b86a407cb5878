"""The app as a whole: help and palette over live keys, themes, errors, imports, hostile text."""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path

import msgspec
import pytest
from msgspec import structs
from textual.app import App
from textual.binding import Binding
from textual.dom import DOMNode
from textual.message import Message

import arc_tui.experiments
import arc_tui.features
import arc_tui.ui
from arc_tui import importing
from arc_tui.app import ArcApp
from arc_tui.features.bisect.screen import BisectScreen
from arc_tui.features.bisect_steps.screen import StepsScreen
from arc_tui.features.calibration.screen import CalibrationScreen
from arc_tui.features.cost.screen import CostScreen
from arc_tui.features.failures.screen import FailuresScreen
from arc_tui.features.free.screen import FreeScreen
from arc_tui.features.help.screen import REST, HelpScreen, subject
from arc_tui.features.probes.screen import ProbeScreen
from arc_tui.features.replay.screen import ReplayScreen
from arc_tui.features.runs.screen import RunsScreen
from arc_tui.features.runs.state import ImportFinished, ImportProgressed
from arc_tui.features.settings.screen import SettingsScreen
from arc_tui.features.trace.screen import TraceScreen
from arc_tui.features.trace.search import Finder
from arc_tui.navigation import OpenTrace
from arc_tui.settings import Settings
from arc_tui.tour import GuidedTour
from arc_tui.ui.bindings import label_of
from arc_tui.ui.keymap import PALETTE, KeyCommands
from arc_tui.ui.themes import DARK, LIGHT
from arc_tui.views.runs import EMPTY, Listed
from replay.errors import ArcError
from replay.trace import Outcome
from taxonomy.classes import FailureClass
from taxonomy.findings import Candidate, Diagnosis, Evidence, Finding, Signal
from taxonomy.judgements.schema import open_ledger
from tests.arc_tui import sample
from tests.build import call, step, tool, trace
from tests.screen import matches_golden, rows, settle, text


@pytest.fixture
def db(tmp_path: Path) -> Path:
    return tmp_path / "arc.db"


def bound(only: type | None = None) -> list[tuple[str, Binding]]:
    """Every binding that a class of ours declares, with the name of the class; of one class, those
    of what it is made of."""
    found: dict[type, None] = {ArcApp: None, GuidedTour: None}
    if only is not None:
        return [
            (each.__name__, binding)
            for each in only.__mro__
            if each.__module__.startswith("arc_tui.")
            for binding in vars(each).get("BINDINGS", ())
        ]
    for package in (arc_tui.ui, arc_tui.experiments, arc_tui.features):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            for each in vars(importlib.import_module(module.name)).values():
                if isinstance(each, type) and issubclass(each, DOMNode):
                    found[each] = None
    return [
        (each.__name__, binding)
        for each in found
        if each.__module__.startswith("arc_tui.")
        for binding in vars(each).get("BINDINGS", ())
    ]


def test_every_key_has_an_id_a_description_and_a_tooltip() -> None:
    assert len(bound()) > 40
    incomplete = [
        (name, binding.key)
        for name, binding in bound()
        if not (binding.id and binding.description and binding.tooltip)
    ]
    assert not incomplete


def test_ids_of_keys_are_unique() -> None:
    ids = [binding.id for _, binding in bound()]
    assert len(ids) == len(set(ids))


async def test_help_lists_the_keys_that_work_here(db: Path) -> None:
    sample.put_runs(db)
    app = ArcApp(db)
    async with app.run_test(size=(100, 40)) as pilot:
        await settle(pilot)
        await pilot.press("question_mark")
        await settle(pilot)
        matches_golden(app, "help_runs_100x40")
        await pilot.press("escape")
        assert isinstance(app.screen, RunsScreen)


@pytest.mark.pilot
async def test_the_help_is_searched_by_words_of_what_a_key_does(db: Path) -> None:
    sample.put_runs(db)
    app = ArcApp(db)
    async with app.run_test(size=(100, 40)) as pilot:
        await settle(pilot)
        await pilot.press("question_mark", "slash", *"tags hidden")
        await settle(pilot)
        assert "Go through runs that others tagged, their tags" in text(app)
        assert "Sort by" not in text(app)
        await pilot.press(*"xx")
        await settle(pilot)
        assert "No key matches 'tags hiddenxx'." in text(app)
        await pilot.press("escape")
        await settle(pilot)
        assert "Sort by" in text(app), "escape takes the words back"
        assert isinstance(app.screen, HelpScreen)
        await pilot.press("escape")
        assert isinstance(app.screen, RunsScreen)


def test_the_help_has_a_subject_for_what_the_keys_of_the_long_screens_do() -> None:
    for screen in (RunsScreen, TraceScreen):
        actions = {binding.action for _, binding in bound(screen) if binding.id}
        unnamed = sorted(each for each in actions if subject(each) == REST)
        assert len(unnamed) <= len(actions) / 4, unnamed


@pytest.mark.pilot
async def test_the_palette_offers_all_that_works_on_a_screen_and_nothing_else(
    db: Path,
) -> None:
    """On every screen: an action a key does there, once, with the key; none that does nothing."""
    key = sample.put_runs(db)
    screens = (
        TraceScreen(db, key), FailuresScreen(db), CostScreen(db, key), ReplayScreen(db, key, 0),
        BisectScreen(db, key, 0, None), CalibrationScreen(db), FreeScreen(db, key, 0, None, None),
        StepsScreen(db, key, 0), ProbeScreen(db, key, 0),
        SettingsScreen(db, Settings(), None),
    )  # fmt: skip
    app = ArcApp(db)
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        for screen in screens:
            app.push_screen(screen)
            await settle(pilot)
            hits = [hit async for hit in KeyCommands(screen).discover()]
            works = {
                (active.node, active.binding.action): active.binding
                for active in reversed(screen.active_bindings.values())
                if active.enabled and active.binding.id and active.binding.action != PALETTE
            }
            said = sorted(str(hit.text) for hit in hits)
            switches = [switch.name for switch in screen.switches_here]
            assert said == sorted([*map(label_of, works.values()), *switches]), screen.HELP
            own = {binding.id for _, binding in bound(type(screen))}
            assert own & {binding.id for binding in works.values()}, "its own keys are among them"
            await app.pop_screen()
            await settle(pilot)


@pytest.mark.pilot
async def test_the_palette_offers_what_the_keys_do_here(db: Path) -> None:
    app = ArcApp(db)
    async with app.run_test() as pilot:
        await settle(pilot)
        await pilot.press("escape")  # no file of those that are offered
        await settle(pilot)
        offered = [active.binding.id for active in KeyCommands(app.screen)._active()]
        assert "runs.sort" in offered
        assert "trace.tag" not in offered
        await pilot.press("ctrl+p", *"failed", "enter")
        await settle(pilot)
        assert isinstance(app.screen, RunsScreen)
        assert app.screen.arrangement.failed_only


@pytest.mark.pilot
async def test_the_theme_changes_between_dark_and_light(db: Path) -> None:
    app = ArcApp(db)
    async with app.run_test() as pilot:
        assert app.theme == DARK.name
        await pilot.press("ctrl+t")
        assert app.theme == LIGHT.name


@pytest.mark.pilot
async def test_what_a_user_can_help_is_told_with_what_to_do(db: Path) -> None:
    db.write_bytes(b"this is no database, " * 100)
    app = ArcApp(db)
    async with app.run_test(size=(100, 30), notifications=True) as pilot:
        await settle(pilot)
        assert "is not a database" in " ".join(text(app).split())
        assert "Runs not loaded." in text(app)
        assert "Loading runs." not in text(app)
        assert "Try: another --db or ARC_DB" in " ".join(text(app).split())


@pytest.mark.pilot
async def test_a_bug_in_a_worker_ends_the_app_with_its_traceback(db: Path) -> None:
    app = ArcApp(db)

    def bug(_: object) -> Message:
        raise ZeroDivisionError("a bug")

    async def meet_it() -> None:
        async with app.run_test() as pilot:
            await settle(pilot)
            screen = app.screen_stack[0]
            assert isinstance(screen, RunsScreen)
            screen.ask(bug, lambda found: found, group="bug")
            await settle(pilot)

    with pytest.raises(ZeroDivisionError, match="a bug"):
        await meet_it()
    assert app.return_code == 1


@pytest.mark.pilot
async def test_the_answer_to_an_older_question_is_dropped(db: Path) -> None:
    app = ArcApp(db)
    async with app.run_test() as pilot:
        screen = app.screen
        assert isinstance(screen, RunsScreen)
        await settle(pilot)
        one, two = (
            structs.replace(EMPTY, listed=Listed(traces=traces)) for traces in (("a",), ("a", "b"))
        )
        screen.ask(lambda _: one, RunsScreen.Loaded, group="load")
        screen.ask(lambda _: two, RunsScreen.Loaded, group="load")
        await settle(pilot)
        assert screen.table.row_count == 2


def tau_file(path: Path, *tasks: int) -> Path:
    """A tau-bench file with a run a task."""
    chat = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hi."},
        {"role": "assistant", "content": "Which order?"},
    ]
    path.write_bytes(
        msgspec.json.encode(
            [
                {"task_id": task, "trial": 0, "reward": 1.0, "info": {}, "traj": chat}
                for task in tasks
            ]
        )
    )
    return path


@pytest.mark.pilot
async def test_files_are_imported_at_once_and_the_list_fills(db: Path, tmp_path: Path) -> None:
    app = ArcApp(db, imports=(tau_file(tmp_path / "runs.json", 1, 2, 3),))
    async with app.run_test(size=(100, 30), notifications=True) as pilot:
        await settle(pilot)
        assert isinstance(app.screen, RunsScreen)
        assert app.screen.table.row_count == 3
        assert "Imported 3 traces" in text(app)


@pytest.mark.pilot
async def test_the_only_trace_that_came_in_is_opened(db: Path, tmp_path: Path) -> None:
    app = ArcApp(db, imports=(tau_file(tmp_path / "one.json", 7),))
    async with app.run_test(size=(100, 30)) as pilot:
        await settle(pilot)
        assert isinstance(app.screen, TraceScreen)
        assert "7 · trial 0" in rows(app)[0]


@pytest.mark.pilot
async def test_a_bad_file_is_told_and_the_good_one_is_there(db: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.json"
    bad.write_text('[{"task_id": 1, "reward": 1, "info": {}, "traj"')
    app = ArcApp(db, imports=(bad, tau_file(tmp_path / "good.json", 1, 2)))
    async with app.run_test(size=(100, 30), notifications=True) as pilot:
        await settle(pilot)
        assert "bad.json" in text(app)
        assert "Imported 2 traces · 1 error" in text(app)
        assert isinstance(app.screen, RunsScreen)
        assert app.screen.table.row_count == 2


@pytest.mark.pilot
async def test_of_many_bad_files_some_are_told_and_all_are_counted(
    db: Path, tmp_path: Path
) -> None:
    bad = tuple(tmp_path / f"bad-{number}.json" for number in range(7))
    for path in bad:
        path.write_text('[{"task_id": 1, "reward": 1, "info": {}, "traj"')
    app = ArcApp(db, imports=bad)
    async with app.run_test(size=(100, 40), notifications=True) as pilot:
        await settle(pilot)
        assert "Imported 0 traces · 7 errors" in text(app)
        told = [path.name for path in bad if path.name in text(app)]
        assert told == ["bad-0.json", "bad-1.json", "bad-2.json"]


@pytest.mark.parametrize(
    ("report", "says"),
    [
        (importing.ImportReport(), "All runs analysed."),
        (importing.ImportReport(undiagnosed=("run 1: bug",)), "Runs analysed · 1 error"),
        (
            importing.ImportReport(skipped=("notes.txt", "a.png")),
            "Imported 0 traces · 2 files skipped: not a known trace format",
        ),
    ],
)
def test_the_summary_of_an_import_is_one_line(report: importing.ImportReport, says: str) -> None:
    assert ImportFinished(report).summary == says


@pytest.mark.pilot
async def test_the_progress_of_an_import_is_one_line_and_escape_stops_it(
    db: Path, tmp_path: Path
) -> None:
    app = ArcApp(db)
    async with app.run_test(size=(100, 30), notifications=True) as pilot:
        await settle(pilot)
        await pilot.press("escape")
        screen = app.screen
        assert isinstance(screen, RunsScreen)
        screen.bar.display = True
        moved = importing.Progress(done=2, total=12, path="/logs/airline.json", traces=140)
        screen.post_message(ImportProgressed(moved))
        await settle(pilot)
        assert "Importing file 3 of 12 · airline.json · 140 traces" in rows(app)[-2]
        screen.post_message(ImportFinished(None))
        await settle(pilot)
        assert "Import stopped. Traces imported so far are saved." in text(app)


@pytest.mark.pilot
async def test_a_long_name_leaves_room_for_the_traces_and_the_key_that_stops(db: Path) -> None:
    app = ArcApp(db)
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await pilot.press("escape")
        screen = app.screen
        assert isinstance(screen, RunsScreen)
        screen.bar.display = True
        for name in ("airline-of-many-agents-and-many-tasks.json", "運行記録" * 9 + ".json"):
            moved = importing.Progress(done=2, total=12, path=f"/logs/{name}", traces=1140)
            screen.post_message(ImportProgressed(moved))
            await settle(pilot)
            line = rows(app)[-2]
            assert f"Importing file 3 of 12 · {name[:3]}" in line
            assert "… · 1 140 traces" in line
            assert line.endswith("x stop")


def test_an_import_that_is_closed_keeps_what_was_finished(db: Path, tmp_path: Path) -> None:
    with open_ledger(db) as store:
        going = importing.import_paths(store, [tau_file(tmp_path / "runs.json", 1, 2, 3)])
        before, after = next(going), next(going)
        assert isinstance(before, importing.Progress)
        assert isinstance(after, importing.Progress)
        assert (before.traces, after.traces) == (0, 1)
        going.close()
        found = store.db.execute("SELECT count(*), sum(complete) FROM trace").fetchone()
    assert found == (3, 3)  # they were written together


HOSTILE = "\x1b]8;;http://evil\x07[red]x[/red][/][@click=app.quit]q[/]\x1b]52;c;aGk=\x07\u202e$x"


@pytest.mark.pilot
async def test_text_from_a_trace_is_shown_and_never_obeyed(db: Path) -> None:
    said = trace(
        [
            step(HOSTILE, call(HOSTILE, HOSTILE, path=HOSTILE)),
            step(HOSTILE, call(HOSTILE, '{"a": "' + "[red]" * 30 + '"}', path=HOSTILE)),
        ],
        task=HOSTILE,
        system=HOSTILE,
        tools=[tool(HOSTILE)],
    )
    finding = Finding(
        failure=FailureClass.OTHER, step=0, why=HOSTILE, rule=HOSTILE, sub=HOSTILE,
        evidence=(Evidence(role=HOSTILE, text=HOSTILE, place=HOSTILE),),
    )  # fmt: skip
    diagnosis = Diagnosis(
        trace="", shape=None, scores=(), findings=(finding,), warnings=(HOSTILE,),
        candidates=(
            Candidate(step=0, weight=1.0, why=HOSTILE,
                      signals=(Signal(name=HOSTILE, weight=1.0, phrase=HOSTILE),)),
        ),
    )  # fmt: skip
    head = sample.header(
        HOSTILE, HOSTILE, Outcome(status="failed", value=HOSTILE), title=HOSTILE,
        variant=HOSTILE, agent=HOSTILE,
    )  # fmt: skip
    key = sample.put(db, head, said.spans, diagnosis)
    app = ArcApp(db)
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        await settle(pilot)
        await harmless(app)
        app.screen.post_message(OpenTrace(key))
        await settle(pilot)
        screen = app.screen
        assert isinstance(screen, TraceScreen)
        for tab in range(5):
            screen.tab = tab
            await settle(pilot)
            await harmless(app)
        screen.show_error(ArcError(HOSTILE, HOSTILE))
        screen.say(HOSTILE)
        screen.post_message(Finder.Found(frozenset()))
        await settle(pilot)
        await harmless(app)
        for keys in (("t",), ("escape", "p"), ("escape", "slash", "x", "enter")):
            await pilot.press(*keys)
            await settle(pilot)
            await harmless(app)


async def harmless(app: App[None]) -> None:
    """The markup stands there as text, and no character a terminal obeys was drawn."""
    drawn = text(app)
    assert "[red]" in drawn
    assert {ch for ch in drawn if ch < " "} <= {"\n"}
    assert "\u202e" not in drawn
    for strip in app.screen._compositor.render_strips():
        for segment in strip:
            assert "\x1b" not in segment.text
            assert segment.style is None or segment.style.link is None
            assert not (segment.style and "@click" in segment.style.meta)
