"""A stub: what a call would have got, as a person knows or decides it."""

from __future__ import annotations

import msgspec
from msgspec import structs
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical, VerticalScroll
from textual.getters import query_one
from textual.screen import ModalScreen
from textual.widgets import Static

from arc_tui.experiments.dialogs import Tick
from arc_tui.experiments.edit_widgets import PromptArea, as_edited
from arc_tui.ui import format
from arc_tui.ui.document import laid_out_json
from arc_tui.ui.key_names import key_of, write_keys
from replay.free.recorded_results import Stub

UNHEARD = "This tool was never answered in the recording: write what it would have said."
STILL = "This is still all from"
AGAIN = "‹stub.take› again takes it as it is."


class StubBox(ModalScreen[Stub | None]):
    """The stub as it is to be kept; None where it is left.

    `origin` names the recorded call whose result stands there to begin with, "" for none; `yours`
    tells that it is a stub written before.
    """

    CSS_PATH = "../../ui/dialogs.tcss"
    HELP = "a stub"

    BINDINGS = [
        Binding("ctrl+s,f5", "take", "go on with it", id="stub.take", priority=True,
                tooltip="Keep the stub and let the run go on"),
        Binding("escape", "leave", "leave", id="stub.leave", show=False,
                tooltip="Close and keep nothing"),
    ]  # fmt: skip

    area = query_one(PromptArea)
    whence = query_one("#whence", Static)
    tick = query_one(Tick)

    def __init__(self, stub: Stub, origin: str = "", *, yours: bool = False) -> None:
        super().__init__()
        self._stub = stub
        self._origin = origin
        self._yours = yours
        self._warned = False

    def compose(self) -> ComposeResult:
        with Vertical(id="stub"):
            with VerticalScroll(id="call", can_focus=False):
                yield Static(Text(self._call))
            yield Static(Text(self._whence), id="whence")
            yield PromptArea(id="result")
            yield Tick("space: it is an error", self._stub.is_error, compact=True)
            take, leave = key_of(self, "stub.take"), key_of(self, "stub.leave")
            keys = f"{take} goes on with it   tab next   {leave} leaves"
            yield Static(Text(keys), id="keys")

    def on_mount(self) -> None:
        title = f"a stub: what {format.one_line(self._stub.tool)} would have said"
        self.query_one("#stub").border_title = Text(title)
        self.area.open("result", self._stub.result)
        self.area.focus()

    @property
    def _call(self) -> str:
        arguments = msgspec.json.encode(self._stub.arguments).decode()
        return format.plain(f"{self._stub.tool}\n{laid_out_json(arguments) or arguments}")

    @property
    def _whence(self) -> str:
        """Where the text in the editor comes from."""
        if self._yours:
            return "This is what you wrote."
        if not self._origin:
            return UNHEARD
        return f"The text is from {format.one_line(self._origin)}: make it true of this call."

    def action_take(self) -> None:
        """Keep it; what another call got, only when that is said twice."""
        as_it_is = self.area.text == as_edited(self._stub.result)
        if as_it_is and self._origin and not self._warned:
            self._warned = True
            again = write_keys(self, AGAIN)
            self.whence.update(Text(f"{STILL} {format.one_line(self._origin)}: {again}"))
            return
        result = self._stub.result if as_it_is else self.area.text
        self.dismiss(structs.replace(self._stub, result=result, is_error=self.tick.value))

    def action_leave(self) -> None:
        self.dismiss(None)
