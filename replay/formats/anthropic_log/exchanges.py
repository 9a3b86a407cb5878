"""What was asked and what came back, in one record of a log?

Four shapes are read: `{"request", "response"}` with the two bodies; the same with the HTTP around
them (`request.body`, `response.status_code`, `response.body` or `body_raw` or `events`), as
claude-trace writes it; a line of batch results (`custom_id`, `result`), with the `params` beside it
where somebody joined them; an answer alone. The body of a request stays in pieces, undecoded:
every request of a conversation repeats it, and most pieces are known from the one before.

Headers hold keys and are never kept; only the id of the request is taken from them.
"""

from __future__ import annotations

import re
from typing import Any, TypeAlias
from urllib.parse import unquote

import msgspec
from msgspec import Struct

from replay.errors import BadTrace
from replay.formats.anthropic_log.answers import Answer, answered, said
from replay.formats.fields import obj, word
from replay.formats.intake import decode
from replay.formats.normal import ns, seconds_ns
from replay.trace import Json

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
        raise BadTrace(path, where, "is nested too deeply, or no JSON object") from error


def _exchange(number: int, line: bytes, path: str, where: str) -> Exchange | None:
    found = _fields(line)
    if "request" in found:
        return _pair(number, found, path, where)
    if "custom_id" in found:
        return _batched(number, found)
    value = obj(msgspec.json.decode(line))
    given = answered(value)
    if given.message is None and given.error is None:
        raise BadTrace(path, where, "holds no call of the Messages API")
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
        **_asked(request),
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
        given = Answer(error=said(result.get("error")) or kind)
    request = _object(found.get("params"))
    return Exchange(
        number=number,
        **(_asked(request) if request else {}),
        answer=given,
        custom_id=word(msgspec.json.decode(found["custom_id"])),
        unknown=tuple(name for name in found if name not in _KNOWN),
    )


def _asked(request: Fields) -> dict[str, Any]:
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
