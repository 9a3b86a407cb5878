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
from replay.recorder.exchange import ExchangeCapture, RecordedExchange, api_of, can_brotli

LEFT = "the client disconnected before the end"

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
    thread, and the last of the answer is passed on when what it gives is done. Use as an
    asynchronous context manager."""

    def __init__(self, providers: tuple[Provider, ...], take: Take) -> None:
        self._word = secrets.token_urlsafe(16)
        self._providers = {provider.name: checked(provider) for provider in providers}
        self._take = take
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
        app = web.Application(middlewares=[while_connected])
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
            return (await self._exchange(request, provider, path, None))[0]
        ear = ExchangeCapture(
            api,
            path,
            request.headers.get("Content-Encoding", ""),
            client=request.headers.get("User-Agent"),
        )
        broken: str | None = LEFT
        try:
            answer, broken = await self._exchange(request, provider, path, ear)
            return answer
        finally:
            if not ear.ended:
                self._take(ear.end(broken))

    async def _exchange(
        self, request: web.Request, provider: Provider, path: str, ear: ExchangeCapture | None
    ) -> tuple[web.StreamResponse, str | None]:
        """Pass a request on and its answer back; with the answer, how the provider's side broke."""
        assert self._session is not None
        answer: web.StreamResponse | None = None
        try:
            async with self._session.request(
                request.method,
                URL(provider.origin + path, encoded=True),
                headers=_passed(request.headers),
                data=_overheard(request, ear) if request.body_exists else None,
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
            if ear is not None:
                await self._kept(ear.end())
            if held:
                await _give(answer, held)
        except _Left:
            raise
        except (aiohttp.ClientError, ConnectionError, TimeoutError) as error:
            return _broken(error, request, answer)
        await answer.write_eof()
        return answer, None

    async def _kept(self, exchange: RecordedExchange) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(self._take(exchange)), KEPT_WITHIN_S)


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
