"""Whatever keys a person sets, every sentence names those: none of another key stays on a screen,
and none is written into the source."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.cells import cell_len
from textual.app import App
from textual.pilot import Pilot
from textual.screen import Screen

import arc_tui
from arc_tui.features.trace.screen import TraceScreen
from arc_tui.settings import Settings
from arc_tui.ui.document import NAMED
from arc_tui.ui.keymap import bound, check_keymap, parse_keys
from tests.arc_tui.test_every_screen import (
    LARGE,
    TABLE,
    WAYS,
    at,
    by_key,
    demo,
    environment,
    unprompted,
)
from tests.screen import press, rows, text

__all__ = ["demo", "environment", "unprompted"]

KEY = r"enter|⏎|esc|escape|tab|space|\^[a-z]|ctrl\+\w|f\d{1,2}"
"""Keys that are called by a name."""

SAYS = re.compile(
    rf"(?<![\w'\"./│-])(?:(?P<name>‹|(?:{KEY})(?!\w))|(?P<letter>[b-zA-Z?/,.=]) (?=[a-z]+s\b))"
)
"""A key by its name anywhere; a letter, where a word follows that may be what it does."""

SENTENCE = re.compile(
    rf"(?:^|[;:,(] ?|\b(?:then|and|or) )(?:{KEY}|[b-zA-Z])(?= [a-z]+s\b|\)| again\b|, then\b)"
)

FIXED = re.compile(r"tab (text field|next( line)?)|⏎ (accept|attaches)|space toggle")
"""What is said of keys in a dialog's lines and ticks, which are Textual's own."""

WRITTEN = re.compile(r"‹\w+\.[\w.{}]+(?::[\w.{}]+)?›")
"""A key by its id in the source, where a part of it may be put in later."""

OURS = Path(arc_tui.__file__).parent


def sources() -> Iterator[Path]:
    """The modules of screens; what commands print names no key."""
    for part in ("experiments", "features", "ui", "views"):
        found = (OURS / part).rglob("*.py")
        yield from (each for each in found if not each.name.endswith("command.py"))


@pytest.fixture(scope="module")
def other_keys() -> dict[str, str]:
    """For everything that can be bound another key, which no line that is typed in takes."""
    letters = (char for char in map(chr, range(0x100, 0x600)) if char.isalpha())
    narrow = (char for char in letters if cell_len(char) == 1 and parse_keys(char) == (char,))
    return check_keymap({name: f"alt+{next(narrow)}" for name in bound()})


async def leave(pilot: Pilot[None], to: Screen[object]) -> None:
    """Back from where a key led, by the key that was set for it."""
    for _ in range(4):
        if pilot.app.screen is to:
            return
        active = pilot.app.screen.active_bindings.values()
        name = next(
            each.binding.id
            for each in active
            if each.binding.id and each.binding.id.endswith((".back", ".leave"))
        )
        await by_key(pilot, name)
    raise AssertionError(f"no key leads back to {to}: {text(pilot.app)}")


def old_keys(app: App[None]) -> list[str]:
    """The lines of the screen that name a key nobody has set."""
    said = (FIXED.sub("", line) for line in rows(app))
    return [f"{found[0]!r} in {line.strip()}" for line in said if (found := SAYS.search(line))]


@pytest.mark.pilot
@pytest.mark.parametrize("parent", WAYS)
async def test_no_screen_names_a_key_that_is_not_set(
    parent: str,
    demo: Path,
    unprompted: Path,
    other_keys: dict[str, str],
) -> None:
    using = Settings(keymap=other_keys)
    db = unprompted if parent == "a run without a prompt" else demo
    async with at(db, WAYS[parent], LARGE, using) as pilot:
        home = pilot.app.screen
        assert not old_keys(pilot.app)
        for row in (each for each in TABLE if each.parent == parent):
            pilot.app.clear_notifications()
            for name in row.ids.split():
                await by_key(pilot, name)
                assert not old_keys(pilot.app), name
            await leave(pilot, home)


@pytest.mark.pilot
async def test_a_fold_names_the_key_that_opens_it_while_it_is_closed(demo: Path) -> None:
    using = Settings(keymap={"page.unfold": "f7"})
    async with at(demo, ("runs.open", "trace.tab_2"), LARGE, using) as pilot:
        assert " as in step 3 (f7 unfolds)" in text(pilot.app)
        screen = pilot.app.screen
        assert isinstance(screen, TraceScreen)
        screen.page.focus()
        lines = (screen.page.draw(at, 100).plain for at in range(screen.page.row_count))
        screen.page.cursor = next(at for at, line in enumerate(lines) if "(f7 unfolds)" in line)
        await press(pilot, "f7")
        assert "▾" in text(pilot.app)
        assert "unfolds" not in text(pilot.app)


# --- in the source


def test_every_key_that_a_sentence_names_is_one() -> None:
    known = bound()
    for path in sources():
        text = path.read_text().replace(NAMED.pattern, "")
        assert text.count("‹") == len(WRITTEN.findall(text)), path
        for found in NAMED.finditer(text):
            name, otherwise = found["id"], found["otherwise"]
            assert name in known, (path, name)
            assert otherwise in (None, known[name].keys[0]), (path, name)


@pytest.mark.slow
def test_no_sentence_names_a_key_by_itself() -> None:
    """Also where no walk comes by: at its beginning, after a mark or a word that joins."""
    found = [
        f"{path.relative_to(OURS)}: {said}"
        for path in sources()
        for said in sentences(ast.parse(path.read_text()))
        if SENTENCE.search(FIXED.sub("", said))
    ]
    assert not found


PAGES = {OURS / "features" / "trace" / "pages.py"}
"""The pages of a screen that a command prints too, with `HintBlock.without_keys`."""

APP = ("arc_tui.app", "arc_tui.routes", "arc_tui.ui.keymap")


@pytest.mark.slow
def test_commands_load_no_sentence_that_names_a_key() -> None:
    """But the app itself, and pages whose keys they print as commands."""
    seen: set[Path] = set()
    waiting = [
        OURS / "cli.py",
        OURS / "joint_commands.py",
        *(OURS / "features").rglob("*command.py"),
    ]
    while waiting:
        path = waiting.pop()
        if path not in seen:
            seen.add(path)
            waiting += imported(path)
    assert {path for path in seen if NAMED.search(path.read_text())} == PAGES
    rooms = {part.name for path in seen for part in path.parents}
    assert rooms >= {"replay", "taxonomy", "experiments"}


def imported(path: Path) -> Iterator[Path]:
    """The modules of ours that a module names, but for those of the app."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and not node.module.startswith(APP):
            for name in (node.module, *(f"{node.module}.{each.name}" for each in node.names)):
                place = OURS.parent / name.replace(".", "/")
                yield from filter(Path.is_file, (place.with_suffix(".py"), place / "__init__.py"))


CALLS = ("Binding", "bind", "choice", "pane_keys", "re.compile")
"""Whose strings are no sentences of a screen."""


def sentences(tree: ast.AST) -> Iterator[str]:
    """The strings of a module but its docstrings, its bindings and its patterns."""
    apart: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr):
            apart.add(node.value)
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in CALLS:
            apart.update(ast.walk(node))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in apart:
            yield node.value
