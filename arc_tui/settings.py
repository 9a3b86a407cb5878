"""The settings as the app takes them: the file, held against the keys, themes and columns there
are."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path

from msgspec import Struct

from arc_tui.config import (
    BadConfig,
    RedactConfig,
    config_file,
    read_config,
    read_owners,
    read_redaction,
)
from arc_tui.ui.themes import DARK, NAMES
from arc_tui.views.columns import SETS
from taxonomy.playbook import NO_PLAYBOOK


class Settings(Struct, frozen=True, kw_only=True):
    """How the app looks, and the keys that are not as they are by default, by their ids.

    By itself it says what holds where nobody looked for a file, nor at the terminal.
    """

    theme: str = DARK.name
    columns: str = "why"
    mouse: bool = True
    keymap: dict[str, str] = {}


BY_DEFAULT = Settings()


def read_settings(file: Path | None = None) -> Settings:
    """What the file says (the usual one unless given), checked to the end. Raises BadConfig."""
    file = file or config_file()
    found = read_config(file)
    read_owners(file, NO_PLAYBOOK)
    if found.redact != RedactConfig():
        read_redaction(file)  # compiles every rule there is
    _one_of(file, "theme", found.app.theme, NAMES)
    _one_of(file, "columns", found.app.columns, SETS)
    keymap = found.keymap
    if keymap:
        from arc_tui.ui.keymap import BadKeys, check_keymap

        try:
            keymap = check_keymap(keymap)
        except BadKeys as error:
            raise BadConfig(f"{file}: [keys] {error.message}", error.hint) from error
    return Settings(
        theme=found.app.theme, columns=found.app.columns, mouse=found.app.mouse, keymap=keymap
    )


def _one_of(file: Path, name: str, given: str, known: Iterable[str]) -> None:
    names = list(known)
    if given not in names:
        near = get_close_matches(given, names, n=1)
        meant = f", did you mean '{near[0]}'?" if near else ""
        hint = "" if near else f"known: {', '.join(names)}"
        raise BadConfig(f"{file}: [app] unknown {name} '{given}'{meant}", hint)
