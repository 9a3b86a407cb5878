"""Recorded exchanges as calls that are chained, and one recorded run told as spans."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct, structs

from replay.errors import BadTrace
from replay.formats import common
from replay.formats.anthropic_log import spans
from replay.formats.anthropic_log.exchanges import (
    NO_MESSAGE,
    Answer,
    Exchange,
    Fields,
    answer_digest,
    answered,
    exchange,
)
from replay.formats.anthropic_log.runs import Call, Run
from replay.formats.common import known, obj, word
from replay.formats.source import decode
from replay.openai_streams import assembled_chat, assembled_response
from replay.recorder import openai
from replay.recorder.exchange import RecordedExchange, events, looks_streamed
from replay.recorder.openai import Items, OpenAICall, linked, raw
from replay.trace import (
    Context,
    Fidelity,
    Json,
    Level,
    Message,
    ModelCall,
    Request,
    Tool,
    Usage,
    extend,
)

_WORDS = 500
"""Characters kept of a page that came instead of an answer."""


class Made(Struct, frozen=True, kw_only=True, eq=False):
    """A call: as it is chained, in its own words where they are OpenAI's, and when the first
    token came."""

    exchange: Exchange
    spoken: OpenAICall | None = None
    first_ns: int | None = None


class Calls:
    """Makes calls of what was heard. What requests repeat is held once."""

    def __init__(self) -> None:
        self._items = Items()
        self._pieces: dict[bytes, msgspec.Raw] = {}
        self._messages: dict[bytes, Message] = {}

    def made(self, number: int, heard: RecordedExchange) -> Made | None:
        """The call, None where the request is none that can be read."""
        if heard.request is None:
            return None
        if heard.api == "messages":
            found, spoken = _anthropic(number, heard), None
        else:
            found, spoken = self._openai(number, heard)
        if found is None:
            return None
        found = structs.replace(
            found,
            request={
                name: self._once(piece)
                for name, piece in (found.request or {}).items()
                if name != "messages"
            },
            messages=tuple(map(self._once, found.messages)),
            answer=_broken(found.answer, heard),
            request_id=heard.request_id,
            start_ns=heard.start_ns,
            end_ns=heard.end_ns,
            note=heard.note,
        )
        return Made(exchange=found, spoken=spoken, first_ns=heard.first_ns)

    def _once(self, piece: msgspec.Raw) -> msgspec.Raw:
        data = bytes(piece)
        return self._pieces.setdefault(data, msgspec.Raw(data))

    def _same(self, message: Message) -> Message:
        """The message that was equal to this one, where there was one."""
        return self._messages.setdefault(msgspec.json.encode(message), message)

    def _openai(
        self, number: int, heard: RecordedExchange
    ) -> tuple[Exchange | None, OpenAICall | None]:
        request = _object(heard.request)
        listed = request.get("messages" if heard.api == "chat" else "input")
        if not request or (listed is None and heard.api == "chat"):
            return None, None
        body, answer = _answer(heard)
        if heard.api == "chat":
            spoken = openai.chat_call(request, body)
        else:
            spoken = self._items.read_call(request, body)
        spoken = structs.replace(
            spoken,
            system=spoken.system and self._same(spoken.system),
            messages=tuple(map(self._same, spoken.messages)),
            answer=spoken.answer and self._same(spoken.answer),
        )
        if spoken.answer is not None:
            message = linked(spoken.answer) | {"id": spoken.response.id}
            answer = structs.replace(answer, message=message)
        elif body is not None and answer.error is None:
            answer = structs.replace(answer, error=NO_MESSAGE)
        return _exchange(number, spoken, answer), spoken


def _anthropic(number: int, heard: RecordedExchange) -> Exchange | None:
    """The call as a log would hold it."""
    assert heard.request is not None
    record: dict[str, Any] = {"request": {"url": heard.path, "body": msgspec.Raw(heard.request)}}
    if heard.status is not None and (heard.answer or heard.status >= 400):
        record["response"] = _came(heard)
    try:
        return exchange(number, msgspec.json.encode(record), "", "")
    except (BadTrace, msgspec.EncodeError, RecursionError):
        return None


def _came(heard: RecordedExchange) -> dict[str, Any]:
    """The answer as a log would hold it."""
    answer = heard.answer or b""
    came: dict[str, Any] = {"status_code": heard.status}
    if heard.streamed or looks_streamed(answer):
        return came | {"events": list(events(answer))}
    return came | {"body": answer.decode("utf-8", "replace")}


def usage_of(heard: RecordedExchange) -> tuple[Usage | None, str | None]:
    """What a call used, and the model that answered; None where no whole answer says so."""
    if heard.answer is None or heard.broken is not None:
        return None, None
    if heard.api != "messages":
        body, answer = _answer(heard)
        usage = common.usage(obj(body).get("usage"))
    else:
        answer = answered(_came(heard))
        body = answer.message
        usage = common.anthropic_usage(obj(body).get("usage"))
    whole = not (answer.cut or answer.error)
    complete = usage is not None and None not in (usage.input_tokens, usage.output_tokens)
    return (usage if whole and complete else None), word(obj(body).get("model"))


def _exchange(number: int, spoken: OpenAICall, answer: Answer) -> Exchange:
    """A call of OpenAI's as the chaining sees it."""
    request: Fields = {
        name: raw(value)
        for name, value in {"model": spoken.model, **spoken.params}.items()
        if value is not None
    }
    if spoken.system is not None:
        request["system"] = raw(spoken.system.body.get("content"))
    if spoken.tools:
        request["tools"] = raw([{"name": tool.name} for tool in spoken.tools])
    return Exchange(
        number=number,
        request=request,
        messages=tuple(raw(linked(message)) for message in spoken.messages),
        answer=answer,
        continues=spoken.continues,
    )


