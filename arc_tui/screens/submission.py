"""From the texts in the editor to a wish: a name for the edit, a limit for live calls."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import closing
from typing import TYPE_CHECKING

from msgspec import structs

from arc_tui.replaying import Wanted, estimated
from arc_tui.views.draft import Draft, edit_of
from arc_tui.views.prospect import asking_price, limits_of
from arc_tui.widgets.ask_box import AskBox
from replay.budget import Estimate, Limits
from replay.edit import Edit
from replay.errors import BadEdit
from replay.models.choose import DEMO
from taxonomy.ledger import open_ledger

if TYPE_CHECKING:
    from arc_tui.screens.base import ArcScreen


class Submission:
    """Asks a person what is still open, in a worker of the screen. Names once given are kept."""

    def __init__(self, screen: ArcScreen) -> None:
        self._screen = screen
        self._names: dict[str, str] = {}

    async def wanted(self, draft: Draft, texts: Mapping[str, str], model: str) -> Wanted | None:
        """What to replay; None where a person thought better of it."""
        edit = edit_of(draft, texts, "")
        if edit is not None:
            name = await self._name(draft, edit)
            if name is None:
                return None
            edit = structs.replace(edit, name=name)
        wanted = Wanted(trace=draft.trace, edit=edit, model=model)
        if model == DEMO:
            return wanted
        estimate = await asyncio.to_thread(self._estimated, wanted)
        limits = await self._limits(asking_price(model, estimate)) if estimate.calls else None
        return wanted if limits is None else structs.replace(wanted, live=True, limits=limits)

    async def _name(self, draft: Draft, edit: Edit) -> str | None:
        known = structs.replace(draft, names={**draft.names, **self._names})
        name = known.names.get(edit.digest)
        if name is None:
            name = await self._asked(AskBox("a name for the edit", answer=known.free_name))
        if name is not None:
            self._names[edit.digest] = name
        return name

    def _estimated(self, wanted: Wanted) -> Estimate:
        with closing(open_ledger(self._screen.path)) as store:
            return estimated(store, wanted)

    async def _limits(self, price: str) -> Limits | None:
        """What may be spent; None to ask nobody, so that only stored answers are used."""
        words = price
        while True:
            hint = "USD, as 0.50, or 20 calls; escape asks nobody"
            said = await self._asked(AskBox("what may it cost?", words, hint=hint))
            if said is None:
                return None
            try:
                return limits_of(said)
            except BadEdit as error:
                words = f"{error}\n\n{price}"

    async def _asked(self, box: AskBox) -> str | None:
        return await self._screen.app.push_screen_wait(box)
