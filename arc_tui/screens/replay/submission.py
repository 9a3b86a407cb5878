"""From the texts in the editor to a wish: a name for the edit, a limit for live calls."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import structs

from arc_tui.jobs.replaying import Wanted, estimated
from arc_tui.screens.question import allowed
from arc_tui.views.prospect import asking_price
from arc_tui.views.replay.draft import Draft, edit_of
from arc_tui.views.wish import Wish, asked_models, is_local
from arc_tui.widgets.ask_box import AskBox
from replay.edit import Edit
from replay.locked.estimate import Estimate
from taxonomy.ledger import open_ledger

if TYPE_CHECKING:
    from arc_tui.screens.base import ArcScreen


class Submission:
    """Asks a person what is still open, in a worker of the screen. Names once given are kept.

    `missed` tells that stored answers did not do the last time, though those of the first samples
    are all there.
    """

    def __init__(self, screen: ArcScreen) -> None:
        self._screen = screen
        self.missed = False
        self._names: dict[str, str] = {}

    def edit(self, draft: Draft, texts: Mapping[str, str]) -> Edit | None:
        """The edit as it stands, under the name it has or the next free one."""
        edit = edit_of(draft, texts, "")
        if edit is None:
            return None
        known = self._known(draft)
        return structs.replace(edit, name=known.names.get(edit.digest, known.free_name))

    async def wanted(self, draft: Draft, texts: Mapping[str, str], wish: Wish) -> Wanted | None:
        """What to replay; None where a person thought better of it."""
        edit = self.edit(draft, texts)
        if edit is not None and edit.digest not in self._known(draft).names:
            name = await self._asked(AskBox("a name for the edit", answer=edit.name))
            if name is None:
                return None
            self._names[edit.digest] = name
            edit = structs.replace(edit, name=name)
        wanted = wish.of(draft.trace, edit)
        models = asked_models(wish.model or draft.model, edit)
        if is_local(models):
            return wanted
        estimate = await asyncio.to_thread(self._estimated, wanted)
        if not estimate.calls and not self.missed:
            return wanted
        self.missed = False
        limits = await allowed(self._screen.app, asking_price(models, estimate))
        return wanted if limits is None else structs.replace(wanted, live=True, limits=limits)

    def _known(self, draft: Draft) -> Draft:
        """The draft with the names that were given since it was read."""
        return structs.replace(draft, names={**draft.names, **self._names})

    def _estimated(self, wanted: Wanted) -> Estimate:
        with open_ledger(self._screen.path) as store:
            return estimated(store, wanted)

    async def _asked(self, box: AskBox) -> str | None:
        return await self._screen.app.push_screen_wait(box)
