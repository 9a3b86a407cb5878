"""One connection to a server of traces over HTTP: what is asked, what comes back, and what goes
wrong in sentences.

Only reading requests are made. Certificates are verified; a key goes to the one server it was given
for, so a redirect to another is refused. What a server is too busy for is asked again.
"""

from __future__ import annotations

import random
import re
import ssl
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote, urljoin, urlsplit

import msgspec
from msgspec import Struct

from replay.errors import ArcError, BadTrace
from replay.fleet.stores import is_loopback
from replay.formats.common import listed, obj, word
from replay.formats.source import decode
from replay.trace import Json

MAX_ANSWER_BYTES = 256 * 1024 * 1024
TIMEOUT_S = 60.0
TRIES = 5
BACKOFF_S = 0.5
"""The pause before the second try; each later one is twice as long."""
MAX_WAIT_S = 60.0
"""A server that asks for a longer pause is asked again by the user, not by us."""

_BUSY = frozenset({408, 425, 429, 500, 502, 503, 504})
_REDIRECTS = 5

Params = Sequence[tuple[str, str]]


class ServerError(ArcError):
    """A server that did not give what it was asked for: why, and what to do."""


class KeyRefused(ServerError):
    """The server turned the key away, or wants one."""


class Refused(ServerError):
    """The server does not do what it was asked: there is no such thing (404, 410), or the request
    is not one of its (another 4xx)."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status

    @property
    def is_absent(self) -> bool:
        """Is what was asked for not there?"""
        return self.status in (404, 405, 410)


class CursorLost(ServerError):
    """The server no longer knows where in a list it was."""


class Project(Struct, frozen=True, kw_only=True):
    """A project of a server. `id` is what requests are made with."""

    id: str
    name: str


class ListedRun(Struct, frozen=True, kw_only=True):
    """A run as a server lists it; `spans` None where the list does not tell."""

    id: str
    start_ns: int
    spans: int | None = None


class Connection:
    """Requests to one server. `name` is what its runs and errors call it."""

    def __init__(self, name: str, url: str, *, ca: Path | None = None) -> None:
        """Raises ServerError where the certificates to trust cannot be read."""
        import httpx2

        self.name, self.url = name, url.rstrip("/")
        self.key_hint = ""
        self._secrets: tuple[str, ...] = ()
        self._client = httpx2.Client(
            verify=_certificates(ca),
            timeout=httpx2.Timeout(TIMEOUT_S, connect=10.0),
            headers={"User-Agent": "arc", "Accept": "application/json"},
            trust_env=not is_loopback(url),
        )

    def close(self) -> None:
        self._client.close()

    def use_key(self, headers: Mapping[str, str], secrets: Sequence[str], hint: str) -> None:
        """Send these headers from now on. None of the secrets is repeated in what is said; `hint`
        is what to do where they are turned away."""
        self._client.headers.update(headers)
        self._secrets = tuple(each for each in secrets if each)
        self.key_hint = hint

    def below(self, prefix: str) -> None:
        """Ask below this path from now on."""
        self.url += prefix

    def get(self, path: str, params: Params = ()) -> Json:
        """The JSON that is there. Raises ServerError."""
        return self._json("GET", path, params)

    def post(self, path: str, body: Mapping[str, Json]) -> Json:
        """The JSON that a question in a body is answered with. Raises ServerError."""
        return self._json("POST", path, (), msgspec.json.encode(body))

    def probe(self, path: str) -> bytes | None:
        """What is there, None where nothing is, or nothing without a key. Raises ServerError where
        the server cannot be reached."""
        try:
            return self._read("GET", path, (), None)
        except (Refused, KeyRefused):
            return None

    def _json(self, method: str, path: str, params: Params, body: bytes | None = None) -> Json:
        last: ArcError | None = None
        for _ in range(2):  # a second time where the first was cut off without a word
            data = self._read(method, path, params, body)
            try:
                return decode(data, self.name, "")
            except BadTrace as error:
                last = error
            if data.lstrip()[:1] == b"<":
                raise ServerError(
                    f"{self.name}: {path} answered with a page, not with JSON",
                    "Try: the address of the API, not of the page that people log in to",
                )
        assert isinstance(last, BadTrace)
        raise ServerError(f"{self.name}: {path} answered with bad JSON: {last.why}") from last

    def _read(self, method: str, path: str, params: Params, body: bytes | None) -> bytes:
        """The body of an answer, asked for again while the server is busy."""
        import httpx2

        why = ""
        for attempt in range(TRIES):
            wait_s = BACKOFF_S * 2**attempt * (1 + random.random() / 2)
            try:
                status, headers, data = self._once(method, path, params, body)
            except httpx2.TransportError as error:
                why = _network(error)
                if isinstance(error, httpx2.ConnectError) and not attempt:
                    self._unreachable(error)
            else:
                if status < 300:
                    return data
                if status not in _BUSY:
                    raise self._refusal(status, path, data)
                why = f"it answered {status}{self._words(data)}"
                asked_s = _retry_after(headers.get("retry-after"))
                if asked_s is not None and asked_s > MAX_WAIT_S:
                    raise ServerError(
                        f"{self.name}: {why}, and asks to wait {asked_s:.0f} s",
                        "Try: the same command later; what was copied is kept",
                    )
                wait_s = wait_s if asked_s is None else asked_s
            if attempt + 1 < TRIES:
                time.sleep(min(wait_s, MAX_WAIT_S))
        raise ServerError(
            f"{self.name}: {path} was asked {TRIES} times: {why}",
            "Try: the same command later; what was copied is kept",
        )

    def _once(
        self, method: str, path: str, params: Params, body: bytes | None
    ) -> tuple[int, Mapping[str, str], bytes]:
        """(status, headers, body) of one request, redirects within the server followed."""
        url = self.url + path
        headers = {} if body is None else {"Content-Type": "application/json"}
        for _ in range(_REDIRECTS):
            with self._client.stream(
                method, url, params=list(params) or None, content=body, headers=headers
            ) as answer:
                if not 300 <= answer.status_code < 400:
                    return answer.status_code, answer.headers, self._read_bounded(path, answer)
                target = urljoin(str(answer.url), answer.headers.get("location", ""))
            if not _is_same_server(self.url, target):
                raise ServerError(
                    f"{self.name}: {path} redirects to {urlsplit(target).hostname}, where the key"
                    " was not given for",
                    "Try: the address that it redirects to, if you trust it",
                )
            url, params = target, ()
        raise ServerError(f"{self.name}: {path} redirects in a circle")

    def _read_bounded(self, path: str, answer: Any) -> bytes:
        parts, size = [], 0
        for part in answer.iter_bytes():
            size += len(part)
            if size > MAX_ANSWER_BYTES:
                raise ServerError(
                    f"{self.name}: {path} answered with more than {MAX_ANSWER_BYTES >> 20} MB",
                    "leave out the time of the run that is so large, by --since and --until",
                )
            parts.append(part)
        return b"".join(parts)

    def _refusal(self, status: int, path: str, data: bytes) -> ServerError:
        if status in (401, 403):
            what = "wants a key, or another one" if status == 401 else "does not let this key"
            said = f"{self.name}: the server {what} ({status}, {path}){self._words(data)}"
            return KeyRefused(said, self.key_hint)
        return Refused(f"{self.name}: {path} answered {status}{self._words(data)}", status)

    def _words(self, data: bytes) -> str:
        """What a server says of its refusal, for a sentence: one line without secrets and markup,
        or nothing."""
        text = data[:2000].decode("utf-8", "replace")
        if text.lstrip().startswith("<"):
            return ""
        for secret in self._secrets:
            text = text.replace(secret, "…")
        line = re.sub(r"\s+", " ", "".join(each if each.isprintable() else " " for each in text))
        return f": {line.strip()[:200]}" if line.strip() else ""

    def _unreachable(self, error: Exception) -> None:
        """Raises ServerError where asking again is of no use."""
        text = str(error)
        if "CERTIFICATE" in text.upper():
            raise ServerError(
                f"{self.name}: the certificate cannot be verified: {text}",
                "give the certificate of its authority by --ca",
            ) from error
        if "refused" in text.lower() or "not known" in text or "No address" in text:
            raise ServerError(
                f"{self.url} cannot be reached: {text}", "Try: another host or port"
            ) from error


def _network(error: Exception) -> str:
    import httpx2

    if isinstance(error, httpx2.TimeoutException):
        return f"no answer within {TIMEOUT_S:.0f} s"
    if isinstance(error, httpx2.RemoteProtocolError):
        return "the answer was cut off"
    return str(error) or type(error).__name__


def _certificates(ca: Path | None) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if ca is not None:
        try:
            context.load_verify_locations(ca)
        except (OSError, ssl.SSLError) as error:
            raise ServerError(
                f"{ca}: holds no certificates: {error}", "Try: --ca FILE, in the form PEM"
            ) from error
    return context


def _is_same_server(asked: str, target: str) -> bool:
    """The same host and port, by an encryption that is no weaker."""
    one, other = urlsplit(asked), urlsplit(target)
    if one.scheme == "http" and other.scheme == "https":
        return one.hostname == other.hostname
    return (one.scheme, one.hostname, one.port) == (other.scheme, other.hostname, other.port)


def _retry_after(said: str | None) -> float | None:
    """Seconds that a server asks to wait for: a number, or a moment."""
    if said is None:
        return None
    try:
        return max(float(said), 0.0)
    except ValueError:
        pass
    try:
        moment = parsedate_to_datetime(said)
    except ValueError:
        return None
    return max((moment - datetime.now(UTC)).total_seconds(), 0.0) if moment.tzinfo else None


# --- what products share


def segment(name: str) -> str:
    """A name as one part of a path."""
    return quote(name, safe="")


def utc(ns: int, *, up: bool = False) -> str:
    """A moment as servers take it, to the microsecond, rounded down or `up`."""
    micros = -(-ns // 1000) if up else ns // 1000
    seconds, rest = divmod(micros, 1_000_000)
    return f"{datetime.fromtimestamp(seconds, tz=UTC):%Y-%m-%dT%H:%M:%S}.{rest:06}Z"


@contextmanager
def cursor_errors(connection: Connection, cursor: str | None) -> Iterator[None]:
    """A request with a cursor that is refused has lost its place."""
    try:
        yield
    except Refused as error:
        if cursor is None:
            raise
        raise CursorLost(
            f"{connection.name}: the server no longer knows where in the list it was"
        ) from error


def pages_by_cursor(
    connection: Connection,
    path: str,
    params: Params,
    limit: int,
    following: Callable[[dict[str, Json]], Json],
) -> Iterator[dict[str, Json]]:
    """The items (`data`) of a list, page by page; `following` tells a page's cursor to the next.
    Raises ServerError; CursorLost where its place is lost."""
    cursor: str | None = None
    while True:
        more = [("cursor", cursor)] if cursor is not None else []
        with cursor_errors(connection, cursor):
            page = obj(connection.get(path, [*params, ("limit", str(limit)), *more]))
        yield from map(obj, listed(page.get("data")))
        next_cursor = word(following(page))
        if next_cursor is None:
            return
        if next_cursor == cursor:
            raise ServerError(f"{connection.name}: {path} gives the same page again and again")
        cursor = next_cursor
