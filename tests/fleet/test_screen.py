"""The app over a trace store: its runs are listed and asked for, and pulled when opened."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from msgspec import structs
from textual.pilot import Pilot

from arc_tui.app import ArcApp
from arc_tui.commands import cli
from arc_tui.features.fleet import run
from arc_tui.features.fleet.run import window_of
from arc_tui.features.fleet.screen import Asked, FleetScreen
from arc_tui.features.runs.screen import RunsScreen
from arc_tui.features.trace.screen import TraceScreen
from arc_tui.settings import Settings
from arc_tui.ui.dialogs import AskBox
from replay.fleet.connection import Bounds, Connection
from replay.fleet.stores import FleetStore, keep_store, variable
from replay.store.rows import trace_rows
from taxonomy.fleet import listing
from taxonomy.fleet.compile import Window
from taxonomy.judgements.diagnoses import undiagnosed
from taxonomy.judgements.schema import open_ledger
from tests.fleet import exporter
from tests.fleet.conftest import PASSWORD, RUNS, USER, Store
from tests.screen import press, rows, settle, text

pytestmark = [pytest.mark.process, pytest.mark.pilot]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("CONFIG_DIR", "DATA_DIR"):
        monkeypatch.setenv(f"ARC_{name}", str(tmp_path))
    monkeypatch.setenv(variable("prod"), PASSWORD)
    return tmp_path


def name_store(home: Path, url: str, name: str = "prod") -> None:
    keep_store(home / "fleets.toml", name, FleetStore(url=url))


@asynccontextmanager
async def on_store(
    home: Path, *, size: tuple[int, int] = (120, 40), fleet: str = "prod"
) -> AsyncIterator[Pilot[None]]:
    app = ArcApp(home / "arc.db", fleet=fleet, settings=Settings())
    async with app.run_test(size=size, notifications=True) as pilot:
        await settle(pilot)
        yield pilot


def screen_of(pilot: Pilot[None]) -> FleetScreen:
    assert isinstance(pilot.app.screen, FleetScreen)
    return pilot.app.screen


def asked(*words: str) -> Any:
    """What the command says of the same question."""
    found = CliRunner().invoke(
        cli, ["fleet", "ls", "prod", *words, "--json"], standalone_mode=False
    )
    assert found.exception is None, found.exception
    return json.loads(found.stdout)


async def since_2020(pilot: Pilot[None]) -> FleetScreen:
    """All runs of the store."""
    await press(pilot, "v", "tab", *"2020", "enter")
    return screen_of(pilot)


def traces(screen: FleetScreen) -> list[str]:
    return [each.run.trace for each in screen.table.runs]


def pulled_runs(home: Path) -> list[str]:
    with open_ledger(home / "arc.db") as store:
        return [row.source_id for row in trace_rows(store)]


@pytest.fixture
def asking(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What stores are asked from now on."""
    questions: list[str] = []
    plain = Connection.rows

    def rows_counted(self: Connection, sql: str, *more: Any) -> Any:
        questions.append(sql)
        return plain(self, sql, *more)

    monkeypatch.setattr(Connection, "rows", rows_counted)
    return questions


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch) -> list[Window]:
    """Of which time stores are asked from now on."""
    found: list[Window] = []
    plain = listing.list_runs

    def list_noted(*given: Any, **more: Any) -> Any:
        found.append(given[3])
        return plain(*given, **more)

    monkeypatch.setattr(run, "list_runs", list_noted)
    return found


