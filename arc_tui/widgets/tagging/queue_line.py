"""The first line of a run that is opened from the queue: where in it, and the keys that go on."""

from __future__ import annotations

from rich.text import Text
from textual.geometry import Size
from textual.reactive import reactive

from arc_tui.widgets.bound import key_of
from arc_tui.widgets.cells import spread
from arc_tui.widgets.ink import Inked

TAG, NONE, SKIP = "trace.tag", "queue.clear", "queue.skip"
UNDO, TURN, LEAVE = "trace.undo", "queue.blind", "trace.back"
"""The ids of the keys that go on."""

KEYS = (
    ((TAG, "tag"), (NONE, "nothing wrong"), (SKIP, "skip"), (TURN, "{other}"), (LEAVE, "leaves")),
    ((TAG, "tag"), (NONE, "none"), (SKIP, "skip"), (TURN, "{other}")),
)
GO_ON = (
    ((SKIP, "next"), (UNDO, "take back"), (TURN, "{other}"), (LEAVE, "leaves")),
    ((SKIP, "next"), (UNDO, "take back")),
)
"""The keys before a blind word was given or without one, and after it; shorter for less room."""


class QueueLine(Inked):
    """Place and reason; once a blind word was given, what others said beside it."""

    ALLOW_SELECT = False
    INKS = {"place": "bold $primary", "quiet": "$quiet", "same": "$good", "other": "$warning"}

    place: reactive[str] = reactive("")
    blind: reactive[bool] = reactive(False)
    compared: reactive[tuple[str, ...]] = reactive((), layout=True)
    agreed: reactive[bool] = reactive(False)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        del container, viewport, width
        return 1 + len(self.compared)

    def render(self) -> Text:
        width = self.content_size.width
        place = Text(f" {self.place}", self.ink("place"))
        lines = [
            spread(place, Text(self._keys(width - place.cell_len - 2), self.ink("quiet")), width)
        ]
        for words in self.compared:
            line = Text(f" {words}", self.ink("same" if self.agreed else "other"))
            line.truncate(width, overflow="ellipsis")
            lines.append(line)
        return Text("\n").join(lines)

    def _keys(self, room: int) -> str:
        """As much about the keys as has room."""
        other = "not blind" if self.blind else "blind"
        for hints in GO_ON if self.compared else KEYS:
            named = (f"{key_of(self.screen, name)} {words}" for name, words in hints)
            said = "  ".join(named).format(other=other) + " "
            if len(said) <= room:
                return said
        return ""
