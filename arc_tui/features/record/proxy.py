"""A proxy on loopback between an agent and its providers, which overhears calls of models.

What passes is not touched: bodies go on in the pieces they come in, packed as they are, with
every header but those that concern one connection alone. Who does not know the word in the
address is not served, so that other users of this machine cannot spend the agent's keys.
Imported by one who records, once it is known that the server is installed.
"""

from __future__ import annotations

import asyncio
import secrets
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import NamedTuple
from urllib.parse import SplitResult, urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
from aiohttp import web
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from arc_tui.features.record.listening import while_connected
from arc_tui.features.record.live import LOOPBACK
from replay.errors import ArcError
from replay.models.protocol import POLL_S
from replay.recorder.caps import (
    NO_RETRY,
    STATUS,
    AskedCall,
    CallGuard,
    Ticket,
    refusal_body,
)
from replay.recorder.exchange import (
    MOST_BYTES,
    Api,
    ExchangeCapture,
    RecordedExchange,
    Refusal,
    api_of,
    can_brotli,
    is_batch,
)

LEFT = "the client disconnected before the end"
LEFT_WAITING = "the client disconnected while the call waited for calls in flight"

_HOP = frozenset(
    {
        "connection", "expect", "host", "keep-alive", "proxy-authenticate", "proxy-authorization",
        "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade",
    }
)  # fmt: skip
_ADDED = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")
"""What the client library would send of its own accord."""

_MOST_OF_HEADERS = 256 * 1024
CONNECT_WITHIN_S = 30.0

Take = Callable[[RecordedExchange], Awaitable[object]]
KEPT_WITHIN_S = 10.0
"""An answer waits no longer for its call to be kept: the command goes on, whatever happens."""


class Provider(NamedTuple):
    """Whose calls are passed on: by which variable clients find it, and where it is."""

    name: str
    variable: str
    url: str

    @property
    def parts(self) -> SplitResult:
        return urlsplit(self.url)

    @property
    def origin(self) -> str:
        return f"{self.parts.scheme}://{self.parts.netloc}"

    @property
    def is_local(self) -> bool:
        host = self.parts.hostname or ""
        return host in {"localhost", "::1"} or host.startswith("127.")


def checked(provider: Provider) -> Provider:
    """The provider. Raises ArcError where its address is none."""
    if provider.parts.scheme not in ("http", "https") or not provider.parts.hostname:
        raise ArcError(
            f"{provider.variable} is not a server address",
            "Try: an address like http://localhost:11434",
        )
    return provider