class TestList:
    async def test_it_has_the_runs_of_the_command_in_its_order(
        self, home: Path, fleet: Store
    ) -> None:
        name_store(home, fleet.url("maps"))
        async with on_store(home) as pilot:
            assert "No runs of prod" in text(pilot.app)
            assert "v   another time" in text(pilot.app)
            screen = await since_2020(pilot)
            said = asked("--since", "2020", "--limit", "0")
            assert traces(screen) == [each["run"]["trace"] for each in said["runs"]]
            assert len(traces(screen)) == RUNS
            shown = text(pilot.app)
            assert re.search(r"60 runs · \d+ queries, \S+ kB read", shown)
            assert "OpenTelemetry exporter (maps)" in shown
            assert "runs of prod · begun since 2020" in shown
            marks = {row.lstrip("│ ")[:1] for row in rows(pilot.app) if "not here" in row}
            assert marks == {"✓", "✗", "·"}
            await press(pilot, "f")
            failed = asked("outcome:failed", "--since", "2020", "--limit", "0")
            assert traces(screen) == [each["run"]["trace"] for each in failed["runs"]]
            assert "runs of prod · begun since 2020 · outcome:failed" in text(pilot.app)

    @pytest.mark.parametrize("size", [(80, 24), (200, 50)])
    async def test_a_line_shows_what_has_room(
        self, home: Path, fleet: Store, size: tuple[int, int]
    ) -> None:
        name_store(home, fleet.url("json"))
        async with on_store(home, size=size) as pilot:
            screen = await since_2020(pilot)
            first = next(row for row in rows(pilot.app) if "not here" in row)
            assert "2026-" in first
            assert "support" in first
            assert (traces(screen)[0] in first) is (size[0] == 200)

    async def test_a_query_is_asked_once_it_is_complete(
        self, home: Path, fleet: Store, asking: list[str]
    ) -> None:
        name_store(home, fleet.url("maps"))
        async with on_store(home) as pilot:
            screen = await since_2020(pilot)
            every = traces(screen)
            asking.clear()
            await press(pilot, "/", *"tool:refund_order errors>0 or")
            assert "at character" in screen.prompt.refusal
            await press(pilot, "enter")  # which keeps the line open, as it cannot be read
            assert screen.prompt.display
            assert not asking
            assert traces(screen) == every
            await press(pilot, "backspace", "backspace", "backspace", "enter")
            assert asking
            wanted = asked("tool:refund_order errors>0", "--since", "2020", "--limit", "0")
            assert traces(screen) == [each["run"]["trace"] for each in wanted["runs"]]
            assert 0 < len(traces(screen)) < RUNS
            assert "note: errors are spans with a failed status" in text(pilot.app)
            await press(pilot, "escape")
            assert traces(screen) == every

    async def test_what_a_store_cannot_tell_is_refused_by_name_while_it_is_typed(
        self, home: Path, fleet: Store
    ) -> None:
        name_store(home, fleet.url("maps"))
        async with on_store(home) as pilot:
            screen = await since_2020(pilot)
            await press(pilot, "/", *"steps>1 tag:loop")
            assert "tag cannot be asked of this store" in screen.prompt.refusal
            assert "(at character 9)" in text(pilot.app)

    async def test_a_time_in_the_query_moves_the_window(self, home: Path, fleet: Store) -> None:
        name_store(home, fleet.url("maps"))
        async with on_store(home) as pilot:
            screen = screen_of(pilot)
            assert not traces(screen)
            await press(pilot, "/", *"since:2026-11-01 before:2026-12", "enter")
            assert len(traces(screen)) == RUNS
            assert "runs of prod · since:2026-11-01 before:2026-12" in text(pilot.app)

    async def test_older_runs_come_on_demand_and_the_cursor_stays(
        self, home: Path, fleet: Store, windows: list[Window]
    ) -> None:
        name_store(home, fleet.url("maps"))
        async with on_store(home) as pilot:
            screen = await since_2020(pilot)
            every = traces(screen)
            screen._change(structs.replace(screen.asked, limit=20))
            await settle(pilot)
            assert traces(screen) == every[:20]
            await press(pilot, "G")
            assert "the newest 20 runs" in text(pilot.app)
            assert "older runs match too · ⏎ list more of them" in text(pilot.app)
            last = screen.table.runs[-1].run.start_ns
            windows.clear()
            await press(pilot, "enter")
            assert traces(screen) == every
            assert screen.table.cursor == 20
            assert not screen.table.older
            assert f"{RUNS} runs" in text(pilot.app)
            # only what began up to the second of the last run was asked for
            assert [0 < each.until_ns - last <= 10**9 for each in windows] == [True]
            await press(pilot, "ctrl+r")
            assert traces(screen) == every

    async def test_runs_without_outcomes_are_said_to_be_taken_by_their_errors(
        self, home: Path, fleet: Store
    ) -> None:
        name_store(home, fleet.url("no_outcome"))
        async with on_store(home) as pilot:
            screen = await since_2020(pilot)
            assert len(traces(screen)) == 12
            await press(pilot, "f")
            shown = " ".join(text(pilot.app).split())
            assert "note: no run in this time has an outcome" in shown
            assert "outcome:failed is taken as errors>0" in shown
            failed = traces(screen)
            assert 0 < len(failed) < 12
            await press(pilot, "f", "/", *"outcome:passed", "enter")
            assert screen.prompt.display  # only the store knows: the words are asked for again
            assert "no run in this time has an outcome (at character 1)" in text(pilot.app)
            assert screen.prompt.line.value == "outcome:passed"
            assert len(traces(screen)) == 12
            await press(pilot, "escape")
            assert len(traces(screen)) == 12
            assert not screen.prompt.display

    async def test_a_time_that_is_none_is_asked_for_again(self, home: Path, fleet: Store) -> None:
        name_store(home, fleet.url("maps"))
        async with on_store(home) as pilot:
            await press(pilot, "v", "tab", *"1d yesterday", "enter")
            box = pilot.app.screen
            assert isinstance(box, AskBox)
            assert "'yesterday' is no time" in text(pilot.app)
            assert box.line.value == "1d yesterday"
            await press(pilot, "escape")
            assert screen_of(pilot).asked == Asked()


