"""What the screen of probes shows: where a probe stands, as one value; the probes by their
letters; and one of them in full, before it is run what it would do, afterwards what it came to.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from rich.text import Text
from textual import events
from textual.geometry import Size
from textual.message import Message
from textual.reactive import reactive

from arc_tui.experiments.progress import ExperimentState
from arc_tui.experiments.request import CostEstimate
from arc_tui.experiments.screen import ExperimentHead
from arc_tui.features.probes.plan import ProbeRequest
from arc_tui.features.probes.run import ProbeView, arms, spent
from arc_tui.ui import format
from arc_tui.ui.document import EMPTY, Block, Document, HintBlock, Item
from arc_tui.ui.format import spread
from arc_tui.ui.keys import key_of
from arc_tui.ui.styles import KEY_CAP, StyledWidget
from arc_tui.views.probe_offers import (
    LOCAL,
    NO_PROBES,
    ProbeOffer,
    ProbesView,
    between,
    price,
    readings,
)
from replay.models.choose import DEMO

# --- where it stands


class ProbeState(ExperimentState, frozen=True, eq=False, kw_only=True):
    """The probes of a step, the one that is looked at (`chosen`, by name), and how far one is."""

    request: ProbeRequest
    listed: ProbesView = NO_PROBES
    chosen: str = ""
    view: ProbeView | None = None

    @property
    def is_free(self) -> bool:
        """Is all of it asked on this machine?"""
        return self.listed.model == LOCAL

    def cost_of(self, offer: ProbeOffer) -> CostEstimate | None:
        """What a probe would ask, None where that is not known."""
        if offer.estimate is None:
            return None
        model = DEMO if self.is_free else str(self.listed.model)
        return CostEstimate(models=(model,), calls=offer.estimate)

    @property
    def offer(self) -> ProbeOffer | None:
        """The probe that is looked at."""
        return self.offered(self.chosen)

    @property
    def place(self) -> int:
        """Which of the probes is looked at."""
        names = [each.name for each in self.listed.offers]
        return names.index(self.chosen) if self.chosen in names else 0

    def offered(self, name: str) -> ProbeOffer | None:
        """The probe of that name."""
        return next((each for each in self.listed.offers if each.name == name), None)

    def can(self, name: str) -> bool:
        """Can the probe be run now?"""
        found = self.offered(name)
        waits = self.running or self.phase == "estimating"
        return found is not None and found.why_not is None and not waits

    @property
    def border_title(self) -> str:
        """Which step of which run."""
        task = f" of {format.one_line(self.listed.task)}" if self.listed.task else ""
        return f"probe step {self.request.step}{task}"

    @property
    def lines(self) -> tuple[str, ...]:
        """The state, or the symptom."""
        return (self._first,)

    @property
    def _first(self) -> str:
        if self.trouble is not None:
            return f"{self.trouble.message[:1].upper()}{self.trouble.message[1:]}."
        if self.phase == "stopped" and (self.view is None or self.view.ended is None):
            return "Stopped: no result. Completed calls are saved."
        if self.running and self.view is None:
            return "Probing."
        if self.view is not None:
            return self.view.sentence
        if self.phase == "estimating":
            return "Checking probes."
        return self._symptom

    @property
    def _symptom(self) -> str:
        said = self.listed.symptoms
        if said:
            return f"Symptom: {'; '.join(f'{each.symptom} ({each.why})' for each in said)}."
        return NO_SYMPTOM if self.listed.offers else NO_PROBE

    @property
    def notices(self) -> tuple[str, ...]:
        """What stands against it."""
        return tuple(self._notices())

    def _notices(self) -> Iterator[str]:
        if self.trouble is not None and self.trouble.hint:
            yield self.trouble.hint
        broke = self.listed.broke
        if self.view is not None:
            yield from self.view.notices
        elif broke is not None and broke != self.request.step:
            yield f"break candidate: step {broke}, not this step"
        if self.view is None and not self.listed.symptoms and self.listed.unfit is not None:
            yield self.listed.unfit
        if self.view is None and self.listed.notice is not None:
            yield self.listed.notice


EMPTY_PROBE = ProbeState(request=ProbeRequest(trace=""))


# --- the probes, and the lines above them

NAME = 12
"""Cells of a probe's name."""

INDENT = 7
"""Cells before the second line of a probe."""

WIDE = 90
"""Cells from which on there is room for the names."""

TALL = 30
"""Rows of a terminal from which on what a probe changes has a line of its own here."""


