"""What was heard of an exchange, as a call in the shape that calls are chained in.

The chaining is that of logs of the Messages API (`formats.anthropic_log.links`). A call of OpenAI's
is shown to it in the same shape, and keeps its own words beside.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct, structs

from replay.errors import BadTrace
from replay.formats.anthropic_log.answers import NO_MESSAGE, Answer, said
from replay.formats.anthropic_log.exchanges import Exchange, Fields, exchange
from replay.formats.intake import decode
from replay.recorder import chat
from replay.recorder.events import events, looks_streamed
from replay.recorder.heard import Heard
from replay.recorder.responses import Items, assembled
from replay.recorder.spoken import Spoken, linked, raw
from replay.trace import Json, Message

_WORDS = 500
"""Characters kept of a page that came instead of an answer."""


class Made(Struct, frozen=True, kw_only=True, eq=False):
    """A call: as it is chained, in its own words where they are OpenAI's, and when the first
    token came."""

    exchange: Exchange
    spoken: Spoken | None = None
    first_ns: int | None = None


class Calls:
    """Makes calls of what was heard. What requests repeat is held once."""

    def __init__(self) -> None:
        self._items = Items()
        self._pieces: dict[bytes, msgspec.Raw] = {}
        self._messages: dict[bytes, Message] = {}

    def made(self, number: int, heard: Heard) -> Made | None:
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

    def _openai(self, number: int, heard: Heard) -> tuple[Exchange | None, Spoken | None]:
        request = _object(heard.request)
        listed = request.get("messages" if heard.api == "chat" else "input")
        if not request or (listed is None and heard.api == "chat"):
            return None, None
        body, answer = _answer(heard)
        if heard.api == "chat":
            spoken = chat.spoken(request, body)
        else:
            spoken = self._items.spoken(request, body)
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


def _anthropic(number: int, heard: Heard) -> Exchange | None:
    """The call as a log would hold it."""
    assert heard.request is not None
    record: dict[str, Any] = {"request": {"url": heard.path, "body": msgspec.Raw(heard.request)}}
    answer = heard.answer or b""
    if heard.status is not None and (answer or heard.status >= 400):
        came: dict[str, Any] = {"status_code": heard.status}
        if heard.streamed or looks_streamed(answer):
            came["events"] = list(events(answer))
        else:
            came["body"] = answer.decode("utf-8", "replace")
        record["response"] = came
    try:
        return exchange(number, msgspec.json.encode(record), "", "")
    except (BadTrace, msgspec.EncodeError, RecursionError):
        return None


def _exchange(number: int, spoken: Spoken, answer: Answer) -> Exchange:
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


def _answer(heard: Heard) -> tuple[dict[str, Any] | None, Answer]:
    """The body of an answer of OpenAI's, and what is known of it beside its message."""
    data, status = heard.answer or b"", heard.status
    if heard.streamed or looks_streamed(data):
        assemble = chat.assembled if heard.api == "chat" else assembled
        body, error, whole = assemble(events(data))
        words = said({"error": error}) if error else None
        cut = body is not None and not whole
        return body, Answer(error=words, status_code=status, cut=cut, streamed=True)
    body = _object(data)
    error = body.get("error")
    if (status or 0) < 400 and body and not error:
        return body, Answer(status_code=status)
    words = said({"error": error}) if error else data.decode("utf-8", "replace").strip()[:_WORDS]
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


def _broken(answer: Answer, heard: Heard) -> Answer:
    """Why an answer is not whole, in the words of who saw it break. A client that leaves when it
    has all it wanted broke nothing."""
    if heard.broken is None or (answer.message is not None and not answer.cut):
        return answer
    if answer.message is None and not answer.streamed:
        return Answer(error=heard.broken, status_code=answer.status_code)
    return structs.replace(answer, error=answer.error or heard.broken)
