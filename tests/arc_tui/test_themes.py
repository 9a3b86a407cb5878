"""The colours: text can be read, good and bad stay apart without hue, and NO_COLOR means it."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.segment import Segment
from textual.color import Color
from textual.theme import BUILTIN_THEMES, Theme

from arc_tui.app import ArcApp
from arc_tui.settings import Settings
from arc_tui.ui.themes import (
    AUTO,
    DARK,
    LIGHT,
    OURS,
    PLAIN,
    READABLE,
    choose_theme,
    contrast,
    roles,
)
from tests.arc_tui import sample
from tests.screen import press, settle

TEXTS = ("good", "bad", "quiet", "focus-line")
"""The roles that a text may have."""

APART = 1.2
"""The least contrast between what is good and what is bad, for eyes that see no hue."""


@pytest.mark.parametrize("theme", [DARK, LIGHT], ids=lambda theme: theme.name)
def test_text_is_readable_on_every_ground_of_ours(theme: Theme) -> None:
    named = {
        **{name: theme.variables[name] for name in TEXTS},
        "foreground": theme.foreground, "primary": theme.primary, "secondary": theme.secondary,
        "warning": theme.warning,
    }  # fmt: skip
    grounds = (
        theme.background, theme.surface, theme.panel, theme.variables["cursor"],
        theme.variables["cursor-dim"],
    )  # fmt: skip
    for name, colour in named.items():
        for ground in grounds:
            found = contrast(Color.parse(str(colour)), Color.parse(str(ground)))
            assert found >= READABLE, f"{name} on {ground}"


@pytest.mark.parametrize("theme", [DARK, LIGHT], ids=lambda theme: theme.name)
def test_good_and_bad_differ_in_lightness_too(theme: Theme) -> None:
    good, bad = (Color.parse(theme.variables[name]) for name in ("good", "bad"))
    assert contrast(good, bad) >= APART


@pytest.mark.parametrize("name", [name for name in BUILTIN_THEMES if "ansi" not in name])
def test_our_roles_are_readable_under_a_theme_that_is_not_ours(name: str) -> None:
    theme = BUILTIN_THEMES[name]
    made = theme.to_color_system().generate()
    ground = Color.parse(made["background"])
    found = roles(theme)
    assert found.keys() >= DARK.variables.keys()
    for role in TEXTS:
        assert contrast(Color.parse(found[role]), ground) >= min(
            READABLE, contrast(Color.parse(made["foreground"]), ground)
        )


def test_every_theme_of_ours_has_the_same_roles() -> None:
    assert all(theme.variables.keys() >= DARK.variables.keys() for theme in OURS.values())


def test_the_plain_theme_leaves_text_and_ground_to_the_terminal() -> None:
    assert PLAIN.ansi
    for role in ("quiet", "faint", "calm", "line", "focus-line", "cursor", "cursor-dim"):
        assert PLAIN.variables[role] == "ansi_default"


def test_auto_is_plain_where_a_terminal_knows_few_colours() -> None:
    assert choose_theme(AUTO, few_colours=True) == PLAIN.name
    assert choose_theme(AUTO, few_colours=False) == DARK.name
    assert choose_theme("nord", few_colours=True) == "nord", "who asks for it gets it"


@pytest.mark.parametrize("theme", [AUTO, "arc-dark", "nord"])
@pytest.mark.pilot
async def test_without_colours_none_is_drawn_and_the_cursor_is_seen(
    theme: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    path = tmp_path / "arc.db"
    sample.put_runs(path)
    app = ArcApp(path, settings=Settings(theme=theme))
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        reversed_, coloured = set(), []
        for y, strip in enumerate(app.screen._compositor.render_strips()):
            for segment in strip.apply_filter(app._filters[-1], app.screen.background_colors[1]):
                style = segment.style
                if style is None:
                    continue
                coloured += [
                    (y, segment)
                    for colour in (style.color, style.bgcolor)
                    if colour is not None and not colour.is_default
                ]
                if style.reverse and segment.text.strip():
                    reversed_.add(y)
        assert not coloured
        assert 3 in reversed_, "the row of the cursor"


@pytest.mark.pilot
async def test_ctrl_t_goes_to_the_other_ground_and_back_to_what_was_set(tmp_path: Path) -> None:
    app = ArcApp(tmp_path / "arc.db", settings=Settings(theme="nord"))
    async with app.run_test() as pilot:
        await settle(pilot)
        await pilot.press("escape", "ctrl+t")
        assert app.theme == LIGHT.name
        await pilot.press("ctrl+t")
        assert app.theme == "nord"


@pytest.mark.pilot
@pytest.mark.parametrize(
    "way",
    ["", "P", "c", "space j equals_sign", "enter", "enter r", "enter B", "enter CHANGE escape"],
)
async def test_after_a_change_of_theme_nothing_keeps_the_colours_of_the_one_before(
    way: str, six_runs: Path
) -> None:
    there, _, back = way.partition("CHANGE")
    changed, begun = ArcApp(six_runs), ArcApp(six_runs, settings=Settings(theme=LIGHT.name))
    async with changed.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        await press(pilot, *there.split(), "ctrl+t", *back.split())
        under = styled(changed)
    async with begun.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        await press(pilot, *there.split(), *back.split())
        assert under == styled(begun)


def styled(app: ArcApp) -> list[list[Segment]]:
    """The screen's lines as they would be written."""
    return [list(strip.simplify()) for strip in app.screen._compositor.render_strips()]
