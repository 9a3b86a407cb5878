"""The cursor on a run that a query means, as soon as the list has it."""

from __future__ import annotations

from textual.getters import query_one
from textual.message import Message

from arc_tui.screens.base import ArcScreen
from arc_tui.views.runs.view import first_meant
from arc_tui.widgets.runs.table import RunTable


class Seeking(ArcScreen):
    """A part of the runs screen, which seeks again whenever it has read its runs."""

    _sought: str = ""

    table = query_one(RunTable)

    class Sought(Message):
        """The run was looked for; `trace` is "" where there is none yet."""

        def __init__(self, trace: str) -> None:
            super().__init__()
            self.trace = trace

    def stand_on(self, query: str) -> None:
        """Put the cursor on the first run that a query means, now or once it was imported."""
        self._sought = query
        self.seek()

    def seek(self) -> None:
        sought = self._sought
        if sought:
            self.ask(lambda store: first_meant(store, sought), self.Sought, group="seek")

    def on_seeking_sought(self, event: Sought) -> None:
        if event.trace and self.table.stand_on(event.trace):
            self._sought = ""
