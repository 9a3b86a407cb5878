"""Every screen as a person meets it: reached by key, from the palette and with the mouse, whole at
80×24, every key of it with an action, and left by escape; and on an empty database, what it says
to do next. A new screen is a row of the table."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec import Struct, structs
from rich.text import Text
from textual.actions import parse
from textual.binding import Binding
from textual.command import CommandPalette, DiscoveryHit
from textual.pilot import Pilot
from textual.screen import Screen
from textual.widget import Widget

from arc_tui.app import ArcApp
from arc_tui.experiments.dialogs import allowed
from arc_tui.features.runs.screen import RunsScreen
from arc_tui.settings import Settings
from arc_tui.ui.bindings import label_of
from arc_tui.ui.dialogs import Choices
from arc_tui.ui.keymap import KeyCommands, places
from arc_tui.ui.keys import MORE, KeyBar
from arc_tui.ui.list import RowList
from replay.fleet.stores import NAME, FleetStore, keep_store
from replay.trace import NO_SYSTEM, NO_TOOLS, Fidelity, Level, ModelCall, Outcome
from tests.arc_tui import sample
from tests.arc_tui.opening import until
from tests.build import trace
from tests.screen import GOLDENS, matches_golden, rows, settle, text

SMALL, LARGE, WIDE = (80, 24), (120, 40), (160, 48)


class Row(Struct, frozen=True):
    """A screen by its class, the one of WAYS it is reached from, the ids of the keys that open it,
    a dialog's among them, and the beginning of the names of its goldens."""

    screen: str
    parent: str
    ids: str
    golden: str


CHOOSE_EDIT = "replay.stored row.next ask.choose"

TABLE = (
    Row("FailuresScreen", "RunsScreen", "runs.failures", "failures"),
    Row("MatrixScreen", "RunsScreen", "runs.matrix", "screen_matrix"),
    Row("AskBox", "RunsScreen", "runs.gate", "screen_gate_groups"),
    Row("GateScreen", "RunsScreen", "runs.gate ask.choose ask.choose", "screen_gate"),
    Row("AskBox", "RunsScreen", "runs.drift", "screen_drift_groups"),
    Row("DriftScreen", "RunsScreen", "runs.drift ask.choose ask.choose", "screen_drift"),
    Row("AuditScreen", "RunsScreen", "runs.audit", "screen_audit"),
    Row("AskBox", "RunsScreen", "runs.source", "screen_sources"),
    Row("FleetScreen", "RunsScreen", "runs.source row.next ask.choose", "screen_fleet"),
    Row("CalibrationScreen", "RunsScreen", "runs.calibration", "calibration_break"),
    Row("GoldenScreen", "RunsScreen", "runs.golden", "screen_golden"),
    Row("TraceScreen", "RunsScreen", "runs.open", "trace"),
    Row("TraceScreen", "RunsScreen", "runs.queue", "screen_queue"),
    Row("AskBox", "RunsScreen", "runs.here", ""),
    Row("AskBox", "RunsScreen", "runs.compare", "compare_with"),
    Row("CompareScreen", "RunsScreen", "runs.compare ask.choose", "compare"),
    Row("SettingsScreen", "RunsScreen", "app.settings", "settings"),
    Row("HelpScreen", "RunsScreen", "app.help", "screen_help"),
    Row("EditTestScreen", "FailuresScreen", "failures.try", "trying"),
    Row("SuggestScreen", "FailuresScreen", "failures.suggest", "suggest_ready"),
    Row("ClassifyScreen", "FailuresScreen", "failures.classify", "screen_classify"),
    Row("TagPicker", "TraceScreen", "trace.tag", "tag_picker"),
    Row("ReplayScreen", "TraceScreen", "trace.replay", "replay_before"),
    Row("FreeScreen", "TraceScreen", "trace.free", "free_finished"),
    Row("AskBox", "TraceScreen", "trace.bisect", "bisect_open"),
    Row("BisectScreen", "TraceScreen", "trace.bisect ask.choose", "bisect_ready"),
    Row("StepsScreen", "TraceScreen", "trace.bisect_steps", "steps"),
    Row("ProbeScreen", "TraceScreen", "trace.probes", "probes"),
    Row("CostScreen", "TraceScreen", "trace.money", "money"),
    Row("AskBox", "TraceScreen", "trace.compare", "compare_with"),
    Row("OriginsBox", "TraceScreen", "trace.origins", "screen_origins"),
    Row("AskBox", "TraceScreen", "trace.golden", "screen_golden_task"),
    Row("SamplesBox", "ReplayScreen", "replay.samples", "screen_samples"),
    Row("AskBox", "ReplayScreen", "replay.model", "screen_model"),
    Row("AskBox", "ReplayScreen", "replay.stored", "screen_edits"),
    Row("StubBox", "ReplayScreen", f"{CHOOSE_EDIT} replay.free free.stub", "free_stub"),
    Row("AskBox", "BisectScreen", "bisect.expect", "screen_expect"),
    Row("AskBox", "BisectScreen", "bisect.step", "screen_step"),
    Row("AttachBox", "a run without a prompt", "trace.edit", "screen_attach"),
)
"""Every screen but the first, and the dialogs."""

