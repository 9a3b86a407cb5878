"""The palette: what can be done here, found by its words, from the live bindings alone."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from textual.binding import ActiveBinding
from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.content import Content


class Keys(Provider):
    """The palette: everything the keys can do here and now, by its words, with its key."""

    async def discover(self) -> Hits:
        for active in self._active():
            words = Content(active.binding.description)
            yield DiscoveryHit(
                self._with_key(words, active),
                self._run(active),
                text=words.plain,
                help=active.binding.tooltip,
            )

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for active in self._active():
            words, more = active.binding.description, active.binding.tooltip
            score = max(matcher.match(words), matcher.match(more) / 2)
            if score > 0:
                shown = self._with_key(matcher.highlight(words), active)
                yield Hit(score, shown, self._run(active), text=words, help=more)

    def _with_key(self, words: Content, active: ActiveBinding) -> Content:
        key = self.app.get_key_display(active.binding)
        return Content.assemble(words, "  ", (key, "dim"))

    def _active(self) -> list[ActiveBinding]:
        """One binding an action that does something here, those of the footer first. Two nodes may
        call different actions by one name."""
        by_action = {
            (active.node, active.binding.action): active
            for active in reversed(self.screen.active_bindings.values())
            if active.enabled and active.binding.id and active.binding.id != "app.palette"
        }
        found = reversed(by_action.values())
        return sorted(found, key=lambda active: not active.binding.show)

    def _run(self, active: ActiveBinding) -> Callable[[], Awaitable[bool]]:
        return partial(self.app.run_action, active.binding.action, active.node)
