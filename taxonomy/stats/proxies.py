"""What users did, where nobody could judge the run: they stepped in, took it back, or left.

Source: the ARC article, "Behavioral grounding": where transcripts cannot be read, proxies work.
Only what a source keeps is counted, as a share of the runs of sources that keep such things.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from replay.statistics import Rate, rate
from replay.store.handle import Store
from replay.store.rows import TraceRow
from replay.trace import Json
from taxonomy.query.measured import agent_extras

FORMATS = frozenset({"claude-code"})
"""Sources that say where a user stepped in."""

_KINDS = {
    "interrupt": "interrupted",
    "interrupted": "interrupted",
    "rejected": "a call rejected",
    "rewind": "taken back",
    "regenerated": "asked again",
    "abandoned": "abandoned",
}
"""A source's word for what happened, and ours for a run in which it did."""

ABANDONED = "abandoned"
UNTOUCHED = "none of these"


class Proxies(Struct, frozen=True, kw_only=True):
    """Runs in which users did something, as a share of those whose source would say so."""

    rates: dict[str, Rate] = {}
    runs: int = 0


NOTHING_KEPT = Proxies()
"""Where no run's source would say."""


def signs_of(agents: Iterable[Mapping[str, Json]]) -> frozenset[str]:
    """What users did in one run, from what its agent spans keep.

    A run whose last words are a user's, without an answer, was abandoned.
    """
    found: set[str] = set()
    for extra in agents:
        signals = extra.get("signals")
        for signal in signals if isinstance(signals, list) else ():
            kind = signal.get("kind") if isinstance(signal, dict) else None
            if isinstance(kind, str) and kind in _KINDS:
                found.add(_KINDS[kind])
        if _unanswered(extra):
            found.add(ABANDONED)
    return frozenset(found)


def _unanswered(extra: Mapping[str, Json]) -> bool:
    left = extra.get("unanswered")
    last = left[-1] if isinstance(left, list) and left else None
    if not isinstance(last, dict) or last.get("role") != "user" or extra.get("abandoned"):
        return False
    content = last.get("content")
    blocks = content if isinstance(content, list) else []
    return not any(isinstance(b, dict) and b.get("type") == "tool_result" for b in blocks)


def proxies(runs: Sequence[frozenset[str]]) -> Proxies:
    """The share of runs of each kind, and of those in which users did none of it."""
    if not runs:
        return NOTHING_KEPT
    names = list(dict.fromkeys(_KINDS.values()))
    counted = {name: sum(name in signs for signs in runs) for name in names}
    rates = {name: rate(hits, len(runs)) for name, hits in counted.items() if hits}
    rates[UNTOUCHED] = rate(sum(not signs for signs in runs), len(runs))
    return Proxies(rates=rates, runs=len(runs))


def read_signs(store: Store, rows: Iterable[TraceRow]) -> dict[str, frozenset[str]]:
    """What users did in each run whose source would say so."""
    telling = [row.trace for row in rows if row.format in FORMATS]
    kept = agent_extras(store, telling)
    return {trace: signs_of(kept.get(trace, ())) for trace in telling}
