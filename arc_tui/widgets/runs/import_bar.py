"""How far an import is: the file it reads, the traces so far, and how to stop it."""

from __future__ import annotations

from pathlib import PurePath

from rich.text import Text
from textual.reactive import reactive

from arc_tui import format
from arc_tui.widgets.bound import stops
from arc_tui.widgets.cells import spread
from arc_tui.widgets.ink import Inked

BAR = 20


class ImportBar(Inked):
    """One line at the foot of the list, there only while an import runs."""

    ALLOW_SELECT = False
    INKS = {"done": "$primary", "left": "$faint"}

    done: reactive[int] = reactive(0)
    total: reactive[int] = reactive(0)
    path: reactive[str] = reactive("")
    traces: reactive[int] = reactive(0)
    stopping: reactive[bool] = reactive(False)

    def render(self) -> Text:
        full = round(BAR * self.done / self.total) if self.total else 0
        line = Text.assemble(
            ("━" * full, self.ink("done")),
            ("━" * (BAR - full), self.ink("left")),
            f"  {self._what()} · {format.count(self.traces, 'trace')} so far",
        )
        ends = stops(self.screen, "runs.back", stopping=self.stopping)
        return spread(line, Text(ends), self.size.width)

    def _what(self) -> str:
        if self.path == "diagnosis":
            return f"looking for breaks, {self.done} of {self.total}"
        name = format.cut(format.one_line(PurePath(self.path).name or self.path), 40)
        return f"importing {name}, file {self.done + 1} of {max(self.total, 1)}"
