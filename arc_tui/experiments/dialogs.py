"""Dialogs of screens that ask models: samples and order, files for what a source did not record."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

from msgspec import Struct, structs
from rich.text import Text
from textual.app import App, ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.getters import query_one
from textual.screen import ModalScreen
from textual.widgets import Checkbox, Input, Static

from arc_tui.attachment import accept, attach_to, supplement, what_of
from arc_tui.experiments.models import require_keys
from arc_tui.experiments.request import (
    ReplayRequest,
    levels_meaning,
    levels_of,
    levels_words,
    limits_of,
)
from arc_tui.ui import format
from arc_tui.ui.bindings import bind
from arc_tui.ui.dialogs import Choices, Option, ask_until_read
from arc_tui.ui.keys import key_of
from replay.budget import Limits
from replay.edit.changes import describe
from replay.errors import BadEdit
from replay.locked.row import Schedule
from replay.store.edits import KeptEdit
from replay.store.handle import Store
from replay.store.offers import Offer
from replay.store.rows import trace_row
from replay.trace import NO_SYSTEM, NO_TOOLS

T = TypeVar("T")

SCHEDULES: dict[Schedule, str] = {
    "cheap": "in sequence, to use the provider's prompt cache",
    "fast": "in parallel",
    "batch": "as one provider batch: half the price, within a day",
}


class SamplesBox(ModalScreen[ReplayRequest | None]):
    """The request with other samples, None where it is left. `live` offers an order of calls."""

    CSS_PATH = "../ui/dialogs.tcss"
    HELP = "samples"

    BINDINGS = [
        bind("enter", "take", id="samples.take", show=False, priority=True,
             tooltip="Use these samples from now on"),
        bind("esc", "leave", id="samples.leave", show=False,
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
            yield Static("samples of each arm: auto, or a number", markup=False)
            yield Input(levels_words(self._request.sampling.levels), compact=True)
            yield Static(id="meaning", markup=False)
            if self._live:
                yield Static("order of calls", classes="part", markup=False)
                yield Choices([Option(each, words) for each, words in SCHEDULES.items()])
            yield Tick("ignore cached responses", self._request.resample, compact=True)
            take, leave = key_of(self, "samples.take"), key_of(self, "samples.leave")
            keys = f"tab next line   space toggle   {take} accept   {leave} cancel"
            yield Static(keys, id="keys", markup=False)

    def on_mount(self) -> None:
        self.query_one("#samples").border_title = "samples"
        for choices in self.query(Choices):
            choices.cursor = list(SCHEDULES).index(self._request.sampling.schedule)

    def on_input_changed(self, event: Input.Changed) -> None:
        """Show what so many samples can tell, or why they are none."""
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
    "Not recorded. Without it, a replayed request differs from the recorded one."
    " Attachments are stored beside the trace; recorded data is never overwritten."
)
OFFERED = "Not recorded. What may be attached beside the trace, the best first:"
NOTHING_GIVEN = "nothing to attach: enter a file name"
INFER = "infer tools from calls"
ALREADY = "nothing: already recorded"


class Attachment(Struct, frozen=True, kw_only=True):
    """Files to attach, or the offer that is accepted; `inferred` derives the tools from the
    recorded calls."""

    system: Path | None = None
    tools: Path | None = None
    inferred: bool = False
    offer: Offer | None = None

    @property
    def any(self) -> bool:
        return self.system is not None or self.tools is not None or self.inferred


class Tick(Checkbox):
    """A checkbox, `[ ]` or `[x]`: no colour shows it alone. Space toggles it."""

    HELP = "a checkbox"
    BUTTON_LEFT = "["
    BUTTON_INNER = " "
    BUTTON_RIGHT = "]"

    BINDINGS = [
        bind("enter", "screen.attach", id="attach.tick", show=False,
             tooltip="Attach what is given so far"),
    ]  # fmt: skip

    def watch_value(self) -> None:
        self.BUTTON_INNER = "x" if self.value else " "
        super().watch_value()


def _from(offer: Offer) -> str:
    """Where an offer is from, beside what it is, and that something speaks against it."""
    source = "" if offer.source is None else f"run {offer.source[:8]}"
    parts = (source, "with doubts" if offer.against else "", format.one_line(offer.title))
    return " · ".join(filter(None, parts))


class AttachBox(ModalScreen[Attachment | None]):
    """The offers, then a line a thing that is missing; None where it is left."""

    CSS_PATH = "../ui/dialogs.tcss"
    HELP = "attach"

    BINDINGS = [
        bind("esc", "leave", id="attach.leave", show=False,
             tooltip="Close without attaching anything"),
    ]  # fmt: skip

    trouble = query_one("#trouble", Static)
    why = query_one("#why", Static)

    def __init__(self, missing: tuple[str, ...], offers: Sequence[Offer] = ()) -> None:
        super().__init__()
        self._missing = missing
        self._offers = offers

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="attach", can_focus=False):
            yield Static(OFFERED if self._offers else WORDS, markup=False)
            if self._offers:
                yield Choices([Option(str(at), _from(each), what_of(each))
                               for at, each in enumerate(self._offers)])  # fmt: skip
                yield Static(id="why", markup=False)
            yield from self._lines()
            yield Static(id="trouble", markup=False)
            yield Static("   ".join(self._keys()), id="keys", markup=False)

    def _keys(self) -> Iterator[str]:
        take = key_of(self, "", "enter")
        chooses = key_of(self, "ask.choose", "enter") if self._offers else take
        yield "tab next line"
        if NO_TOOLS in self._missing:
            yield "space toggle"
        yield f"{take} accept" + (f"   {chooses} accept offer" if chooses != take else "")
        yield f"{key_of(self, 'attach.leave')} cancel"

    def _lines(self) -> Iterator[Static | Input | Tick]:
        if NO_SYSTEM in self._missing:
            yield Static(NO_SYSTEM, classes="missing", markup=False)
            yield Input(placeholder="file with the system prompt", id="system", compact=True)
        if NO_TOOLS in self._missing:
            yield Static(NO_TOOLS, classes="missing", markup=False)
            yield Input(placeholder="JSON file with the tools", id="tools", compact=True)
            yield Tick(INFER, id="infer", compact=True)

    def on_row_list_moved(self, event: Choices.Moved) -> None:
        """Show why the offer under the cursor fits, and what speaks against it."""
        event.stop()
        offer = self._offers[event.rows.cursor]
        lines = (*offer.evidence, *(f"but {each}" for each in offer.against))
        self.why.update(Text("\n".join(map(format.one_line, lines))))

    def on_choices_chosen(self, event: Choices.Chosen) -> None:
        event.stop()
        self.dismiss(Attachment(offer=self._offers[int(event.answer)]))

    def on_mount(self) -> None:
        self.query_one("#attach").border_title = "Attach prompt or tools"
        for choices in self.query(Choices):
            choices.focus()
            choices.post_message(Choices.Moved(choices))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.action_attach()

    def action_attach(self) -> None:
        """Close with what is given, once every file that is named is there."""
        given = Attachment(
            system=self._file("#system"), tools=self._file("#tools"), inferred=self._inferred
        )
        absent = [file for file in (given.system, given.tools) if file and not file.is_file()]
        if absent:
            self.trouble.update(Text(format.one_line(f"file not found: {absent[0]}")))
        elif given.any:
            self.dismiss(given)
        else:
            box = f", or check “{INFER}”" if NO_TOOLS in self._missing else ""
            self.trouble.update(Text(f"{NOTHING_GIVEN}{box}"))

    def _file(self, line: str) -> Path | None:
        typed = [found.value.strip() for found in self.query(line).results(Input)]
        return Path(typed[0]).expanduser() if typed and typed[0] else None

    @property
    def _inferred(self) -> bool:
        return any(box.value for box in self.query(Tick))

    def action_leave(self) -> None:
        self.dismiss(None)


def attach(store: Store, trace: str, given: Attachment) -> str:
    """Put it beside the trace; what the trace has now. Raises BadEdit and BadTrace."""
    if given.offer is not None:
        return accept(store, trace_row(store, trace).trace, given.offer) or ALREADY
    try:
        made = supplement(given.system, given.tools)
    except OSError as error:
        raise BadEdit(f"cannot read {error.filename}: {error.strerror}") from error
    done = attach_to(store, trace, made, inferred=given.inferred)
    said = [
        f"{each.what} (but {each.note})" if each.note else each.what for each in done if each.what
    ]
    return ", ".join(said) or ALREADY


async def allowed(app: App[None], price: str, models: Collection[str] = ()) -> Limits | None:
    """The limit that a person sets; None to make no call, so that only cached responses are used.

    Raises ModelRefused where there is no key to call one of `models` with.
    """
    await asyncio.to_thread(require_keys, models)
    hint = "limit: 0.50 (USD) or 20 calls · ‹ask.leave› make no call"
    return await ask_until_read(app, "cost limit", limits_of, price, hint=hint)


def edit_option(kept: KeptEdit, note: str = "") -> Option:
    """A kept edit by its digest, which no other has, shown by its name."""
    parts = ("; ".join(map(describe, kept.changes)), note, kept.short)
    words = " · ".join(part for part in parts if part)
    return Option(kept.digest, format.one_line(words), format.cut(format.one_line(kept.name), 40))