class TestPull:
    async def test_a_run_that_is_not_here_is_pulled_when_it_is_opened(
        self, home: Path, fleet: Store, asking: list[str]
    ) -> None:
        name_store(home, fleet.url("maps"))
        async with on_store(home) as pilot:
            screen = await since_2020(pilot)
            await press(pilot, "j", "j", "enter")
            assert isinstance(pilot.app.screen, TraceScreen)
            assert pulled_runs(home) == [traces(screen)[2]]
            with open_ledger(home / "arc.db") as store:
                assert not undiagnosed(store)
            await press(pilot, "escape")
            assert screen_of(pilot) is screen
            assert screen.table.cursor == 2
            here = [row for row in rows(pilot.app) if "  here  " in row]
            assert len(here) == 1
            asking.clear()
            await press(pilot, "enter")
            assert isinstance(pilot.app.screen, TraceScreen)
            assert not asking  # it is here: no store is asked

    async def test_those_that_are_selected_are_pulled_together(
        self, home: Path, fleet: Store
    ) -> None:
        name_store(home, fleet.url("signoz"))
        async with on_store(home) as pilot:
            screen = await since_2020(pilot)
            await press(pilot, "space", "j", "space", "j", "space", "space", "j", "space")
            chosen = [traces(screen)[place] for place in (0, 1, 3)]
            assert screen.table.marked == {*chosen}
            assert sum("»" in row for row in rows(pilot.app)) == 3
            await press(pilot, "r")
            assert sorted(pulled_runs(home)) == sorted(chosen)
            assert not screen.table.marked
            assert "3 runs pulled" in text(pilot.app)
            assert sum("  here  " in row for row in rows(pilot.app)) == 3
            await press(pilot, "r")
            assert "Here already. ⏎ opens a run." in text(pilot.app)

    async def test_a_pull_that_is_stopped_leaves_the_list(self, home: Path, fleet: Store) -> None:
        name_store(home, fleet.url("maps"))
        async with on_store(home) as pilot:
            screen = await since_2020(pilot)
            screen._start_pull([each.run for each in screen.table.runs])
            assert screen.bar.display
            screen.action_back()
            assert screen.bar.stopping
            await settle(pilot)
            assert pilot.app.screen is screen
            assert "The pull was stopped." in text(pilot.app)
            assert not screen.bar.display
            assert len(traces(screen)) == RUNS
            assert len(pulled_runs(home)) < RUNS

    async def test_a_long_name_of_a_store_leaves_room_for_the_key_that_stops_a_pull(
        self, home: Path, fleet: Store
    ) -> None:
        name_store(home, fleet.url("maps"))
        async with on_store(home) as pilot:
            bar = screen_of(pilot).bar
            bar.fleet, bar.done, bar.total, bar.display = "s" * 40, 99, 200, True
            await pilot.resize_terminal(80, 24)
            await settle(pilot)
            (line,) = [row for row in rows(pilot.app) if "Pulling" in row]
            assert "Pulling run 100 of 200 · sss" in line
            assert "s…" in line
            assert line.endswith(" stop")

    async def test_a_run_that_grew_is_pulled_again(
        self, home: Path, fleet: Store, made: Path
    ) -> None:
        written = [*exporter.rows(made)]
        late = next(row for row in reversed(written) if row["SpanName"].startswith("chat"))
        fleet.client.command("CREATE DATABASE grown")
        for statement in exporter.tables("grown.otel_traces"):
            fleet.client.command(statement)
        same = [row for row in written if row["TraceId"] == late["TraceId"] and row is not late]
        fleet.insert("grown.otel_traces", same)
        name_store(home, fleet.url("grown"))
        async with on_store(home) as pilot:
            screen = await since_2020(pilot)
            await press(pilot, "enter", "escape")
            assert "  here  " in text(pilot.app)
            fleet.insert("grown.otel_traces", [late])
            await press(pilot, "ctrl+r")
            assert "  partly here  " in text(pilot.app)
            await press(pilot, "enter")
            assert isinstance(pilot.app.screen, TraceScreen)
            await press(pilot, "escape")
            assert "  here  " in text(pilot.app)
            assert len(traces(screen)) == 1
            with open_ledger(home / "arc.db") as store:
                assert [row.spans for row in trace_rows(store)] == [len(same) + 1]


