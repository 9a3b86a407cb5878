"""Dialogs of screens that ask models: samples and order, files for what a source did not record."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

from msgspec import Struct, structs
from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.getters import query_one
from textual.screen import ModalScreen
from textual.widgets import Checkbox, Input, Static

from arc_tui.experiments.request import (
    ReplayRequest,
    levels_meaning,
    levels_of,
    levels_words,
    limits_of,
)
from arc_tui.importing import attach_to, supplement
from arc_tui.ui import format
from arc_tui.ui.dialogs import Choices, Option, ask_until_read
from arc_tui.ui.keys import key_of
from replay.budget import Limits
from replay.edit.changes import describe
from replay.errors import BadEdit
from replay.locked.row import Schedule
from replay.models import protocol
from replay.models.wire import require_key
from replay.store.edits import KeptEdit
from replay.store.handle import Store
from replay.trace import NO_SYSTEM, NO_TOOLS

T = TypeVar("T")

SCHEDULES: dict[Schedule, str] = {
    "cheap": "step after step, so that a provider's prefix cache is read",
    "fast": "all at once",
    "batch": "as one batch of the provider: half the price, within a day",
}


class SamplesBox(ModalScreen[ReplayRequest | None]):
    """The request with other samples, None where it is left. `live` offers an order of calls."""

    CSS_PATH = "../ui/dialogs.tcss"
    HELP = "samples"

    BINDINGS = [
        Binding("enter", "take", "take", id="samples.take", show=False, priority=True,
                tooltip="Ask so from now on"),
        Binding("escape", "leave", "leave", id="samples.leave", show=False,
                tooltip="Close and leave it as it was"),
    ]  # fmt: skip

    line = query_one(Input)
    meaning = query_one("#meaning", Static)

    def __init__(self, request: ReplayRequest, *, live: bool) -> None:
        super().__init__()
        self._request = request
        self._live = live

    def compose(self) -> ComposeResult:
        with Vertical(id="samples"):
            yield Static("how many samples of each arm: auto, or a number", markup=False)
            yield Input(levels_words(self._request.sampling.levels), compact=True)
            yield Static(id="meaning", markup=False)
            if self._live:
                yield Static("in which order", classes="part", markup=False)
                yield Choices([Option(each, words) for each, words in SCHEDULES.items()])
            yield Tick(
                "space: ask afresh, what is kept stays", self._request.resample, compact=True
            )
            take, leave = key_of(self, "samples.take"), key_of(self, "samples.leave")
            keys = f"tab next line   {take} takes it   {leave} leaves"
            yield Static(keys, id="keys", markup=False)

    def on_mount(self) -> None:
        self.query_one("#samples").border_title = "how often to ask"
        for choices in self.query(Choices):
            choices.cursor = list(SCHEDULES).index(self._request.sampling.schedule)

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
        sampling = structs.replace(self._request.sampling, levels=levels, schedule=schedule)
        resample = self.query_one(Tick).value
        self.dismiss(structs.replace(self._request, sampling=sampling, resample=resample))

    def action_leave(self) -> None:
        self.dismiss(None)


WORDS = (
    "The source did not record this, and without it the model would be asked something else."
    " What you attach stands beside the trace; what was recorded is never overwritten."
)


class Attachment(Struct, frozen=True, kw_only=True):
    """Files to attach; `sketched` derives the tools from the calls seen."""

    system: Path | None = None
    tools: Path | None = None
    sketched: bool = False

    @property
    def any(self) -> bool:
        return self.system is not None or self.tools is not None or self.sketched


class Tick(Checkbox):
    """A tick that is there or not: no colour says it alone."""

    HELP = "a tick"
    BUTTON_INNER = " "

    BINDINGS = [
        Binding("enter", "screen.attach", "attach", id="attach.tick", show=False,
                tooltip="Attach what is given so far"),
    ]  # fmt: skip

    def watch_value(self) -> None:
        self.BUTTON_INNER = "✓" if self.value else " "
        super().watch_value()


class AttachBox(ModalScreen[Attachment | None]):
    """One line a thing that is missing; None where it is left."""

    CSS_PATH = "../ui/dialogs.tcss"
    HELP = "attach"

    BINDINGS = [
        Binding("escape", "leave", "leave", id="attach.leave", show=False,
                tooltip="Close without attaching anything"),
    ]  # fmt: skip

    trouble = query_one("#trouble", Static)

    def __init__(self, missing: tuple[str, ...]) -> None:
        super().__init__()
        self._missing = missing

    def compose(self) -> ComposeResult:
        with Vertical(id="attach"):
            yield Static(WORDS, markup=False)
            yield from self._lines()
            yield Static(id="trouble", markup=False)
            take, leave = key_of(self, "", "enter"), key_of(self, "attach.leave")
            keys = f"tab next line   {take} attaches   {leave} leaves"
            yield Static(keys, id="keys", markup=False)

    def _lines(self) -> Iterator[Static | Input | Tick]:
        if NO_SYSTEM in self._missing:
            yield Static(NO_SYSTEM, classes="missing", markup=False)
            yield Input(placeholder="a file with the system prompt", id="system", compact=True)
        if NO_TOOLS in self._missing:
            yield Static(NO_TOOLS, classes="missing", markup=False)
            yield Input(placeholder="a JSON file with the tools", id="tools", compact=True)
            yield Tick("space: sketch them from the calls seen", id="sketch", compact=True)

    def on_mount(self) -> None:
        self.query_one("#attach").border_title = "attach what was not recorded"

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.action_attach()

    def action_attach(self) -> None:
        """Close with what is given, once every file that is named is there."""
        given = Attachment(
            system=self._file("#system"), tools=self._file("#tools"), sketched=self._sketched
        )
        absent = [file for file in (given.system, given.tools) if file and not file.is_file()]
        if absent:
            self.trouble.update(Text(format.one_line(f"there is no file {absent[0]}")))
        elif given.any:
            self.dismiss(given)

    def _file(self, line: str) -> Path | None:
        typed = [found.value.strip() for found in self.query(line).results(Input)]
        return Path(typed[0]).expanduser() if typed and typed[0] else None

    @property
    def _sketched(self) -> bool:
        return any(box.value for box in self.query(Tick))

    def action_leave(self) -> None:
        self.dismiss(None)


def attach(store: Store, trace: str, given: Attachment) -> str:
    """Put it beside the trace and say what the trace has now. Raises BadEdit and BadTrace."""
    try:
        made = supplement(store, given.system, given.tools, None)
    except OSError as error:
        raise BadEdit(f"{error.filename}: cannot be read: {error.strerror}") from error
    attached = [what for _, what in attach_to(store, trace, made, given.sketched) if what]
    return ", ".join(attached) or "nothing: the source recorded it"


async def allowed(app: App[None], price: str) -> Limits | None:
    """What may be spent; None to ask nobody, so that only stored answers are used.

    Raises ModelRefused where there is no key to ask a server with.
    """
    await asyncio.to_thread(lambda: require_key(protocol.server_url()))
    hint = "USD, as 0.50, or 20 calls; ‹ask.leave› asks nobody"
    return await ask_until_read(app, "what may it cost?", limits_of, price, hint=hint)


def edit_option(kept: KeptEdit, note: str = "") -> Option:
    """A kept edit by its digest, which no other has, shown by its name."""
    parts = ("; ".join(map(describe, kept.changes)), note, kept.short)
    words = " · ".join(part for part in parts if part)
    return Option(kept.digest, format.one_line(words), format.cut(format.one_line(kept.name), 40))
