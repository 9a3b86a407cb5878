"""One call of a model as it goes over the wire: what was sent, what came back, and when.

An `Ear` is held to an exchange while it goes on and never touches it; what it heard is a value
without headers, because they hold keys. Which paths are calls of a model is said here; counting
tokens, listing models and sending batches are none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from time import time_ns
from typing import Literal, TypeAlias

from msgspec import Struct

from replay.recorder.encodings import MOST_BYTES, Packed, unpacked

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


class Heard(Struct, frozen=True, kw_only=True, eq=False):
    """An exchange that is over. Bodies are unpacked.

    `request` is None where it could not be kept; `answer` likewise, and where nothing came, which
    `note` tells apart. `status` is None where no answer began. `broken` says how it ended before
    its end.
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


class Ear:
    """Listens to one exchange. Its methods are called as things happen; `end` once, at the end."""

    def __init__(
        self, api: Api, path: str, packed: str = "", clock: Callable[[], int] = time_ns
    ) -> None:
        self._api: Api = api
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

    def asked(self, data: bytes) -> None:
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
            self._first_ns = self._last_ns if _FIRST[self._api] in seen else None
        self._answer.take(data)

    def end(self, broken: str | None = None) -> Heard:
        """The exchange is over: with its answer, or `broken` as these words say."""
        self.ended = True
        request, _ = self._request.read()
        answer, note = self._answer.read()
        return Heard(
            api=self._api,
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
            note=note and f"the answer {note}",
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
