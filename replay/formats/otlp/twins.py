"""Model calls that a client's instrumentation put into traces of their own.

A framework whose spans are not the current ones (LangChain's callbacks) leaves those of its client
library without a parent: each makes a trace of one call. Such a trace is no run where exactly one
model call of other traces in the file begins before it, ends after it, and has the same answer, or
the same tokens where one of them tells no answer.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator

from replay.messages import calls, text
from replay.trace import Batch, ModelCall, ToolCall

MOST = 1_000
"""How many such traces wait at most for the run they belong to; the first of more is handed on."""

_Times = list[tuple[int, int]]


class Twins:
    """Traces in their order, but for those that may belong to another, which wait."""

    def __init__(self) -> None:
        self._lone: dict[str, tuple[Batch, ModelCall]] = {}
        self._times: dict[Hashable, _Times] = {}
        self.dropped = 0

    def sort(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        """The traces without those that tell of a call of another one; `dropped` counts these."""
        for batch in batches:
            call = _lone_call(batch)
            if call is None:
                self._note(batch)
                yield batch
                continue
            self._lone[batch.header.source_id] = (batch, call)
            if len(self._lone) > MOST:
                yield self._lone.pop(next(iter(self._lone)))[0]
        for batch, call in self._lone.values():
            if self._is_told(call):
                self.dropped += 1
            else:
                yield batch

    def _note(self, batch: Batch) -> None:
        for span in batch.spans:
            if not isinstance(span, ModelCall) or span.start_ns is None or span.end_ns is None:
                continue
            for key in (_answer(span), (_tokens(span), span.response.message is not None)):
                self._times.setdefault(key, []).append((span.start_ns, span.end_ns))

    def _is_told(self, call: ModelCall) -> bool:
        start, end = call.start_ns, call.end_ns
        if start is None or end is None:
            return False
        answer, tokens = _answer(call), _tokens(call)
        times = list(self._times.get(answer, ())) if answer is not None else []
        if tokens is not None:
            times += self._times.get((tokens, False), ())
            times += self._times.get((tokens, True), ()) if answer is None else ()
        return sum(begun <= start and end <= ended for begun, ended in times) == 1


def _lone_call(batch: Batch) -> ModelCall | None:
    """The model call of a trace that holds nothing else but what its answer calls for."""
    models = [span for span in batch.spans if isinstance(span, ModelCall)]
    if len(models) != 1:
        return None
    others = (span for span in batch.spans if span is not models[0])
    unrun = all(isinstance(span, ToolCall) and span.observation is None for span in others)
    return models[0] if unrun else None


def _answer(call: ModelCall) -> Hashable:
    """The text of an answer and the tools that it calls, as one number; None for no answer."""
    message = call.response.message
    if message is None:
        return None
    return hash((text(message), *(each.name for each in calls(message))))


def _tokens(call: ModelCall) -> tuple[int, int] | None:
    usage = call.usage
    if usage is None or usage.input_tokens is None or usage.output_tokens is None:
        return None
    return usage.input_tokens, usage.output_tokens
