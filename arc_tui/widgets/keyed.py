"""A line of a page that names keys: by the ids of their bindings until it is shown."""

from __future__ import annotations

from typing import Any

from msgspec import structs
from textual.screen import Screen

from arc_tui.widgets.bound import keyed
from arc_tui.widgets.document import Document, Keyed


def with_keys(screen: Screen[Any], document: Document) -> Document:
    """The page with the keys that are set on that screen."""
    return tuple(
        structs.replace(
            item,
            text=keyed(screen, item.text),
            label=keyed(screen, item.label),
            aside=keyed(screen, item.aside),
        )
        if isinstance(item, Keyed)
        else item
        for item in document
    )
