"""The server of `arc serve`: a page, its files and its socket, for the one browser let in.

Everything a page needs comes from packages on this machine, and it is told to load nothing else,
to open no window and to hand out no file, whatever stands in a run. Imported by one who serves,
once it is known that the packages are installed.

A browser is let in by a token that stands in the address that is printed. Whoever brings it first
gets a cookie, which only pages of this server send and no script reads; after that the token is
good for nothing. Requests must name this machine as their host, so that no name of another that
points here is let in, and a socket must have been opened by a page of this server.
"""

from __future__ import annotations

import asyncio
import errno
import secrets
from collections.abc import Awaitable, Callable
from http.cookies import SimpleCookie
from importlib.util import find_spec
from pathlib import Path
from string import Template

import msgspec
from aiohttp import web

from arc_tui.features.record.live import LOOPBACK
from arc_tui.serve.session import END_WITHIN_S, Served, Size, carry
from replay.errors import ArcError
from replay.store import encryption


class BrowserAccess:
    """Knows the one token, and the one cookie it is changed for."""

    def __init__(self) -> None:
        self.token = secrets.token_urlsafe(24)
        self._word = secrets.token_urlsafe(24)
        self._used = False
        self._port = 0

    def stand_at(self, port: int) -> str:
        """The address that lets a browser in, once it is known where it is listened."""
        self._port = port
        return f"http://{LOOPBACK}:{port}/?token={self.token}"

    @property
    def _cookie(self) -> str:
        return f"arc-{self._port}"  # browsers do not keep the cookies of ports apart

    def is_here(self, host: str) -> bool:
        """Was the request meant for this machine, by a name that nobody else can give away?"""
        return host in {f"{name}:{self._port}" for name in (LOOPBACK, "localhost")}

    def is_own_page(self, origin: str | None, host: str) -> bool:
        """Was the socket opened by a page that came from here?"""
        return origin == f"http://{host}"

    def admit(self, token: str) -> str | None:
        """The header that sets the cookie, for the first to bring the token; None for others."""
        if self._used or not _same(token, self.token):
            return None
        self._used = True
        made = SimpleCookie({self._cookie: self._word})[self._cookie]
        made["path"], made["httponly"], made["samesite"] = "/", True, "Strict"
        return made.OutputString()

    def knows(self, cookies: dict[str, str]) -> bool:
        """Was this browser let in?"""
        return _same(cookies.get(self._cookie, ""), self._word)


def _same(given: str, wanted: str) -> bool:
    return secrets.compare_digest(given.encode("utf-8", "replace"), wanted.encode())


MOST_TABS = 16
"""Each is a process of some 100 MB."""

MOST_TYPED_BYTES = 4 << 20
"""The longest text that can be pasted at once."""

HERE = Path(__file__).parent

Tell = Callable[[str], None]
"""Hears what whoever serves should know, as sentences."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_TYPES = {".js": "text/javascript", ".css": "text/css", ".ttf": "font/ttf"}
_OF_TERMINAL = {
    "textual.js": "js/textual.js",
    "xterm.css": "css/xterm.css",
    "mono.ttf": "fonts/RobotoMono-VariableFont_wght.ttf",
    "mono-italic.ttf": "fonts/RobotoMono-Italic-VariableFont_wght.ttf",
}
"""Files of textual-serve, by the names they have here."""

_OURS = ("page.css", "page.js")

_GATE = web.AppKey("gate", BrowserAccess)
_SERVED = web.AppKey("served", Served)
_TABS: web.AppKey[set[web.WebSocketResponse]] = web.AppKey("tabs")
_TELL: web.AppKey[Tell] = web.AppKey("tell")

USED = (
    "This address was used before, or is not the address that `arc serve` printed.\n"
    "It works once, for one browser. For another, stop `arc serve` with ctrl-c and restart it.\n"
)


async def serve(
    path: Path, *, port: int, ready: Callable[[str], None], tell: Tell, stop: asyncio.Event
) -> None:
    """Serve on loopback until `stop`; then every tab ends.

    Port 0 is any that is free; `ready` is told the address that lets a browser in. Raises ArcError
    where the port is taken.
    """
    gate = BrowserAccess()
    app = application(gate, served_at(path), tell)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=END_WITHIN_S * 2)
    await runner.setup()
    try:
        site = web.TCPSite(runner, LOOPBACK, port)
        try:
            await site.start()
        except OSError as error:
            raise _no_port(port, error) from error
        ready(gate.stand_at(int(runner.addresses[0][1])))
        await stop.wait()
    finally:
        await runner.cleanup()


def _no_port(port: int, error: OSError) -> ArcError:
    taken = error.errno == errno.EADDRINUSE
    why = "is in use" if taken else f"cannot be opened: {error.strerror or error}"
    return ArcError(f"{LOOPBACK}:{port} {why}", "Try: --port 0, for any free port")


def served_at(path: Path) -> Served:
    """A database as tabs open it, with the key that has opened it here."""
    path = path.absolute()
    salt = encryption.salt_of(path)
    return Served(path, None if salt is None else encryption.find(path, salt).key)


def application(gate: BrowserAccess, served: Served, tell: Tell) -> web.Application:
    """The server's routes."""
    app = web.Application(middlewares=[_guard])
    app[_GATE], app[_SERVED], app[_TABS], app[_TELL] = gate, served, set(), tell
    app.router.add_get("/", _page, allow_head=False)
    app.router.add_get("/socket", _socket, allow_head=False)
    for name, data in files().items():
        app.router.add_get(f"/{name}", _file(data, _TYPES[Path(name).suffix]), allow_head=False)
    app.on_response_prepare.append(_with_rules)
    app.on_shutdown.append(_close_tabs)
    return app


