"""Who may use the app in a browser: one browser, by a token that is good for one use.

The token stands in the address that is printed. Whoever brings it first gets a cookie, which only
pages of this server send and no script reads; after that the token is good for nothing. Requests
must name this machine as their host, so that no name of another that points here is let in, and a
socket must have been opened by a page of this server.
"""

from __future__ import annotations

import secrets
from http.cookies import SimpleCookie

from arc_tui.live import LOOPBACK


class Gate:
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
