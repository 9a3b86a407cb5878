"""How long calls take: percentiles by tool and by model, and where one call stands among them.

Also for how long more is expected of a trace that is under way.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import accumulate, groupby

import msgspec
from msgspec import Struct

from replay.store.handle import Store


class Latency(Struct, frozen=True, kw_only=True):
    """How long the `spans` of a name took, as far as their ends are known.

    Percentiles are cut to two digits: at least that, and less than a tenth more. `name` None:
    the model is not known.
    """

    kind: str
    name: str | None
    spans: int
    p50_ns: int
    p90_ns: int
    p99_ns: int


def latencies(store: Store, traces: Collection[str] | None = None) -> list[Latency]:
    """By kind and name, the preferred recordings of all runs; or of the spans of some traces.

    For all runs the stored histogram is read; for some traces the same is counted from their spans.
    """
    if traces is None:
        found = store.db.execute(
            "SELECT kind, name, latency_ns, spans FROM latency ORDER BY kind, name, latency_ns"
        )
    else:
        found = store.db.execute(
            "SELECT kind, name, latency_ns, count(*) FROM span_latency WHERE trace IN ("
            "  SELECT id FROM trace WHERE complete AND key IN (SELECT value FROM json_each(?)))"
            " GROUP BY kind, name, latency_ns ORDER BY kind, name, latency_ns",
            (msgspec.json.encode(sorted(traces)).decode(),),
        )
    return [
        _latency(kind, name, [(row[2], row[3]) for row in own])
        for (kind, name), own in groupby(found, key=lambda row: (row[0], row[1]))
    ]


def spans_named(store: Store, traces: Collection[str]) -> dict[tuple[str, str | None], int]:
    """How many spans some traces have of each kind and name, whether their times are known or
    not."""
    found = store.db.execute(
        "SELECT s.kind, CASE s.kind WHEN 'model'"
        "   THEN nullif(coalesce(m.response_model, m.model), '') ELSE s.name END AS name, count(*)"
        " FROM span s LEFT JOIN model_call m ON m.span = s.id WHERE s.trace IN ("
        "   SELECT id FROM trace WHERE complete AND key IN (SELECT value FROM json_each(?)))"
        " GROUP BY 1, 2",
        (msgspec.json.encode(sorted(traces)).decode(),),
    )
    return {(kind, name): spans for kind, name, spans in found}


class LatencyRank(Struct, frozen=True, kw_only=True):
    """A call among the `spans` of its tool that have a time, over all runs: `faster` of them took
    less, as far as two digits tell."""

    tool: str
    spans: int
    faster: int

    @property
    def percent(self) -> int:
        """Of all these, itself among them, how many are faster; rounded down."""
        return self.faster * 100 // self.spans


def standing(store: Store, tool: str, took_ns: int) -> LatencyRank:
    """Where a call of a tool stands that took so long."""
    spans, faster = store.db.execute(
        "SELECT coalesce(sum(spans), 0), coalesce(sum(spans) FILTER (WHERE latency_ns < ?), 0)"
        " FROM latency WHERE kind = 'tool' AND name = ?",
        (two_digits(took_ns), tool),
    ).fetchone()
    return LatencyRank(tool=tool, spans=spans, faster=faster)


def two_digits(took_ns: int) -> int:
    """A latency cut as the histogram has it."""
    digits = str(took_ns)
    return int(digits[:2].ljust(len(digits), "0"))


def _latency(kind: str, name: str, counts: Sequence[tuple[int, int]]) -> Latency:
    return Latency(
        kind=kind,
        name=name or None,
        spans=sum(spans for _, spans in counts),
        p50_ns=percentile(counts, 50),
        p90_ns=percentile(counts, 90),
        p99_ns=percentile(counts, 99),
    )


def percentile(counts: Sequence[tuple[int, int]], percent: int) -> int:
    """The least value that `percent` of all are not above (nearest rank), of at least one
    ascending pair (value, how many)."""
    wanted = sum(many for _, many in counts) * percent
    upto = accumulate(many for _, many in counts)
    return next(
        value for (value, _), many in zip(counts, upto, strict=True) if many * 100 >= wanted
    )


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
