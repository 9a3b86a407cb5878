"""Who is asking for an answer at this moment? So that two processes do not pay for one question.

A claim stands for an answer that is not kept yet: by server and key, with its owner and the time it
ends. While the owner is at work a thread moves that time on, so a claim outlives its owner by a few
seconds at most, and by nothing where the owner ran on this machine. Whoever waits then asks itself.
`answers.put` ends a claim in the transaction that keeps the answer: there is never neither.
"""

from __future__ import annotations

import os
import platform
import secrets
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from replay import digests
from replay.errors import StoreUnusable
from replay.store.connection import connect
from replay.store.handle import Store, now_ns
from replay.store.trouble import database_errors

LEASE_S = 10.0
"""How long a claim lasts that nobody moves on."""

BEAT_S = 2.5
"""How often it is moved on."""

_PROCESS = secrets.token_hex(8)


@contextmanager
def claimed(store: Store, server: str, keys: Collection[str]) -> Iterator[frozenset[str]]:
    """Those of `keys` that are this thread's to ask until the end of the block.

    The others are answered, or somebody else is asking for them. Raises StoreUnusable where the
    database cannot be written: then nothing could be kept either.
    """
    if store.path is None:  # nobody else has this database
        yield frozenset(keys)
        return
    owner = f"{_place()}/{os.getpid()}/{_PROCESS}{threading.get_ident()}"
    mine = _taken(store, server, owner, keys)
    over = threading.Event()
    beats = threading.Thread(target=_beat, args=(store.path, owner, over), daemon=True)
    if mine:
        beats.start()
    try:
        yield mine
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
