"""Which exchanges does a file hold, and what was asked and what came back in each?

Records stand on its lines, in one document, or in a recorded stream of server-sent events, which is
put together to the message it stands for.

Four shapes of a record are read: `{"request", "response"}` with the two bodies; the same with the
HTTP around them (`request.body`, `response.status_code`, `response.body` or `body_raw` or
`events`), as claude-trace writes it; a line of batch results (`custom_id`, `result`), with the
`params` beside it where somebody joined them; an answer alone. The body of a request stays in
pieces, undecoded: every request of a conversation repeats it, and most pieces are known from the
one before.

Headers hold keys and are never kept; only the id of the request is taken from them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias
from urllib.parse import unquote

import msgspec
from msgspec import Struct

from replay.depth import TOO_DEEP, from_text
from replay.errors import BadTrace
from replay.formats.common import listed, ns, obj, seconds_ns, word
from replay.formats.source import Head, Source, decode
from replay.trace import Json

_split = msgspec.json.Decoder(list[msgspec.Raw]).decode


class Records:
    """The records of a source, as often as they are gone through: (number from 1, JSON bytes).

    `by_line` says that the numbers are lines of the file.
    """

    def __init__(self, source: Source, held: list[bytes] | None = None) -> None:
        self._source, self._held = source, held
        self.by_line = held is None

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        return self._source.lines() if self._held is None else enumerate(self._held, 1)

    def where(self, number: int) -> str:
        return f"{'line' if self.by_line else 'record'} {number}"


def records(source: Source) -> Records:
    """The records of a source. Raises BadTrace where a document or a stream cannot be read."""
    head = source.head
    if is_event_stream(head):
        events = of_text(source.read().decode("utf-8", "replace"))
        return Records(source, _streamed(events))
    first = first_value(head)
    if isinstance(first, dict) and word(first.get("type")) in EVENTS:
        lines = (value(line) for _, line in source.lines())
        return Records(source, _streamed(line for line in lines if isinstance(line, dict)))
    if isinstance(first, list) or (first is None and _is_document(head)):
        return Records(source, _document(source))
    return Records(source)


def is_event_stream(head: Head) -> bool:
    """Is this the text of a stream of the Messages API?"""
    return is_stream(head.data[:1024].decode("utf-8", "replace")) and head.has(
        rb'data:\s*\{[^\n]*"type"\s*:\s*"message_start"'
    )


def first_value(head: Head) -> Json:
    """The JSON value that the first line is, None where it is none (or goes on behind the head)."""
    lines = head.lines()
    return value(lines[0]) if lines else None


def value(line: bytes) -> Json:
    """The JSON value of a line, None where it is none; of one nested too deeply no more is known
    than that it is one."""
    try:
        return decode(line, "", "")
    except BadTrace as error:
        return {} if error.why == TOO_DEEP else None


def _is_document(head: Head) -> bool:
    """A list, or an object whose first line is only its beginning."""
    return head.starts(b"[") or (head.starts(b"{") and len(head.lines()) > 1)


def _document(source: Source) -> list[bytes]:
    data = source.read()
    try:
        return [bytes(each) for each in _split(data)]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        value = decode(data, source.display, "")
        whole = value if isinstance(value, list) else [value]
        return [_encoded(each, source, at) for at, each in enumerate(whole, 1)]


def _encoded(value: Json, source: Source, at: int) -> bytes:
    try:
        return msgspec.json.encode(value)
    except RecursionError as error:
        where = f"record {at}"
        raise BadTrace(source.display, where, TOO_DEEP) from error


def _streamed(events: Iterator[dict[str, Json]]) -> list[bytes]:
    """A record a message: what came of it, without the request that nobody kept."""
    return [msgspec.json.encode({"events": own}) for own in messages(events)]


def is_record(value: Json) -> bool:
    """Does this JSON value stand in a log of the Messages API?"""
    if not isinstance(value, dict):
        return False
    if isinstance(value.get("custom_id"), str):
        params = obj(value.get("params"))
        return _ended(obj(value.get("result")).get("type")) or "messages" in params
    if isinstance(value.get("request"), dict):
        return _is_call(value["request"], value)
    if value.get("type") == STARTS:
        return isinstance(value.get("message"), dict)
    return value.get("type") == "message" and _is_message(value)


def _ended(kind: Json) -> bool:
    return kind in ("succeeded", "errored", "canceled", "expired")


def _is_call(request: dict[str, Json], pair: dict[str, Json]) -> bool:
    url = word(request.get("url"))
    body = obj(request.get("body")) if "body" in request or url else request
    if url is not None and not re.search(r"anthropic|/messages|/model/", url):
        return False
    response = obj(pair.get("response"))
    if "choices" in response or "output" in response:  # another provider's answer
        return False
    if url is not None and "anthropic" in url:  # also what is no call of a model: it is skipped
        return True
    if not isinstance(body.get("messages"), list) or "response" not in pair:
        return False
    answered = _is_message(response) or response.get("type") == "error" or "status_code" in response
    return answered or (not response and "max_tokens" in body)


def _is_message(body: dict[str, Json]) -> bool:
    return body.get("role") == "assistant" and bool(listed(body.get("content")) or "usage" in body)


STARTS = "message_start"
EVENTS = frozenset(
    {
        STARTS,
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
        "ping",
        "error",
    }
)

_TEXTS = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "thinking"),
    "signature_delta": ("signature", "signature"),
    "input_json_delta": ("input", "partial_json"),
}
"""Where the text of a delta belongs: the block's field, and the delta's own."""


class Streamed(Struct, frozen=True, kw_only=True, eq=False):
    """What a stream came to: a message as far as it went, and the error it ended with."""

    message: dict[str, Json] | None = None
    error: Json = None
    whole: bool = False


_LINE_END = re.compile("\\r\\n|\\r|\\n")
"""Those of server-sent events, and no others: an answer may say U+2028."""


def is_stream(text: str) -> bool:
    """Does this text look like server-sent events?"""
    return text.lstrip().startswith(("event:", "data:"))


def of_text(text: str) -> Iterator[dict[str, Json]]:
    """The events of a text, in their order; what is no JSON object (`[DONE]`) is left out."""
    for line in _LINE_END.split(text):
        if line.startswith("data:"):
            try:
                event = from_text(line[5:])
            except msgspec.DecodeError:
                continue
            if isinstance(event, dict):
                yield event


def of_list(entries: Iterable[Json]) -> Iterator[dict[str, Json]]:
    """The events of a list: events themselves, or `{"event", "data"}` with the data as an object
    or as its text."""
    for entry in map(obj, entries):
        data = entry.get("data")
        if word(entry.get("type")) in EVENTS:
            yield entry
        elif isinstance(data, dict):
            yield data
        elif isinstance(data, str):
            yield from of_text(f"data:{data}")


def messages(events: Iterable[dict[str, Json]]) -> Iterator[list[dict[str, Json]]]:
    """The events of each message of a stream that holds one after the other."""
    own: list[dict[str, Json]] = []
    for event in events:
        if event.get("type") == STARTS and any(each.get("type") == STARTS for each in own):
            yield own
            own = []
        own.append(event)
    if own:
        yield own


def assembled(events: Iterable[dict[str, Json]]) -> Streamed:
    """The message of one stream."""
    answer: dict[str, Json] | None = None
    blocks: dict[int, _Block] = {}
    error: Json = None
    whole = False
    for event in events:
        kind, at = event.get("type"), event.get("index")
        if kind == STARTS:
            answer = dict(obj(event.get("message")))
        elif kind == "content_block_start" and type(at) is int:
            blocks[at] = _Block(obj(event.get("content_block")))
        elif kind == "content_block_delta" and type(at) is int and at in blocks:
            blocks[at].take(obj(event.get("delta")))
        elif kind == "message_delta" and answer is not None:
            answer |= obj(event.get("delta"))
            answer["usage"] = obj(answer.get("usage")) | obj(event.get("usage"))
        elif kind == "error":
            error = event.get("error")
        elif kind == "message_stop":
            whole = True
    if answer is None:
        return Streamed(error=error)
    content = [blocks[at].body() for at in sorted(blocks)]
    message = {**answer, "content": content or listed(answer.get("content"))}
    return Streamed(message=message, error=error, whole=whole and error is None)


class _Block:
    """A content block while its deltas come in."""

    def __init__(self, start: dict[str, Json]) -> None:
        self._start = start
        self._texts: dict[str, list[str]] = {}
        self._citations: list[Json] = []

    def take(self, delta: dict[str, Json]) -> None:
        kind = delta.get("type")
        if kind == "citations_delta":
            self._citations.append(delta.get("citation"))
            return
        field, key = _TEXTS.get(str(kind), ("", ""))
        text = delta.get(key)
        if field and isinstance(text, str):
            self._texts.setdefault(field, []).append(text)

    def body(self) -> dict[str, Json]:
        body = dict(self._start)
        for field, given in self._texts.items():
            text = "".join(given)
            body[field] = _arguments(text) if field == "input" else _before(body, field) + text
        if self._citations:
            body["citations"] = [*listed(body.get("citations")), *self._citations]
        return body


def _before(body: dict[str, Any], field: str) -> str:
    return word(body.get(field)) or ""


def _arguments(text: str) -> Json:
    """The arguments of a call; the text itself where the stream broke off inside them."""
    if not text:
        return {}
    try:
        return from_text(text)
    except msgspec.DecodeError:
        return text


CUT_OFF = "response truncated"
NO_MESSAGE = "the response is not a message"

_WORDS = 500
"""Characters kept of a page that came instead of an answer."""


class Answer(Struct, frozen=True, kw_only=True, eq=False):
    """What came back: a message, whole or not, or the words of an error.

    All None is no answer at all: the record ends before it, or the call was still going on.
    """

    message: dict[str, Json] | None = None
    error: str | None = None
    status_code: int | None = None
    cut: bool = False
    streamed: bool = False


def answered(response: Json) -> Answer:
    """What a response holds, in any of its shapes: a message, an error, HTTP around them."""
    if isinstance(response, str):
        return _text(response, None)
    body = obj(response)
    if {"status_code", "body", "body_raw", "events"} & body.keys() and "content" not in body:
        status = body.get("status_code")
        status = status if type(status) is int else None
        for name in ("body", "body_raw"):
            if isinstance(body.get(name), str):
                return _text(body[name], status)
        if isinstance(body.get("events"), list):
            return _of_stream(of_list(body["events"]), status)
        return _of_object(obj(body.get("body")), status)
    return _of_object(body, None)


def _of_object(body: dict[str, Json], status: int | None) -> Answer:
    if isinstance(body.get("content"), list) and body.get("role", "assistant") == "assistant":
        return Answer(message=body, status_code=status)
    error = answer_digest(body)
    if error is None and (body or (status or 0) >= 400):
        error = NO_MESSAGE
    return Answer(error=_coded(error, status), status_code=status)


def _text(text: str, status: int | None) -> Answer:
    if is_stream(text):
        return _of_stream(of_text(text), status)
    try:
        return _of_object(obj(decode(text.encode("utf-8", "replace"), "", "")), status)
    except BadTrace:
        return Answer(error=_coded(text.strip()[:_WORDS] or NO_MESSAGE, status), status_code=status)


def _of_stream(events: Iterable[dict[str, Json]], status: int | None) -> Answer:
    came = assembled(events)
    error = answer_digest({"error": came.error}) if came.error is not None else None
    if came.message is None:
        return Answer(error=_coded(error or NO_MESSAGE, status), status_code=status, streamed=True)
    return Answer(
        message=came.message, error=error, status_code=status, cut=not came.whole, streamed=True
    )


def answer_digest(body: Json) -> str | None:
    """`overloaded_error: Overloaded`, from an error or from what wraps it."""
    found = obj(body)
    while isinstance(found.get("error"), dict):
        found = found["error"]
    if isinstance(found.get("error"), str):
        return str(found["error"])
    kind, told = word(found.get("type")), word(found.get("message"))
    return ": ".join(part for part in (kind, told) if part) or None


def _coded(error: str | None, status: int | None) -> str | None:
    coded = status is not None and status >= 400
    return f"HTTP {status}: {error}" if error and coded else error


Fields: TypeAlias = dict[str, msgspec.Raw]

_MODEL_IN_URL = re.compile(r"/model/([^/?]+)/invoke")
_SESSION = re.compile(r"(?:session_|\"session_id\"\s*:\s*\")([0-9A-Za-z-]{8,})")

_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_list = msgspec.json.Decoder(list[msgspec.Raw]).decode

_KNOWN = {
    "custom_id", "duration_ms", "ended_at", "events", "headers", "logged_at", "note", "params",
    "request", "request_id", "response", "result", "started_at", "status_code",
}  # fmt: skip


class Exchange(Struct, frozen=True, kw_only=True, eq=False):
    """One call of the Messages API. `request` is its body by field, None where nobody kept it."""

    number: int
    request: Fields | None = None
    messages: tuple[msgspec.Raw, ...] = ()
    answer: Answer = Answer()
    url_model: str | None = None
    request_id: str | None = None
    custom_id: str | None = None
    session: str | None = None
    continues: str | None = None
    start_ns: int | None = None
    end_ns: int | None = None
    note: str | None = None
    unknown: tuple[str, ...] = ()

    @property
    def answer_id(self) -> str | None:
        message = self.answer.message
        return word(message.get("id")) if message is not None else None

    @property
    def failed(self) -> bool:
        """Did no usable answer come back?"""
        return self.answer.message is None

    def part(self, name: str) -> Json:
        """A field of the request, decoded; None where there is none."""
        raw = (self.request or {}).get(name)
        return None if raw is None else msgspec.json.decode(raw)


def exchange(number: int, line: bytes, path: str, where: str) -> Exchange | None:
    """The call in a record, None where it is a request of another kind (counting tokens, say).

    Raises BadTrace where the record is no JSON object or holds no call.
    """
    try:
        line.decode()  # parts are decoded when they are asked for, which is too late to refuse one
        return _exchange(number, line, path, where)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):  # it may still be readable
        value = decode(line, path, where)
    try:
        return _exchange(number, msgspec.json.encode(value), path, where)
    except (msgspec.DecodeError, RecursionError) as error:
        raise BadTrace(path, where, "is not a JSON object, or is nested too deeply") from error


def _exchange(number: int, line: bytes, path: str, where: str) -> Exchange | None:
    found = _fields(line)
    if "request" in found:
        return _pair(number, found, path, where)
    if "custom_id" in found:
        return _batched(number, found)
    value = obj(msgspec.json.decode(line))
    given = answered(value)
    if given.message is None and given.error is None:
        raise BadTrace(path, where, "contains no call of the Messages API")
    return Exchange(number=number, answer=given)


def _pair(number: int, found: Fields, path: str, where: str) -> Exchange | None:
    beside = {n: msgspec.json.decode(raw) for n, raw in found.items() if n not in _BODIES}
    request = _object(found["request"])
    outer: dict[str, Json] = {}
    if "body" in request or "url" in request:
        outer = {n: msgspec.json.decode(raw) for n, raw in request.items() if n != "body"}
        if not is_messages_url(word(outer.get("url"))):
            return None
        request = _object(request.get("body"))
    response = msgspec.json.decode(found["response"]) if "response" in found else None
    if "messages" not in request:
        raise BadTrace(path, where, "its request has no messages")
    given = answered(response)
    back = obj(response)
    logged_ns = ns(beside.get("logged_at"))
    start_ns = _time(beside.get("started_at")) or _time(outer.get("timestamp"))
    end_ns = _time(beside.get("ended_at")) or _time(back.get("timestamp"))
    if end_ns is None and start_ns is not None:
        took_ns = _milliseconds_ns(beside.get("duration_ms"))
        end_ns = start_ns + took_ns if took_ns is not None else None
    if given.streamed and logged_ns is not None and logged_ns > (end_ns or 0):
        end_ns = logged_ns  # the response's own time is that of its headers
    named = _MODEL_IN_URL.search(word(outer.get("url")) or "")
    return Exchange(
        number=number,
        **_request_of(request),
        answer=given,
        url_model=unquote(named.group(1)) if named else None,
        request_id=word(beside.get("request_id")) or _header(back, "request-id"),
        start_ns=start_ns,
        end_ns=end_ns,
        note=word(beside.get("note")),
        unknown=tuple(name for name in found if name not in _KNOWN),
    )


_BODIES = {"request", "response"}


def _batched(number: int, found: Fields) -> Exchange:
    result = obj(msgspec.json.decode(found.get("result", msgspec.Raw(b"null"))))
    kind = word(result.get("type"))
    given = answered(result.get("message"))
    if kind not in (None, "succeeded"):
        given = Answer(error=answer_digest(result.get("error")) or kind)
    request = _object(found.get("params"))
    return Exchange(
        number=number,
        **(_request_of(request) if request else {}),
        answer=given,
        custom_id=word(msgspec.json.decode(found["custom_id"])),
        unknown=tuple(name for name in found if name not in _KNOWN),
    )


def _request_of(request: Fields) -> dict[str, Any]:
    """What a request says, the messages apart."""
    thread = obj(_decoded(request.get("thread")))
    user = word(obj(_decoded(request.get("metadata"))).get("user_id"))
    session = _SESSION.search(user or "")
    try:
        messages = tuple(_list(request.get("messages", b"[]")))
    except msgspec.ValidationError:
        messages = ()
    return {
        "request": request,
        "messages": messages,
        "session": session.group(1) if session else None,
        "continues": word(thread.get("previous_message_id")),
    }


def is_messages_url(url: str | None) -> bool:
    """Is this where messages are asked for, and not counted, listed or sent in batches?"""
    path = (url or "").partition("?")[0].rstrip("/")
    return path.endswith("/messages") or _MODEL_IN_URL.search(path) is not None or not path


def _header(response: dict[str, Json], name: str) -> str | None:
    headers = obj(response.get("headers"))
    return next((word(headers[each]) for each in headers if each.lower() == name), None)


def _time(value: Json) -> int | None:
    return ns(value) if isinstance(value, str) else seconds_ns(value)


def _milliseconds_ns(value: Json) -> int | None:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return seconds_ns(value / 1000) if number else None


def _object(raw: msgspec.Raw | None) -> Fields:
    """The fields of an object, {} for anything else."""
    try:
        return _fields(raw) if raw is not None else {}
    except msgspec.ValidationError:
        return {}


def _decoded(raw: msgspec.Raw | None) -> Json:
    return None if raw is None else msgspec.json.decode(raw)
