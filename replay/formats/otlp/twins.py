"""Model calls that a client's instrumentation put into traces of their own.

A framework whose spans are not the current ones (LangChain's callbacks) leaves those of its client
library without a parent: each makes a trace of one call. Such a trace is no run where exactly one
model call of other traces in the file begins before it, ends after it, and has the same answer, or
the same tokens where one of them tells no answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from typing import Generic, TypeVar

from msgspec import Struct

from replay.messages import calls, text
from replay.trace import Batch, ModelCall, ToolCall

MOST = 1_000
"""How many such traces wait at most for the run they belong to; the first of more is handed on."""

_Times = list[tuple[int, int]]
T = TypeVar("T")


class Call(Struct, frozen=True):
    """When a model call was made, and what it is known by: a digest of its answer and of the tools
    that it calls, None for no answer; its tokens in and out."""

    start_ns: int
    end_ns: int
    answer: bytes | None
    tokens: tuple[int, int] | None


class TraceCalls(Struct, frozen=True):
    """What of a trace says whether it belongs to another: its id, is it of one call alone, and its
    model calls whose times are known."""

    id: str
    lone: bool
    calls: tuple[Call, ...]


class Twins(Generic[T]):
    """Traces in their order, whatever stands for them, but for those that may belong to another,
    which wait."""

    def __init__(self) -> None:
        self._lone: dict[str, tuple[T, TraceCalls]] = {}
        self._times: dict[bytes | tuple[tuple[int, int] | None, bool] | None, _Times] = {}
        self.dropped = 0

    def add(self, trace: T, told: TraceCalls) -> Iterator[T]:
        """The traces that can be handed on when this one came."""
        if not told.lone:
            for call in told.calls:
                for key in (call.answer, (call.tokens, call.answer is not None)):
                    self._times.setdefault(key, []).append((call.start_ns, call.end_ns))
            yield trace
            return
        self._lone[told.id] = (trace, told)
        if len(self._lone) > MOST:
            yield self._lone.pop(next(iter(self._lone)))[0]

    def rest(self) -> Iterator[T]:
        """Those that waited, without those that tell of a call of another; `dropped` counts
        these."""
        for trace, told in self._lone.values():
            if any(map(self._is_told, told.calls)):
                self.dropped += 1
            else:
                yield trace

    def _is_told(self, call: Call) -> bool:
        start, end, answer, tokens = call.start_ns, call.end_ns, call.answer, call.tokens
        times = list(self._times.get(answer, ())) if answer is not None else []
        if tokens is not None:
            times += self._times.get((tokens, False), ())
            times += self._times.get((tokens, True), ()) if answer is None else ()
        return sum(begun <= start and end <= ended for begun, ended in times) == 1


def trace_calls(batch: Batch) -> TraceCalls:
    """What a trace says of itself. It is of one call alone where it holds nothing else but what the
    answer calls for."""
    models = [span for span in batch.spans if isinstance(span, ModelCall)]
    others = (span for span in batch.spans if not isinstance(span, ModelCall))
    unrun = all(isinstance(span, ToolCall) and span.observation is None for span in others)
    return TraceCalls(
        batch.header.source_id,
        len(models) == 1 and unrun,
        tuple(
            Call(span.start_ns, span.end_ns, _answer(span), _tokens(span))
            for span in models
            if span.start_ns is not None and span.end_ns is not None
        ),
    )


def _answer(call: ModelCall) -> bytes | None:
    """A digest that is the same in every process."""
    message = call.response.message
    if message is None:
        return None
    said = "\0".join((text(message), *(each.name for each in calls(message))))
    return blake2b(said.encode("utf-8", "replace"), digest_size=16).digest()


def _tokens(call: ModelCall) -> tuple[int, int] | None:
    usage = call.usage
    if usage is None or usage.input_tokens is None or usage.output_tokens is None:
        return None
    return usage.input_tokens, usage.output_tokens