class Proxy:
    """Passes on what comes; `take` is given each call of a model when it is over, in the server's
    thread, and the last of the answer is passed on when what it gives is done. What `guard` refuses
    is answered here. Use as an asynchronous context manager."""

    def __init__(
        self, providers: tuple[Provider, ...], take: Take, guard: CallGuard | None = None
    ) -> None:
        self._word = secrets.token_urlsafe(16)
        self._providers = {provider.name: checked(provider) for provider in providers}
        self._take = take
        self._guard = guard
        self._settled = asyncio.Condition()
        self._runner = web.AppRunner(
            self._application(),
            access_log=None,
            auto_decompress=False,
            handler_cancellation=True,
            shutdown_timeout=1.0,
            max_field_size=_MOST_OF_HEADERS,
            max_line_size=_MOST_OF_HEADERS,
        )
        self._session: aiohttp.ClientSession | None = None
        self._port = 0

    async def __aenter__(self) -> Proxy:
        self._session = aiohttp.ClientSession(
            auto_decompress=False,
            connector=aiohttp.TCPConnector(limit=0, ssl=_certificates()),
            cookie_jar=aiohttp.DummyCookieJar(),
            max_field_size=_MOST_OF_HEADERS,
            max_line_size=_MOST_OF_HEADERS,
            skip_auto_headers=_ADDED,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_WITHIN_S),
        )
        await self._runner.setup()
        await web.TCPSite(self._runner, LOOPBACK, 0).start()
        self._port = int(self._runner.addresses[0][1])
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()
        assert self._session is not None
        await self._session.close()

    def environment(self) -> dict[str, str]:
        """The variables by which clients find the proxy: the path of an address stays as it is."""
        here = f"http://{LOOPBACK}:{self._port}/{self._word}"
        return {
            each.variable: f"{here}/{each.name}{each.parts.path.rstrip('/')}"
            for each in self._providers.values()
        }

    def _application(self) -> web.Application:
        app = web.Application(middlewares=[while_connected], client_max_size=MOST_BYTES)
        app.router.add_route("*", "/{tail:.*}", self._pass_on)
        return app

    def _aim(self, request: web.Request) -> tuple[Provider, str] | None:
        """Whom a request is for and the path there, with its query; None where nobody asked so."""
        word, _, rest = request.raw_path.removeprefix("/").partition("/")
        name, slash, path = rest.partition("/")
        provider = self._providers.get(name)
        if provider is None or not secrets.compare_digest(word.encode(), self._word.encode()):
            return None
        return provider, slash + path

    async def _pass_on(self, request: web.Request) -> web.StreamResponse:
        aim = self._aim(request)
        if aim is None:
            return web.Response(status=404, text="not a model API path\n")
        provider, path = aim
        api = api_of(request.method, path)
        if api is None:
            refusal = self._guard and is_batch(request.method, path) and self._guard.refuse_batch()
            if refusal:
                return _refusal_response(
                    "messages" if provider.name == "anthropic" else "chat", refusal
                )
            return (await self._exchange(request, provider, path, None))[0]
        ear = ExchangeCapture(
            api,
            path,
            request.headers.get("Content-Encoding", ""),
            client=request.headers.get("User-Agent"),
        )
        call = _Call(ear, self._take, self._guard)
        try:
            refusal = await self._admit(request, call)
            if refusal is not None:
                return _refusal_response(api, refusal)
            answer, call.broken = await self._exchange(request, provider, path, call)
            return answer
        finally:
            call.end()
            await self._tell_settled()

    async def _admit(self, request: web.Request, call: _Call) -> Refusal | None:
        """Why a call is refused, None once it may be made. What its caps need of it is read."""
        guard = self._guard
        if guard is None:
            return None
        asked: AskedCall | None = None
        if guard.reads_requests:
            body = await call.read(request)
            asked = guard.read_call(body, request.headers.get("Content-Encoding", ""))
        call.broken = LEFT_WAITING
        while (found := guard.ask(asked)) is None:
            async with self._settled:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._settled.wait(), POLL_S)
        call.broken = LEFT
        if isinstance(found, Ticket):
            call.ticket = found
            return None
        await call.read(request)
        call.refuse(found)
        return found

    async def _tell_settled(self) -> None:
        """Who waits for calls in flight asks again."""
        async with self._settled:
            self._settled.notify_all()

    async def _exchange(
        self, request: web.Request, provider: Provider, path: str, call: _Call | None
    ) -> tuple[web.StreamResponse, str | None]:
        """Pass a request on and its answer back; with the answer, how the provider's side broke."""
        assert self._session is not None
        answer: web.StreamResponse | None = None
        ear = call.ear if call is not None else None
        try:
            async with self._session.request(
                request.method,
                URL(provider.origin + path, encoded=True),
                headers=_passed(request.headers),
                data=_body(request, call),
                allow_redirects=False,
                proxy=_proxy(provider),
            ) as came:
                if ear is not None:
                    ear.answering(came.status, _lower(came.headers))
                answer = web.StreamResponse(
                    status=came.status, reason=came.reason, headers=_passed(came.headers)
                )
                await answer.prepare(request)
                held = b""
                async for data in came.content.iter_any():
                    if ear is not None:
                        ear.answered(data)
                        data = held + data
                        held = data[ear.passable(data) :]
                        data = data[: len(data) - len(held)]
                    if data:
                        await _give(answer, data)
            if call is not None:
                call.broken = None
                taken = call.end()
                await self._tell_settled()
                if taken is not None:
                    await _kept(taken)
            if held:
                await _give(answer, held)
        except _Left:
            raise
        except (aiohttp.ClientError, ConnectionError, TimeoutError) as error:
            if call is not None:
                call.sent = not isinstance(error, aiohttp.ClientConnectorError)
            return _broken(error, request, answer)
        await answer.write_eof()
        return answer, None