WAYS = {
    "RunsScreen": (),
    "FailuresScreen": ("runs.failures",),
    "TraceScreen": ("runs.open",),
    "ReplayScreen": ("runs.open", "trace.replay"),
    "BisectScreen": ("runs.open", "trace.bisect", "ask.choose"),
    "a run without a prompt": ("runs.open",),
}
"""Where a walk begins, and the ids of the keys that lead there."""


@pytest.fixture
def demo(few_runs: Path, tmp_path: Path) -> Path:
    """A few runs and an edit, in a copy that a test may change: what was answered stays in it."""
    return Path(shutil.copy(few_runs, tmp_path / "arc.db"))


@pytest.fixture(scope="module")
def unprompted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("unprompted") / "arc.db"
    silent = Fidelity(level=Level.PARTIAL, reasons=(NO_SYSTEM, NO_TOOLS))
    made = [
        structs.replace(span, fidelity=silent) if isinstance(span, ModelCall) else span
        for span in trace(sample.PARTS).spans
    ]
    sample.put(path, sample.header("26", "1", Outcome(status="failed")), made)
    return path


@pytest.fixture(autouse=True)
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, value in (("CONFIG_DIR", tmp_path), ("DATA_DIR", tmp_path), ("USER", "tester")):
        monkeypatch.setenv(f"ARC_{name}", str(value))
    keep_store(tmp_path / NAME, "prod", FleetStore(url="clickhouse+http://reader@127.0.0.1:1/otel"))


@asynccontextmanager
async def at(
    db: Path, way: tuple[str, ...], size: tuple[int, int], using: Settings | None = None
) -> AsyncIterator[Pilot[None]]:
    app = ArcApp(db, settings=using or Settings())
    async with app.run_test(size=size, notifications=True) as pilot:
        await settle(pilot)
        for name in way:
            await by_key(pilot, name)
        yield pilot


def offered(pilot: Pilot[None], name: str) -> Binding:
    """The binding of that id, which does something here."""
    active = pilot.app.screen.active_bindings.values()
    return next(each.binding for each in active if each.binding.id == name and each.enabled)


async def by_key(pilot: Pilot[None], name: str) -> None:
    await pilot.press(offered(pilot, name).key)
    await settle(pilot)


async def by_palette(pilot: Pilot[None], name: str) -> None:
    """As choosing its line there does."""
    request = offered(pilot, name)
    async for hit in KeyCommands(pilot.app.screen).discover():
        assert isinstance(hit, DiscoveryHit)
        if (hit.text, hit.help) == (label_of(request), request.tooltip):
            await hit.command()
            await settle(pilot)
            return
    raise AssertionError(f"the palette lacks {name}")


async def by_mouse(pilot: Pilot[None], name: str) -> None:
    """A click on the bar, a double one on a row, one on a choice; else on `…`, which lists the
    rest. In a dialog the cursor is moved by key."""
    request = offered(pilot, name)
    if name == "runs.open":
        await pilot.click("#runs", offset=(4, 2), times=2)
    elif name == "ask.choose":
        choices = pilot.app.screen.query_one(Choices)
        await pilot.click(choices, offset=(4, choices.cursor))
    elif not pilot.app.screen.query(KeyBar):
        await pilot.press(request.key)
    else:
        bar = pilot.app.screen.query_one(KeyBar)
        placed = {hint.key: at for hint, at in bar._place_hints()}
        found = placed.get(request.key)
        if found is None:
            more = next(at for hint, at in bar._place_hints() if hint.shown == MORE)
            await pilot.click(bar, offset=(more + bar.gutter.left, 0))
            await settle(pilot)
            assert isinstance(pilot.app.screen, CommandPalette), name
            await pilot.press("escape")
            await settle(pilot)
            await by_palette(pilot, name)
            return
        await pilot.click(bar, offset=(found + bar.gutter.left, 0))
    await settle(pilot)


