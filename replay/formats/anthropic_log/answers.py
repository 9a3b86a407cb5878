"""What came back for a request: a message, whole or not, or an error, and in which words?"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from replay.errors import BadTrace
from replay.formats.anthropic_log import stream
from replay.formats.fields import obj, word
from replay.formats.intake import decode
from replay.trace import Json

CUT_OFF = "the answer breaks off"
NO_MESSAGE = "what came back is no message"

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
            return _of_stream(stream.of_list(body["events"]), status)
        return _of_object(obj(body.get("body")), status)
    return _of_object(body, None)


def _of_object(body: dict[str, Json], status: int | None) -> Answer:
    if isinstance(body.get("content"), list) and body.get("role", "assistant") == "assistant":
        return Answer(message=body, status_code=status)
    error = said(body)
    if error is None and (body or (status or 0) >= 400):
        error = NO_MESSAGE
    return Answer(error=_coded(error, status), status_code=status)


def _text(text: str, status: int | None) -> Answer:
    if stream.is_stream(text):
        return _of_stream(stream.of_text(text), status)
    try:
        return _of_object(obj(decode(text.encode("utf-8", "replace"), "", "")), status)
    except BadTrace:
        return Answer(error=_coded(text.strip()[:_WORDS] or NO_MESSAGE, status), status_code=status)


def _of_stream(events: Iterable[dict[str, Json]], status: int | None) -> Answer:
    came = stream.assembled(events)
    error = said({"error": came.error}) if came.error is not None else None
    if came.message is None:
        return Answer(error=_coded(error or NO_MESSAGE, status), status_code=status, streamed=True)
    return Answer(
        message=came.message, error=error, status_code=status, cut=not came.whole, streamed=True
    )


def said(body: Json) -> str | None:
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
