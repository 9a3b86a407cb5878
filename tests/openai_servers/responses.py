"""An answer as the Responses API sends it: whole, in events, and kept for the next request."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from tests.openai_servers.chat import CREATED, Piece
from tests.openai_servers.policy import Said, pieces
from tests.openai_servers.prompt_cache import Reading
from tests.openai_servers.shape import Body, Refused

_KEY = b"the test server's own key"
_ENDS = {"length": "max_output_tokens", "content_filter": "content_filter"}


class Kept(Struct, frozen=True, kw_only=True):
    """A stored response, and all items that it rests on, its own output last."""

    response: Body
    items: list[Body]


class Storage:
    """The responses of requests that did not say `store: false`."""

    def __init__(self) -> None:
        self._kept: dict[str, Kept] = {}
        self._items: dict[str, Body] = {}
        self._needs: dict[str, str] = {}
        self._lock = threading.Lock()

    def keep(self, response: Body, items: list[Body]) -> None:
        output: list[Body] = response["output"]
        with self._lock:
            kept = Kept(response=response, items=[*items, *output])
            self._kept[response["id"]] = kept
            self._items.update((each["id"], each) for each in output)
            thought = next((each["id"] for each in output if each["type"] == "reasoning"), None)
            if thought is not None:
                self._needs.update(
                    (each["id"], thought) for each in output if each["id"] != thought
                )

    def find(self, id: str) -> Kept | None:
        with self._lock:
            return self._kept.get(id)

    def resolved(self, body: Body, given: list[Body]) -> list[Body] | Refused:
        """The items that a request rests on, those it only names found; or why not."""
        before: list[Body] = []
        name = body.get("previous_response_id")
        if name is not None:
            kept = self.find(name)
            if kept is None:
                why = f"Previous response with id '{name}' not found."
                return Refused(why, "previous_response_id", "previous_response_not_found")
            before = kept.items
        items = list(before)
        for at, each in enumerate(given):
            found = self._resolved(body, each, f"input[{at}]")
            if isinstance(found, Refused):
                return found
            items.append(found)
        return _doubled(given) or self._lacking(items) or items

    def _resolved(self, body: Body, item: Body, path: str) -> Body | Refused:
        if item["type"] == "reasoning" and item.get("encrypted_content") is not None:
            wrong = _seal_flaw(item)
            return item if wrong is None else _not_verified(item, wrong)
        if item["type"] not in {"item_reference", "reasoning"}:
            return item
        if "id" not in item:
            return Refused(f"Missing required parameter: '{path}.id'.", f"{path}.id",
                           "missing_required_parameter")  # fmt: skip
        with self._lock:
            found = self._items.get(item["id"])
        if found is not None:
            return found
        why = f"Item with id '{item['id']}' not found."
        if body.get("store") is False:
            why += " Items are not persisted when `store` is set to false. Try again with `store`"
            why += " set to true, or remove this item from your input."
        return Refused(why, "input", status=404)

    def _lacking(self, items: list[Body]) -> Refused | None:
        """What a stored item needs that is not there."""
        there = {each.get("id") for each in items}
        for each in items:
            needed = self._needs.get(each.get("id") or "")
            if needed is not None and needed not in there:
                why = f"Item '{each['id']}' of type '{each['type']}' was provided without its"
                return Refused(f"{why} required 'reasoning' item: '{needed}'.", "input")
        return None


def response(body: Body, number: str, said: Said, usage: Body) -> Body:
    """The whole answer."""
    status = {"": "completed", "failed": "failed"}.get(said.finish, "incomplete")
    reason = _ENDS.get(said.finish)
    error = {"code": "server_error", "message": "The model failed."} if status == "failed" else None
    return {
        **_outer(body, number),
        "status": status,
        "error": error,
        "incomplete_details": None if reason is None else {"reason": reason},
        "output": _output(body, number, said),
        "usage": None if status == "failed" else usage,
    }


def usage(reading: Reading, said: Said, *, charged: bool) -> Body:
    """The figures; with `charged`, what was written into the cache is among them."""
    return {
        "input_tokens": reading.input_tokens,
        "input_tokens_details": {
            "cached_tokens": reading.cached_tokens,
            "cache_write_tokens": reading.written_tokens if charged else 0,
        },
        "output_tokens": said.output_tokens,
        "output_tokens_details": {"reasoning_tokens": said.reasoning_tokens},
        "total_tokens": reading.input_tokens + said.output_tokens,
    }


def seen(body: Body, items: list[Body]) -> list[Any]:
    """What the model sees of a request, in the order in which the prompt cache sees it."""
    before = [body.get("tools"), (body.get("text") or {}).get("format"), body.get("instructions")]
    unnamed = [{n: v for n, v in each.items() if n not in {"id", "status"}} for each in items]
    return [*(each for each in before if each), *unnamed]


def stream(body: Body, whole: Body) -> Iterator[Piece]:
    """The events of an answer, numbered, each item in order; the last is how it ended."""
    hidden = (body.get("stream_options") or {}).get("include_obfuscation", True)
    for at, (event, part) in enumerate(_events(whole)):
        if hidden and event["type"].endswith(".delta"):
            event["obfuscation"] = "x" * (7 - len(event["delta"]) % 7)
        yield _piece({**event, "sequence_number": at}, part)


def broken(message: str) -> Piece:
    """An error in the middle of a stream."""
    event = {"type": "error", "code": "server_error", "message": message, "param": None}
    return _piece({**event, "sequence_number": 99}, "error")


def sealed(thought: str, id: str) -> str:
    """Reasoning that only the server reads, of the item with that id."""
    raw = thought.encode()
    mac = hmac.new(_KEY, raw, hashlib.sha256).digest()
    return f"gAAAAA{base64.urlsafe_b64encode(mac + raw).decode()}.{id}"


def _seal_flaw(item: Body) -> str | None:
    """Why the content of an item is not what `sealed` made for it, None where it is. An item may
    come back without its id."""
    content, _, of = item["encrypted_content"].partition(".")
    unread = "Encrypted content could not be decrypted or parsed."
    try:
        raw = base64.urlsafe_b64decode(content.removeprefix("gAAAAA"))
    except ValueError:
        return unread
    mac = hmac.new(_KEY, raw[32:], hashlib.sha256).digest()
    if not content.startswith("gAAAAA") or not hmac.compare_digest(mac, raw[:32]):
        return unread
    if item.get("id") not in {None, of}:
        return "Encrypted content item_id did not match the target item id."
    return None


def _not_verified(item: Body, why: str) -> Refused:
    content = item["encrypted_content"]
    which = f"for item {item['id']}" if "id" in item else f"{content[:4]}...{content[-4:]}"
    said = f"The encrypted content {which} could not be verified. Reason: {why}"
    return Refused(said, None, "invalid_encrypted_content")


def _doubled(given: list[Body]) -> Refused | None:
    """Why items of a request are refused that stand in it twice."""
    ids = Counter(each["id"] for each in given if each.get("id"))
    twice = next((name for name, count in ids.items() if count > 1), None)
    if twice is None:
        return None
    why = f"Duplicate item found with id {twice}. Remove duplicate items from your input and try"
    return Refused(f"{why} again.", "input")


def _outer(body: Body, number: str) -> Body:
    """What a response says of its request."""
    text = body.get("text") or {}
    asked = body.get("reasoning") or {}
    same = ("instructions", "max_output_tokens", "max_tool_calls", "previous_response_id",
            "prompt_cache_key", "safety_identifier", "user")  # fmt: skip
    return {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": CREATED,
        "background": False,
        **{name: body.get(name) for name in same},
        "metadata": body.get("metadata") or {},
        "model": body["model"],
        "parallel_tool_calls": body.get("parallel_tool_calls", True) is not False,
        "reasoning": {"effort": asked.get("effort"), "summary": asked.get("summary")},
        "service_tier": "default",
        "store": body.get("store") is not False,
        "temperature": 1.0 if body.get("temperature") is None else body["temperature"],
        "text": {"format": {"type": "text"}, "verbosity": "medium", **text},
        "tool_choice": body.get("tool_choice", "auto"),
        "tools": body.get("tools", []),
        "top_logprobs": body.get("top_logprobs") or 0,
        "top_p": 1.0 if body.get("top_p") is None else body["top_p"],
        "truncation": body.get("truncation") or "disabled",
    }


def _output(body: Body, number: str, said: Said) -> list[Body]:
    items: list[Body] = []
    if said.reasoning:
        items.append(_thought(body, number, said.reasoning))
    if said.text or said.refusal or not (said.calls or said.reasoning):
        part: Body = {"type": "refusal", "refusal": said.refusal}
        if not said.refusal:
            part = {"type": "output_text", "text": said.text, "annotations": [], "logprobs": []}
        message = {"type": "message", "id": f"msg_{number}", "role": "assistant"}
        items.append({**message, "content": [part], "status": "completed"})
    for at, call in enumerate(said.calls):
        kind, field = (
            ("custom_tool_call", "input") if call.custom else ("function_call", "arguments")
        )
        prefix = "ctc" if call.custom else "fc"
        made = {"type": kind, "id": f"{prefix}_{number}{at}", "call_id": f"call_{number}{at}"}
        items.append({**made, "name": call.name, field: call.arguments, "status": "completed"})
    if said.finish in _ENDS and items[-1]["type"] != "reasoning":
        items[-1]["status"] = "incomplete"
    return items


def _thought(body: Body, number: str, thought: str) -> Body:
    asked = body.get("reasoning") or {}
    item: Body = {"type": "reasoning", "id": f"rs_{number}", "summary": []}
    if asked.get("summary") or asked.get("generate_summary"):
        item["summary"] = [{"type": "summary_text", "text": thought}]
    if "reasoning.encrypted_content" in (body.get("include") or []):
        item["encrypted_content"] = sealed(thought, item["id"])
    return item


def _events(whole: Body) -> Iterator[tuple[Body, str]]:
    begun = {**whole, "status": "in_progress", "output": [], "usage": None, "error": None,
             "incomplete_details": None}  # fmt: skip
    yield {"type": "response.created", "response": begun}, "delta"
    yield {"type": "response.in_progress", "response": begun}, "delta"
    for at, item in enumerate(whole["output"]):
        place = {"output_index": at, "item_id": item["id"]}
        empty = {**item, "status": "in_progress"}
        match item["type"]:
            case "reasoning":
                empty = {**item, "summary": []}
                inner = _summary_events(place, item)
            case "message":
                empty["content"] = []
                inner = _message_events(place, item["content"][0])
            case kind:
                field = "input" if kind == "custom_tool_call" else "arguments"
                empty[field] = ""
                inner = _call_events(place, item, field)
        yield {"type": "response.output_item.added", "output_index": at, "item": empty}, "delta"
        yield from inner
        yield {"type": "response.output_item.done", "output_index": at, "item": item}, "delta"
    yield {"type": f"response.{whole['status']}", "response": whole}, "last"


def _summary_events(place: Body, item: Body) -> Iterator[tuple[Body, str]]:
    named = "response.reasoning_summary"
    for index, part in enumerate(item["summary"]):
        here = {**place, "summary_index": index}
        yield {"type": f"{named}_part.added", **here, "part": {**part, "text": ""}}, "delta"
        for each in pieces(part["text"]):
            yield {"type": f"{named}_text.delta", **here, "delta": each}, "delta"
        yield {"type": f"{named}_text.done", **here, "text": part["text"]}, "delta"
        yield {"type": f"{named}_part.done", **here, "part": part}, "delta"


def _message_events(place: Body, part: Body) -> Iterator[tuple[Body, str]]:
    here = {**place, "content_index": 0}
    field = "refusal" if part["type"] == "refusal" else "text"
    named = f"response.{part['type']}"
    more: Body = {} if field == "refusal" else {"logprobs": []}
    yield {"type": "response.content_part.added", **here, "part": {**part, field: ""}}, "delta"
    for each in pieces(part[field]):
        yield {"type": f"{named}.delta", **here, "delta": each, **more}, "delta"
    yield {"type": f"{named}.done", **here, field: part[field], **more}, "delta"
    yield {"type": "response.content_part.done", **here, "part": part}, "delta"


def _call_events(place: Body, item: Body, field: str) -> Iterator[tuple[Body, str]]:
    named = f"response.{item['type']}_{field}"
    for each in pieces(item[field]):
        yield {"type": f"{named}.delta", **place, "delta": each}, "arguments"
    yield {"type": f"{named}.done", **place, field: item[field]}, "delta"


def _piece(event: Body, part: str) -> Piece:
    return Piece(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode(), part)
