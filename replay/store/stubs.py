"""The stubs a user wrote for a trace: what calls get that its tape cannot answer."""

from __future__ import annotations

import msgspec

from replay import canon
from replay.free.stub import Stub
from replay.store.handle import Store, now_ns
from replay.trace import Json


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
            (trace, kept.tool, canon.canonical(kept.arguments), *row),
        )
    return kept


def of_trace(store: Store, trace: str) -> tuple[Stub, ...]:
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
            (trace, tool, canon.canonical(masked)),
        )
    return done.rowcount > 0
