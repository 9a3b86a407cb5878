"""The palette: what can be done here, found by its words, from the live bindings alone."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from textual.binding import ActiveBinding
from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.content import Content


class Keys(Provider):
    """The palette: everything the keys can do here and now, by its words."""

    async def discover(self) -> Hits:
        for active in self._active():
            words = active.binding.description
            yield DiscoveryHit(Content(words), self._run(active), help=active.binding.tooltip)

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for active in self._active():
            words = active.binding.description
            score = matcher.match(words)
            if score > 0:
                shown = matcher.highlight(words)
                yield Hit(score, shown, self._run(active), help=active.binding.tooltip)

    def _active(self) -> list[ActiveBinding]:
        """One binding an action that does something here, those of the footer first."""
        by_action = {
            active.binding.action: active
            for active in reversed(self.screen.active_bindings.values())
            if active.enabled and active.binding.id and active.binding.id != "app.palette"
        }
        found = reversed(by_action.values())
        return sorted(found, key=lambda active: not active.binding.show)

    def _run(self, active: ActiveBinding) -> Callable[[], Awaitable[bool]]:
        return partial(self.app.run_action, active.binding.action, active.node)