async def back(pilot: Pilot[None], to: Screen[object]) -> None:
    for _ in range(4):
        if pilot.app.screen is to:
            return
        await pilot.press("escape")
        await settle(pilot)
    raise AssertionError(f"escape does not lead back to {to}: {text(pilot.app)}")


def without_action(screen: Screen[object]) -> list[str]:
    """The bindings of a screen that call what is not there."""
    found = []
    for active in screen.active_bindings.values():
        place, name, _ = parse(active.binding.action)
        node = {"app": screen.app, "screen": screen}.get(place, active.node)
        if not any(hasattr(node, f"{kind}_{name}") for kind in ("action", "_action")):
            found.append(f"{active.binding.id}: {active.binding.action}")
    return found


def cut_silently(screen: Screen[object]) -> list[str]:
    """Lines that are longer than where they are drawn, or have no place there: those of our own
    that do not say so by `…`."""
    return [
        f"{type(widget).__name__}#{widget.id}: {line.plain!r}"
        for widget in screen.query("*").results(Widget)
        if widget.region and widget.is_on_screen and _is_ours(widget)
        for line in _too_long(widget)
    ]


def _is_ours(widget: Widget) -> bool:
    return type(widget).__module__.startswith("arc_tui.")


def _too_long(widget: Widget) -> Iterator[Text]:
    if isinstance(widget, RowList):
        width, top = widget.row_width, widget.scroll_offset.y
        said = [Text(f"  {line}") for line in widget.nothing.split("\n")]
        seen = range(top, min(top + widget.page_rows, widget.row_count))
        lines = [widget.draw(index, width) for index in seen] if widget.row_count else said
        lines += [widget.draw_head(line, width) for line in range(widget.HEAD)]
        if not widget.row_count and widget.nothing:
            yield from said[widget.page_rows - 1 :]  # they begin on the second line
    else:
        drawn = widget.render()
        width = widget.content_size.width
        lines = list(drawn.split("\n")) if isinstance(drawn, Text) else []
        yield from (line for line in lines[widget.content_size.height :] if line.plain.strip())
    yield from (line for line in lines if _cells(line) > width)


def _cells(line: Text) -> int:
    kept = line.copy()
    kept.rstrip()
    return kept.cell_len


def test_every_screen_is_in_the_table() -> None:
    found = [place.cls for place in places() if place.is_screen]
    screens = {
        each.__name__ for each in found if not any(each in other.__bases__ for other in found)
    }
    assert screens == {row.screen for row in TABLE} | {"RunsScreen"}


def test_every_screen_has_its_goldens() -> None:
    request = {f"{row.golden}_{w}x{h}" for row in TABLE if row.golden for w, h in (SMALL, LARGE)}
    pages = ("request", "response", "observations", "raw")
    others = ("runs", "screen_limit", *(f"trace_{name}" for name in pages))
    request |= {f"{name}_{w}x{h}" for name in others for w, h in (SMALL, LARGE)}
    replays = (f"replay_{when}" for when in ("before", "during", "after"))
    wide = ("trace", *(f"trace_{name}" for name in pages), *replays)
    request |= {f"{name}_160x48" for name in wide}
    assert request <= {path.stem for path in GOLDENS.glob("*.txt")}


@pytest.mark.pilot
@pytest.mark.parametrize("parent", WAYS)
@pytest.mark.parametrize("size", [SMALL, LARGE], ids=["small", "large"])
async def test_each_is_reached_three_ways_is_whole_and_is_left_by_escape(
    parent: str, size: tuple[int, int], demo: Path, unprompted: Path
) -> None:
    """By key and mouse in a small terminal, from the palette in a large one."""
    db = unprompted if parent == "a run without a prompt" else demo
    async with at(db, WAYS[parent], size) as pilot:
        home = pilot.app.screen
        for row in (each for each in TABLE if each.parent == parent):
            for reach in (by_key, by_mouse) if size == SMALL else (by_palette,):
                pilot.app.clear_notifications()
                for name in row.ids.split():
                    await reach(pilot, name)
                here = pilot.app.screen
                assert type(here).__name__ == row.screen, (row.ids, reach.__name__)
                if reach is not by_mouse:
                    assert not without_action(here), row.ids
                    assert not cut_silently(here), row.ids
                    if row.golden.startswith("screen_"):
                        matches_golden(pilot.app, f"{row.golden}_{size[0]}x{size[1]}")
                await back(pilot, home)


