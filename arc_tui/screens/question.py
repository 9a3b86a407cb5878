"""Questions that are asked until the answer can be read: nothing typed is lost over a slip."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

from textual.app import App

from arc_tui.views.wish import limits_of
from arc_tui.widgets.ask_box import AskBox
from replay.budget import Limits
from replay.errors import ArcError
from replay.models import server
from replay.models.wire import require_key

T = TypeVar("T")


async def answered(
    app: App[None],
    title: str,
    read: Callable[[str], T],
    words: str = "",
    *,
    hint: str = "",
    answer: str = "",
) -> T | None:
    """What a person says, as `read` has it; None where they leave. From a worker.

    Where `read` raises an ArcError it is asked again, with that and with what was typed.
    """
    said = words
    while True:
        typed = await app.push_screen_wait(AskBox(title, said, answer=answer, hint=hint))
        if typed is None:
            return None
        try:
            return read(typed)
        except ArcError as error:
            said, answer = f"{error}\n\n{words}".rstrip(), typed


async def allowed(app: App[None], price: str) -> Limits | None:
    """What may be spent; None to ask nobody, so that only stored answers are used.

    Raises ModelRefused where there is no key to ask a server with.
    """
    await asyncio.to_thread(lambda: require_key(server.base_url()))
    hint = "USD, as 0.50, or 20 calls; ‹ask.leave› asks nobody"
    return await answered(app, "what may it cost?", limits_of, price, hint=hint)
