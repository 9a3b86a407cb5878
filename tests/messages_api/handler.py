"""The HTTP of the server: reads a request, writes a reply, breaks off where a fault says so."""

from __future__ import annotations

import socket
import struct
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

import msgspec
from msgspec import Struct

from tests.messages_api.content import Body

if TYPE_CHECKING:
    from tests.messages_api.loopback import Loopback


class Received(Struct, frozen=True, kw_only=True):
    """A request as it came in; `body` is empty where it was no JSON object, and not `readable`."""

    path: str
    headers: dict[str, str]
    body: Body
    method: str = "POST"
    query: dict[str, str] = {}
    readable: bool = True
    raw: bytes = b""
    target: str = ""
    """The path and the query as they came in."""


class Reply(Struct, frozen=True, kw_only=True):
    """What goes out: a body, or the pieces of a stream; `cut` as in `Fault`."""

    status: int = 200
    headers: dict[str, str] = {}
    body: str = ""
    pieces: list[bytes] | None = None
    cut: str = ""


class Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = True
    request_queue_size = 128

    def __init__(self, api: Loopback) -> None:
        self.api = api
        super().__init__(("127.0.0.1", 0), Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that leaves early is no error of the server; anything else is."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Server

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._write(self.server.api.reply(self._read()))

    def do_POST(self) -> None:
        self._write(self.server.api.reply(self._read()))

    def _read(self) -> Received:
        length = int(self.headers.get("content-length") or 0)
        raw = self.rfile.read(length)
        try:
            body = msgspec.json.decode(raw or b"{}")
        except msgspec.DecodeError:
            body = None
        where = urlsplit(self.path)
        return Received(
            method=self.command,
            path=where.path,
            query=dict(parse_qsl(where.query)),
            headers={name.lower(): value for name, value in self.headers.items()},
            body=body if isinstance(body, dict) else {},
            readable=isinstance(body, dict),
            raw=raw,
            target=self.path,
        )

    def _write(self, reply: Reply) -> None:
        if reply.cut == "reset":
            self._reset()
        elif reply.cut == "slow":
            self.server.api.left.wait()
            self.close_connection = True
        elif reply.pieces is not None:
            self._stream(reply.pieces, reply.headers, reply.cut)
        else:
            self._whole(reply)

    def _whole(self, reply: Reply) -> None:
        raw = reply.body.encode()
        kind = "text/html" if reply.body.startswith("<") else "application/json"
        length = {"content-type": kind, "content-length": str(len(raw))}
        self._head(reply.status, {**length, **reply.headers})
        if reply.cut == "truncated":
            raw = raw[: len(raw) // 2]
            self.close_connection = True
        self.wfile.write(raw)

    def _stream(self, pieces: list[bytes], headers: dict[str, str], cut: str) -> None:
        streamed = {"content-type": "text/event-stream", "transfer-encoding": "chunked"}
        self._head(200, {**streamed, **headers})
        for piece in pieces:
            self.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
            self.wfile.flush()
        match cut:
            case "dropped":
                self._reset()
            case "closed" | "truncated" | "in event":
                self.close_connection = True
            case _:
                self.wfile.write(b"0\r\n\r\n")

    def _head(self, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def _reset(self) -> None:
        """Close with RST instead of FIN: what a crashed proxy looks like."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        self.connection.close()
