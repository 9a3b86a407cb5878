"""Which batches were sent, and which requests does each hold?

A batch is written down before it is sent, as an intent without an id: a process that dies between
sending and writing leaves behind what to look for. Fetched batches stay, so that no other is taken
for them.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec import Struct

from replay import canon
from replay.store.handle import Store, now_ns

_INTENT = "intent:"


class Batch(Struct, frozen=True, eq=False, kw_only=True):
    """A batch. `asks` maps the id of each request to its key and its sample."""

    id: str
    asks: dict[str, tuple[str, int]]
    sent_ns: int

    @property
    def is_intent(self) -> bool:
        """Is it unknown whether the server has it?"""
        return self.id.startswith(_INTENT)


def intend(store: Store, server: str, model: str, asks: Mapping[str, tuple[str, int]]) -> Batch:
    """Write down what is about to be sent; the same requests again replace it."""
    raw = canon.encode({name: list(ask) for name, ask in asks.items()})
    batch = Batch(id=_INTENT + canon.digest("batch", raw), asks=dict(asks), sent_ns=now_ns())
    with store.writing() as db:
        db.execute(
            "INSERT OR REPLACE INTO batch VALUES (?, ?, ?, ?, 0, ?)",
            (server, batch.id, model, raw.decode(), batch.sent_ns),
        )
    return batch


def sent(store: Store, server: str, intent: Batch, id: str) -> Batch:
    """The server has it, under that id."""
    with store.writing() as db:
        db.execute(
            "UPDATE OR REPLACE batch SET id = ? WHERE server = ? AND id = ?",
            (id, server, intent.id),
        )
    return Batch(id=id, asks=intent.asks, sent_ns=intent.sent_ns)


def pending(store: Store, server: str, model: str) -> list[Batch]:
    """What was not fetched yet, the oldest first."""
    rows = store.db.execute(
        "SELECT id, asks, sent_ns FROM batch"
        " WHERE server = ? AND model = ? AND NOT fetched ORDER BY sent_ns, id",
        (server, model),
    )
    return [
        Batch(
            id=row[0],
            asks=msgspec.json.decode(row[1], type=dict[str, tuple[str, int]]),
            sent_ns=row[2],
        )
        for row in rows
    ]


def known(store: Store, server: str) -> frozenset[str]:
    """The ids of all batches of a server, the fetched ones too."""
    rows = store.db.execute("SELECT id FROM batch WHERE server = ?", (server,))
    return frozenset(row[0] for row in rows)


def fetched(store: Store, server: str, batch: Batch) -> None:
    """All it came to is kept."""
    with store.writing() as db:
        db.execute("UPDATE batch SET fetched = 1 WHERE server = ? AND id = ?", (server, batch.id))


def forget(store: Store, server: str, batch: Batch) -> None:
    """The server has nothing of it: its requests may be sent again."""
    with store.writing() as db:
        db.execute("DELETE FROM batch WHERE server = ? AND id = ?", (server, batch.id))
