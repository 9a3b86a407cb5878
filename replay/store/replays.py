"""What replays came to: the core of each, by its digest. When it ran stands beside it."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from replay.errors import NotFound
from replay.result import Core
from replay.store.handle import Store, now_ns


class Kept(Struct, frozen=True, kw_only=True):
    """A stored replay, without its rows: for a list."""

    digest: str
    trace: str
    edit: str | None
    model: str
    ran_ns: int


def keep(store: Store, core: Core) -> str:
    """Keep what a replay came to and return its digest. The same result again changes nothing.

    The edit must have been saved. A core is made of content out of the database, which holds
    nothing that a rule would mask; what else stands in it is masked here, before it is hashed.
    """
    body = store.redactor.value(msgspec.to_builtins(core))
    kept = msgspec.convert(body, Core)
    with store.writing() as db:
        db.execute(
            "INSERT OR IGNORE INTO replay (digest, trace_key, edit, model, core, ran_ns)"
            " VALUES (?, ?, ?, ?, ?, ?)",
            (kept.digest, kept.trace, kept.edit, kept.model, kept.encoded().decode(), now_ns()),
        )
    return kept.digest


def find(store: Store, digest: str) -> Core:
    """The core of that digest. Raises NotFound where there is none."""
    row = store.db.execute("SELECT core FROM replay WHERE digest = ?", (digest,)).fetchone()
    if row is None:
        raise NotFound("replay", digest)
    return msgspec.json.decode(row[0], type=Core)


def of_trace(store: Store, trace: str) -> list[Kept]:
    """The replays of a trace, the latest first."""
    return [
        Kept(digest=row[0], trace=row[1], edit=row[2], model=row[3], ran_ns=row[4])
        for row in store.db.execute(
            "SELECT digest, trace_key, edit, model, ran_ns FROM replay WHERE trace_key = ?"
            " ORDER BY ran_ns DESC, id DESC",
            (trace,),
        )
    ]
