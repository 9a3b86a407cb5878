"""A run that is marked, and others laid beside it."""

from __future__ import annotations

from textual.getters import query_one
from textual.message import Message
from textual.reactive import reactive

from arc_tui.screens.base import ArcScreen
from arc_tui.widgets.runs.table import RunTable


class Marking(ArcScreen):
    """Actions of the runs screen."""

    marked: reactive[str] = reactive("", repaint=False)
    """The run that others are compared with, "" for none."""

    table = query_one(RunTable)

    class Marked(Message):
        """Another run is marked, or "" none."""

        def __init__(self, trace: str) -> None:
            super().__init__()
            self.trace = trace

    class CompareWanted(Message):
        """The run is to be laid beside another."""

        def __init__(self, trace: str) -> None:
            super().__init__()
            self.trace = trace

    def action_mark(self) -> None:
        self.marked = "" if self.table.at == self.marked else self.table.at
        self.post_message(self.Marked(self.marked))
        if self.marked:
            self.say(f"marked; {self.key_of('runs.compare')} on another run compares the two")

    def action_compare(self) -> None:
        if self.table.at:
            self.post_message(self.CompareWanted(self.table.at))
        else:
            shown = f"{self.key_of('runs.back')} shows all runs"
            self.say(f"no run here to compare; {shown}, {self.key_of('runs.here')} opens others")
