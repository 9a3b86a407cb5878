"""What the search for a step goes by, asked of a person: the fact, and what a saved run does."""

from __future__ import annotations

from typing import NamedTuple

from textual.app import App

from arc_tui.features.bisect_steps.plan import BisectStepsRequest
from arc_tui.ui.dialogs import AskBox, ask_until_read
from replay.predicate import predicate

GOLD = "gold"

ENDS = (
    "Held against each run that goes on with the fix. Such a run comes to it or not; whether it"
    " would have passed is another question."
)
IS = "It is held against what the model says. STEP:PATH takes it from a result of the recording."


class Fact(NamedTuple):
    """What a model is asked about, and its true value."""

    about: str
    value: str


async def ask_fact(app: App[None], request: BisectStepsRequest) -> Fact | None:
    """The fact a person names, None where they leave. From a worker."""
    hint = "as total_cents of order_id 1047"
    box = AskBox("which fact?", hint=hint, answer=request.ask or "")
    about = await app.push_screen_wait(box)
    if about is None:
        return None
    hint = "as 8150, or 0:total_cents"
    box = AskBox("what is it really?", IS, hint=hint, answer=request.world or "")
    value = await app.push_screen_wait(box)
    return None if value is None else Fact(about, value)


async def ask_expectation(app: App[None], request: BisectStepsRequest) -> str | None:
    """What a saved run does, as a person says it; None where they leave. From a worker."""
    return await ask_until_read(
        app,
        "what does a saved run do?",
        _expectation,
        ENDS,
        hint="as tool=refund_order, args.amount=12900",
        answer=request.expect or "",
    )


def _expectation(words: str) -> str:
    """Raises BadPredicate."""
    return words if words == GOLD else predicate(words).text
