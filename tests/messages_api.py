"""A loopback server that speaks the Messages API as strictly as we know how, faults included.

`MessagesApi` is a context manager. `policy` answers a request body with a message; `fault` scripts
what goes wrong with the next requests, one fault each. `refusal` is the validation alone: the
sentence with which the API would refuse a body, None where it would take it.
"""

from __future__ import annotations

import json
import re
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

from msgspec import Struct

Body = dict[str, Any]
Policy = Callable[[Body], Body]

VERSION = "2026-10-21"


def message(*content: Body, stop: str | None = None, model: str = "claude-test") -> Body:
    """A Messages API message; its stop reason follows from its blocks unless given."""
    called = any(block["type"] == "tool_use" for block in content)
    return {
        "id": "msg_test",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": list(content),
        "stop_reason": stop or ("tool_use" if called else "end_turn"),
        "stop_sequence": None,
        "usage": {"input_tokens": 100, "output_tokens": 10},
    }


def text(said: str) -> Body:
    return {"type": "text", "text": said}


def tool_use(name: str, /, **arguments: Any) -> Body:
    return {"type": "tool_use", "id": "toolu_test", "name": name, "input": arguments}


class Fault(Struct, frozen=True, kw_only=True):
    """What goes wrong with one request.

    `status` with `headers` and `body` answers so; otherwise `cut` names how the exchange breaks:
    "reset" the connection, "truncated" body, "slow" (until the server is left), and for a stream
    "error" event, connection "dropped", a clean "end" before the last event, an end "in tool"
    arguments.
    """

    status: int = 200
    headers: dict[str, str] = {}
    body: str | None = None
    cut: str = ""


class Received(Struct, frozen=True, kw_only=True):
    """A request as it came in."""

    path: str
    headers: dict[str, str]
    body: Body


