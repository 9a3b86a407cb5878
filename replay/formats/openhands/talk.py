"""One agent's thread of an OpenHands run: its context as events, and how well it is known.

A condensation forgets events by their ids, so each message of the context keeps the event it came
with.
"""

from __future__ import annotations

from msgspec import Struct

from replay.formats.dialogue import Thread
from replay.formats.intake import Tally
from replay.formats.openhands.happened import Forgot
from replay.trace import NO_SYSTEM, NO_TOOLS, Fidelity, Level, Message, Request

UNWORDED = "results recorded before they were put into words for the model"
RECALLED = "what was recalled into the prompt is recorded as facts, not in its words"
RECAST = "calls told from the actions; the model's own words are not recorded"
NO_SCHEMAS = "parameters of the tools not recorded"


class Shown(Struct, frozen=True, kw_only=True, eq=False):
    """A message of the context and the event it came with."""

    event: str | None
    message: Message


class Talk:
    """One agent's thread, and the events that make up its context."""

    def __init__(self, agent: str, request: Request, tally: Tally) -> None:
        self.agent = agent
        self.shown: list[Shown] = []
        self.called: str | None = None
        self.thread = Thread(
            parent=agent,
            request=request,
            fidelity=Fidelity(level=Level.PARTIAL, reasons=(NO_SYSTEM, NO_TOOLS, UNWORDED)),
            tally=tally,
        )

    def know(self, *learnt: str, known_now: tuple[str, ...] = ()) -> None:
        """From here on the requests have these reasons too, and no longer those."""
        reasons = dict.fromkeys((*self.thread.fidelity.reasons, *learnt))
        kept = tuple(reason for reason in reasons if reason not in known_now)
        self.thread.fidelity = Fidelity(level=Level.PARTIAL, reasons=kept)

    def forget(self, forgot: Forgot) -> None:
        """The context without the forgotten, the summary in its place."""
        kept = [each for each in self.shown if each.event not in forgot.events]
        if forgot.summary is not None:
            body = {"role": "user", "content": forgot.summary}
            summary = Shown(event=None, message=Message(dialect="openai", body=body))
            place = len(kept) if forgot.offset is None else max(0, forgot.offset - 1)
            kept.insert(place, summary)
        self.shown = kept
        self.thread.reset(*(each.message for each in kept))
