"""Someone else writes into the database, and an open screen follows.

SQLite counts what other connections have written (`PRAGMA data_version`). The count is of one
connection, so a thread keeps one open and looks at it a few times a second; a look reads a few
bytes that are in memory. A run whose writer was killed stops being live without a word: that is
looked for by the clock. It is no worker, because it has no end of its own: it ends with the
screen.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from functools import cached_property
from threading import Event, Thread
from typing import TypeVar

from textual.message import Message
from textual.worker import Worker
from typing_extensions import override

from arc_tui.screens.base import ArcScreen
from replay.errors import StoreUnusable
from replay.store import Store
from replay.store.handle import now_ns
from replay.store.live import next_end_ns
from taxonomy.ledger import open_ledger

T = TypeVar("T")

LOOK_S = 0.4

SECOND_NS = 10**9
"""The database tells whole seconds."""


class Changed(Message):
    """Something in the database is not as it was."""

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, Changed)


class Watching(ArcScreen):
    """A screen that is told when its database changed, by whoever it was.

    Nothing is read before the watch has begun: what is written between the two would go unseen.
    """

    @cached_property
    def _begun(self) -> Event:
        return Event()

    @cached_property
    def _over(self) -> Event:
        return Event()

    def on_mount(self) -> None:
        watch = Thread(
            target=self._watch, args=(self._begun, self._over), name="arc-watch", daemon=True
        )
        watch.start()

    def on_unmount(self) -> None:
        self._over.set()

    @override
    def ask(
        self, question: Callable[[Store], T], answer: Callable[[T], Message], *, group: str
    ) -> Worker[None]:
        begun = self._begun

        def watched(store: Store) -> T:
            begun.wait()
            return question(store)

        return super().ask(watched, answer, group=group)

    def _watch(self, begun: Event, over: Event) -> None:
        try:
            store = open_ledger(self.path)
        except StoreUnusable:  # the screen's own reading of it says so
            begun.set()
            return
        with closing(store):
            seen, end_ns = store.version(), next_end_ns(store, now_ns())
            begun.set()
            while not over.wait(LOOK_S):
                now = store.version()
                if now != seen or (end_ns is not None and now_ns() > end_ns + SECOND_NS):
                    seen, end_ns = now, next_end_ns(store, now_ns())
                    self.post_message(Changed())
