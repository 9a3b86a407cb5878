"""ClickHouse itself behind HTTP on loopback: the engine of `chdb`, in a process of its own.

It does what the HTTP interface does as far as the client asks for it: statements in the URL, in the
body and in forms, parameters, compression, errors with their code, and users with a password: one
who may do all, VIEWER who may only read, and CLERK who may also write into tables that are there.
It **applies** the settings that come with a question: bounds that are sent are bounds that hold.

    python -m tests.fleet.server FOLDER [--user NAME --password TEXT] [--tls FILE]

prints its port, and ends when its standard input does.
"""

from __future__ import annotations

import argparse
import base64
import json
import re
import ssl
import sys
import threading
from email.parser import BytesParser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

_NO_SETTINGS = {
    "database", "query", "query_id", "session_id", "session_timeout", "default_format", "compress",
    "decompress", "enable_http_compression", "http_headers_progress_interval_ms", "user",
    "password", "client_protocol_version", "wait_end_of_query", "send_progress_in_http_headers",
    "session_check", "role", "http_zlib_compression_level",
}  # fmt: skip
VIEWER, CLERK = "viewer", "clerk"
_FORMAT = re.compile(r"\s+FORMAT\s+(\w+)\s*;?\s*$", re.IGNORECASE)
_READS = re.compile(
    r"\s*(?:/\*.*?\*/\s*)*(SELECT|WITH|SHOW|DESCRIBE|EXISTS|EXPLAIN)\b", re.I | re.S
)


class _Engine:
    """One session of the engine, one question at a time."""

    def __init__(self, folder: Path) -> None:
        from chdb import session

        make: Any = session.Session
        self._session = make(str(folder))
        self._lock = threading.Lock()

    def answer(self, given: dict[str, str], body: bytes) -> tuple[bytes, dict[str, int]]:
        sql = "\n".join(filter(None, (given.get("query", ""), body.decode() if body else "")))
        form = _FORMAT.search(sql)
        sql = (sql[: form.start()] if form else sql).rstrip().rstrip(";")
        name = form[1] if form else given.get("default_format", "TabSeparated")
        settings = {
            key: value
            for key, value in given.items()
            if key not in _NO_SETTINGS and not key.startswith("param_")
        }
        reads = _READS.match(sql)
        if settings.get("readonly", "0") != "0" and not reads:
            raise RuntimeError("Code: 164. DB::Exception: Cannot execute query in readonly mode.")
        if reads and settings:
            said = ", ".join(f"{key} = {_literal(value)}" for key, value in settings.items())
            sql += f" SETTINGS {said}"
        values = {key[6:]: value for key, value in given.items() if key.startswith("param_")}
        with self._lock:
            if given.get("database"):
                self._session.query(f"USE `{given['database']}`")
            for key, value in values.items():
                self._session.query(f"SET param_{key} = {_text(value)}")
            found = self._session.query(sql, name)
            read = {
                "read_rows": found.storage_rows_read(),
                "read_bytes": found.storage_bytes_read(),
            }
            return bytes(found.bytes() or b""), read

    def close(self) -> None:
        with self._lock:
            self._session.close()


def _literal(value: str) -> str:
    return value if re.fullmatch(r"-?\d+(\.\d+)?", value) else _text(value)


def _text(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # as ClickHouse: else the body waits 40 ms for its headers
    engine: _Engine
    user: str | None = None
    password: str = ""

    def do_GET(self) -> None:
        self._answer(b"")

    def do_POST(self) -> None:
        self._answer(self.rfile.read(int(self.headers.get("Content-Length") or 0)))

    def _answer(self, body: bytes) -> None:
        given = {k: v[-1] for k, v in parse_qs(urlsplit(self.path).query, True).items()}
        kind = self.headers.get("Content-Type", "")
        if kind.startswith("multipart/form-data"):
            given |= _form(kind, body)
            body = b""
        elif kind.startswith("application/x-www-form-urlencoded"):
            given |= {k: v[-1] for k, v in parse_qs(body.decode(), True).items()}
            body = b""
        user = self._user()
        if user is None:
            self._send(403, b"Code: 516. DB::Exception: Authentication failed", 516)
            return
        try:
            _check_rights(user, given.get("query", "") or body.decode())
            data, read = self.engine.answer(given, body)
            self._send(200, data, None, read)
        except RuntimeError as error:
            code = re.search(r"Code: (\d+)", str(error))
            self._send(500, str(error).encode(), int(code[1]) if code else 1)

    def _user(self) -> str | None:
        """Who asks, "" where anybody may, None where the password is wrong."""
        if self.user is None:
            return ""
        given = self.headers.get("Authorization", "")
        name, _, word = base64.b64decode(given.removeprefix("Basic ")).decode().partition(":")
        known = name in (self.user, VIEWER, CLERK) and word == self.password
        return name if known else None

    def _send(
        self, status: int, data: bytes, code: int | None, read: dict[str, int] | None = None
    ) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/octet-stream")
        self.send_header("X-ClickHouse-Server-Display-Name", "tests")
        if read is not None:
            summary = json.dumps({key: str(value) for key, value in read.items()})
            self.send_header("X-ClickHouse-Summary", summary)
        if code is not None:
            self.send_header("X-ClickHouse-Exception-Code", str(code))
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args: Any) -> None:
        del args


def _check_rights(user: str, sql: str) -> None:
    """Raises RuntimeError with ClickHouse's words where a user may not do that."""
    if _READS.match(sql):
        return
    if user == VIEWER:
        raise RuntimeError(
            "Code: 164. DB::Exception: viewer: Cannot execute query in readonly mode."
        )
    if user == CLERK and not re.match(r"\s*INSERT\b", sql, re.I):
        raise RuntimeError("Code: 497. DB::Exception: clerk: Not enough privileges.")


def _form(kind: str, body: bytes) -> dict[str, str]:
    parts = BytesParser().parsebytes(b"Content-Type: " + kind.encode() + b"\r\n\r\n" + body)
    found: dict[str, str] = {}
    for part in parts.get_payload():
        assert not isinstance(part, str)
        name = part.get_param("name", header="content-disposition")
        data = part.get_payload(decode=True)
        assert isinstance(name, str)
        assert isinstance(data, bytes)
        found[name] = data.decode()
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--user")
    parser.add_argument("--password", default="")
    parser.add_argument("--tls", type=Path, help="a file with a certificate and its key")
    given = parser.parse_args()
    engine = _Engine(given.folder)
    handler = type(
        "Handler", (_Handler,), {"engine": engine, "user": given.user, "password": given.password}
    )
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    if given.tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(given.tls)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    print(server.server_address[1], flush=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()
    server.shutdown()
    engine.close()


if __name__ == "__main__":
    main()
