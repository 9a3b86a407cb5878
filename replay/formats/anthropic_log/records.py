"""Where are the records of a file: on its lines, in one document, or in a stream of events?

A recorded stream of server-sent events is put together to the message it stands for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from msgspec import Struct

from replay.depth import TOO_DEEP, from_text
from replay.errors import BadTrace
from replay.formats.common import listed, obj, word
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
