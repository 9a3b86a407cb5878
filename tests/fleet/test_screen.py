"""The app over a trace store: its runs are listed and asked for, and pulled when they are opened."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner
from textual.pilot import Pilot

from arc_tui.app import ArcApp
from arc_tui.commands import cli
from arc_tui.features.fleet.screen import FleetScreen
from arc_tui.features.runs.screen import RunsScreen
from arc_tui.features.trace.screen import TraceScreen
from arc_tui.settings import Settings
from replay.fleet.stores import FleetStore, keep_store, variable
from tests.fleet.conftest import PASSWORD, Store
from tests.screen import press, settle, text

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
    async with app.run_test(size=size) as pilot:
        await settle(pilot)
        yield pilot


def screen_of(pilot: Pilot[None]) -> FleetScreen:
    assert isinstance(pilot.app.screen, FleetScreen)
    return pilot.app.screen
