"""How far an import is: the file it reads, the traces so far, and how to stop it."""

from __future__ import annotations

from pathlib import PurePath

from rich.text import Text
from textual.reactive import reactive
from textual.widget import Widget

from arc_tui import format
from arc_tui.widgets.cells import spread

BAR = 20


class ImportBar(Widget):
    """One line at the foot of the list, there only while an import runs."""

    ALLOW_SELECT = False
    COMPONENT_CLASSES = {"import-bar--done", "import-bar--left"}

    done: reactive[int] = reactive(0)
    total: reactive[int] = reactive(0)
    path: reactive[str] = reactive("")
    traces: reactive[int] = reactive(0)
    stopping: reactive[bool] = reactive(False)

    def render(self) -> Text:
        full = round(BAR * self.done / self.total) if self.total else 0
        line = Text.assemble(
            ("━" * full, self.get_component_rich_style("import-bar--done", partial=True)),
            ("━" * (BAR - full), self.get_component_rich_style("import-bar--left", partial=True)),
            f"  {self._what()} · {format.count(self.traces, 'trace')} so far",
        )
        return spread(line, Text("stopping" if self.stopping else "esc stops"), self.size.width)

    def _what(self) -> str:
        if self.path == "diagnosis":
            return f"looking for breaks, {self.done} of {self.total}"
        name = format.cut(format.one_line(PurePath(self.path).name or self.path), 40)
        return f"importing {name}, file {self.done + 1} of {max(self.total, 1)}"
