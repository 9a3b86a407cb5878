"""A server on loopback that answers with whatever bytes a test wants, in the pieces it wants."""

from __future__ import annotations

import socket
import ssl
import struct
import sys
import threading
from collections.abc import Callable, Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

from msgspec import Struct


class Asked(Struct, frozen=True, kw_only=True):
    """A request as it came in, its headers in their order."""

    method: str
    path: str
    headers: tuple[tuple[str, str], ...]
    body: bytes

    def header(self, name: str) -> str | None:
        return next((value for each, value in self.headers if each.lower() == name), None)


class Reply(Struct, frozen=True, kw_only=True):
    """What goes out. Several pieces go out as chunks, each as it is made; after `cut` the
    connection breaks."""

    pieces: Iterable[bytes] = ()
    status: int = 200
    headers: tuple[tuple[str, str], ...] = (("Content-Type", "application/json"),)
    chunked: bool = False
    cut: bool = False


Answer = Callable[[Asked], Reply]


class Upstream:
    """The server, a context manager. `received` holds every request in order."""

    def __init__(self, answer: Answer, *, tls: ssl.SSLContext | None = None) -> None:
        self.received: list[Asked] = []
        self.answer = answer
        self._server = _Server(self)
        self._scheme = "http"
        if tls is not None:
            self._scheme = "https"
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)

    @property
    def url(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Upstream:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, upstream: Upstream) -> None:
        self.upstream = upstream
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that leaves early is no error of the server; anything else is."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def do_DELETE(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def _answer(self) -> None:
        asked = Asked(
            method=self.command,
            path=self.path,
            headers=tuple(self.headers.items()),
            body=self._body(),
        )
        self.server.upstream.received.append(asked)
        reply = self.server.upstream.answer(asked)
        self.send_response(reply.status)
        for name, value in reply.headers:
            self.send_header(name, value)
        whole = b"" if reply.chunked else b"".join(reply.pieces)
        if reply.chunked:
            self.send_header("Transfer-Encoding", "chunked")
        else:
            self.send_header("Content-Length", str(len(whole)))
        self.end_headers()
        for piece in reply.pieces if reply.chunked else ():
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            self.wfile.flush()
        if reply.cut:
            self.wfile.write(whole[: len(whole) // 2])
            self._reset()
        elif self.command != "HEAD":
            self.wfile.write(b"0\r\n\r\n" if reply.chunked else whole)

    def _body(self) -> bytes:
        if self.headers.get("transfer-encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("content-length") or 0))
        pieces = []
        while size := int(self.rfile.readline(), 16):
            pieces.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(pieces)

    def _reset(self) -> None:
        """Break the connection off, so that the other side sees it."""
        self.wfile.flush()
        linger = struct.pack("ii", 1, 0)
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self.connection.close()
        self.close_connection = True
