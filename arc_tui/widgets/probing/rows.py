"""The probes by their letters: what each tells apart, what it would ask, what it changes."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text
from textual import events
from textual.geometry import Size
from textual.message import Message
from textual.reactive import reactive

from arc_tui import format
from arc_tui.views.probing.stage import EMPTY, ProbeStage
from arc_tui.views.probing.view import ProbeOffer
from arc_tui.views.probing.words import between, price
from arc_tui.widgets.bound import key_of
from arc_tui.widgets.cells import spread
from arc_tui.widgets.ink import KEY_CAP, Inked

NAME = 12
"""Cells of a probe's name."""

INDENT = 7
"""Cells before the second line of a probe."""

WIDE = 90
"""Cells from which on there is room for the names."""

TALL = 30
"""Rows of a terminal from which on what a probe changes has a line of its own here."""


class ProbeRows(Inked):
    """The probes of a step: `●` where its symptom was seen; one that cannot be made says why.

    A click looks at one; only its letter runs it.
    """

    ALLOW_SELECT = False
    INKS = {
        "key": KEY_CAP,
        "off": "$quiet",
        "name": "bold",
        "quiet": "$quiet",
        "chosen": "on $cursor-dim",
    }

    stage: reactive[ProbeStage] = reactive(EMPTY, layout=True)

    class Picked(Message):
        """A probe is to be looked at."""

        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

    @property
    def _each(self) -> int:
        """Lines of one probe; what came of one needs the room more."""
        return 2 if self.app.size.height >= TALL and self.stage.view is None else 1

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        del container, viewport, width
        return len(self.stage.listed.offers) * self._each

    def render(self) -> Text:
        return Text("\n").join(self._lines(self.content_size.width))

    def _lines(self, width: int) -> Iterator[Text]:
        for offer in self.stage.listed.offers:
            yield self._line(offer, width)
            if self._each > 1:
                words = Text(f"{' ' * INDENT}{offer.why_not or offer.change}", self.ink("quiet"))
                words.truncate(width, overflow="ellipsis")
                yield words

    def _line(self, offer: ProbeOffer, width: int) -> Text:
        chosen = offer is self.stage.offer
        off = offer.why_not is not None
        style = self.ink("name" if offer.fits and not off else "quiet")
        named = f"{offer.name:<{NAME}}" if width >= WIDE else ""
        left = Text.assemble(
            ("▸" if chosen else " "),
            (
                f" {key_of(self.screen, f'probe.{offer.name}', offer.key)} ",
                self.ink("off" if off else "key"),
            ),
            (f" {'●' if offer.fits else '○'} {named}{format.one_line(between(offer))}", style),
        )
        right = Text(_aside(offer, self.stage.listed.model), self.ink("quiet"))
        line = spread(left, right, width)
        if chosen:
            line.stylize(self.ink("chosen"))
        return line

    def on_click(self, event: events.Click) -> None:
        place = (event.y - self.gutter.top) // self._each
        offers = self.stage.listed.offers
        if 0 <= place < len(offers):
            self.post_message(self.Picked(offers[place].name))


def _aside(offer: ProbeOffer, model: str | None) -> str:
    """What it would cost; where it cannot be made, that."""
    return price(offer, model) or "cannot be made"