def _answer(heard: RecordedExchange) -> tuple[dict[str, Any] | None, Answer]:
    """The body of an answer of OpenAI's, and what is known of it beside its message."""
    data, status = heard.answer or b"", heard.status
    if heard.streamed or looks_streamed(data):
        assemble = assembled_chat if heard.api == "chat" else assembled_response
        body, error, whole = assemble(events(data))
        words = answer_digest({"error": error}) if error else None
        cut = body is not None and not whole
        return body, Answer(error=words, status_code=status, cut=cut, streamed=True)
    body = _object(data)
    error = body.get("error")
    if (status or 0) < 400 and body and not error:
        return body, Answer(status_code=status)
    words = (
        answer_digest({"error": error})
        if error
        else data.decode("utf-8", "replace").strip()[:_WORDS]
    )
    failed = bool(data) or (status or 0) >= 400
    return None, Answer(error=_coded(words, status) if failed else None, status_code=status)


def _coded(words: str | None, status: int | None) -> str:
    words = words or NO_MESSAGE
    return f"HTTP {status}: {words}" if (status or 0) >= 400 else words


def _object(data: bytes | None) -> dict[str, Json]:
    try:
        found = decode(data or b"", "", "")
    except BadTrace:
        return {}
    return found if isinstance(found, dict) else {}


def _broken(answer: Answer, heard: RecordedExchange) -> Answer:
    """Why an answer is not whole, in the words of who saw it break. A client that leaves when it
    has all it wanted broke nothing."""
    if heard.broken is None or (answer.message is not None and not answer.cut):
        return answer
    if answer.message is None and not answer.streamed:
        return Answer(error=heard.broken, status_code=answer.status_code)
    return structs.replace(answer, error=answer.error or heard.broken)


class SpanBuilder(spans.SpanBuilder):
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


def _in_own_words(span: ModelCall, call: Call, spoken: OpenAICall) -> ModelCall:
    stop = "error" if span.error is not None else spoken.response.stop
    return structs.replace(
        span,
        response=structs.replace(spoken.response, message=spoken.answer, stop=stop),
        usage=spoken.usage,
        fidelity=_fidelity(call, spoken),
        extra={**span.extra, **known(other_choices=list(spoken.others))},
    )


def _fidelity(call: Call, spoken: OpenAICall) -> Fidelity:
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

    def request(self, spoken: OpenAICall, before: tuple[Request, Message | None] | None) -> Request:
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
