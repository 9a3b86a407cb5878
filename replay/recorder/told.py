"""One run that was recorded, told as spans: Anthropic's calls and OpenAI's, each in its own words.

How calls, tools and threads hang together is told as in a log (`formats.anthropic_log.spans`).
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec import structs

from replay.formats.anthropic_log import spans
from replay.formats.anthropic_log.exchanges import Exchange
from replay.formats.anthropic_log.links import Call
from replay.formats.anthropic_log.runs import Run
from replay.formats.fields import known
from replay.recorder.calls import Made
from replay.recorder.spoken import Spoken
from replay.trace import (
    Context,
    Fidelity,
    Level,
    Message,
    ModelCall,
    Request,
    Tool,
    extend,
)


class Told(spans.Told):
    """The spans of one run, told call by call."""

    def __init__(self, run: Run, made: Mapping[int, Made]) -> None:
        super().__init__(run, by_line=False)
        self._made = made
        self._chats = _Chats()

    def _request(self, call: Call, exchange: Exchange) -> Request:
        spoken = self._made[exchange.number].spoken
        if spoken is None:
            return super()._request(call, exchange)
        before = self._requests.get(call.parent) if call.parent is not None else None
        return self._chats.request(spoken, before if call.how == "thread" else None)

    def _model(self, call: Call, exchange: Exchange, request: Request, parent: str) -> ModelCall:
        made = self._made[exchange.number]
        span = super()._model(call, exchange, request, parent)
        if made.spoken is not None:
            span = _in_own_words(span, call, made.spoken)
        took_ns = made.first_ns - span.start_ns if made.first_ns and span.start_ns else None
        extra = {**span.extra, **known(time_to_first_token_ns=took_ns)}
        return structs.replace(span, extra=extra)


def _in_own_words(span: ModelCall, call: Call, spoken: Spoken) -> ModelCall:
    stop = "error" if span.error is not None else spoken.response.stop
    return structs.replace(
        span,
        response=structs.replace(spoken.response, message=spoken.answer, stop=stop),
        usage=spoken.usage,
        fidelity=_fidelity(call, spoken),
        extra={**span.extra, **known(other_choices=list(spoken.others))},
    )


def _fidelity(call: Call, spoken: Spoken) -> Fidelity:
    missing = list(spoken.missing)
    if call.how == "thread" and call.parent is None:
        missing.append(spans.NO_EARLIER)
    if missing:
        return Fidelity(level=Level.PARTIAL, reasons=(*missing, *spoken.losses))
    if call.how == "thread" or spoken.losses:
        return Fidelity(level=Level.REBUILT, reasons=spoken.losses)
    return Fidelity(level=Level.EXACT)


class _Chats:
    """Requests whose contexts and toolsets share what the calls of a run have in common."""

    def __init__(self) -> None:
        self._nodes: dict[tuple[int, int], Context] = {}
        self._toolsets: dict[bytes, tuple[Tool, ...]] = {}

    def request(self, spoken: Spoken, before: tuple[Request, Message | None] | None) -> Request:
        """The request of a call; `before` is what it goes on from where the server kept that."""
        context = None
        if before is not None:
            earlier, answer = before
            context = earlier.context
            context = context if answer is None else self._after(context, answer)
        for message in spoken.messages:
            context = self._after(context, message)
        key = msgspec.json.encode(spoken.tools)
        return Request(
            model=spoken.model,
            system=spoken.system,
            tools=self._toolsets.setdefault(key, spoken.tools),
            params=spoken.params,
            context=context,
        )

    def _after(self, context: Context | None, message: Message) -> Context:
        """The node of a message after a context. Equal messages are one object, and a node holds
        both, so that their ids are nobody else's."""
        place = (id(context), id(message))
        if place not in self._nodes:
            node = extend(context, (message,))
            assert node is not None
            self._nodes[place] = node
        return self._nodes[place]
