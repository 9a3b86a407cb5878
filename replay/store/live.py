"""Traces that more is expected of: how long that is to be believed."""

from __future__ import annotations

from collections.abc import Iterable

from replay.store.handle import Store


def keep_live(store: Store, keys: Iterable[str], until_ns: int | None) -> None:
    """What is live among these traces stays so until a time (None: is over now)."""
    with store.writing() as db:
        db.executemany(
            "UPDATE trace SET live_until_ns = ?"
            " WHERE key = ? AND complete AND live_until_ns IS NOT NULL",
            ((until_ns, key) for key in keys),
        )


def next_end_ns(store: Store, at_ns: int) -> int | None:
    """When the first of the traces that are live at a time ceases to be, None where none is."""
    found = store.db.execute(
        "SELECT min(live_until_ns) FROM trace WHERE live_until_ns > ?", (at_ns,)
    )
    end: int | None = found.fetchone()[0]
    return end