def files() -> dict[str, bytes]:
    """What the page loads, by name: its own files, and the terminal's from its package."""
    spec = find_spec("textual_serve")
    assert spec is not None
    assert spec.origin is not None
    static = Path(spec.origin).parent / "static"
    found = {name: (HERE / name).read_bytes() for name in _OURS}
    return found | {name: (static / place).read_bytes() for name, place in _OF_TERMINAL.items()}


@web.middleware
async def _guard(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Only for this machine, and only for the browser that was let in, or is now."""
    gate = request.app[_GATE]
    if not gate.is_here(request.host):
        return _refuse("Only this machine has access, as 127.0.0.1 or localhost.\n")
    token = request.query.get("token")
    if request.path == "/" and request.method == "GET" and token is not None:
        return _enter(request, token)
    if not gate.knows(dict(request.cookies)):
        return _refuse(USED)
    return await handler(request)


def _enter(request: web.Request, token: str) -> web.Response:
    """Change the token for the cookie, and go on to the page.

    A page of our own goes on: a cookie of this kind is not sent on the way from elsewhere.
    """
    gate = request.app[_GATE]
    cookie = gate.admit(token)
    if cookie is None and not gate.knows(dict(request.cookies)):
        request.app[_TELL]("browser refused: the address works only once")
        return _refuse(USED)
    answer = web.Response(
        text='<!doctype html><meta http-equiv="refresh" content="0;url=/"><title>arc</title>'
        '<link rel="icon" href="data:,">',
        content_type="text/html",
    )
    if cookie is not None:
        answer.headers["Set-Cookie"] = cookie
        request.app[_TELL]("browser connected: the address is used up")
    return answer


async def _page(request: web.Request) -> web.Response:
    socket = f"ws://{request.host}/socket"
    page = Template((HERE / "page.html").read_text()).substitute(socket=socket)
    return web.Response(text=page, content_type="text/html")


async def _socket(request: web.Request) -> web.StreamResponse:
    gate, tabs = request.app[_GATE], request.app[_TABS]
    if not gate.is_own_page(request.headers.get("Origin"), request.host):
        return _refuse("Only the page served here may open a socket.\n")
    size = _size(request)
    if len(tabs) >= MOST_TABS:
        request.app[_TELL](f"tab refused: {MOST_TABS} tabs are open")
        return web.Response(status=503, text=f"{MOST_TABS} tabs are open already.\n")
    socket = web.WebSocketResponse(heartbeat=20, max_msg_size=MOST_TYPED_BYTES)
    await socket.prepare(request)
    tabs.add(socket)
    try:
        await carry(socket, request.app[_SERVED], size)
    finally:
        tabs.discard(socket)
    return socket


def _size(request: web.Request) -> Size:
    """As the page says it, else what a terminal has as a rule."""
    asked = {name: request.query.get(name, "") for name in ("width", "height")}
    try:
        return msgspec.convert(asked, Size, strict=False)
    except msgspec.ValidationError:
        return Size(width=80, height=24)


def _file(data: bytes, kind: str) -> Handler:
    async def give(_: web.Request) -> web.StreamResponse:
        return web.Response(body=data, content_type=kind)

    return give


def _refuse(why: str) -> web.Response:
    return web.Response(status=403, text=why)


async def _with_rules(request: web.Request, response: web.StreamResponse) -> None:
    """What a page of ours may do: load from here, speak to here, and be in no other page.

    Its sandbox opens no windows and downloads nothing, so an address in a run stays text. Styles
    may stand in the page, because its terminal writes some there.
    """
    host = request.host if request.app[_GATE].is_here(request.host) else ""
    response.headers.update({
        "Content-Security-Policy": (
            f"default-src 'self'; connect-src 'self' ws://{host}; style-src 'self' 'unsafe-inline';"
            " img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'none';"
            " frame-ancestors 'none'; sandbox allow-scripts allow-same-origin"
        ),
        "Cache-Control": "no-store",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Permissions-Policy": "camera=(), clipboard-read=(), geolocation=(), microphone=()",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
    })  # fmt: skip


async def _close_tabs(app: web.Application) -> None:
    tabs = app[_TABS]
    for socket in list(tabs):
        await socket.close(code=1001, message=b"arc serve has ended")