class ProbeRows(StyledWidget):
    """The probes of a step: `●` where its symptom was detected; one that is not possible shows why.

    A click looks at one; only its letter runs it.
    """

    ALLOW_SELECT = False
    STYLES = {
        "key": KEY_CAP,
        "off": "$quiet",
        "name": "bold",
        "quiet": "$quiet",
        "chosen": "on $cursor-dim",
    }

    state: reactive[ProbeState] = reactive(EMPTY_PROBE, layout=True)

    class Picked(Message):
        """A probe is to be looked at."""

        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

    @property
    def _each(self) -> int:
        """Lines of one probe; what came of one needs the room more."""
        return 2 if self.app.size.height >= TALL and self.state.view is None else 1

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        del container, viewport, width
        return len(self.state.listed.offers) * self._each

    def render(self) -> Text:
        return Text("\n").join(self._lines(self.content_size.width))

    def _lines(self, width: int) -> Iterator[Text]:
        for offer in self.state.listed.offers:
            yield self._line(offer, width)
            if self._each > 1:
                about = format.one_line(offer.why_not or offer.change)
                words = Text(f"{' ' * INDENT}{about}", self.style_of("quiet"))
                words.truncate(width, overflow="ellipsis")
                yield words

    def _line(self, offer: ProbeOffer, width: int) -> Text:
        chosen = offer is self.state.offer
        off = offer.why_not is not None
        style = self.style_of("name" if offer.fits and not off else "quiet")
        named = f"{offer.name:<{NAME}}" if width >= WIDE else ""
        left = Text.assemble(
            ("▸" if chosen else " "),
            (
                f" {key_of(self.screen, f'probe.{offer.name}', offer.key)} ",
                self.style_of("off" if off else "key"),
            ),
            (f" {'●' if offer.fits else '○'} {named}{format.one_line(between(offer))}", style),
        )
        right = Text(_aside(offer, self.state.listed.model), self.style_of("quiet"))
        line = spread(left, right, width)
        if chosen:
            line.stylize(self.style_of("chosen"))
        return line

    def on_click(self, event: events.Click) -> None:
        place = (event.y - self.gutter.top) // self._each
        offers = self.state.listed.offers
        if 0 <= place < len(offers):
            self.post_message(self.Picked(offers[place].name))


def _aside(offer: ProbeOffer, model: str | None) -> str:
    """What it would cost; where it is not possible, that."""
    return price(offer, model) or "not possible"


class ProbeHead(ExperimentHead[ProbeState]):
    """How the failure shows, or what a probe came to."""

    state: reactive[ProbeState] = reactive(EMPTY_PROBE, layout=True)


# --- a probe in full

TEXT = 400
"""Characters of what is put in that are shown before it is opened."""

MORE = "‹probe.samples› more samples, another probe, or your own constraint (‹probe.words›)"
YOUR_WORDS = "‹probe.words› write one"
ATTACH = "‹probe.back› close, then ‹trace.edit:e› attach"
NO_SYMPTOM = "No symptom matches. Choose a probe."
NO_PROBE = "No probe for this step. ‹probe.back› close, then choose another step."


def probe_page(state: ProbeState) -> Document:
    """What is to be read of the probe that is looked at, or of the one that was asked."""
    if state.view is not None:
        return tuple(_result(state.view))
    return tuple(_offer(state.offer, state)) if state.offer is not None else EMPTY


def _offer(offer: ProbeOffer, state: ProbeState) -> Iterator[Item]:
    yield Block(text=offer.change, label=offer.name, style="head")
    if not offer.fits:
        unseen = f"{offer.symptom} (not detected: valid only if you observed it)"
        yield Block(text=unseen, label="symptom", style="candidate")
    if offer.why_not is not None:
        own = YOUR_WORDS if offer.name == "constraint" else ""
        aside = ATTACH if "`arc attach`" in offer.why_not else own
        yield HintBlock(
            text=format.plain(offer.why_not), label="not possible", style="error", aside=aside
        )
        return
    for shown in readings(offer):
        yield Block(text=shown, label="result")
    yield from _put_in(offer.text, offer.by)
    k = format.count(state.listed.k, "sample")
    whom = format.one_line(state.listed.model or "unknown model (‹probe.model› choose one)")
    yield HintBlock(text=f"{k} of each arm · {whom}", label="calls", style="quiet")
    yield Block(text=format.one_line(shlex.join(offer.command)), label="command", style="quiet")


def _put_in(text: str, by: str) -> Iterator[Item]:
    """What is inserted, and where that comes from."""
    yield Block(text=format.plain(text), label="inserts", key="put in", shown=TEXT)
    yield Block(text=format.one_line(by), label="from", style="quiet")


def _result(view: ProbeView) -> Iterator[Item]:
    for arm, shown in arms(view):
        yield Block(text=shown, label=arm, style="head")
    if view.done and view.classification is None:
        yield HintBlock(text=MORE, label="then")
    if view.classification is not None:
        yield Block(text=format.plain(view.why), label="because")
    if view.test is not None:
        yield Block(text=format.one_line(view.test.detector), label="judged by", style="quiet")
    yield Block(text=spent(view), label="model", style="quiet")
    if view.line is not None:
        yield Block(text=format.one_line(view.line.line), label="log", style="quiet")
    yield from _put_in(view.text, view.by)
