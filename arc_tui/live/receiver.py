"""OTLP over HTTP, the receiving side: which requests are taken, and what each is answered.

`/v1/traces` and `/v1/logs` in protobuf and JSON, compressed or not; `/v1/metrics` is accepted and
dropped, because exporters that send all three complain otherwise. It listens on loopback alone, and
a page in a browser cannot reach it: a request that names an origin, or a host that is not this
machine, is refused. Imported by one who listens, once it is known that the server is installed.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from aiohttp import web

from replay.formats.intake import Tally
from replay.formats.otlp import pieces
from replay.formats.otlp.binary import Broken
from replay.formats.otlp.held import Record

MAX_BODY_BYTES = 64 * 1024 * 1024
"""Compressed or not. Exporters send some megabytes at most."""

_HOSTS = frozenset({"127.0.0.1", "localhost", "[::1]"})
_PROTOBUF, _JSON = "application/x-protobuf", "application/json"
_REJECTED = {"traces": "rejectedSpans", "logs": "rejectedLogRecords"}

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

Take = Callable[[list[Record]], Awaitable[bool]]
"""Whether the records are kept, once that is known."""


class Refusal(Exception):
    """A request that is not taken: its status, and why in a sentence."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status
        self.why = why


class Read(NamedTuple):
    """What a body holds: its records, how many more could not be read, and why the first."""

    records: list[Record]
    rejected: int
    why: str


@web.middleware
async def while_connected(request: web.Request, handler: Handler) -> web.StreamResponse:
    """A client that breaks off, in its request or in the answer, is no error of ours."""
    try:
        return await handler(request)
    except (ConnectionError, web.RequestPayloadError):
        if request.transport is not None:
            request.transport.abort()
        return web.Response(status=400)  # which nobody reads


def application(take: Take) -> web.Application:
    """The server's routes; `take` is given the records of each export, in the server's thread,
    and answers when they are committed."""
    app = web.Application(client_max_size=MAX_BODY_BYTES, middlewares=[while_connected])
    app.router.add_post("/v1/traces", _receiving("traces", take))
    app.router.add_post("/v1/logs", _receiving("logs", take))
    app.router.add_post("/v1/metrics", _receiving("metrics", None))
    return app


def _receiving(signal: str, take: Take | None) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def receive(request: web.Request) -> web.Response:
        as_json = request.content_type == _JSON
        try:
            _check(request)
            body = await _body(request)
            if take is None:
                return _answer(as_json=as_json)
            found = await asyncio.to_thread(read, body, as_json=as_json)
            if not await take(found.records):
                raise Refusal(503, "it could not be written; send it again later")
        except Refusal as refusal:
            return _answer(as_json=as_json, refusal=refusal)
        except web.HTTPRequestEntityTooLarge:
            return _answer(as_json=as_json, refusal=_too_large())
        return _answer(as_json=as_json, signal=signal, found=found)

    return receive


def _check(request: web.Request) -> None:
    host = request.host.rpartition(":")[0] if request.host[-1:].isdigit() else request.host
    if (host or request.host) not in _HOSTS:
        raise Refusal(403, f"this listens for programs of this machine, not for {request.host}")
    if "Origin" in request.headers:
        raise Refusal(403, "this listens for programs, not for pages in a browser")
    if request.content_type not in (_PROTOBUF, _JSON):
        raise Refusal(415, f"the body must be {_PROTOBUF} or {_JSON}")


async def _body(request: web.Request) -> bytes:
    """The body, unpacked."""
    packed = request.headers.get("Content-Encoding", "identity").strip().lower()
    if packed not in ("identity", "gzip", "deflate", ""):
        raise Refusal(415, f"the body is compressed as {packed!r}; gzip is understood")
    data = await request.read()
    return unpacked(data) if packed in ("gzip", "deflate") else data


def unpacked(data: bytes) -> bytes:
    """The bytes that were compressed by gzip or deflate.

    Raises Refusal where they are not whole, or are more than a body may have.
    """
    unpacking = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)
    try:
        found = unpacking.decompress(data, MAX_BODY_BYTES + 1)
    except zlib.error as error:
        raise Refusal(400, f"the body cannot be decompressed: {error}") from error
    if len(found) > MAX_BODY_BYTES:
        raise _too_large()
    if not unpacking.eof:
        raise Refusal(400, "the compressed body ends before its end")
    return found


def _too_large() -> Refusal:
    return Refusal(413, f"the body is larger than {MAX_BODY_BYTES >> 20} MiB")


def read(body: bytes, *, as_json: bool) -> Read:
    """The records of a body. Raises Refusal where it is no export at all."""
    tally = Tally()
    try:
        records = (pieces.in_json if as_json else pieces.in_protobuf)(body, tally)
    except Broken as broken:
        raise Refusal(400, f"the body is no OTLP that can be read: {broken}") from broken
    first = tally.problems[0] if tally.problems else None
    return Read(records, len(tally.problems), f"{first.where}: {first.why}" if first else "")


def _answer(
    *,
    as_json: bool,
    signal: str = "",
    found: Read | None = None,
    refusal: Refusal | None = None,
) -> web.Response:
    """What the protocol wants said, in the encoding that was asked in."""
    kind, status = _JSON if as_json else _PROTOBUF, 200
    rejected, why = (found.rejected, found.why) if found is not None else (0, "")
    if refusal is not None:
        status = refusal.status
        said = pieces.refused_in_json if as_json else pieces.refused_in_protobuf
        body = said(refusal.why)
    elif as_json:
        body = pieces.said_in_json(_REJECTED.get(signal, ""), rejected, why)
    else:
        body = pieces.said_in_protobuf(rejected, why)
    return web.Response(body=body, status=status, content_type=kind)
