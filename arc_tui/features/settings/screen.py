"""The settings screen: what is set and where it comes from, every key, and the themes.

The file of settings belongs to the person: it is edited in their own editor, and read again when
that ends, without a restart. Where it cannot be used then, a sentence says why and what was set
before stays. A theme that is chosen here holds until the app is left; `y` copies the lines that
keep it.

Settings and keys, a line each, and the themes to choose from.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.getters import query_one
from textual.message import Message
from textual.reactive import reactive
from textual.widgets import Static

from arc_tui.config import config_file, make
from arc_tui.features.settings.view import EMPTY, SettingsView, build_settings
from arc_tui.settings import Settings, read_settings
from arc_tui.ui import format
from arc_tui.ui.bindings import bind, pane_keys
from arc_tui.ui.editor import edit_file
from arc_tui.ui.format import fit
from arc_tui.ui.keys import KeyBar
from arc_tui.ui.list import RowList
from arc_tui.ui.screen import ArcScreen
from arc_tui.ui.styles import Headline
from arc_tui.ui.themes import AUTO, NAMES
from replay.errors import ArcError

GAP = 2

LEAST = 20
"""Cells that a column needs to be of use."""


class SettingList(RowList):
    """Rows of cells under a head: as wide as they need, the last one what is left. It is left out
    where that is too little to be read."""

    HELP = "the settings"
    HEAD = 1

    STYLES = {"name": "$foreground", "set": "bold $primary", "quiet": "$quiet"}

    head: reactive[Sequence[str]] = reactive((), repaint=False)
    table: reactive[Sequence[Sequence[str]]] = reactive((), repaint=False)
    marked: reactive[frozenset[int]] = reactive(frozenset())
    """Rows that are not as they are by default."""

    @property
    def row_count(self) -> int:
        return len(self.table)

    @property
    def row(self) -> Sequence[str]:
        """The cells under the cursor, whole."""
        return self.table[self.cursor] if self.table else ()

    def watch_table(self) -> None:
        self.rows_changed()

    def draw(self, index: int, width: int) -> Text:
        first, *rest = self._cells(self.table[index], width)
        mark = "● " if index in self.marked else "  "
        style = "set" if index in self.marked else "name"
        line = Text.assemble(mark, (first, self.style_of(style)))
        for cell in rest:
            line.append(" " * GAP + cell)
        return line

    def draw_head(self, line: int, width: int) -> Text:
        del line
        return Text("  " + (" " * GAP).join(self._cells(self.head, width)))

    def _cells(self, row: Sequence[str], width: int) -> list[str]:
        wide = self._widths(width - GAP)
        return [fit(format.one_line(text), cells) for text, cells in zip(row, wide, strict=False)]

    def _widths(self, width: int) -> list[int]:
        """Of the columns, as far as there is room: the widest but the last gives way."""
        columns = zip(self.head, *self.table, strict=True)
        needed = [max(map(len, column)) for column in columns]
        while len(needed) > 2 and _last_width(needed, width, give_way=True) < min(
            needed[-1], LEAST
        ):
            needed.pop()
        fixed = needed[:-1]
        short = min(needed[-1], LEAST) - _last_width(needed, width)
        if short > 0:
            fixed[fixed.index(max(fixed))] = max(max(fixed) - short, LEAST)
        return [*fixed, max(_last_width([*fixed, 0], width), 0)]


def _last_width(needed: Sequence[int], width: int, *, give_way: bool = False) -> int:
    """Cells for the last column beside the others, of which the widest may `give_way`."""
    fixed = needed[:-1]
    spare = max(max(fixed) - LEAST, 0) if give_way else 0
    return width - sum(fixed) - GAP * len(fixed) + spare


class ThemeList(RowList):
    """Names of themes, the one that is in use marked."""

    HELP = "the themes"

    STYLES = {"used": "bold $primary"}

    BINDINGS = [
        bind("enter", "use", id="settings.theme", label="use it",
             tooltip="Use the theme under the cursor until you quit arc"),
    ]  # fmt: skip

    names: reactive[Sequence[str]] = reactive((), repaint=False)
    used: reactive[str] = reactive("")

    class Chosen(Message):
        """A theme is to be used."""

        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

    @property
    def row_count(self) -> int:
        return len(self.names)

    @property
    def name_here(self) -> str:
        """The theme under the cursor."""
        return self.names[self.cursor]

    def watch_names(self) -> None:
        self.rows_changed()

    def draw(self, index: int, width: int) -> Text:
        name = self.names[index]
        if name == self.used:
            return Text(fit(f"● {name}", width), self.style_of("used"))
        return Text(fit(f"  {name}", width))

    def action_use(self) -> None:
        self.post_message(self.Chosen(self.name_here))

    def on_click(self, event: events.Click) -> None:
        if self.row_at(event.y - self.gutter.top) is not None:
            self.action_use()


THEMES = tuple(name for name in NAMES if name != AUTO)


class SettingsScreen(ArcScreen):
    """Settings or keys at the left, themes at the right."""

    CSS_PATH = "screen.tcss"
    HELP = "settings"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (100, "-wide")]

    BINDINGS = [
        bind("e", "edit", id="settings.edit", label="edit the file",
             tooltip="Open the file in your editor, then apply it; make it where there is none"),
        bind("v", "keys", id="settings.keys", label="settings or keys",
             tooltip="Show the keys of every screen with their ids, or the settings again"),
        bind("^r", "refresh", id="settings.refresh", tooltip="Read the file again"),
        bind("y", "copy", id="settings.copy",
             tooltip="Copy the line under the cursor as it stands in the file"),
        *pane_keys("settings", "Switch between the settings and the themes"),
        bind("esc", "back", id="settings.back", tooltip="Back to where you were"),
    ]  # fmt: skip

    view: reactive[SettingsView] = reactive(EMPTY, repaint=False)
    picked: reactive[str | None] = reactive(None, repaint=False, init=False)
    all_keys: reactive[bool] = reactive(False, repaint=False)

    settings = query_one(SettingList)
    themes = query_one(ThemeList)

    class ThemePicked(Message):
        """A theme is to be used until the app is left."""

        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

    class Reread(Message):
        """The file was read again, and can be used."""

        def __init__(self, settings: Settings) -> None:
            super().__init__()
            self.settings = settings

    def __init__(self, path: Path, using: Settings, picked: str | None) -> None:
        """`picked` is the theme that was chosen in the app, if one was."""
        super().__init__(path)
        self._using = using
        self.set_reactive(SettingsScreen.picked, picked)

    def compose(self) -> ComposeResult:
        yield Headline(id="head")
        with Horizontal(id="body"):
            yield SettingList(id="settings")
            yield ThemeList(id="themes")
        yield Static(id="foot", markup=False)
        yield KeyBar()

    def on_mount(self) -> None:
        self.themes.border_title = "theme"
        self.themes.names = THEMES
        self._use(self.app.theme)
        self.settings.focus()
        self._build()

    def _build(self) -> None:
        self.view = build_settings(theme=self.picked)
        self.refresh_bindings()

    def _use(self, theme: str) -> None:
        self.themes.used = theme
        self.themes.cursor = THEMES.index(theme)

    def watch_view(self) -> None:
        head = self.query_one("#head", Headline)
        there = "" if self.view.exists else "  does not exist yet"
        head.left = Text(f" settings   {format.plain(self.view.file)}{there}")
        head.right = Text(self.view.trouble or "", "bold")
        self._list()

    def watch_all_keys(self) -> None:
        if self.view is not EMPTY:
            self._list()
            self.refresh_bindings()

    def _list(self) -> None:
        rows = self.settings
        if self.all_keys:
            from arc_tui.ui.keymap import bound, by_place

            rows.border_title = "keys"
            rows.head = ("id", "keys", "action", "where")
            own = {name: tuple(keys.split(",")) for name, keys in self._using.keymap.items()}
            rows.table = [
                (each.id, " ".join(own.get(each.id, each.keys)), each.does, each.where)
                for each in by_place(bound().values())
            ]
            rows.marked = frozenset(at for at, row in enumerate(rows.table) if row[0] in own)
        else:
            rows.border_title = "settings"
            rows.head = ("setting", "value", "origin", "meaning")
            found = self.view.settings
            rows.table = [(each.name, each.value, each.origin, each.means) for each in found]
            rows.marked = frozenset(at for at, each in enumerate(found) if each.origin != "default")
        self._tell_all()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        match action:
            case _:
                return True

    def on_row_list_moved(self, event: RowList.Moved) -> None:
        """The theme under the cursor is tried at once, on everything."""
        if event.rows is self.settings:
            self._tell_all()
        elif self.themes.has_focus:
            self.app.theme = self.themes.name_here

    def _tell_all(self) -> None:
        """Below the list, the row under the cursor as long as it is."""
        row = self.settings.row
        means = row[2:] if self.all_keys else row[-1:]
        words = f"{row[0]} = {row[1]}\n{' · '.join(means)}" if row else ""
        self.query_one("#foot", Static).update(Text(format.plain(words)))

    def on_descendant_blur(self, event: events.DescendantBlur) -> None:
        """What was only tried is not used."""
        if event.widget is self.themes:
            self.app.theme = self.themes.used
            self.themes.cursor = THEMES.index(self.themes.used)

    def on_theme_list_chosen(self, event: ThemeList.Chosen) -> None:
        self.picked = event.name
        self.app.theme = event.name
        self._use(event.name)
        self.post_message(self.ThemePicked(event.name))
        copies = self.key_of("settings.copy")
        self.say(f"{event.name} until you quit. {copies} copies the setting that keeps it")
        self._build()

    def action_keys(self) -> None:
        self.all_keys = not self.all_keys

    def action_edit(self) -> None:
        """Edit the file of settings; where there is none, one with all it may say as comments."""
        try:
            if not self.view.exists:
                make(config_file())
            edit_file(self.app, config_file())
        except ArcError as error:
            self.show_error(error)
        self.action_refresh()

    def action_refresh(self) -> None:
        """What the file says now, unless it cannot be used: then all stays as it was."""
        try:
            found = read_settings()
        except ArcError as error:
            self.show_error(error)
            return
        if found.theme != self._using.theme:
            self.picked = None
        self._using = found
        self.post_message(self.Reread(found))
        self._build()

    def action_pane(self) -> None:
        pane = self.settings if self.themes.has_focus else self.themes
        pane.focus()

    def action_copy(self) -> None:
        """The line under the cursor, or the theme that is in use, as the file has it."""
        if self.themes.has_focus or self.all_keys:
            lines = self._line_of_theme() if self.themes.has_focus else self._line_of_key()
        else:
            lines = self._line_of_setting()
        self.app.copy_to_clipboard(lines)
        self.say(f"Copied: {lines}")

    def _line_of_theme(self) -> str:
        return f'[app]\ntheme = "{self.themes.used}"'

    def _line_of_key(self) -> str:
        name, keys, *_ = self.settings.row
        return f'[keys]\n{name} = "{keys.replace(" ", ",")}"'

    def _line_of_setting(self) -> str:
        found = self.view.settings[self.settings.cursor]
        return f"{found.name} = {found.value}"

    def action_back(self) -> None:
        if self.themes.has_focus:
            self.settings.focus()
        else:
            self.dismiss()