class MessagesApi:
    """The server. `received` holds every request in order, refused ones included."""

    def __init__(self, policy: Policy | None = None) -> None:
        self.policy: Policy = policy or (lambda _: message(text("Done.")))
        self.received: list[Received] = []
        self.left = threading.Event()
        self._faults: list[Fault] = []
        self._lock = threading.Lock()
        self._server = _Server(self)

    def __enter__(self) -> MessagesApi:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.left.set()
        self._server.shutdown()
        self._server.server_close()

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def asked(self) -> int:
        """How many messages were asked for."""
        return sum(each.path == "/v1/messages" for each in self.received)

    def fault(self, *faults: Fault) -> None:
        self._faults.extend(faults)

    def next_fault(self, received: Received) -> Fault | None:
        with self._lock:
            self.received.append(received)
            return self._faults.pop(0) if self._faults else None


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = True

    def __init__(self, api: MessagesApi) -> None:
        self.api = api
        super().__init__(("127.0.0.1", 0), _Handler)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        model = {"type": "model", "id": "claude-test", "display_name": "Test"}
        self._json(200, {"data": [model], "has_more": False})

    def do_POST(self) -> None:
        length = int(self.headers.get("content-length") or 0)
        body = json.loads(self.rfile.read(length) or b"{}")
        received = Received(
            path=self.path, headers={k.lower(): v for k, v in self.headers.items()}, body=body
        )
        fault = self.server.api.next_fault(received)
        wrong = None if fault is not None else self._refusal(received)
        if fault is not None and not fault.cut:
            self._send(fault.status, fault.body or _error("scripted", "scripted"), fault.headers)
        elif wrong is not None:
            self._send(wrong[0], _error(*wrong[1:]), {})
        elif self.path == "/v1/messages/count_tokens":
            self._json(200, {"input_tokens": len(json.dumps(body)) // 4})
        elif body.get("stream"):
            self._stream(self.server.api.policy(body), fault.cut if fault is not None else "")
        else:
            self._whole(self.server.api.policy(body), fault.cut if fault is not None else "")

    def _refusal(self, received: Received) -> tuple[int, str, str] | None:
        if received.path not in {"/v1/messages", "/v1/messages/count_tokens"}:
            return 404, "not_found_error", f"no such path: {received.path}"
        if not received.headers.get("authorization") and not received.headers.get("x-api-key"):
            return 401, "authentication_error", "no key"
        if received.headers.get("anthropic-version") != VERSION:
            return 400, "invalid_request_error", "anthropic-version: not supported"
        wrong = refusal(received.body)
        return (400, "invalid_request_error", wrong) if wrong is not None else None

    def _whole(self, answer: Body, cut: str) -> None:
        raw = json.dumps(answer).encode()
        match cut:
            case "reset":
                self._reset()
            case "slow":
                self.server.api.left.wait(30)
                self.close_connection = True
            case "truncated":
                self._head(200, "application/json", len(raw))
                self.wfile.write(raw[: len(raw) // 2])
                self.close_connection = True
            case _:
                self._send(200, raw.decode(), {})

    def _stream(self, answer: Body, cut: str) -> None:
        self._head(200, "text/event-stream", None)
        for event in _until(cut, _events(answer)):
            data = f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()
            self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
            self.wfile.flush()
        if cut == "dropped":
            self._reset()
            return
        self.wfile.write(b"0\r\n\r\n")

    def _json(self, status: int, value: Body) -> None:
        self._send(status, json.dumps(value), {})

    def _send(self, status: int, body: str, headers: dict[str, str]) -> None:
        raw = body.encode()
        kind = "text/html" if body.startswith("<") else "application/json"
        self._head(status, kind, len(raw), headers)
        self.wfile.write(raw)

    def _head(
        self, status: int, kind: str, length: int | None, headers: dict[str, str] | None = None
    ) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        if length is None:
            self.send_header("transfer-encoding", "chunked")
        else:
            self.send_header("content-length", str(length))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()

    def _reset(self) -> None:
        """Close with RST instead of FIN: what a crashed proxy looks like."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        self.connection.close()


def _error(kind: str, said: str) -> str:
    return json.dumps({"type": "error", "error": {"type": kind, "message": said}})


# --- streams


def _events(answer: Body) -> Iterator[Body]:
    """A message as the events of a stream."""
    start = {**answer, "content": [], "stop_reason": None}
    yield {"type": "message_start", "message": start}
    yield {"type": "ping"}
    for index, block in enumerate(answer["content"]):
        yield from _block_events(index, block)
    delta = {"stop_reason": answer["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": delta, "usage": {"output_tokens": 12}}
    yield {"type": "message_stop"}


def _block_events(index: int, block: Body) -> Iterator[Body]:
    if block["type"] == "tool_use":
        empty, key, kind = {**block, "input": {}}, "partial_json", "input_json_delta"
        whole = json.dumps(block["input"])
    else:
        empty, key, kind, whole = {**block, "text": ""}, "text", "text_delta", block["text"]
    yield {"type": "content_block_start", "index": index, "content_block": empty}
    for part in (whole[: len(whole) // 2], whole[len(whole) // 2 :]):
        yield {"type": "content_block_delta", "index": index, "delta": {"type": kind, key: part}}
    yield {"type": "content_block_stop", "index": index}


def _until(cut: str, events: Iterator[Body]) -> Iterator[Body]:
    """The events up to where a fault ends them."""
    for event in events:
        kind = event["type"]
        if cut in {"dropped", "end"} and kind == "message_delta":
            return
        if cut == "error" and kind == "content_block_stop":
            error = {"type": "overloaded_error", "message": "overloaded"}
            yield {"type": "error", "error": error}
            return
        if cut == "in tool" and kind == "content_block_stop":
            return
        yield event


# --- what the API refuses

_FIELDS = {
    "model", "max_tokens", "messages", "system", "tools", "tool_choice", "stop_sequences", "stream",
    "thinking", "output_config", "metadata", "service_tier",
}  # fmt: skip
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")


def refusal(body: Body) -> str | None:
    """Why the API refuses a request body, None where it takes it."""
    return next(_refusals(body), None)


def _refusals(body: Body) -> Iterator[str]:
    for name in body:
        if name not in _FIELDS:
            yield f"{name}: Extra inputs are not permitted"
    if not isinstance(body.get("model"), str):
        yield "model: Field required"
    if type(body.get("max_tokens")) is not int or body["max_tokens"] < 1:
        yield "max_tokens: must be at least 1"
    if "system" in body and not _texts_are_full(body["system"]):
        yield "system: text content blocks must be non-empty"
    yield from _tool_refusals(body)
    said = body.get("messages")
    if not isinstance(said, list) or not said:
        yield "messages: at least one message is required"
    else:
        yield from _message_refusals(said)


def _tool_refusals(body: Body) -> Iterator[str]:
    tools = body.get("tools", [])
    for at, tool in enumerate(tools):
        if set(tool) - {"name", "description", "input_schema", "strict"}:
            yield f"tools.{at}: Extra inputs are not permitted"
        if not _NAME.fullmatch(str(tool.get("name"))):
            yield f"tools.{at}.name: String should match pattern"
        if tool.get("input_schema", {}).get("type") != "object":
            yield f"tools.{at}.input_schema.type: Field required"
    if len({tool["name"] for tool in tools}) < len(tools):
        yield "tools: Tool names must be unique"
    if "tool_choice" in body and not tools:
        yield "tool_choice: may only be specified while providing tools"


def _message_refusals(said: list[Body]) -> Iterator[str]:
    if said[0].get("role") != "user":
        yield "messages: first message must use the user role"
    if said[-1].get("role") == "assistant":
        yield "messages: this model does not support assistant message prefill"
    waiting: list[str] = []
    for at, each in enumerate(said):
        where = f"messages.{at}"
        if set(each) != {"role", "content"} or each["role"] not in {"user", "assistant", "system"}:
            yield f"{where}: Extra inputs are not permitted"
        if at and each["role"] == said[at - 1]["role"]:
            yield f"{where}: roles must alternate"
        content = each["content"]
        if not _texts_are_full(content):
            yield f"{where}: text content blocks must be non-empty"
        blocks = content if isinstance(content, list) else []
        yield from _result_refusals(where, blocks, waiting)
        waiting = [block["id"] for block in blocks if block["type"] == "tool_use"]
        yield from _block_refusals(where, each["role"], blocks)
    if waiting:
        yield "messages: `tool_use` ids were found without `tool_result` blocks"


def _result_refusals(where: str, blocks: list[Body], waiting: list[str]) -> Iterator[str]:
    answered = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
    if set(answered) - set(waiting):
        yield f"{where}: unexpected `tool_use_id` found in `tool_result` blocks"
    if set(waiting) - set(answered):
        yield f"{where}: `tool_use` ids were found without `tool_result` blocks immediately after"
    if len(set(answered)) < len(answered):
        yield f"{where}: each tool_use must have a single result"
    kinds = [block["type"] == "tool_result" for block in blocks]
    if kinds != sorted(kinds, reverse=True):
        yield f"{where}: tool_result blocks must come first"


def _block_refusals(where: str, role: str, blocks: list[Body]) -> Iterator[str]:
    for block in blocks:
        match block["type"]:
            case "tool_use":
                if role != "assistant" or not _NAME.fullmatch(block["name"]):
                    yield f"{where}: bad tool_use"
                if not _NAME.fullmatch(block["id"]) or not isinstance(block["input"], dict):
                    yield f"{where}: bad tool_use"
            case "tool_result":
                if role != "user":
                    yield f"{where}: `tool_result` blocks can only be in `user` messages"
                if not _texts_are_full(block.get("content") or "-"):
                    yield f"{where}: text content blocks must be non-empty"
            case "thinking" | "redacted_thinking":
                yield f"{where}: Invalid signature in thinking block"
            case "image" | "document":
                if block["source"]["type"] not in {"base64", "text"}:
                    yield f"{where}: bad source"
            case _:
                pass


def _texts_are_full(content: Any) -> bool:
    if isinstance(content, str):
        return bool(content.strip())
    return bool(content) and all(
        block["text"].strip() for block in content if block["type"] == "text"
    )
