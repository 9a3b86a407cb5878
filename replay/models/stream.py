"""A stream of server-sent events put together to the message it stands for.

A stream may end early without any sign of it on the connection, so a message counts only when its
last event came; half of one is never returned.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec


class BrokenStream(Exception):
    """The stream holds no whole message. `kind` is the provider's word where it sent an error."""

    def __init__(self, why: str, kind: str = "") -> None:
        super().__init__(why)
        self.kind = kind


def message(raw: bytes) -> dict[str, Any]:
    """The message of a whole stream. Raises BrokenStream where it is not whole."""
    try:
        return _message(raw)
    except (KeyError, TypeError, AttributeError) as error:
        raise BrokenStream(f"an event has another shape: {error!r}") from error


def _message(raw: bytes) -> dict[str, Any]:
    answer: dict[str, Any] = {}
    blocks: dict[int, dict[str, Any]] = {}
    parts: dict[tuple[int, str], list[Any]] = {}
    for event in events(raw):
        match event.get("type"):
            case "message_start":
                answer = {**event["message"]}
            case "content_block_start":
                blocks[event["index"]] = {**event["content_block"]}
            case "content_block_delta":
                field, key = _DELTAS.get(event["delta"]["type"], ("", ""))
                if field:
                    parts.setdefault((event["index"], field), []).append(event["delta"][key])
            case "message_delta":
                answer.update(event["delta"])
                answer["usage"] = {**answer.get("usage", {}), **event.get("usage", {})}
            case "error":
                error = event["error"]
                raise BrokenStream(str(error.get("message")), str(error.get("type")))
            case "message_stop":
                for (index, field), given in parts.items():
                    blocks[index][field] = _whole(field, blocks[index].get(field), given)
                return {**answer, "content": [blocks[index] for index in sorted(blocks)]}
            case _:  # a ping, the end of a block, a kind that is newer than this
                pass
    raise BrokenStream("it ends before its last event")


_DELTAS = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "thinking"),
    "signature_delta": ("signature", "signature"),
    "citations_delta": ("citations", "citation"),
    "input_json_delta": ("input", "partial_json"),
}
"""Where each kind of delta belongs: the block's field, and the delta's own."""


def _whole(field: str, start: Any, given: list[Any]) -> Any:
    """A field from what its block began with and the deltas that followed."""
    if field == "citations":
        return [*(start or []), *given]
    text = "".join(given)
    if field != "input":
        return (start or "") + text
    try:
        return msgspec.json.decode(text) if text else start
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BrokenStream("the arguments of a call end early") from error


def events(raw: bytes) -> Iterator[dict[str, Any]]:
    """The data of each event, in order. Raises BrokenStream where one is not JSON."""
    for line in raw.splitlines():
        if line.startswith(b"data:"):
            try:
                event = msgspec.json.decode(line[5:])
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise BrokenStream(f"an event is not JSON: {error}") from error
            if isinstance(event, dict):
                yield event
