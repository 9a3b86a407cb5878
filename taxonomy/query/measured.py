"""What the metrics of some traces are counted from, by trace."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from replay.action import Act
from replay.store.handle import Store
from replay.trace import Effect, Json
from taxonomy.findings import Source
from taxonomy.query.fields import TRUSTED
from taxonomy.query.filter import among


def references(store: Store, traces: Iterable[str]) -> dict[str, dict[str, Json]]:
    """The gold actions and the like of those traces whose source has some."""
    found = store.db.execute(
        "SELECT key, reference FROM trace WHERE complete AND reference IS NOT NULL"
        " AND key IN (SELECT value FROM json_each(?))",
        (among(traces),),
    )
    return {key: msgspec.json.decode(text) for key, text in found}


class CallMade(NamedTuple):
    """A call as it was made; `effect` as recorded."""

    act: Act
    effect: Effect


def calls_made(store: Store, traces: Iterable[str]) -> dict[str, list[CallMade]]:
    """The tool calls of each trace, in the order of their steps."""
    found = store.db.execute(
        "SELECT t.key, s.name, c.arguments, c.arguments_raw, c.effect"
        " FROM trace t JOIN span s ON s.trace = t.id JOIN tool_call c ON c.span = s.id"
        " WHERE t.complete AND t.key IN (SELECT value FROM json_each(?))"
        " ORDER BY t.id, s.step, s.seq",
        (among(traces),),
    )
    made: dict[str, list[CallMade]] = {}
    for key, name, arguments, raw, effect in found:
        given = None if arguments is None else msgspec.json.decode(arguments)
        act = Act(tool=name, arguments=given, raw=raw)
        made.setdefault(key, []).append(CallMade(act, effect))
    return made


class StepSign(NamedTuple):
    """What is known of how a step went: calls that ended in an error, its most trusted score.

    `source` says whose score it is.
    """

    errors: int
    score: float | None
    source: Source | None


def step_signs(store: Store, traces: Iterable[str]) -> dict[str, list[StepSign]]:
    """A sign a step of each trace, in order."""
    found = store.db.execute(
        "SELECT t.key, s.errors, g.value, g.source FROM trace t JOIN step s ON s.trace = t.id"
        " LEFT JOIN score g ON g.rowid = (SELECT rowid FROM score o"
        "   WHERE o.trace = t.key AND o.step = s.step AND o.value IS NOT NULL"
        f"   ORDER BY {TRUSTED}, o.by LIMIT 1)"
        " WHERE t.complete AND t.key IN (SELECT value FROM json_each(?)) ORDER BY t.id, s.step",
        (among(traces),),
    )
    signs: dict[str, list[StepSign]] = {}
    for key, errors, score, source in found:
        signs.setdefault(key, []).append(StepSign(errors, score, source))
    return signs


def agent_extras(store: Store, traces: Iterable[str]) -> dict[str, list[dict[str, Json]]]:
    """What the source keeps of each agent of a trace that has no field of its own."""
    found = store.db.execute(
        "SELECT t.key, json_extract(s.detail, '$.extra') FROM trace t JOIN span s ON s.trace = t.id"
        " WHERE t.complete AND t.key IN (SELECT value FROM json_each(?)) AND s.kind = 'agent'"
        "   AND json_type(s.detail, '$.extra') = 'object' ORDER BY t.id, s.seq",
        (among(traces),),
    )
    kept: dict[str, list[dict[str, Json]]] = {}
    for key, extra in found:
        kept.setdefault(key, []).append(msgspec.json.decode(extra, type=dict[str, Json]))
    return kept


class CacheShare(NamedTuple):
    """Input tokens of the calls whose cache figures are known, and how many came from the cache."""

    input_tokens: int
    cache_read_tokens: int


def cache_shares(store: Store, traces: Iterable[str]) -> dict[str, CacheShare]:
    """By trace, of those with a call that says what it read from the cache."""
    found = store.db.execute(
        "SELECT t.key, sum(m.input_tokens), sum(m.cache_read_tokens)"
        " FROM trace t JOIN span s ON s.trace = t.id JOIN model_call m ON m.span = s.id"
        " WHERE t.complete AND t.key IN (SELECT value FROM json_each(?))"
        "   AND m.input_tokens IS NOT NULL AND m.cache_read_tokens IS NOT NULL GROUP BY t.key",
        (among(traces),),
    )
    return {key: CacheShare(given, read) for key, given, read in found}


def temperatures(store: Store, traces: Iterable[str]) -> dict[str, tuple[float, ...]]:
    """The sampling temperatures each trace was recorded with, where it says."""
    found = store.db.execute(
        "SELECT DISTINCT t.key, json_extract(m.params, '$.temperature') AS temperature"
        " FROM trace t JOIN span s ON s.trace = t.id JOIN model_call m ON m.span = s.id"
        " WHERE t.complete AND t.key IN (SELECT value FROM json_each(?))"
        "   AND json_type(m.params, '$.temperature') IN ('integer', 'real')"
        " ORDER BY t.key, temperature",
        (among(traces),),
    )
    known: dict[str, tuple[float, ...]] = {}
    for key, temperature in found:
        known[key] = (*known.get(key, ()), float(temperature))
    return known
