"""What replays came to, by digest, locked or free; and the stubs that a user wrote for a trace."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, Literal, TypeAlias, TypeVar, overload

import msgspec
from msgspec import Struct

from replay import digests
from replay.errors import NotFound
from replay.free.recorded_results import Stub
from replay.free.result import FreeCore
from replay.locked.row import RANGE
from replay.locked.run import Core
from replay.store import answers
from replay.store.handle import Store, now_ns
from replay.trace import Json

Kind: TypeAlias = Literal["locked", "free"]

R = TypeVar("R", Core, FreeCore)


class Kept(Struct, frozen=True, kw_only=True):
    """A stored replay, without its rows: for a list."""

    digest: str
    trace: str
    edit: str | None
    model: str
    ran_ns: int
    kind: Kind = "locked"


def keep(store: Store, core: Core | FreeCore) -> str:
    """Keep what a replay came to and return its digest. The same result again changes nothing.

    The edit must have been saved. A core is made of content out of the database, which holds
    nothing that a rule would mask; what else stands in it is masked here, before it is hashed.
    """
    from replay.redact import text

    plain = msgspec.json.decode(core.encoded())
    masked = text.restored(plain, store.redactor.value(plain), core.trace.__eq__)
    kept = msgspec.convert(masked, type(core))
    with store.writing() as db:
        db.execute(
            "INSERT OR IGNORE INTO replay"
            " (digest, trace_key, edit, model, core, ran_ns, kind, sample_range)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                kept.digest,
                kept.trace,
                kept.edit,
                kept.model,
                kept.encoded().decode(),
                now_ns(),
                _kind(type(kept)),
                kept.range if isinstance(kept, Core) else kept.sample // RANGE,
            ),
        )
    return kept.digest


@overload
def find(store: Store, digest: str) -> Core: ...


@overload
def find(store: Store, digest: str, of: type[R]) -> R: ...


def find(store: Store, digest: str, of: type[Any] = Core) -> Core | FreeCore:
    """The core of that digest: of a locked replay, or of a free one where that is asked for.

    Raises NotFound where there is none of that kind.
    """
    row = store.db.execute(
        "SELECT core FROM replay WHERE digest = ? AND kind = ?", (digest, _kind(of))
    ).fetchone()
    if row is None:
        raise NotFound("replay" if of is Core else "free replay", digest)
    found: Core | FreeCore = msgspec.json.decode(row[0], type=of)
    return found


def begun(store: Store, beginning: str) -> Kept:
    """The kept replay whose digest begins so, its tag left out or not.

    Raises NotFound where there is none, or more than one.
    """
    tag, _, digits = beginning.rpartition(":")
    found = [
        each
        for each in _kept(store, "instr(digest, ?) = 1", f"{tag or digests.ALGORITHM}:{digits}")
        if digits
    ]
    if len(found) != 1:
        raise NotFound("saved replay", beginning, [each.digest for each in found[:3]])
    return found[0]


class _Taken(Struct, frozen=True, kw_only=True):
    """The highest range of samples that something beside replays has used."""

    range: int


def take_range(store: Store, trace: str, model: str, range: int) -> None:
    """Remember that a search or a test of the trace, now finished, used that range of samples.

    What was killed has not finished: begun again it takes the same range, and what it paid for.
    """
    if range > _taken(store, trace, model):
        answers.keep(store, _taken_name(trace, model), _Taken(range=range))


def next_range(store: Store, trace: str, model: str) -> int:
    """The range of samples of the trace by that model that nothing finished has used.

    At least 1: range 0 is what everything asks that does not ask for fresh samples.
    """
    row = store.db.execute(
        "SELECT coalesce(max(sample_range), 0) FROM replay WHERE trace_key = ? AND model = ?",
        (trace, model),
    ).fetchone()
    return max(int(row[0]), _taken(store, trace, model)) + 1


def _taken(store: Store, trace: str, model: str) -> int:
    found = answers.found(store, _taken_name(trace, model), _Taken)
    return max((each.range for each in found), default=0)


def _taken_name(trace: str, model: str) -> str:
    return f"samples/{trace}/{model}/"


def of_trace(store: Store, trace: str) -> list[Kept]:
    """The replays of a trace, the latest first."""
    return _kept(store, "trace_key = ?", trace)


def controls(store: Store, traces: Collection[str]) -> Iterator[tuple[int, Core]]:
    """(when it ran, what it came to) of each locked replay of these traces, the oldest first."""
    found = store.db.execute(
        "SELECT ran_ns, core FROM replay WHERE kind = 'locked'"
        " AND trace_key IN (SELECT value FROM json_each(?)) ORDER BY ran_ns, id",
        (msgspec.json.encode(sorted(traces)).decode(),),
    )
    for ran_ns, core in found.fetchall():
        yield ran_ns, msgspec.json.decode(core, type=Core)


def _kept(store: Store, where: str, value: str) -> list[Kept]:
    return [
        Kept(digest=row[0], trace=row[1], edit=row[2], model=row[3], ran_ns=row[4], kind=row[5])
        for row in store.db.execute(
            f"SELECT digest, trace_key, edit, model, ran_ns, kind FROM replay WHERE {where}"
            " ORDER BY ran_ns DESC, id DESC",
            (value,),
        )
    ]


def _kind(of: type[Any]) -> Kind:
    return "free" if issubclass(of, FreeCore) else "locked"


def put(store: Store, trace: str, stub: Stub, *, source: str) -> Stub:
    """Keep a stub and return it as kept, its secrets masked; one for the same call is replaced.

    `source` says where it was written: the name of a file, or of a screen.
    """
    kept = msgspec.convert(store.redactor.value(msgspec.to_builtins(stub)), Stub)
    row = (kept.result, kept.is_error, store.redactor.text(source), now_ns())
    with store.writing() as db:
        db.execute(
            "INSERT OR REPLACE INTO stub"
            " (trace_key, tool, arguments, result, is_error, source, added_ns)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            (trace, kept.tool, digests.canonical(kept.arguments), *row),
        )
    return kept


def stubs_of_trace(store: Store, trace: str) -> tuple[Stub, ...]:
    """The stubs of a trace, by tool and arguments."""
    rows = store.db.execute(
        "SELECT tool, arguments, result, is_error FROM stub WHERE trace_key = ?"
        " ORDER BY tool, arguments",
        (trace,),
    )
    return tuple(
        Stub(
            tool=tool,
            arguments=msgspec.json.decode(arguments),
            result=result,
            is_error=bool(is_error),
        )
        for tool, arguments, result, is_error in rows
    )


def remove(store: Store, trace: str, tool: str, arguments: Json) -> bool:
    """Forget the stub of a call. Was there one?"""
    masked = store.redactor.value(arguments)
    with store.writing() as db:
        done = db.execute(
            "DELETE FROM stub WHERE trace_key = ? AND tool = ? AND arguments = ?",
            (trace, tool, digests.canonical(masked)),
        )
    return done.rowcount > 0
