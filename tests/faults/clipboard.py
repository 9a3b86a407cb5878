"""What a person copies: `y` on every screen that has it, each part that `Y` offers, and what stands
in the clipboard then.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import structs
from textual.pilot import Pilot

from arc_tui.app import ArcApp
from arc_tui.features.bisect.screen import BisectScreen
from arc_tui.features.calibration.screen import CalibrationScreen
from arc_tui.features.compare.screen import CompareScreen
from arc_tui.features.cost.screen import CostScreen
from arc_tui.features.free.screen import FreeScreen
from arc_tui.features.settings.screen import SettingsScreen
from arc_tui.features.trace.copies import copies_of
from arc_tui.features.trace.screen import TraceScreen
from arc_tui.ui.dialogs import AskBox
from arc_tui.ui.screen import ArcScreen
from replay.edit.changes import Edit
from taxonomy.judgements.schema import open_ledger
from tests.screen import settle

SCREENS = ("trace", "money", "compare", "calibration", "free", "bisect", "settings")
SIZE = (120, 40)
ELSEWHERE = ((), ("j",), ("tab",), ("j", "j"))
"""Keys after which it is copied anew: another row, the other pane, another line of that."""


async def copies(
    file: Path, keys: Sequence[str], screens: Sequence[str] = SCREENS
) -> dict[str, set[str]]:
    """The texts that come of each screen, over each of these runs."""
    found = defaultdict[str, set[str]](set)
    for at, key in enumerate(keys):
        for name in screens:
            found[name] |= await _of(file, name, key, keys[at - 1])
    return found


async def _of(file: Path, name: str, key: str, other: str) -> set[str]:
    app = ArcApp(file)
    async with app.run_test(size=SIZE, notifications=True) as pilot:
        await settle(pilot)
        app.push_screen(_screen(app, name, key, other))
        await settle(pilot)
        if name == "bisect":
            await _searched(pilot)
        found = set[str]()
        for way in ELSEWHERE:
            await _press(pilot, *way)
            if name == "trace":
                found |= await _parts(pilot)
            app.copy_to_clipboard("")
            await _press(pilot, "y")
            found.add(app.clipboard)
    return found - {""}


def _screen(app: ArcApp, name: str, key: str, other: str) -> ArcScreen:
    file = app.path
    match name:
        case "trace":
            return TraceScreen(file, key, 0)
        case "money":
            return CostScreen(file, key)
        case "compare":
            return CompareScreen(file, key, other)
        case "calibration":
            return CalibrationScreen(file)
        case "free":
            return FreeScreen(file, key, 0, None, "demo")
        case "bisect":
            screen = BisectScreen(file, key, 0, _edit(file))
            screen.request = structs.replace(screen.request, model="demo")
            return screen
        case _:
            return SettingsScreen(file, app.settings, None)


def _edit(file: Path) -> Edit:
    with open_ledger(file) as store:
        (body,) = store.db.execute("SELECT body FROM edit ORDER BY digest").fetchone()
    return msgspec.json.decode(body, type=Edit)


async def _searched(pilot: Pilot[None]) -> None:
    """Say that a judge decides, and search."""
    assert isinstance(pilot.app.screen, AskBox)
    await _press(pilot, "enter", "r")
    assert isinstance(pilot.app.screen, BisectScreen)


async def _parts(pilot: Pilot[None]) -> set[str]:
    """Each part that is offered, taken one after the other."""
    found, screen = set[str](), pilot.app.screen
    assert isinstance(screen, TraceScreen)
    for place in range(len(copies_of(screen.detail, None, None))):
        pilot.app.copy_to_clipboard("")
        await _press(pilot, "Y", *["down"] * place, "enter")
        assert pilot.app.screen is screen
        found.add(pilot.app.clipboard)
    return found


async def _press(pilot: Pilot[None], *keys: str) -> None:
    for key in keys:
        await pilot.press(key)
        await settle(pilot)