class TestTrouble:
    """What goes wrong is a sentence on the screen, and what was listed stays."""

    async def test_a_wrong_password(
        self, home: Path, fleet: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv(variable("prod"), "wrong")
        name_store(home, fleet.url("maps"))
        async with on_store(home) as pilot:
            assert "user or password is wrong" in text(pilot.app)
            assert variable("prod") in text(pilot.app)
            monkeypatch.setenv(variable("prod"), PASSWORD)
            await press(pilot, "ctrl+r")
            assert "user or password" not in text(pilot.app)

    async def test_a_query_that_reads_more_than_it_may(self, home: Path, fleet: Store) -> None:
        name_store(home, fleet.url("maps"))
        async with on_store(home) as pilot:
            screen = await since_2020(pilot)
            screen.bounds = Bounds(bytes_read=10)
            await press(pilot, "ctrl+r")
            assert "! prod (127.0.0.1:" in text(pilot.app)
            assert "the question reads more than it may" in " ".join(text(pilot.app).split())
            assert len(traces(screen)) == RUNS
            screen.bounds = Bounds()
            await press(pilot, "ctrl+r")
            assert "the question reads more" not in text(pilot.app)

    async def test_a_store_that_is_gone_meanwhile(self, home: Path, fleet: Store) -> None:
        name_store(home, fleet.url("maps"))
        async with on_store(home) as pilot:
            screen = await since_2020(pilot)
            await press(pilot, "enter", "escape")
            name_store(home, f"clickhouse+http://{USER}@127.0.0.1:1/maps")
            await press(pilot, "ctrl+r")
            assert "cannot be reached" in text(pilot.app)
            await press(pilot, "j", "enter")  # one that is not here
            assert pilot.app.screen is screen
            assert "cannot be reached" in text(pilot.app)
            assert len(traces(screen)) == RUNS
            await press(pilot, "k", "enter")  # one that is
            assert isinstance(pilot.app.screen, TraceScreen)

    async def test_a_store_that_does_not_answer_is_left_at_once(self, home: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            name_store(home, f"clickhouse+http://{USER}@127.0.0.1:{silent.getsockname()[1]}/maps")
            began = time.monotonic()
            app = ArcApp(home / "arc.db", fleet="prod", settings=Settings())
            async with app.run_test(size=(120, 40), notifications=True) as pilot:
                while not (isinstance(app.screen, FleetScreen) and app.screen.reading):
                    await asyncio.sleep(0.05)
                assert "Asking prod." in text(app)
                await pilot.press("escape")
                await settle(pilot)
                assert isinstance(app.screen, (RunsScreen, AskBox))
            assert time.monotonic() - began < 8  # a connection is waited for 10 s, an answer 40

    async def test_without_its_extra_it_says_what_to_install(
        self, home: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "clickhouse_connect", None)
        name_store(home, "clickhouse://reader@store.example/otel")
        async with on_store(home) as pilot:
            assert "arc fleet needs clickhouse-connect, which is not installed" in text(pilot.app)
            assert "Try: pip install 'arc-tui[fleet]'" in text(pilot.app)
            await press(pilot, "ctrl+f")
            assert "which is not installed · clickhouse://reader@store" in text(pilot.app)


class TestSources:
    async def test_each_store_is_named_with_what_it_is_and_chosen(
        self, home: Path, fleet: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        name_store(home, fleet.url("signoz"))
        name_store(home, f"clickhouse+http://{USER}@127.0.0.1:1/maps", "gone")
        name_store(home, fleet.url("other"), "others")
        monkeypatch.setenv(variable("others"), PASSWORD)
        async with ArcApp(home / "arc.db", settings=Settings()).run_test(
            size=(120, 40), notifications=True
        ) as pilot:
            await settle(pilot)
            await press(pilot, "escape")  # what is offered where nothing is here
            runs = pilot.app.screen
            assert isinstance(runs, RunsScreen)
            await press(pilot, "ctrl+f")
            shown = text(pilot.app)
            assert "runs here  those of this database" in shown
            assert "gone       cannot be reached · clickhouse+http" in shown
            assert "prod       SigNoz" in shown
            assert "others     no known table of spans" in shown
            await press(pilot, "4")
            assert screen_of(pilot).fleet == "prod"
            await press(pilot, "ctrl+f", "2")
            assert screen_of(pilot).fleet == "gone"
            assert "cannot be reached" in text(pilot.app)
            await press(pilot, "ctrl+f", "1")
            assert pilot.app.screen is runs
            await press(pilot, "ctrl+f", "escape")
            assert pilot.app.screen is runs

    @pytest.mark.parametrize(
        ("file", "said"),
        [
            (None, "Try: arc fleet add NAME URL"),
            ("[prod", "invalid TOML"),
            ("[prod]\nurl = 3", "fleets.toml"),
        ],
    )
    async def test_without_a_store_it_says_how_to_name_one(
        self, home: Path, file: str | None, said: str
    ) -> None:
        if file is not None:
            (home / "fleets.toml").write_text(file)
        async with ArcApp(home / "arc.db", settings=Settings()).run_test(
            size=(120, 40), notifications=True
        ) as pilot:
            await settle(pilot)
            await press(pilot, "escape", "ctrl+f")
            assert said in text(pilot.app)
            assert "runs here" in text(pilot.app)
            await press(pilot, "enter")
            assert isinstance(pilot.app.screen, RunsScreen)

    async def test_the_runs_here_are_below_a_store_that_the_app_was_opened_on(
        self, home: Path, fleet: Store
    ) -> None:
        name_store(home, fleet.url("maps"))
        async with on_store(home) as pilot:
            await since_2020(pilot)
            await press(pilot, "enter", "escape", "escape")
            assert isinstance(pilot.app.screen, RunsScreen)
            assert len(pilot.app.screen.listed.traces) == 1

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (("--fleet", "staging"), "no fleet 'staging'"),
            (("--fleet", "staging", "last"), "--fleet takes no RUN"),
            (("--fleet", "staging", "--latest"), "--fleet takes no RUN"),
        ],
    )
    def test_a_store_that_is_not_named_is_not_opened(
        self, words: tuple[str, ...], said: str
    ) -> None:
        found = CliRunner().invoke(cli, ["open", *words], standalone_mode=False)
        assert said in str(getattr(found.exception, "message", found.exception))


DAY_NS = 86_400 * 10**9
NEW_YEAR_NS = 20_454 * DAY_NS
"""When 2026 began."""


@pytest.mark.parametrize(
    ("query", "days"),
    [
        ("", (93, 100)),
        ("outcome:failed since:2026-01-11 before:2026-01-21", (10, 20)),
        ("since:2026-01-11", (10, 100)),
        ("before:2026-01-21", (13, 20)),
        ("start:2026-01-13", (12, 13)),
        ("start>=2026-01-11 start<2026-01-13", (10, 12)),
        ("since:2026-01-11 or errors>0", (93, 100)),
        ("not since:2026-01-11", (93, 100)),
    ],
)
def test_the_window_of_a_query(query: str, days: tuple[int, int]) -> None:
    given, first, last = (NEW_YEAR_NS + day * DAY_NS for day in (93, *days))
    found = window_of(query, Window(given, NEW_YEAR_NS + 100 * DAY_NS))
    assert (found.from_ns, found.until_ns) == (first, last)
