"""The ways from a run to what can be asked of it: a replay, a bisection, its money, another run.

What a person asked for is posted, with the step under the cursor; the app pushes the screen.
"""

from __future__ import annotations

from textual.message import Message

from arc_tui.screens.trace.copying import Copying


class Leaving(Copying):
    """Actions of the trace screen."""

    class CompareWanted(Message):
        """The run is to be laid beside another."""

        def __init__(self, trace: str) -> None:
            super().__init__()
            self.trace = trace

    class ReplayWanted(Message):
        """The model is to be asked again; with `edit`, after what it was told was edited."""

        def __init__(self, trace: str, step: int, *, edit: bool = False) -> None:
            super().__init__()
            self.trace = trace
            self.step = step
            self.edit = edit

    class FreeWanted(Message):
        """The agent is to run on by itself from a step."""

        def __init__(self, trace: str, step: int) -> None:
            super().__init__()
            self.trace = trace
            self.step = step

    class BisectWanted(Message):
        """It is asked which edit made a step go wrong."""

        def __init__(self, trace: str, step: int) -> None:
            super().__init__()
            self.trace = trace
            self.step = step

    class StepsWanted(Message):
        """It is asked at which step belief left the world."""

        def __init__(self, trace: str, step: int) -> None:
            super().__init__()
            self.trace = trace
            self.step = step

    class MoneyWanted(Message):
        """It is asked where the money of the run went."""

        def __init__(self, trace: str) -> None:
            super().__init__()
            self.trace = trace

    def action_edit(self) -> None:
        self.post_message(self.ReplayWanted(self.trace, self.spans.step, edit=True))

    def action_replay(self) -> None:
        self.post_message(self.ReplayWanted(self.trace, self.spans.step))

    def action_free(self) -> None:
        self.post_message(self.FreeWanted(self.trace, self.spans.step))

    def action_bisect(self) -> None:
        self.post_message(self.BisectWanted(self.trace, self.spans.step))

    def action_bisect_steps(self) -> None:
        self.post_message(self.StepsWanted(self.trace, self.spans.step))

    def action_compare(self) -> None:
        self.post_message(self.CompareWanted(self.trace))

    def action_money(self) -> None:
        self.post_message(self.MoneyWanted(self.trace))
