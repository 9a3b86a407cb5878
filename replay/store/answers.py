"""What models replied: kept for good, by the server that gave it and the key of the request.

An answer is immutable: the first one stored for a key (`canon.key`) is the one every later read
gets, in this process and in any other. A server is "" for the official API and for models of this
machine, else its address.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Struct

from replay import canon
from replay.store.handle import Store, now_ns


class Answer(Struct, frozen=True, kw_only=True):
    """A stored reply: the Messages API message, who gave it, and what it cost when asked for.

    `source` says how it came (live, in a batch, from a model of this machine); `prices` names the
    price table behind `cost_usd`.
    """

    server: str
    key: str
    model: str
    sample: int
    body: dict[str, Any]
    source: str
    cost_usd: float | None = None
    prices: str | None = None


def get(store: Store, key: str, server: str = "") -> Answer | None:
    """The answer of a server under that key, None where it was never asked."""
    row = store.db.execute(f"{_SELECT} AND key = ?", (server, key)).fetchone()
    return _answer(row) if row is not None else None


def get_all(store: Store, keys: Iterable[str], server: str = "") -> dict[str, Answer]:
    """The answers of a server among those keys, by key."""
    wanted = msgspec.json.encode(list(keys)).decode()
    rows = store.db.execute(
        f"{_SELECT} AND key IN (SELECT value FROM json_each(?))", (server, wanted)
    )
    return {row[1]: _answer(row) for row in rows}


def others(store: Store, key: str) -> list[str]:
    """The servers that an answer under that key is kept of."""
    rows = store.db.execute("SELECT server FROM answer WHERE key = ? ORDER BY server", (key,))
    return [row[0] for row in rows]


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
    """Keep a reply and read back what is kept: an earlier one under the key wins.

    A claim on it (`claims`) ends with that.
    """
    text = canon.encode(store.redactor.value(body)).decode()
    row = (server, key, model, sample, text, source, cost_usd, prices, now_ns())
    with store.writing() as db:
        db.execute("INSERT OR IGNORE INTO answer VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
        db.execute("DELETE FROM claim WHERE server = ? AND key = ?", (server, key))
    kept = get(store, key, server)
    assert kept is not None
    return kept


_SELECT = (
    "SELECT server, key, model, sample, body, source, cost_usd, prices FROM answer WHERE server = ?"
)


def _answer(row: tuple[Any, ...]) -> Answer:
    server, key, model, sample, body, source, cost_usd, prices = row
    return Answer(
        server=server,
        key=key,
        model=model,
        sample=sample,
        body=msgspec.json.decode(body),
        source=source,
        cost_usd=cost_usd,
        prices=prices,
    )
