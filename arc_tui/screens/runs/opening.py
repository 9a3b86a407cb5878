"""What is here to be opened, offered on a screen: the sessions and logs of this folder, another
path, the demo."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from textual.message import Message

from arc_tui import format
from arc_tui.screens.base import ArcScreen
from arc_tui.widgets.ask_box import AskBox, Option
from replay.store.handle import now_ns

if TYPE_CHECKING:
    from arc_tui.jobs.finding import Offer

ALL, DEMO = ".", "arc demo"
"""Answers that are no file: the folder itself, and the bundled runs."""


class Opening(ArcScreen):
    """Looks around, asks what is to be opened, and has it imported. Actions of the runs screen."""

    class OffersFound(Message):
        """What is here was looked for."""

        def __init__(self, offers: tuple[Offer, ...]) -> None:
            super().__init__()
            self.offers = offers

    class DemoWanted(Message):
        """The bundled runs are asked for; they have a database of their own."""

    def take_in(self, path: Path) -> None:
        """Import a file or a folder, and open what comes of it."""
        raise NotImplementedError

    def action_here(self) -> None:
        """Offer what is here, once it is known."""
        folder = Path.cwd()
        self.hold_keys(self.ask(lambda _: _found(folder), self.OffersFound, group="offers"))

    def on_opening_offers_found(self, event: OffersFound) -> None:
        if not self.is_current:  # someone went on meanwhile
            return
        folder = Path.cwd()
        where = format.one_line(str(folder))
        nothing = f"no session of Claude Code or Codex in {where}, and no trace in it"
        box = AskBox(
            "what shall be opened?",
            "" if event.offers else nothing,
            hint="or the path of a file or a folder",
            choices=options(event.offers, folder),
        )
        self.app.push_screen(box, self._open_answer)

    def _open_answer(self, answer: str | None) -> None:
        if answer == DEMO:
            self.post_message(self.DemoWanted())
        elif answer is not None:
            self.take_in(Path(answer).expanduser())


def options(offers: tuple[Offer, ...], folder: Path) -> list[Option]:
    """The offers as choices, newest first; then all of the folder's own, and the demo."""
    from arc_tui.views.runs.offers import offer_words

    now = now_ns()
    words = [offer_words(offer, folder, now) for offer in offers]
    rows = [
        (offer.path, offer.format, said.age, f"{said.title} · {said.size} · {said.file}")
        for offer, said in zip(offers, words, strict=True)
    ]
    if sum(Path(offer.path).is_relative_to(folder) for offer in offers) > 1:
        rows.append((ALL, "this folder", "", "every trace in it"))
    rows.append((DEMO, "the demo", "", "bundled runs and a built-in model: no key, no network"))
    formats, ages = (max(map(len, column)) for column in list(zip(*rows, strict=True))[1:3])
    return [
        Option(answer, about, f"{name:<{formats}}  {age:<{ages}}")
        for answer, name, age, about in rows
    ]


def _found(folder: Path) -> tuple[Offer, ...]:
    from arc_tui.jobs.finding import MOST, look  # the readers are not needed to show runs

    return tuple(islice(look(folder), MOST))
