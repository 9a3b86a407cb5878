"""One call of a model as it goes over the wire: what was sent, what came back, and when."""

from __future__ import annotations

import re
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from importlib.util import find_spec
from time import time_ns
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from replay.errors import BadTrace
from replay.formats.source import decode

Api: TypeAlias = Literal["messages", "chat", "responses"]
"""Anthropic's Messages API, OpenAI's chat completions, OpenAI's Responses API."""

_PATHS: dict[str, Api] = {
    "/messages": "messages",
    "/chat/completions": "chat",
    "/responses": "responses",
}
_BEDROCK = re.compile(r"/model/[^/]+/invoke(?:-with-response-stream)?$")

_FIRST: dict[Api, bytes] = {"messages": b"content_block_delta", "chat": b"data:",
                            "responses": b".delta"}  # fmt: skip
"""What stands in a stream as soon as something of the answer does."""


_LAST = re.compile(
    rb"(?:\A|\n)(?:event: ?(?:message_stop|error|response\.(?:completed|incomplete|failed))"
    rb"|data: ?(?:\[DONE\]|\{\"type\": ?\"(?:message_stop"
    rb"|response\.(?:completed|incomplete|failed))))"
)
"""How the last event of a stream begins."""


def api_of(method: str, path: str) -> Api | None:
    """The API that a request calls a model over, None where it does something else."""
    if method != "POST":
        return None
    path = path.partition("?")[0].rstrip("/")
    if _BEDROCK.search(path):
        return "messages"
    return next((api for end, api in _PATHS.items() if path.endswith(end)), None)


def is_batch(method: str, path: str) -> bool:
    """Does a request send many calls at once, to be answered later?"""
    return method == "POST" and path.partition("?")[0].rstrip("/").endswith("/batches")


class Refusal(Struct, frozen=True, kw_only=True):
    """Why the recorder refused a call: by a cap or by an order to stop; `what` names that in the
    labels of its run, `why` is the sentence for who made the call."""

    kind: Literal["cap", "stop"]
    what: str
    why: str


class RecordedExchange(Struct, frozen=True, kw_only=True, eq=False):
    """An exchange that is over. Bodies are unpacked.

    `request` is None where it could not be kept; `answer` likewise, and where nothing came, which
    `note` tells apart. `status` is None where no answer began. `broken` says how it ended before
    its end. `client` is what the client calls itself. `refused` says that the recorder answered,
    and not the provider.
    """

    api: Api
    path: str
    start_ns: int
    end_ns: int
    first_ns: int | None = None
    request: bytes | None = None
    answer: bytes | None = None
    status: int | None = None
    streamed: bool = False
    request_id: str | None = None
    broken: str | None = None
    note: str | None = None
    client: str | None = None
    refused: Refusal | None = None


class ExchangeCapture:
    """Listens to one exchange. Its methods are called as things happen; `end` once, at the end."""

    def __init__(
        self,
        api: Api,
        path: str,
        packed: str = "",
        clock: Callable[[], int] = time_ns,
        client: str | None = None,
    ) -> None:
        self.api: Api = api
        self._client = client
        self._path = path.partition("?")[0]
        self._clock = clock
        self._start_ns = self._last_ns = clock()
        self._first_ns: int | None = None
        self._request = _Body(packed)
        self._answer = _Body()
        self._status: int | None = None
        self._streamed = False
        self._request_id: str | None = None
        self._plain = True
        self.ended = False

    def take_request(self, data: bytes) -> None:
        """A piece of the request's body."""
        self._request.take(data)

    def answering(self, status: int, headers: Mapping[str, str]) -> None:
        """The answer begins. `headers` are looked up in small letters."""
        self._status, self._last_ns = status, self._clock()
        self._streamed = headers.get("content-type", "").startswith("text/event-stream")
        self._request_id = headers.get("request-id") or headers.get("x-request-id")
        self._answer = _Body(headers.get("content-encoding", ""))
        self._plain = not headers.get("content-encoding")

    def passable(self, data: bytes) -> int:
        """How many bytes of an answer may be passed on before the call is kept.

        Of a stream all before its last event, and no part of a line that could begin it; of
        anything else all but the last byte, without which no client has the answer.
        """
        if not (self._streamed and self._plain):
            return max(len(data) - 1, 0)
        last = _LAST.search(data)
        return last.start() if last is not None else data.rfind(b"\n") + 1

    def answered(self, data: bytes) -> None:
        """A piece of the answer's body."""
        if not data:
            return
        self._last_ns = self._clock()
        if self._first_ns is None and self._streamed:
            seen = self._answer.tail + data
            self._first_ns = self._last_ns if _FIRST[self.api] in seen else None
        self._answer.take(data)

    def end(self, broken: str | None = None, refused: Refusal | None = None) -> RecordedExchange:
        """The exchange is over: with its answer, `broken` as these words say, or `refused`."""
        self.ended = True
        request, _ = self._request.read()
        answer, note = self._answer.read()
        return RecordedExchange(
            api=self.api,
            client=self._client,
            path=self._path,
            start_ns=self._start_ns,
            end_ns=self._clock() if broken else self._last_ns,
            first_ns=self._first_ns,
            request=request,
            answer=answer,
            status=self._status,
            streamed=self._streamed,
            request_id=self._request_id,
            broken=broken,
            note=note and f"the response {note}",
            refused=refused,
        )


