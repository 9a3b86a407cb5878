"""How keys are shown, as a person has set them: in a sentence, and on the last line of a screen.

That line is drawn from the live bindings: as many as fit, the most useful first, help always. A
click on a key presses it, one on `…` lists those that do not fit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from msgspec import Struct, structs
from rich.style import Style
from rich.text import Text
from textual import events
from textual.binding import ActiveBinding, Binding
from textual.dom import DOMNode
from textual.screen import Screen

from arc_tui.ui.bindings import MOVES
from arc_tui.ui.document import NAMED, Document, HintBlock
from arc_tui.ui.styles import StyledWidget

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
    now or not; `typing`: the first that is no letter, where there is one. Of a binding that
    neither the screen nor what has the focus there has: the key that was set for it, else
    `otherwise`."""
    own = _bindings(screen, name)
    keys = screen.app._keymap.get(name)
    found = [Binding(key, "") for key in (keys or otherwise).split(",") if key]
    if own and keys is None:
        found = own
    if not found:
        return ""
    binding = min(found, key=_is_letter) if typing else found[0]
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
    return "stopping" if stopping else f"{key_of(screen, name)} stop"


def _is_letter(binding: Binding) -> bool:
    """Would the key be typed in a text?"""
    return NO_LETTER.fullmatch(binding.key) is None


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


HELP, PALETTE, QUIT, MORE = "help", "app.palette_anywhere", "app.quit", "…"
GAP = "  "


class Hint(Struct, frozen=True, kw_only=True):
    """What a place of the bar says (`shown` before its words) and the key a click presses."""

    shown: str
    words: str
    key: str
    last: bool

    @property
    def width(self) -> int:
        return len(f"{self.shown} {self.words}".rstrip())


class KeyBar(StyledWidget):
    """The footer."""

    ALLOW_SELECT = False
    STYLES = {"key": "bold $primary", "words": "$quiet"}

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, self._redraw)

    def _redraw(self, screen: Screen[object]) -> None:
        if self.is_attached and screen is self.screen:
            self.refresh()

    def render(self) -> Text:
        key = self.style_of("key")
        words = self.style_of("words")
        line = Text()
        for hint, at in self._place_hints():
            line.append(" " * (at - len(line)))
            line.append_text(_hint(hint, key, words))
        return line

    def on_click(self, event: events.Click) -> None:
        for hint, at in self._place_hints():
            if at <= event.x - self.gutter.left < at + hint.width:
                self.app.simulate_key(hint.key)

    def _place_hints(self) -> Iterator[tuple[Hint, int]]:
        """The hints with their columns: what fits from the left, help at the right end."""
        width = self.content_size.width
        active = list(self.screen.active_bindings.values())
        hints = list(self._hints(active))
        last = [hint for hint in hints if hint.last]
        first = [hint for hint in hints if not hint.last]
        end = width - sum(hint.width + len(GAP) for hint in last)
        more = _more(active) if sum(hint.width + len(GAP) for hint in first) > end else None
        room = end if more is None else end - more.width - len(GAP)
        at = 0
        for hint in first:
            if at + hint.width <= room:
                yield hint, at
                at += hint.width + len(GAP)
        if more is not None:
            yield more, at
        at = max(end + len(GAP), at)
        for hint in last:
            yield hint, at
            at += hint.width + len(GAP)

    def _hints(self, active: Sequence[ActiveBinding]) -> Iterator[Hint]:
        """One hint an action that shows, by its first key, keys of one group together."""
        by_name: dict[str, list[Binding]] = {}
        for each in sorted(active, key=_rank(active)):
            binding = each.binding
            if not binding.show or not each.enabled:
                continue
            name = binding.group.description if binding.group else binding.description
            found = by_name.setdefault(name, [])
            if all(other.action != binding.action for other in found):
                found.append(binding)
        for name, found in by_name.items():
            shown = "/".join(map(self.app.get_key_display, found))
            yield Hint(shown=shown, words=name, key=found[0].key, last=name == HELP)


def _more(active: Iterable[ActiveBinding]) -> Hint | None:
    """What stands for the hints that have no room: a list of all that can be done here."""
    for each in active:
        if each.binding.id == PALETTE:
            return Hint(shown=MORE, words="", key=each.binding.key, last=False)
    return None


def _rank(
    active: Iterable[ActiveBinding],
) -> Callable[[ActiveBinding], tuple[bool, bool, bool, int, int]]:
    """The places of bindings: first what takes its key from others for now, then those of a node
    together, as they are declared there, whatever keys a person has set for them. The moves that
    everyone tries first are named last, before quit."""
    nodes: dict[DOMNode, int] = {}
    places: dict[tuple[DOMNode, str | None], int] = {}
    for each in active:
        node = each.node
        if node not in nodes:
            nodes[node] = len(nodes)
            for base in reversed(type(node).__mro__):
                for binding in vars(base).get("BINDINGS", ()):
                    places.setdefault((node, getattr(binding, "id", None)), len(places))
    return lambda each: (
        not each.binding.priority or each.binding.id == QUIT,
        each.binding.id == QUIT,
        each.binding.id in MOVES,
        nodes[each.node],
        places.get((each.node, each.binding.id), len(places)),
    )


def _hint(hint: Hint, key: Style, words: Style) -> Text:
    return Text.assemble((hint.shown, key), " ", (hint.words, words))
