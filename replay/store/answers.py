"""What models replied: kept for good, found by the key of the request (`canon.key`).

An answer is immutable: the first one stored for a key is the one every later read gets, in this
process and in any other.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from replay import canon
from replay.store.handle import Store, now_ns


class Answer(Struct, frozen=True, kw_only=True):
    """A stored reply: the Messages API message and what it cost when it was asked for."""

    key: str
    body: dict[str, Any]
    cost_usd: float | None = None


def get(store: Store, key: str, server: str = "") -> Answer | None:
    """The answer of a server under that key, None where it was never asked.

    `server` is "" for the official API and for models of this machine.
    """
    row = store.db.execute(
        "SELECT body, cost_usd FROM answer WHERE server = ? AND key = ?", (server, key)
    ).fetchone()
    return (
        None if row is None else Answer(key=key, body=msgspec.json.decode(row[0]), cost_usd=row[1])
    )


def put(
    store: Store,
    key: str,
    *,
    model: str,
    sample: int,
    body: dict[str, Any],
    source: str,
    cost_usd: float | None = None,
    prices: str | None = None,
    server: str = "",
) -> Answer:
    """Keep a reply and read back what is kept: an earlier one under the key wins."""
    masked = store.redactor.value(body)
    with store.writing() as db:
        db.execute(
            "INSERT OR IGNORE INTO answer VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                server,
                key,
                model,
                sample,
                canon.encode(masked).decode(),
                source,
                cost_usd,
                prices,
                now_ns(),
            ),
        )
    kept = get(store, key, server)
    assert kept is not None
    return kept
