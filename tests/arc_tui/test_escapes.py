"""Whatever a run says is shown and never obeyed: by every command, to a pipe and to a terminal."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import click
import pytest

from arc_tui.app import ArcApp
from arc_tui.ui import format
from tests.arc_tui.crawl import crawl
from tests.faults import effects, hostile

COMMANDS = {" ".join(words): (words, command) for words, command in hostile.commands()}


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return hostile.database(tmp_path_factory.mktemp("hostile"))


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_no_command_says_anything_that_a_terminal_obeys(
    name: str, planted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARC_DATA_DIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    words, command = COMMANDS[name]
    found, tried = hostile.leaking(words, command, planted)
    assert not found
    assert tried or name in hostile.NOT_RUN


def test_what_is_looked_for_is_found() -> None:
    assert hostile.obeyed(hostile.PLANTED)
    for found in re.finditer(r"\x1b.|[^ -\ud7ff\ue000-\uffff]", hostile.WHOLE):
        if found[0] not in "\U0001f468\U0001f469":
            assert hostile.obeyed(f"a\x1b[1mb{found[0]}c\x1b[0m\n"), ascii(found[0])
    assert not hostile.obeyed("\x1b[1;38;5;7mbold\x1b[0m\n")


def test_what_is_shown_holds_nothing_that_is_obeyed_and_keeps_what_is_read() -> None:
    shown = format.plain(hostile.PLANTED)
    assert not hostile.obeyed(shown)
    shown.encode()
    assert "[bold]b[/bold][/][@click=app.quit]q[/]" in shown
    assert shown.endswith("\U0001f468\u200d\U0001f469")
    assert (
        format.plain("n\u0303 \u0928\u094d\u200d \u05d0 \u4e2d\n")
        == "n\u0303 \u0928\u094d\u200d \u05d0 \u4e2d\n"
    )


def test_json_says_the_same_and_holds_nothing_that_is_obeyed() -> None:
    said = json.dumps({hostile.WHOLE: [hostile.WHOLE]}, ensure_ascii=False, indent=2)
    assert hostile.obeyed(said)
    assert not hostile.obeyed(format.escape_controls(said))
    assert json.loads(format.escape_controls(said)) == {hostile.WHOLE: [hostile.WHOLE]}


@pytest.mark.slow
def test_a_bug_that_quotes_a_run_is_told_as_text(
    planted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> click.Command:
        raise RuntimeError(hostile.WHOLE)

    monkeypatch.setattr("arc_tui.commands.Commands.get_command", broken)
    said = hostile.said_by(["ls"], planted)
    assert "RuntimeError" in said
    assert not hostile.obeyed(said)


# --- on the screen


def drawn(app: ArcApp, way: tuple[str, ...]) -> None:
    """Nothing on the screen is obeyed, by the terminal or by what draws it."""
    for strip in app.screen._compositor.render_strips():
        for segment in strip:
            assert not hostile.OBEYED & set(segment.text), (way, segment.text)
            assert segment.style is None or segment.style.link is None, way
            assert "app.quit" not in str(segment.style and segment.style.meta), way
    copied = app.clipboard
    assert not hostile.OBEYED & set(copied), (way, copied)


@pytest.mark.pilot
async def test_no_screen_draws_or_copies_what_is_obeyed(
    planted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twelve keys of two screens and what they open; `-m slow` presses all keys of all."""
    monkeypatch.setenv("ARC_DATA_DIR", str(tmp_path))
    copy = tmp_path / "arc.db"
    copy.write_bytes(planted.read_bytes())
    pressed = await crawl(copy, drawn, most=12, screens=2)
    assert pressed == {"RunsScreen": 12, "TraceScreen": 12}


ALL_SCREENS = {
    "RunsScreen", "TraceScreen", "ReplayScreen", "FreeScreen", "StepsScreen", "BisectScreen",
    "ProbeScreen", "EditTestScreen", "CompareScreen", "CostScreen", "FailuresScreen",
    "CalibrationScreen", "SettingsScreen", "HelpScreen", "TagPicker",
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.minutes
async def test_no_key_of_any_screen_draws_or_copies_what_is_obeyed(
    planted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARC_DATA_DIR", str(tmp_path))
    copy = tmp_path / "arc.db"
    copy.write_bytes(planted.read_bytes())
    pressed = await crawl(copy, drawn)
    assert pressed.keys() >= ALL_SCREENS


TITLES_OF_OURS = {
    "arc_tui/features/calibration/screen.py", "arc_tui/features/failures/screen.py",
    "arc_tui/features/free/screen.py", "arc_tui/features/replay/screen.py",
    "arc_tui/features/runs/screen.py", "arc_tui/features/bisect_steps/screen.py",
    "arc_tui/features/replay/widgets.py", "arc_tui/features/trace/tag_picker.py",
    "arc_tui/features/trace/origins.py", "arc_tui/features/runs/matrix.py",
    "arc_tui/features/fleet/screen.py",
}  # fmt: skip
"""Where a title is put together of our own words and numbers."""


DRAWING = ("arc_tui/features/", "arc_tui/ui/", "arc_tui/experiments/", "arc_tui/app")


@pytest.mark.slow
def test_what_is_read_as_markup_is_written_by_us() -> None:
    """Titles, tooltips and what is static are read as markup, unless they are `Text`."""
    found = set()
    for name, nodes in effects.modules():
        for node in nodes:
            if isinstance(node, ast.Assign) and _is_title(node.targets[0]) and _made(node.value):
                found.add(name)
            drawing = name.startswith(DRAWING)
            if drawing and isinstance(node, ast.Call) and ast.unparse(node.func) == "Static":
                safe = any(word.arg == "markup" for word in node.keywords)
                assert safe or not (node.args and _made(node.args[0])), (name, node.lineno)
    assert found == TITLES_OF_OURS


def _is_title(target: ast.expr) -> bool:
    names = {"border_title", "border_subtitle", "tooltip"}
    return isinstance(target, ast.Attribute) and target.attr in names


def _made(value: ast.expr) -> bool:
    """Is it put together when it runs, and no `Text`?"""
    return not isinstance(value, ast.Constant) and not (
        isinstance(value, ast.Call) and ast.unparse(value.func) in {"Text", "Text.assemble"}
    )
