"""Runs as they happen: what agents send over HTTP as OTLP is received, and written as it comes.

The server's thread receives; another one writes, at once where it has nothing to do, and never
more than half of the time, so that a trace of many spans is not put together anew for each of
them. What was sent is acknowledged once its trace is committed: a kill of the process takes
nothing that was. Spans of a trace in which no agent, model or tool was heard of yet are no run
and are not written: they wait in memory, and are acknowledged, until one is. After a power cut
SQLite may lack the last commits, never a part of one.

`/v1/traces` and `/v1/logs` are read in protobuf and JSON, compressed or not, below whatever path a
service has them (Langfuse's SDK posts to `/api/public/otel/v1/traces`); `/v1/metrics` is accepted
and dropped, because exporters that send all three complain otherwise. It listens on
loopback alone, and a page in a browser cannot reach it: a request that names an origin, or a host
that is not this machine, is refused. Imported by one who listens, once it is known that the
server is installed.
"""

from __future__ import annotations

import asyncio
import errno
import time
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from aiohttp import web

from arc_tui.features.record.live import (
    LOOPBACK,
    Commits,
    LiveSnapshot,
    LiveWriter,
    Traces,
    Written,
    write_until,
)
from replay.errors import ArcError
from replay.formats.genai.records import Record
from replay.formats.otlp import exports
from replay.formats.otlp.protobuf import Broken
from replay.formats.source import Tally
from replay.store.handle import now_ns
from replay.store.trouble import StoreBusy

Take = Callable[[list[Record]], Awaitable[bool]]
"""Whether the records are kept, once that is known."""

Report = Callable[[Written], None]


async def listen(
    path: Path, *, port: int, ready: Callable[[int], None], report: Report, stop: asyncio.Event
) -> None:
    """Receive on loopback until `stop`, then write what is left.

    Port 0 is any that is free; `ready` is given the port. `report` is called after every write.
    Raises ArcError where the port is taken.
    """
    traces, commits = Traces(), Commits()

    def take(records: list[Record]) -> Awaitable[bool]:
        traces.add(records, time.monotonic())
        return commits.awaited()

    async with _writer(path) as write:

        async def commit() -> None:
            now_s = time.monotonic()
            found = [*traces.over(now_s), *traces.arrived()]
            with suppress(StoreBusy), commits.committing():
                try:
                    await write(found, report)
                except StoreBusy:  # another process writes: who sent it is told to send it again
                    traces.take_back(found, now_s)
                    raise

        async with _serving(take, port) as bound:
            ready(bound)
            await write_until(stop, commits.news, commit)
            await commit()  # for who still waits for an answer
        await write(traces.all_over(), report)


Write = Callable[[list[LiveSnapshot], Report], "asyncio.Future[None]"]


@asynccontextmanager
async def _writer(path: Path) -> AsyncIterator[Write]:
    """Write in a thread of its own: a store never crosses threads, and the server goes on."""
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(1, thread_name_prefix="arc-writer") as thread:
        writer = await loop.run_in_executor(thread, LiveWriter, path)

        def work(found: list[LiveSnapshot], report: Report) -> None:
            for snapshot in found:
                written = writer.write(snapshot)
                if written is not None:
                    loop.call_soon_threadsafe(report, written)
            writer.keep_live(now_ns())

        try:
            yield lambda found, report: loop.run_in_executor(thread, work, found, report)
        finally:
            await loop.run_in_executor(thread, writer.close)


@asynccontextmanager
async def _serving(take: Take, port: int) -> AsyncIterator[int]:
    """The server on its port, which it yields."""
    runner = web.AppRunner(
        application(take), access_log=None, auto_decompress=False, shutdown_timeout=1.0
    )
    await runner.setup()
    try:
        site = web.TCPSite(runner, LOOPBACK, port)
        try:
            await site.start()
        except OSError as error:
            raise _no_port(port, error) from error
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()


def _no_port(port: int, error: OSError) -> ArcError:
    if error.errno == errno.EADDRINUSE:
        return ArcError(
            f"{LOOPBACK}:{port} is in use, by another `arc listen` or a collector",
            "Try: stop it, or another --port",
        )
    why = (error.strerror or str(error)).lower()
    return ArcError(f"cannot listen on {LOOPBACK}:{port}: {why}", "Try: another --port")


# --- which requests are taken, and what each is answered

MAX_BODY_BYTES = 64 * 1024 * 1024
"""Compressed or not. Exporters send some megabytes at most."""

_HOSTS = frozenset({"127.0.0.1", "localhost", "[::1]"})
_PROTOBUF, _JSON = "application/x-protobuf", "application/json"
_REJECTED = {"traces": "rejectedSpans", "logs": "rejectedLogRecords"}

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


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
    for signal, taken in (("traces", take), ("logs", take), ("metrics", None)):
        app.router.add_post(f"/{{service:.*}}v1/{signal}", _receiving(signal, taken))
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
                raise Refusal(503, "could not be saved; send it again later")
        except Refusal as refusal:
            return _answer(as_json=as_json, refusal=refusal)
        except web.HTTPRequestEntityTooLarge:
            return _answer(as_json=as_json, refusal=_too_large())
        return _answer(as_json=as_json, signal=signal, found=found)

    return receive


def _check(request: web.Request) -> None:
    host = request.host.rpartition(":")[0] if request.host[-1:].isdigit() else request.host
    if (host or request.host) not in _HOSTS:
        raise Refusal(403, f"accepts programs on this machine only, not {request.host}")
    if "Origin" in request.headers:
        raise Refusal(403, "accepts programs, not browser pages")
    if request.content_type not in (_PROTOBUF, _JSON):
        raise Refusal(415, f"the body must be {_PROTOBUF} or {_JSON}")


async def _body(request: web.Request) -> bytes:
    """The body, unpacked."""
    packed = request.headers.get("Content-Encoding", "identity").strip().lower()
    if packed not in ("identity", "gzip", "deflate", ""):
        raise Refusal(415, f"unsupported compression {packed!r}; only gzip is supported")
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
        raise Refusal(400, "the compressed body is truncated")
    return found


def _too_large() -> Refusal:
    return Refusal(413, f"the body is larger than {MAX_BODY_BYTES >> 20} MiB")


def read(body: bytes, *, as_json: bool) -> Read:
    """The records of a body. Raises Refusal where it is no export at all."""
    tally = Tally()
    try:
        records = (exports.in_json if as_json else exports.in_protobuf)(body, tally)
    except Broken as broken:
        raise Refusal(400, f"the body is not valid OTLP: {broken}") from broken
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
        encode_refusal = exports.refused_in_json if as_json else exports.refused_in_protobuf
        body = encode_refusal(refusal.why)
    elif as_json:
        body = exports.said_in_json(_REJECTED.get(signal, ""), rejected, why)
    else:
        body = exports.said_in_protobuf(rejected, why)
    return web.Response(body=body, status=status, content_type=kind)
