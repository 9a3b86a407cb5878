"""What rules and judges suggest for a step: a line each, the chosen one with its evidence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.text import Text
from textual import events
from textual.geometry import Size
from textual.reactive import reactive
from typing_extensions import override

from arc_tui import format
from arc_tui.widgets.bound import key_of
from arc_tui.widgets.cells import fit
from arc_tui.widgets.ink import Inked
from taxonomy.classes import Fault, class_label
from taxonomy.findings import Evidence, Finding

LOW = 30
"""Rows of a terminal below which less evidence is shown, and of many suggestions the nearest."""

NEAREST = 3

ROLE = 10
MEANT = 0.5
"""A finding that states a lower confidence is a hint, and says so."""


class SuggestionList(Inked):
    """No line where nothing is suggested. The key that accepts stands before the one it would."""

    ALLOW_SELECT = False
    INKS = {"key": "bold", "quiet": "$quiet"}

    place: reactive[int] = reactive(0, layout=True)

    def __init__(self, found: Sequence[Finding]) -> None:
        super().__init__()
        self._found = tuple(found)
        self.display = bool(found)

    @property
    def chosen(self) -> Finding | None:
        return self._found[self.place] if self._found else None

    def move(self, places: int) -> None:
        if self._found:
            self.place = (self.place + places) % len(self._found)

    def go_to(self, place: int) -> None:
        if place < len(self._found):
            self.place = place

    @override
    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return len(list(self._lines(width)))

    @property
    def _shown(self) -> range:
        """The places of those that are shown: where there is little room, those about the chosen
        one."""
        count = len(self._found)
        if self.app.size.height >= LOW or count <= NEAREST:
            return range(count)
        first = min(max(self.place - NEAREST // 2, 0), count - NEAREST)
        return range(first, first + NEAREST)

    @property
    def _most(self) -> int:
        """How many lines of evidence are shown, or one more."""
        if self.app.size.height >= LOW:
            return 4
        return 2 if len(self._found) <= NEAREST else 1

    def render(self) -> Text:
        return Text("\n").join(self._lines(self.content_size.width))

    def _lines(self, width: int) -> Iterator[Text]:
        key = self.ink("key")
        quiet = self.ink("quiet")
        several = len(self._found) > 1
        accept = key_of(self.screen, "tag.accept")
        for place in self._shown:
            found, here = self._found[place], place == self.place
            number = f"{place + 1} " if several and place < 9 else ""
            head = f"{accept if here else '':<7}{number}"
            line = Text.assemble((head, key), suggestion(found))
            line.truncate(width, overflow="ellipsis")
            yield line
            if here:
                said = evidence(found.evidence, self._most, width)
                yield from (Text(words, quiet) for words in said)
        if hidden := len(self._found) - len(self._shown):
            onward = key_of(self.screen, "tag.next")
            yield Text(f"{'':<7}… {hidden} more: {onward} goes on, a digit chooses", quiet)

    def on_click(self, event: events.Click) -> None:
        """A line of a suggestion chooses it; one of evidence belongs to the chosen."""
        below = evidence(self._found[self.place].evidence, self._most, self.content_size.width)
        evidence_lines = sum(1 for _ in below)
        place = self._shown.start + event.y - self.gutter.top
        if place > self.place:
            place = max(place - evidence_lines, self.place)
        self.go_to(place)


def suggestion(found: Finding) -> str:
    """A suggestion on one line: what, why, whose doing where it is not the agent's."""
    name = format.one_line(class_label(found.failure, found.sub))
    whose = f" · the {found.fault}'s doing" if found.fault not in (None, Fault.AGENT) else ""
    hint = " · a hint" if found.confidence is not None and found.confidence < MEANT else ""
    return f"{name}: {format.one_line(found.why)}{whose}{hint}"


def evidence(found: Sequence[Evidence], most: int, width: int) -> Iterator[str]:
    """What it rests on, a line each, and how much more there is."""
    shown = found if len(found) <= most + 1 else found[:most]
    for each in shown:
        place = f"  {format.one_line(each.place)}" if each.place else ""
        role, text = format.one_line(each.role), format.one_line(each.text)
        yield fit(f"{'':<7}{role:<{ROLE}} {text}{place}", width).rstrip()
    if len(found) > len(shown):
        yield f"{'':<7}… {len(found) - len(shown)} more under Why"
