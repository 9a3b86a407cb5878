"""Someone else writes into the database, and an open screen follows.

SQLite counts what other connections have written (`PRAGMA data_version`). The count is of one
connection, so a thread keeps one open and looks at it a few times a second; a look reads a few
bytes that are in memory. A run whose writer was killed stops being live without a word: that is
looked for by the clock. It is no worker, because it has no end of its own: it ends with the
screen.
"""

from __future__ import annotations

from contextlib import closing
from threading import Event, Thread

from textual.message import Message

from arc_tui.screens.base import ArcScreen
from replay.errors import StoreUnusable
from replay.store.handle import now_ns
from replay.store.live import next_end_ns
from taxonomy.ledger import open_ledger

LOOK_S = 0.4

SECOND_NS = 10**9
"""The database tells whole seconds."""


class Changed(Message):
    """Something in the database is not as it was."""

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, Changed)


class Watching(ArcScreen):
    """A screen that is told when its database changed, by whoever it was."""

    _over: Event

    def on_mount(self) -> None:
        self._over = Event()
        self.call_after_refresh(self._begin)  # the first frame comes first

    def on_unmount(self) -> None:
        self._over.set()

    def _begin(self) -> None:
        Thread(target=self._watch, args=(self._over,), name="arc-watch", daemon=True).start()

    def _watch(self, over: Event) -> None:
        try:
            store = open_ledger(self.path)
        except StoreUnusable:  # the screen's own reading of it says so
            return
        with closing(store):
            seen, end_ns = store.version(), next_end_ns(store, now_ns())
            while not over.wait(LOOK_S):
                now = store.version()
                if now != seen or (end_ns is not None and now_ns() > end_ns + SECOND_NS):
                    seen, end_ns = now, next_end_ns(store, now_ns())
                    self.post_message(Changed())
