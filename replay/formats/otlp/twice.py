"""Which spans tell of a model call that another span tells of already?

An instrumented framework over an instrumented SDK over a server that exports its own spans: three
spans, one call, paid for once. They hang below one another, or lie beside one another at the same
time, and name the same response.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import pairwise

from replay.formats.otlp import names
from replay.formats.otlp.kinds import Kind
from replay.formats.otlp.records import SERVER, Raw
from replay.formats.otlp.spans import Known

LEVELS = 32
"""How far apart two spans of one call may hang."""


def repeated(found: Collection[Known]) -> dict[str, str]:
    """The span that is kept for each one that repeats it."""
    by_id = {span.raw.id: span.raw for span in found}
    models = {span.raw.id: span for span in found if span.kind is Kind.MODEL}
    kept: dict[str, str] = {}
    for group in _groups(models, by_id):
        best = max(group, key=_worth)
        kept.update({raw.id: best.id for raw in group if raw is not best})
    return kept


def _groups(models: dict[str, Known], by_id: dict[str, Raw]) -> list[list[Raw]]:
    """Spans of one call, two and more together."""
    group_of: dict[str, list[Raw]] = {}
    by_response: dict[str, list[Raw]] = {}
    for span in models.values():
        raw, response = span.raw, span.word(names.RESPONSE)
        if response is not None:
            by_response.setdefault(response, []).append(raw)
        above = by_id.get(raw.parent or "")
        if raw.kind == SERVER and above is not None and above.id in models:
            _join(group_of, raw, above)
    for alike in by_response.values():
        for one, other in pairwise(alike):
            if _same(one, other, by_id):
                _join(group_of, one, other)
    several = {id(group): group for group in group_of.values() if len(group) > 1}
    return list(several.values())


def _join(group_of: dict[str, list[Raw]], one: Raw, other: Raw) -> None:
    into = group_of.setdefault(one.id, [one])
    from_ = group_of.setdefault(other.id, [other])
    if into is from_:
        return
    into += from_
    group_of.update({raw.id: into for raw in from_})


def _same(one: Raw, other: Raw, by_id: dict[str, Raw]) -> bool:
    """Do spans of one response lie in one another, or beside one another at the same time? One
    that was answered from a cache has the response too, but later."""
    if _is_above(one, other, by_id) or _is_above(other, one, by_id):
        return True
    if one.parent != other.parent or None in (one.start_ns, one.end_ns, other.start_ns):
        return False
    starts, ends = (one.start_ns or 0, other.start_ns or 0), (one.end_ns or 0, other.end_ns or 0)
    return max(starts) < min(ends)


def _is_above(one: Raw, other: Raw, by_id: dict[str, Raw]) -> bool:
    above = by_id.get(other.parent or "")
    for _ in range(LEVELS):
        if above is None or above is one:
            return above is one
        above = by_id.get(above.parent or "")
    return False


def _worth(raw: Raw) -> tuple[bool, bool, int]:
    """The one with the messages, the caller's before the server's, the one nearest the wire."""
    told = names.INPUT in raw.attributes or any(
        name.startswith(("gen_ai.prompt.", "llm.input_messages.")) for name in raw.attributes
    )
    return told, raw.kind != SERVER, raw.start_ns or 0
