"""The runs that a question means in a trace store, cut by day and by a hash of the trace's id, so
that each partition can be read by a process of its own, and read again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import structs

from replay.fleet.connection import Connection
from replay.fleet.dialect import Dialect
from taxonomy.fleet.compile import Compiled, Window, compile_text
from taxonomy.fleet.listing import FleetRun, pages, starts, sums
from taxonomy.judgements.scans import Partition

TOGETHER = 200
"""Traces that a partition holds about: what a killed worker has to do again."""

HASHES = 1024
"""A day is cut into so many pieces at most."""

_SECOND_NS = 1_000_000_000
_DAY_NS = 86_400 * _SECOND_NS
_HASH = f"cityHash64(toString(trace)) % {HASHES}"


def list_partitions(
    connection: Connection, dialect: Dialect, asked: Compiled, window: Window
) -> list[Partition]:
    """The partitions of a compiled question, the oldest first, by one query. Neighbouring hashes of
    a day are put together up to `TOGETHER` traces. Raises FleetError."""
    rows = connection.rows(
        f"SELECT intDiv(start_ns, {_DAY_NS}) AS day, {_HASH} AS hash, count()"
        f" FROM ({starts(dialect, window)}) WHERE ({asked.sql}) AND start_ns < {window.until_ns}"
        " GROUP BY day, hash ORDER BY day, hash",
        asked.values,
    )
    found: list[Partition] = []
    for day, hash_, count in rows:
        last = found[-1] if found else None
        from_ns, until_ns = int(day) * _DAY_NS, (int(day) + 1) * _DAY_NS
        if last is not None and last.from_ns == from_ns and last.traces + count <= TOGETHER:
            found[-1] = structs.replace(last, high=hash_ + 1, traces=last.traces + count)
            continue
        if last is not None and last.from_ns == from_ns:
            low = last.high
        else:
            low = 0
            if last is not None:
                found[-1] = structs.replace(last, high=HASHES)
        found.append(
            Partition(
                place=len(found), from_ns=from_ns, until_ns=until_ns, low=low, high=hash_ + 1,
                traces=count,
            )
        )  # fmt: skip
    if found:
        found[-1] = structs.replace(found[-1], high=HASHES)
    return found


def runs_of_partition(
    connection: Connection,
    dialect: Dialect,
    text: str,
    window: Window,
    part: Partition,
    *,
    has_outcomes: bool,
) -> Iterator[Sequence[FleetRun]]:
    """The runs of a partition, a page at a time, newest first. Raises BadQuery, FleetError.

    A trace that goes on after more than a day began where the table of starts says so; a store
    without one is asked for the whole window, so that such a trace is in one partition only.
    """
    inside = Window(max(window.from_ns, part.from_ns), min(window.until_ns, part.until_ns))
    read = inside if dialect.lookup is not None else window
    asked = compile_text(text, dialect, read, lambda: has_outcomes)
    of_part = (
        f"({asked.sql}) AND start_ns >= {part.from_ns} AND start_ns < {part.until_ns}"
        f" AND {_HASH} >= {part.low} AND {_HASH} < {part.high}"
    )
    for ids in pages(connection, dialect, structs.replace(asked, sql=of_part), read):
        yield sums(connection, dialect, ids, inside)
