"""How often, and in which order, is each request asked? One line and, for a server, a list."""

from __future__ import annotations

from msgspec import structs
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.getters import query_one
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from arc_tui.views.wish import Wish, levels_meaning, levels_of, levels_words
from arc_tui.widgets.ask_box import Choices, Option
from arc_tui.widgets.attach_box import Tick
from arc_tui.widgets.bound import key_of
from replay.errors import BadEdit
from replay.locked.sampling import Schedule

SCHEDULES: dict[Schedule, str] = {
    "cheap": "step after step, so that a provider's prefix cache is read",
    "fast": "all at once",
    "batch": "as one batch of the provider: half the price, within a day",
}


class SamplesBox(ModalScreen[Wish | None]):
    """The wish with other samples; None where it is left. `live` offers the order of the calls."""

    CSS_PATH = "../dialogs.tcss"
    HELP = "samples"

    BINDINGS = [
        Binding("enter", "take", "take", id="samples.take", show=False, priority=True,
                tooltip="Ask so from now on"),
        Binding("escape", "leave", "leave", id="samples.leave", show=False,
                tooltip="Close and leave it as it was"),
    ]  # fmt: skip

    line = query_one(Input)
    meaning = query_one("#meaning", Static)

    def __init__(self, wish: Wish, *, live: bool) -> None:
        super().__init__()
        self._wish = wish
        self._live = live

    def compose(self) -> ComposeResult:
        with Vertical(id="samples"):
            yield Static("how many samples of each arm: auto, or a number", markup=False)
            yield Input(levels_words(self._wish.sampling.levels), compact=True)
            yield Static(id="meaning", markup=False)
            if self._live:
                yield Static("in which order", classes="part", markup=False)
                yield Choices([Option(each, words) for each, words in SCHEDULES.items()])
            yield Tick("space: ask afresh, what is kept stays", self._wish.resample, compact=True)
            take, leave = key_of(self, "samples.take"), key_of(self, "samples.leave")
            keys = f"tab next line   {take} takes it   {leave} leaves"
            yield Static(keys, id="keys", markup=False)

    def on_mount(self) -> None:
        self.query_one("#samples").border_title = "how often to ask"
        for choices in self.query(Choices):
            choices.cursor = list(SCHEDULES).index(self._wish.sampling.schedule)

    def on_input_changed(self, event: Input.Changed) -> None:
        """Say what so many samples mean, or why they are none."""
        event.stop()
        try:
            said = levels_meaning(levels_of(event.value))
        except BadEdit as error:
            said = error.message
        self.meaning.update(Text(said))

    def action_take(self) -> None:
        try:
            levels = levels_of(self.line.value)
        except BadEdit:
            return
        schedule: Schedule = "cheap"
        for choices in self.query(Choices):
            schedule = list(SCHEDULES)[choices.cursor]
        sampling = structs.replace(self._wish.sampling, levels=levels, schedule=schedule)
        resample = self.query_one(Tick).value
        self.dismiss(structs.replace(self._wish, sampling=sampling, resample=resample))

    def action_leave(self) -> None:
        self.dismiss(None)
