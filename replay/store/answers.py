"""What models replied, kept for good by server and request key; batches that are under way; notes;
and who is asking for an answer at this moment.

Notes are small values by name that are remembered between commands.

Claims keep two processes from paying for one question. A claim stands for an answer that is not
kept yet: by server and key, with its owner and the time it ends. While the owner is at work a
thread moves that time on, so a claim outlives its owner by a few seconds at most, and by nothing
where the owner ran on this machine. Whoever waits then asks itself. `put` ends a claim in the
transaction that keeps the answer: there is never neither.
"""

from __future__ import annotations

import os
import platform
import secrets
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from replay import digests
from replay.errors import StoreUnusable
from replay.store.connection import connect
from replay.store.handle import Store, now_ns
from replay.store.trouble import database_errors


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


def stored_keys(store: Store, keys: Iterable[str], server: str = "") -> frozenset[str]:
    """Those of the keys that a server has answered."""
    wanted = msgspec.json.encode(list(keys)).decode()
    rows = store.db.execute(
        "SELECT key FROM answer WHERE server = ? AND key IN (SELECT value FROM json_each(?))",
        (server, wanted),
    )
    return frozenset(row[0] for row in rows)


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

    A claim on it ends with that.
    """
    text = digests.encode(store.redactor.value(body)).decode()
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


# --- batches

_INTENT = "intent:"


class Batch(Struct, frozen=True, eq=False, kw_only=True):
    """A batch. `asks` maps the id of each request to its key and its sample."""

    id: str
    asks: dict[str, tuple[str, int]]
    sent_ns: int

    @property
    def mark(self) -> str:
        """What tells the batch from others that hold other requests."""
        return _mark(self.asks)

    @property
    def is_intent(self) -> bool:
        """Is it unknown whether the server has it?"""
        return self.id.startswith(_INTENT)


def intend(store: Store, server: str, model: str, asks: Mapping[str, tuple[str, int]]) -> Batch:
    """Write down what is about to be sent; the same requests again replace it."""
    raw = digests.encode({name: list(ask) for name, ask in asks.items()})
    batch = Batch(id=_INTENT + _mark(asks), asks=dict(asks), sent_ns=now_ns())
    with store.writing() as db:
        db.execute(
            "INSERT OR REPLACE INTO batch VALUES (?, ?, ?, ?, 0, ?)",
            (server, batch.id, model, raw.decode(), batch.sent_ns),
        )
    return batch


def _mark(asks: Mapping[str, tuple[str, int]]) -> str:
    return digests.digest("batch", digests.encode({n: list(ask) for n, ask in asks.items()}))


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


# --- notes

T = TypeVar("T", bound=msgspec.Struct)


def keep(store: Store, name: str, value: msgspec.Struct) -> None:
    """Remember a value under a name, in place of what was there; its secrets are masked."""
    body = msgspec.json.encode(store.redactor.value(msgspec.to_builtins(value)))
    with store.writing() as db:
        db.execute(
            "INSERT INTO setting (name, value) VALUES (?, ?)"
            " ON CONFLICT (name) DO UPDATE SET value = excluded.value",
            (name, body.decode()),
        )


def found(store: Store, prefix: str, shape: type[T]) -> list[T]:
    """The values whose names begin so, in the order of their names.

    One that another version wrote in another shape is left out.
    """
    rows = store.db.execute(
        "SELECT value FROM setting WHERE substr(name, 1, length(?)) = ? ORDER BY name",
        (prefix, prefix),
    )
    values = []
    for (body,) in rows.fetchall():
        try:
            values.append(msgspec.json.decode(body, type=shape))
        except msgspec.DecodeError:
            continue
    return values


# --- claims

LEASE_S = 10.0
"""How long a claim lasts that nobody moves on."""

BEAT_S = 2.5
"""How often it is moved on."""

_PROCESS = secrets.token_hex(8)


@contextmanager
def claimed(store: Store, server: str, keys: Collection[str]) -> Iterator[frozenset[str]]:
    """Those of `keys` that are this thread's to ask until the end of the block. As `claiming`."""
    with claiming(store, server) as claim:
        yield claim(keys)


@contextmanager
def claiming(store: Store, server: str) -> Iterator[Callable[[Collection[str]], frozenset[str]]]:
    """Gives what claims keys: those of them that are this thread's to ask until the end of the
    block.

    The others are answered, or somebody else is asking for them. Raises StoreUnusable where the
    database cannot be written: then nothing could be kept either.
    """
    if store.path is None:  # nobody else has this database
        yield frozenset
        return
    owner = f"{_place()}/{os.getpid()}/{_PROCESS}{threading.get_ident()}"
    mine: set[str] = set()
    over = threading.Event()
    beats = threading.Thread(target=_beat, args=(store.path, owner, over), daemon=True)

    def claim(keys: Collection[str]) -> frozenset[str]:
        taken = _taken(store, server, owner, keys)
        if taken and not mine:
            beats.start()
        mine.update(taken)
        return taken

    try:
        yield claim
    finally:
        over.set()
        if mine:
            beats.join()
            with store.writing() as db:
                wanted = msgspec.json.encode(sorted(mine)).decode()
                db.execute(
                    "DELETE FROM claim WHERE server = ? AND owner = ?"
                    " AND key IN (SELECT value FROM json_each(?))",
                    (server, owner, wanted),
                )


def _taken(store: Store, server: str, owner: str, keys: Collection[str]) -> frozenset[str]:
    """Claim what is not answered and nobody claims; all of `keys` that are then the owner's."""
    wanted = msgspec.json.encode(list(keys)).decode()
    with store.writing() as db:
        now = now_ns()
        db.execute("DELETE FROM claim WHERE until_ns <= ?", (now,))
        for (other,) in db.execute("SELECT DISTINCT owner FROM claim").fetchall():
            if _is_gone(other):
                db.execute("DELETE FROM claim WHERE owner = ?", (other,))
        db.execute(
            "INSERT OR IGNORE INTO claim (server, key, owner, until_ns)"
            " SELECT ?1, value, ?2, ?3 FROM json_each(?4)"
            " WHERE NOT EXISTS (SELECT 1 FROM answer WHERE server = ?1 AND key = value)",
            (server, owner, now + _lease_ns(), wanted),
        )
        rows = db.execute(
            "SELECT key FROM claim WHERE server = ? AND owner = ?"
            " AND key IN (SELECT value FROM json_each(?))",
            (server, owner, wanted),
        )
        return frozenset(row[0] for row in rows)


def _beat(path: Path, owner: str, over: threading.Event) -> None:
    """Move the claims of an owner on until it is `over`."""
    passing: tuple[type[BaseException], ...] = (StoreUnusable, OSError, *database_errors())
    while not over.wait(BEAT_S):
        try:
            db = connect(path)
            try:
                db.execute(
                    "UPDATE claim SET until_ns = ? WHERE owner = ?", (now_ns() + _lease_ns(), owner)
                )
            finally:
                db.close()
        except passing:
            continue  # the next beat comes before the claim ends


def _lease_ns() -> int:
    return int(LEASE_S * 1e9)


def _place() -> str:
    """Names where numbers of processes mean the same: this machine, or this container of it."""
    try:
        numbers = os.readlink("/proc/self/ns/pid")
    except OSError:
        numbers = ""
    return digests.digest("place", f"{platform.node()} {numbers}")[-8:]


def _is_gone(owner: str) -> bool:
    """Has the process of an owner certainly ended?"""
    place, number, _ = owner.split("/")
    if os.name != "posix" or place != _place():
        return False
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return True
    except PermissionError:  # another user's, and alive
        pass
    return False