class _Call:
    """One call of a model on its way: what is heard of it, and its ticket where it was admitted."""

    def __init__(self, ear: ExchangeCapture, take: Take, guard: CallGuard | None) -> None:
        self.ear = ear
        self.ticket: Ticket | None = None
        self.broken: str | None = LEFT
        self.sent = True
        self.body: bytes | None = None
        self._take = take
        self._guard = guard
        self._refusal: Refusal | None = None

    async def read(self, request: web.Request) -> bytes:
        """The whole body of its request, before any of it is passed on."""
        if self.body is None:
            self.body = await request.read()
            self.ear.take_request(self.body)
        return self.body

    def refuse(self, refusal: Refusal) -> None:
        """It is answered here, with a refusal."""
        self.ear.answering(STATUS, {"content-type": "application/json"})
        self.ear.answered(refusal_body(self.ear.api, refusal))
        self.broken, self._refusal = None, refusal

    def end(self) -> Awaitable[object] | None:
        """It is over: settle and take it, once; done when what `take` gives is."""
        if self.ear.ended:
            return None
        exchange = self.ear.end(self.broken, self._refusal)
        if self.ticket is not None and self._guard is not None:
            self._guard.settle(self.ticket, exchange if self.sent else None)
        return self._take(exchange)


async def _kept(taken: Awaitable[object]) -> None:
    with suppress(TimeoutError):
        await asyncio.wait_for(asyncio.shield(taken), KEPT_WITHIN_S)


def _refusal_response(api: Api, refusal: Refusal) -> web.Response:
    """What the client of a refused call is told."""
    return web.Response(
        status=STATUS,
        body=refusal_body(api, refusal),
        content_type="application/json",
        headers=NO_RETRY,
    )


class _Left(ConnectionError):
    """Nobody is there to be answered."""


async def _give(answer: web.StreamResponse, data: bytes) -> None:
    try:
        await answer.write(data)
    except ConnectionError as error:
        raise _Left from error


def _broken(
    error: Exception, request: web.Request, answer: web.StreamResponse | None
) -> tuple[web.StreamResponse, str]:
    """What the client is told where the provider's side fails: that, or as much as there was."""
    why = f"connection lost ({error})" if str(error) else "connection lost"
    if answer is None or not answer.prepared:
        error_body = {"type": "api_error", "message": f"arc record: {why}"}
        return web.json_response({"type": "error", "error": error_body}, status=502), why
    if request.transport is not None:
        request.transport.abort()  # as it broke for us: an end would say that this was all
    return answer, why


def _body(request: web.Request, call: _Call | None) -> bytes | AsyncIterator[bytes] | None:
    """What is passed on of a request: as it comes, or what was read of it."""
    if not request.body_exists:
        return None
    if call is not None and call.body is not None:
        return call.body
    return _overheard(request, call.ear if call is not None else None)


async def _overheard(request: web.Request, ear: ExchangeCapture | None) -> AsyncIterator[bytes]:
    async for data in request.content.iter_any():
        if ear is not None:
            ear.take_request(data)
        yield data


def _passed(headers: CIMultiDictProxy[str]) -> CIMultiDict[str]:
    """The headers that concern both ends."""
    named = {each.strip().lower() for each in headers.get("Connection", "").split(",")}
    passed = CIMultiDict(
        (name, value)
        for name, value in headers.items()
        if name.lower() not in _HOP and name.lower() not in named
    )
    packed = passed.get("Accept-Encoding")
    if packed is not None and not can_brotli():  # an answer that nobody here can read is not kept
        passed["Accept-Encoding"] = ", ".join(
            each for each in map(str.strip, packed.split(",")) if each.split(";")[0] != "br"
        )
    return passed


def _certificates() -> ssl.SSLContext:
    """What is trusted: what the system trusts, as the SDKs have it."""
    import truststore

    return truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def _lower(headers: CIMultiDictProxy[str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def _proxy(provider: Provider) -> str | None:
    """The proxy that the environment puts before a provider."""
    if provider.is_local or proxy_bypass(provider.parts.hostname or ""):
        return None
    return getproxies().get(provider.parts.scheme)
