"""How a key is written, for whoever names one in a sentence: as a person has set it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from textual.binding import Binding
from textual.screen import Screen


def key_of(screen: Screen[Any], name: str, otherwise: str = "") -> str:
    """The first key of the binding of that id, as it is written, whether it does something just
    now or not. Of a binding that neither the screen nor what has the focus there has: the key that
    was set for it, else `otherwise`."""
    for _, bindings in screen._binding_chain:
        for _, binding in bindings:
            if binding.id == name:
                several = " " in (binding.key_display or "")
                one = replace(binding, key_display=None) if several else binding
                return screen.app.get_key_display(one)
    keys = screen.app._keymap.get(name, otherwise)
    return screen.app.get_key_display(Binding(keys.split(",")[0], "")) if keys else ""