@pytest.mark.pilot
@pytest.mark.parametrize("size", [SMALL, LARGE], ids=["small", "large"])
async def test_the_first_screen_is_come_back_to_three_ways_and_stays(
    size: tuple[int, int], demo: Path
) -> None:
    async with at(demo, (), size) as pilot:
        home = pilot.app.screen
        assert isinstance(home, RunsScreen)
        for reach in (by_key, by_mouse) if size == SMALL else (by_palette,):
            await by_key(pilot, "runs.open")
            assert pilot.app.screen is not home
            await reach(pilot, "trace.back")
            assert pilot.app.screen is home
            assert not without_action(home)
            assert not cut_silently(home)
        await pilot.press("escape")
        assert pilot.app.screen is home
        assert pilot.app.is_running


@pytest.mark.parametrize("size", [SMALL, LARGE], ids=["small", "large"])
@pytest.mark.pilot
async def test_a_limit_is_asked_for_like_this(
    size: tuple[int, int], demo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://localhost:9")  # which needs no key
    price = (
        "68 calls to a model: 90k tokens in, 5k out at first, about $0.50.\nThey go to a server."
    )
    async with at(demo, (), size) as pilot:
        pilot.app.run_worker(allowed(pilot.app, price))
        await until(pilot, "cost limit")
        assert not cut_silently(pilot.app.screen)
        matches_golden(pilot.app, f"screen_limit_{size[0]}x{size[1]}")
        await pilot.press("escape")


@pytest.mark.pilot
async def test_a_replay_fills_a_large_terminal(demo: Path) -> None:
    async with at(demo, ("runs.open", "trace.replay"), WIDE) as pilot:
        assert not cut_silently(pilot.app.screen)
        matches_golden(pilot.app, "replay_before_160x48")


class TestEmpty:
    """What stands on the screens that an empty database has, and names a key or a command."""

    @pytest.mark.pilot
    @pytest.mark.parametrize("size", [SMALL, LARGE], ids=["small", "large"])
    async def test_each_says_what_to_do_next(self, size: tuple[int, int], tmp_path: Path) -> None:
        async with at(tmp_path / "arc.db", (), size) as pilot:
            assert "╭─ open ─" in text(pilot.app)
            await pilot.press("escape")
            home = pilot.app.screen
            assert not cut_silently(home)
            assert "open files, agent sessions or the demo" in text(pilot.app)
            matches_golden(pilot.app, f"screen_empty_runs_{size[0]}x{size[1]}")
            for name, next_step in (
                ("runs.failures", "esc               goes back; T there reviews"),
                ("runs.calibration", "o                      read a file of labels"),
                ("runs.queue", "Q shows runs tagged by others"),
                ("runs.blind", "T shows untagged runs"),
                ("runs.compare", "o opens files"),
            ):
                pilot.app.clear_notifications()
                await by_key(pilot, name)
                said = " ".join(row.rpartition("▌")[2].strip(" │─╭╮╰╯") for row in rows(pilot.app))
                assert next_step in said, name
                assert not cut_silently(pilot.app.screen), name
                if pilot.app.screen is not home:
                    kind = name.partition(".")[2]
                    matches_golden(pilot.app, f"screen_empty_{kind}_{size[0]}x{size[1]}")
                await back(pilot, home)


@pytest.mark.pilot
async def test_what_is_said_of_a_key_follows_the_keys_that_were_set(
    tmp_path: Path, demo: Path
) -> None:
    set_keys = {
        "runs.here": "f6", "runs.back": "f7", "runs.blind": "f8", "queue.walk": "f9",
        "failures.back": "f11", "runs.queue": "f12",
    }  # fmt: skip
    using = Settings(keymap=set_keys)
    async with at(tmp_path / "empty.db", (), LARGE, using) as pilot:
        await pilot.press("escape")
        assert "f6   open files" in text(pilot.app)
        await by_key(pilot, "runs.failures")
        assert "f11               goes back; f12 there reviews" in text(pilot.app)
    async with at(demo, (), LARGE, using) as pilot:
        await by_key(pilot, "runs.queue")
        assert "f9 skip" in text(pilot.app)
