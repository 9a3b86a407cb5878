"""The recorder for Python agents: what a program asks models, kept exactly as it was asked.

    from replay.recorder import record

    with record("arc.db", task="refund"):            # everything asked in the body
        run_agent()

    client = record(Anthropic(), into="run.jsonl")   # everything this client asks

Calls that the SDKs of Anthropic and OpenAI make are recorded, synchronous, asynchronous and
streamed: the request with its system prompt and tools, the answer, the times. Keys and other
headers are not looked at, and secrets in texts are masked before anything is written: by the
built-in rules, and by `record(…, redact=Policy(…))`, since the settings of `arc` are not read here
(`arc_tui.config.read_redaction()` is the policy that they say). A path that ends in `.jsonl` is an
`arc/1` file, appended to when the recording is over; any other is a database, in which `arc` shows
the run while it grows. A recording that nobody ends is over when the program is. While somebody
has stopped the recorders of that path (`arc stop`), calls are refused as their server would do it,
and the SDK raises.

How an SDK is overheard: its HTTP client hands every request and answer to a recording. The SDKs of
Anthropic and OpenAI send through a client of `httpx2` (older ones of `httpx`). Its `send` is
replaced once in the process; where nobody records it does what it always did. The bytes of an
answer are copied as they are read, and not read ahead of who reads them.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from functools import cache, wraps
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, overload
from weakref import WeakKeyDictionary

from replay.recorder.caps import NO_RETRY, STATUS, refusal_body
from replay.recorder.exchange import Refusal
from replay.recorder.recording import About, Hearing, RecordingSession, current

if TYPE_CHECKING:
    from replay.redact.rules import Policy

__all__ = ["RecordingSession", "record"]

Client = TypeVar("Client")


@overload
def record(
    what: str | Path,
    /,
    *,
    title: str | None = None,
    task: str | None = None,
    trial: str | None = None,
    variant: str | None = None,
    labels: Mapping[str, str] | None = None,
    apart: bool = False,
    redact: Policy | None = None,
) -> RecordingSession: ...


@overload
def record(
    what: Client,
    /,
    *,
    into: str | Path,
    title: str | None = None,
    task: str | None = None,
    trial: str | None = None,
    variant: str | None = None,
    labels: Mapping[str, str] | None = None,
    apart: bool = False,
    redact: Policy | None = None,
) -> Client: ...


def record(
    what: Any,
    /,
    *,
    into: str | Path | None = None,
    title: str | None = None,
    task: str | None = None,
    trial: str | None = None,
    variant: str | None = None,
    labels: Mapping[str, str] | None = None,
    apart: bool = False,
    redact: Policy | None = None,
) -> Any:
    """Record into a path what is asked in a `with` body, or what one client asks, which is
    returned.

    A recording is one run; `apart` makes one of every conversation in it; `redact` adds to the
    rules for secrets. Raises StoreUnusable or OSError where nothing can be written there, TypeError
    where `what` is no client.
    """
    about = About(title=title, task=task, trial=trial, variant=variant, labels=dict(labels or {}))
    if into is None:
        install()
        return RecordingSession(Path(what), about, apart=apart, redact=redact)
    recording = RecordingSession(Path(into), about, apart=apart, redact=redact)
    own(what, recording)
    return what


# --- how an SDK is overheard

LEFT = "the client disconnected before the end"

_MODULES = ("httpx2", "httpx")
_owned: WeakKeyDictionary[Any, RecordingSession] = WeakKeyDictionary()


def own(client: Any, recording: RecordingSession) -> None:
    """Let what an SDK's client sends be recorded there. Raises TypeError where it is none."""
    http = getattr(client, "_client", None)
    if not callable(getattr(http, "send", None)):
        raise TypeError(f"{type(client).__name__} is not a client of the Anthropic or OpenAI SDK")
    install()
    _owned[http] = recording


@cache
def install() -> None:
    """Replace `send` in the clients that SDKs use, once."""
    for name in _MODULES:
        if find_spec(name) is not None:
            module = import_module(name)
            module.Client.send = _sending(
                module.Client.send, _streams(_Tee, module.SyncByteStream), module.Response
            )
            module.AsyncClient.send = _asending(
                module.AsyncClient.send, _streams(_ATee, module.AsyncByteStream), module.Response
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


def _sending(send: Any, tee: Callable[[Any, Hearing], Any], response_type: Any) -> Any:
    @wraps(send)
    def recorded(client: Any, request: Any, **options: Any) -> Any:
        hearing = _hearing(client, request)
        if hearing is None:
            return send(client, request, **options)
        if hearing.refusal is not None:
            return _refuse(request, hearing, hearing.refusal, response_type)
        sent = False
        try:
            response = send(client, request, **options)
            sent = True
        finally:
            if not sent:
                hearing.end(_broken())
        return _answered(response, hearing, tee)

    return recorded


def _asending(send: Any, tee: Callable[[Any, Hearing], Any], response_type: Any) -> Any:
    @wraps(send)
    async def recorded(client: Any, request: Any, **options: Any) -> Any:
        hearing = _hearing(client, request)
        if hearing is None:
            return await send(client, request, **options)
        if hearing.refusal is not None:
            return _refuse(request, hearing, hearing.refusal, response_type)
        sent = False
        try:
            response = await send(client, request, **options)
            sent = True
        finally:
            if not sent:
                hearing.end(_broken())
        return _answered(response, hearing, tee)

    return recorded


def _refuse(request: Any, hearing: Hearing, refusal: Refusal, response_type: Any) -> Any:
    """The answer to a call that is not made."""
    headers = {"content-type": "application/json", **NO_RETRY}
    body = refusal_body(hearing.ear.api, refusal)
    hearing.ear.answering(STATUS, headers)
    hearing.ear.answered(body)
    hearing.end()
    return response_type(STATUS, headers=headers, content=body, request=request)


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
    return f"connection lost ({error})" if str(error) else "connection lost"


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
