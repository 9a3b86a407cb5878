"""Where did a value come from, and which values of a step came from nowhere?

`seen` knows what a run had been shown, `identifiers` which values need an origin; this joins them
for a question about one trace. A value that no prompt, message or observation held before the step
that uses it is what hallucinated state means.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from replay.trace import Json, Trace
from taxonomy.evidence.identifiers import Sort, to_ground
from taxonomy.evidence.reading import Act, Reading, Turn
from taxonomy.evidence.replies import Kind
from taxonomy.evidence.seen import Index, Origin

__all__ = ["Index", "Origin", "Ungrounded", "Value", "ungrounded", "values", "where_from"]


class Value(Struct, frozen=True, eq=False, kw_only=True):
    """A value of a call that needs an origin, and the origin that was found for it."""

    act: Act
    path: str
    value: Json
    sort: Sort
    origin: Origin | None


class Ungrounded(Struct, frozen=True, kw_only=True):
    """A value in a call that nothing had shown: the call's span, its place in the arguments."""

    span: str
    path: str
    value: Json


def where_from(trace: Trace, step: int, value: Json) -> Origin | None:
    """The first span, prompt or message that held `value` before `step`, None where none did.

    Indexes the whole trace for one question; rules ask an `Index` of their own.
    """
    return Index(Reading(trace)).origin(step, value)


def ungrounded(trace: Trace, step: int) -> tuple[Ungrounded, ...]:
    """The values in the calls of `step` that have no origin, in the order of the arguments."""
    reading = Reading(trace)
    if not 0 <= step < len(reading.turns):
        return ()
    return tuple(
        Ungrounded(span=value.act.span.id, path=value.path, value=value.value)
        for value in values(Index(reading), reading.turns[step])
        if value.origin is None
    )


def values(index: Index, turn: Turn) -> Iterator[Value]:
    """The values of a turn that need an origin; none where the run's first words are not known.

    An identifier put together from parts that were shown is a guess: it has an origin only where
    the call it stands in did not come back empty-handed. Where the source cut what was shown
    before, only a value that was not found either is known to have no origin.
    """
    if not index.knows_task:
        return
    partly = index.cut_from is not None and index.cut_from <= turn.index
    for act in turn.acts:
        missing = act.reply.kind is Kind.MISSING
        for named in to_ground(act):
            origin = index.origin(turn.index, named.value)
            guessed = origin is not None and origin.how == "derived" and named.sort != "amount"
            if guessed and missing:
                origin = None
            if origin is None and partly and not missing:
                continue
            yield Value(act=act, path=named.path, value=named.value, sort=named.sort, origin=origin)
