"""A thread of messages turned into model calls and tool calls.

Most sources record a conversation, not requests: what the model saw at a turn is everything said
before it. `Thread` is told the messages in their order and keeps the context chain, pairs results
with the calls they answer, and keeps what pairs with nothing, marked.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct, structs

from replay.formats.common import derived_id, stop_with
from replay.formats.source import Tally
from replay.messages import Call, Result, calls, results
from replay.trace import (
    NO_SYSTEM,
    NO_TOOLS,
    AnySpan,
    Context,
    Cost,
    Fidelity,
    Level,
    Message,
    ModelCall,
    Observation,
    Place,
    Request,
    Response,
    TimeQuality,
    ToolCall,
    Usage,
    extend,
)

_NOWHERE = Place()


class Turn(Struct, frozen=True, kw_only=True):
    """What the source says of one model call beside its message."""

    id: str
    name: str = "chat"
    response: Response = Response()
    usage: Usage | None = None
    cost: Cost | None = None
    start_ns: int | None = None
    end_ns: int | None = None
    time_quality: TimeQuality = "none"
    place: Place = Place()
    agent: str | None = None
    error: str | None = None
    fidelity: Fidelity | None = None
    extra: dict[str, Any] = {}


def without_tools(system: Message | None) -> Fidelity:
    """How well requests are known of which the tools, and mostly the system prompt, are not."""
    reasons = (NO_TOOLS,) if system is not None else (NO_SYSTEM, NO_TOOLS)
    return Fidelity(level=Level.PARTIAL, reasons=reasons)


class Thread:
    """Builds the spans of one thread. `request` holds what all its calls share.

    `parent` is the agent span the thread belongs to. Tool calls hang beside the model call that
    asked, under the same parent, as they do in OpenTelemetry.
    """

    def __init__(self, *, parent: str, request: Request, fidelity: Fidelity, tally: Tally) -> None:
        self.parent = parent
        self.request = request
        self.fidelity = fidelity
        self.context: Context | None = request.context
        self._tally = tally
        self._spans: list[AnySpan] = []
        self._open: list[int] = []

    def weaken(self, reason: str) -> None:
        """From here on the requests are known less well."""
        self.fidelity = self.fidelity.also(reason)

    def add_message(
        self,
        message: Message,
        *,
        place: Place = _NOWHERE,
        at_ns: int | None = None,
        errors: dict[str, str] | None = None,
    ) -> None:
        """A message that is not the model's: it joins the context and answers open calls.

        `at_ns` ends the calls it answers. `errors` gives, by call id, errors the message itself
        does not show.
        """
        self.context = extend(self.context, (message,))
        for result in results(message):
            self._answer(message, result, place, at_ns, errors or {})

    def add_model_call(self, message: Message | None, turn: Turn) -> None:
        """A model call: asked with the context so far, answered with `message`."""
        request = structs.replace(self.request, context=self.context)
        self._spans.append(
            ModelCall(
                id=turn.id,
                name=turn.name,
                parent=self.parent,
                start_ns=turn.start_ns,
                end_ns=turn.end_ns,
                time_quality=turn.time_quality,
                status="error" if turn.error else "ok",
                error=turn.error,
                place=turn.place,
                extra=turn.extra,
                request=request,
                response=structs.replace(
                    turn.response, message=message, stop=stop_with(turn.response.stop, message)
                ),
                usage=turn.usage,
                cost=turn.cost,
                fidelity=turn.fidelity or self.fidelity,
                agent=turn.agent,
            )
        )
        if message is None:
            return
        self.context = extend(self.context, (message,))
        for call in calls(message):
            self._ask(call, turn)

    def reset(self, *messages: Message) -> None:
        """The context was replaced (compaction, a fresh prompt): start again from `messages`."""
        self.context = extend(None, messages)

    def add_spans(self, *spans: AnySpan) -> None:
        """Spans made elsewhere (a sub-agent's, a call no model asked for), here in the order."""
        self._spans.extend(spans)

    def spans(self) -> tuple[AnySpan, ...]:
        """Everything built so far, in order; calls still open have no observation."""
        return tuple(self._spans)

    def open_calls(self) -> list[ToolCall]:
        """Calls that no result has answered yet, oldest first."""
        found = (self._spans[index] for index in self._open)
        return [span for span in found if isinstance(span, ToolCall)]

    def _ask(self, call: Call, turn: Turn) -> None:
        self._open.append(len(self._spans))
        self._spans.append(
            ToolCall(
                id=derived_id(turn.id, call.position, call.name),
                name=call.name,
                parent=self.parent,
                start_ns=turn.end_ns,
                time_quality=turn.time_quality,
                place=turn.place,
                call_id=call.id,
                asked_by=turn.id,
                arguments=call.arguments,
                arguments_raw=call.raw,
            )
        )

    def _answer(
        self,
        message: Message,
        result: Result,
        place: Place,
        at_ns: int | None,
        errors: dict[str, str],
    ) -> None:
        observation = Observation(message=message, block=result.block)
        slot = self._slot(result.call_id)
        if slot is None:
            self._orphan(message, result, observation, place, at_ns)
            return
        span = self._spans[slot]
        assert isinstance(span, ToolCall)
        error = errors.get(result.call_id or "")
        if error is None and result.is_error:
            error = result.text
        self._spans[slot] = structs.replace(
            span,
            observation=observation,
            end_ns=at_ns,
            status="error" if error is not None else "ok",
            error=error,
        )

    def _slot(self, call_id: str | None) -> int | None:
        """The nearest preceding unanswered call of that id; without an id, the oldest open one."""
        wanted = self._open[:1] if call_id is None else self._open[::-1]
        for index in wanted:
            span = self._spans[index]
            if isinstance(span, ToolCall) and call_id in (None, span.call_id):
                self._open.remove(index)
                return index
        return None

    def _orphan(
        self,
        message: Message,
        result: Result,
        observation: Observation,
        place: Place,
        at_ns: int | None,
    ) -> None:
        body = message.body
        name = str(body.get("name") or body.get("function") or "unknown tool")
        self._tally.problem(
            _where(place),
            f"a result of {result.call_id!r} belongs to no call",
        )
        self._spans.append(
            ToolCall(
                id=derived_id(self.parent, "orphan", len(self._spans), result.call_id),
                name=name,
                parent=self.parent,
                start_ns=at_ns,
                end_ns=at_ns,
                time_quality="derived" if at_ns is not None else "none",
                status="error" if result.is_error else "ok",
                error=result.text if result.is_error else None,
                place=place,
                call_id=result.call_id,
                observation=observation,
                extra={"orphan": "result"},
            )
        )


def _where(place: Place) -> str:
    """A place in a problem's words: the message's index, else the line, else the source's id."""
    if place.message is not None:
        return f"message {place.message}"
    return f"line {place.line}" if place.line is not None else str(place.span)
