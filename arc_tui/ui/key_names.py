"""How a key is written, for whoever names one in a sentence: as a person has set it."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from msgspec import structs
from textual.binding import Binding
from textual.screen import Screen

from arc_tui.ui.document import NAMED, Document, HintBlock

NO_LETTER = re.compile(r"f\d+|\w+\+\w+|escape")
"""A key that does the same while letters are typed."""


def write_keys(screen: Screen[Any], words: str, *, typing: bool = False) -> str:
    """Words with the keys that they name by ids; `typing`: those that work in an editor too."""

    def key(found: re.Match[str]) -> str:
        written = key_of(screen, found["id"], found["otherwise"] or "", typing=typing)
        return written or found[0]

    return NAMED.sub(key, words)


def key_of(screen: Screen[Any], name: str, otherwise: str = "", *, typing: bool = False) -> str:
    """The first key of the binding of that id, as it is written, whether it does something just
    now or not; `typing`: the shortest that is no letter, where there is one. Of a binding that
    neither the screen nor what has the focus there has: the key that was set for it, else
    `otherwise`."""
    own = _bindings(screen, name)
    keys = screen.app._keymap.get(name)
    found = [Binding(key, "") for key in (keys or otherwise).split(",") if key]
    if own and keys is None:
        found = own
    if not found:
        return ""
    binding = min(found, key=_typing_rank) if typing else found[0]
    several = " " in (binding.key_display or "")
    return screen.app.get_key_display(replace(binding, key_display=None) if several else binding)


def _bindings(screen: Screen[Any], name: str) -> list[Binding]:
    """Those of that id, a key each, also where a line that is typed in takes letters away."""
    focused = screen.focused
    nodes = (screen, screen.app) if focused is None else focused.ancestors_with_self
    for node in nodes:
        found = [each for _, each in node._bindings if each.id == name]
        if found:
            return found
    return []


def stops(screen: Screen[Any], name: str, *, stopping: bool) -> str:
    """What ends a line of progress: the key of that id that stops it, or that it was pressed."""
    return "stopping" if stopping else f"{key_of(screen, name)} stops"


def _typing_rank(binding: Binding) -> tuple[bool, int]:
    """Keys that are no letters first, short ones before long ones."""
    letter = NO_LETTER.fullmatch(binding.key) is None
    return letter, 0 if letter else len(binding.key)


def with_keys(screen: Screen[Any], document: Document) -> Document:
    """The page with the keys that are set on that screen."""
    return tuple(
        structs.replace(
            item,
            text=write_keys(screen, item.text),
            label=write_keys(screen, item.label),
            aside=write_keys(screen, item.aside),
        )
        if isinstance(item, HintBlock)
        else item
        for item in document
    )
