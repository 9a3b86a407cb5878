"""A message as the server-sent events of a stream, and where a fault ends them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

from tests.messages_api.content import Body

_COUNTS_AT_END = (
    "input_tokens",
    "cache_creation_input_tokens",
    "cache_read_input_tokens",
    "output_tokens",
    "output_tokens_details",
)


def events(answer: Body, last_usage: Body) -> Iterator[Body]:
    """The events of a message. Usage stands at both ends: what the last event says counts."""
    yield {"type": "message_start", "message": {**answer, "content": [], "stop_reason": None}}
    yield {"type": "ping"}
    for index, block in enumerate(answer["content"]):
        yield from _block_events(index, block)
        yield {"type": "ping"}
    ended = ("stop_reason", "stop_sequence", "stop_details")
    delta = {name: answer[name] for name in ended if name in answer}
    usage = {name: last_usage[name] for name in _COUNTS_AT_END if name in last_usage}
    yield {"type": "message_delta", "delta": delta, "usage": usage}
    yield {"type": "message_stop"}


def pieces(
    cut: str, events: Iterator[Body], encode: Callable[[Body], bytes] | None = None
) -> Iterator[bytes]:
    """The bytes of the events up to where a fault ends them."""
    encode = encode or encoded
    for event in events:
        kind = event["type"]
        if cut in {"dropped", "closed", "truncated", "end"} and kind == "message_delta":
            return
        if cut == "in event" and kind == "message_delta":
            raw = encode(event)
            yield raw[: len(raw) // 2]
            return
        if cut == "error" and kind == "content_block_stop":
            error = {"type": "overloaded_error", "message": "overloaded"}
            yield encode({"type": "error", "error": error})
            return
        if cut == "in tool" and kind == "content_block_stop":
            return
        yield encode(event)


def encoded(event: Body) -> bytes:
    return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()


def _block_events(index: int, block: Body) -> Iterator[Body]:
    empty, deltas = _opened(block)
    yield {"type": "content_block_start", "index": index, "content_block": empty}
    for delta in deltas:
        yield {"type": "content_block_delta", "index": index, "delta": delta}
    yield {"type": "content_block_stop", "index": index}


def _opened(block: Body) -> tuple[Body, list[Body]]:
    """How a block begins, and the deltas that fill it."""
    match block["type"]:
        case "text":
            return {**block, "text": ""}, _halves("text_delta", "text", block["text"])
        case "tool_use":
            whole = json.dumps(block["input"])
            return {**block, "input": {}}, _halves("input_json_delta", "partial_json", whole)
        case "thinking":
            signed = {"type": "signature_delta", "signature": block.get("signature", "")}
            thought = block["thinking"]
            deltas = _halves("thinking_delta", "thinking", thought) if thought else []
            return {**block, "thinking": "", "signature": ""}, [*deltas, signed]
        case _:  # comes whole
            return block, []


def _halves(kind: str, key: str, whole: str) -> list[Body]:
    middle = len(whole) // 2
    return [{"type": kind, key: part} for part in (whole[:middle], whole[middle:])]
