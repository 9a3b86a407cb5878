"""A recorded stream of server-sent events put together to the message it stands for.

A log keeps what came, whole or not: what a stream held before it broke off is evidence too, and is
marked as not whole. (The model client asks a stricter question of a live stream and has a reader
of its own.)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from msgspec import Struct

from replay.depth import from_text
from replay.formats.fields import listed, obj, word
from replay.trace import Json

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
