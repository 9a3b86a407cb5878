"""How long the calls of some runs took: a line a model and a tool, and what is said of it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal

from msgspec import Struct

from arc_tui import format
from replay.store import Store
from replay.store.latency import Latency, latencies, spans_named

KINDS = ("model", "tool")

MOST = 20
"""Lines of a table; `--json` has all of them."""

HEAD = ("", "latency", "p50", "p90", "p99", "n", "")
DIGITS = "percentiles by nearest rank, to two digits: at least that, and less than a tenth more"


class CallTimes(Struct, frozen=True, kw_only=True):
    """How long the `calls` of a model or a tool took, as far as the source says: `timed` of them.

    The percentiles are None where none is. `name` None: the model is not known.
    """

    kind: Literal["model", "tool"]
    name: str | None
    calls: int
    timed: int
    p50_ns: int | None
    p90_ns: int | None
    p99_ns: int | None


def call_times(store: Store, traces: Collection[str]) -> tuple[CallTimes, ...]:
    """Models, then tools, those called most first."""
    timed = {(each.kind, each.name): each for each in latencies(store, traces)}
    found = [
        _times("model" if kind == "model" else "tool", name, calls, timed.get((kind, name)))
        for (kind, name), calls in spans_named(store, traces).items()
        if kind in KINDS
    ]
    return tuple(sorted(found, key=lambda each: (each.kind, -each.calls, each.name or "")))


def _times(
    kind: Literal["model", "tool"], name: str | None, calls: int, known: Latency | None
) -> CallTimes:
    return CallTimes(
        kind=kind,
        name=name,
        calls=calls,
        timed=known.spans if known else 0,
        p50_ns=known.p50_ns if known else None,
        p90_ns=known.p90_ns if known else None,
        p99_ns=known.p99_ns if known else None,
    )


def latency_rows(found: Sequence[CallTimes]) -> list[list[str]]:
    """The lines of the table under `HEAD`; none where no call has a time."""
    if not any(each.timed for each in found):
        return []
    shown = found[:MOST]
    before = [None, *(each.kind for each in shown)]
    return [
        [each.kind if each.kind != last else "", *_cells(each)]
        for each, last in zip(shown, before, strict=False)
    ]


def _cells(each: CallTimes) -> list[str]:
    name = format.cut(format.one_line(each.name), 32) if each.name else "model not recorded"
    times = map(format.duration, (each.p50_ns, each.p90_ns, each.p99_ns))
    calls = format.count(each.calls, "call")
    return [name, *times, calls, _left_out(each)]


def _left_out(each: CallTimes) -> str:
    if not each.timed:
        return "the source gives no times"
    untimed = each.calls - each.timed
    return f"{format.number(untimed)} without a time left out" if untimed else ""


def latency_note(found: Sequence[CallTimes]) -> str:
    """What is said below the table, or in its place."""
    if not found:
        return "latency: no call was recorded"
    if not any(each.timed for each in found):
        calls = format.count(sum(each.calls for each in found), "call")
        return f"latency: unknown, the source gives no times for {calls}"
    more = len(found) - MOST
    left = f"; {more} more in --json" if more > 0 else ""
    return f"{DIGITS}{left}"
