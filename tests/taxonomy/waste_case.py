"""Runs with recorded usage, and requests changed by hand, for the tests of money and waste."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import structs

from replay import steps
from replay.trace import AnySpan, ModelCall, Trace, Usage
from tests.build import SECOND_NS, Part, trace

SONNET = "claude-sonnet-4-5"
"""$3 in, $0.30 read, $3.75 written, $15 out a million tokens."""


def usage(
    size: int | None, out: int | None = 100, read: int | None = None, write: int | None = None
) -> Usage:
    return Usage(
        input_tokens=size, output_tokens=out, cache_read_tokens=read, cache_write_tokens=write
    )


def paid(
    parts: Sequence[Part],
    usages: Sequence[Usage | None],
    *,
    model: str | None = SONNET,
    **known: Any,
) -> Trace:
    """A run whose steps have these usages, all asked of one model."""
    run = trace(parts, **known)
    for index, each in enumerate(usages):
        run = with_ask(run, index, usage=each)
        run = with_request(run, index, model=model)
    return run


def with_ask(run: Trace, index: int, **changes: Any) -> Trace:
    """The run with other fields of the model call of one step."""
    return _mapped(run, index, lambda ask: structs.replace(ask, **changes))


def with_request(run: Trace, index: int, **changes: Any) -> Trace:
    """The run with another request at one step."""
    return _mapped(
        run,
        index,
        lambda ask: structs.replace(ask, request=structs.replace(ask.request, **changes)),
    )


def waited(run: Trace, index: int, seconds: float) -> Trace:
    """The run with a pause before a step; what comes after it moves along."""
    begins = run.steps[index].ask.start_ns or 0
    moved: list[AnySpan] = []
    for span in run.spans:
        if (span.start_ns or 0) >= begins and span.start_ns is not None:
            late = int(seconds * SECOND_NS)
            end = None if span.end_ns is None else span.end_ns + late
            span = structs.replace(span, start_ns=span.start_ns + late, end_ns=end)
        moved.append(span)
    return rebuilt(run, moved)


def rebuilt(run: Trace, spans: Sequence[AnySpan]) -> Trace:
    """The run with other spans, its steps derived anew."""
    made, loose, _ = steps.build(spans)
    return structs.replace(run, spans=tuple(spans), steps=made, loose=loose)


def _mapped(run: Trace, index: int, change: Callable[[ModelCall], ModelCall]) -> Trace:
    target = run.steps[index].ask.id
    spans = [
        change(span) if isinstance(span, ModelCall) and span.id == target else span
        for span in run.spans
    ]
    return rebuilt(run, spans)
