"""How an SDK is overheard: its HTTP client hands every request and answer to a recording.

The SDKs of Anthropic and OpenAI send through a client of `httpx2` (older ones of `httpx`). Its
`send` is replaced once in the process; where nobody records it does what it always did. The bytes
of an answer are copied as they are read, and not read ahead of who reads them.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable, Iterator
from functools import cache, wraps
from importlib import import_module
from importlib.util import find_spec
from typing import Any
from weakref import WeakKeyDictionary

from replay.recorder.recording import Hearing, RecordingSession, current

LEFT = "the client left before the end"

_MODULES = ("httpx2", "httpx")
_owned: WeakKeyDictionary[Any, RecordingSession] = WeakKeyDictionary()


def own(client: Any, recording: RecordingSession) -> None:
    """Let what an SDK's client sends be recorded there. Raises TypeError where it is none."""
    http = getattr(client, "_client", None)
    if not callable(getattr(http, "send", None)):
        raise TypeError(f"{type(client).__name__} is no client of Anthropic's or OpenAI's SDK")
    install()
    _owned[http] = recording


@cache
def install() -> None:
    """Replace `send` in the clients that SDKs use, once."""
    for name in _MODULES:
        if find_spec(name) is not None:
            module = import_module(name)
            module.Client.send = _sending(module.Client.send, _streams(_Tee, module.SyncByteStream))
            module.AsyncClient.send = _asending(
                module.AsyncClient.send, _streams(_ATee, module.AsyncByteStream)
            )


def _streams(tee: type, stream: type) -> Callable[[Any, Hearing], Any]:
    """A tee that the library takes for a stream of its own."""
    made: Callable[[Any, Hearing], Any] = type(tee.__name__, (tee, stream), {})
    return made


def _hearing(client: Any, request: Any) -> Hearing | None:
    recording = _owned.get(client) or current()
    if recording is None:
        return None
    try:
        content = request.content
    except RuntimeError:  # a body that is a stream, and no call of a model
        return None
    found = recording.hear(request.method, request.url.path, request.headers)
    if found is not None:
        found.ear.take_request(content)
    return found


def _sending(send: Any, tee: Callable[[Any, Hearing], Any]) -> Any:
    @wraps(send)
    def recorded(client: Any, request: Any, **options: Any) -> Any:
        hearing = _hearing(client, request)
        if hearing is None:
            return send(client, request, **options)
        sent = False
        try:
            response = send(client, request, **options)
            sent = True
        finally:
            if not sent:
                hearing.end(_broken())
        return _answered(response, hearing, tee)

    return recorded


def _asending(send: Any, tee: Callable[[Any, Hearing], Any]) -> Any:
    @wraps(send)
    async def recorded(client: Any, request: Any, **options: Any) -> Any:
        hearing = _hearing(client, request)
        if hearing is None:
            return await send(client, request, **options)
        sent = False
        try:
            response = await send(client, request, **options)
            sent = True
        finally:
            if not sent:
                hearing.end(_broken())
        return _answered(response, hearing, tee)

    return recorded


def _answered(response: Any, hearing: Hearing, tee: Callable[[Any, Hearing], Any]) -> Any:
    """The answer, which was read already or will be overheard while it is."""
    headers = response.headers
    if response.is_stream_consumed:
        plain = {name: value for name, value in headers.items() if name != "content-encoding"}
        hearing.ear.answering(response.status_code, plain)
        hearing.ear.answered(response.content)
        hearing.end()
    else:
        hearing.ear.answering(response.status_code, headers)
        response.stream = tee(response.stream, hearing)
    return response


def _broken() -> str:
    """How what is being raised now ended the exchange."""
    error = sys.exception()
    if not isinstance(error, Exception):  # cancelled, or interrupted
        return LEFT
    return f"the connection broke ({error})" if str(error) else "the connection broke"


class _Tee:
    """The bytes of an answer on their way to who reads them."""

    def __init__(self, stream: Any, hearing: Hearing) -> None:
        self._stream = stream
        self._hearing = hearing

    def __iter__(self) -> Iterator[bytes]:
        whole = False
        try:
            for data in self._stream:
                self._hearing.ear.answered(data)
                yield data
            whole = True
        finally:
            self._hearing.end(None if whole else _broken())

    def close(self) -> None:
        self._stream.close()
        self._hearing.end(LEFT)

    @property
    def elapsed(self) -> Any:
        return self._stream.elapsed


class _ATee:
    """The same where it is awaited."""

    def __init__(self, stream: Any, hearing: Hearing) -> None:
        self._stream = stream
        self._hearing = hearing

    async def __aiter__(self) -> AsyncIterator[bytes]:
        whole = False
        try:
            async for data in self._stream:
                self._hearing.ear.answered(data)
                yield data
            whole = True
        finally:
            self._hearing.end(None if whole else _broken())

    async def aclose(self) -> None:
        await self._stream.aclose()
        self._hearing.end(LEFT)

    @property
    def elapsed(self) -> Any:
        return self._stream.elapsed
