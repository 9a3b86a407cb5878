"""How long calls take: percentiles by tool and by model, from the stored histogram.

`sums` defines the histogram and keeps it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
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