class _Body:
    """The bytes of a body as they came; too many are not kept."""

    def __init__(self, packed: str = "") -> None:
        self._packed = packed
        self._pieces: list[bytes] = []
        self._size = 0

    @property
    def tail(self) -> bytes:
        return self._pieces[-1][-32:] if self._pieces else b""

    def take(self, data: bytes) -> None:
        self._size += len(data)
        if self._size <= MOST_BYTES:
            self._pieces.append(bytes(data))
        else:
            self._pieces.clear()

    def read(self) -> tuple[bytes | None, str | None]:
        """The body unpacked, None with the reason where it cannot be."""
        if self._size > MOST_BYTES:
            return None, f"is more than {MOST_BYTES >> 20} MiB"
        try:
            return unpacked(b"".join(self._pieces), self._packed), None
        except Packed as error:
            return None, str(error)


MOST_BYTES = 256 * 1024 * 1024
"""No body of a model's API comes near; one that unpacks to more is taken for an attack."""

_CHUNK = 1 << 20


class Packed(Exception):
    """A body that cannot be unpacked, and why in a few words."""


def can_brotli() -> bool:
    """Is the package there that unpacks Brotli?"""
    return find_spec("brotli") is not None


def unpacked(body: bytes, encoding: str) -> bytes:
    """The body as it was before `encoding`, the value of its Content-Encoding header.

    What was packed may break off: what came is unpacked. Raises Packed where it cannot be.
    """
    steps = [each.strip().lower() for each in encoding.split(",")]
    for step in reversed(steps):
        if step in ("", "identity"):
            continue
        unpack = _UNPACKERS.get(step)
        if unpack is None:
            raise Packed(f"has the unknown encoding {step!r}")
        body = unpack(body)
    return body


def _zlib(body: bytes) -> bytes:
    for bits in (zlib.MAX_WBITS | 32, -zlib.MAX_WBITS):  # deflate comes with and without a header
        unpacking = zlib.decompressobj(wbits=bits)
        try:
            found = unpacking.decompress(body, MOST_BYTES + 1)
        except zlib.error:
            continue
        return _bounded(found)
    raise Packed("does not have the encoding its header declares")


def _zstd(body: bytes) -> bytes:
    name = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
    zstd = import_module(name)
    unpacking = zstd.ZstdDecompressor()
    try:
        return _bounded(bytes(unpacking.decompress(body, MOST_BYTES + 1)))
    except zstd.ZstdError as error:
        raise Packed("does not have the encoding its header declares") from error


def _brotli(body: bytes) -> bytes:
    if not can_brotli():
        raise Packed("is Brotli-encoded. Try: pip install brotli")
    brotli: Any = import_module("brotli")
    unpacking = brotli.Decompressor()
    found = bytearray()
    try:
        for at in range(0, len(body), _CHUNK):
            found += unpacking.process(body[at : at + _CHUNK])
            _bounded(found)
    except brotli.error as error:
        raise Packed("does not have the encoding its header declares") from error
    return bytes(found)


def _bounded(found: bytes | bytearray) -> bytes:
    if len(found) > MOST_BYTES:
        raise Packed(f"is more than {MOST_BYTES >> 20} MiB decompressed")
    return bytes(found)


_UNPACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": _zlib,
    "x-gzip": _zlib,
    "deflate": _zlib,
    "zstd": _zstd,
    "br": _brotli,
}


def events(body: bytes) -> Iterator[dict[str, Any]]:
    """The JSON objects of a stream of server-sent events; what is none (`[DONE]`) is left out.

    Lines end where the protocol says: the text of an answer may hold what Unicode calls the end
    of a line.
    """
    for line in body.splitlines():
        if not line.startswith(b"data:"):
            continue
        try:
            event = decode(line[5:], "", "")
        except BadTrace:
            continue
        if isinstance(event, dict):
            yield event


def looks_streamed(body: bytes) -> bool:
    """Is this a stream whatever its header says?"""
    return body.lstrip()[:6].startswith((b"event:", b"data:"))
