"""One exchange with a server of models, as a value: what came back, or how it broke.

A `Wire` is what differs between the APIs: where a request is posted, how an answer is read, what a
call can write at most, and how to get a key. What all of them share is here: a failure that may
pass is told from a refusal, and the data of a stream are taken apart.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple, Protocol, TypeAlias

import msgspec
from msgspec import Struct

from replay.errors import ModelRefused, RequestRefused


class Reply(Struct, frozen=True, kw_only=True):
    """What came back. `broken` says how the exchange ended early, None where it did not.

    `status` is 0 where no answer began. `sent` tells whether the request may have reached the
    server, and may so be billed.
    """

    status: int = 0
    headers: Mapping[str, str] = {}
    body: bytes = b""
    broken: str | None = None
    sent: bool = True


class Upload(NamedTuple):
    """A file that is posted as a form. `fields` are the texts beside it."""

    name: str
    content: bytes
    fields: dict[str, str]


Payload: TypeAlias = "dict[str, Any] | Upload | None"


class Connection(Protocol):
    """An open connection."""

    async def send(self, method: str, path: str, body: Payload, timeout_s: float) -> Reply:
        """Send one request. Every way it can go wrong is a value, but for being cancelled.

        Raises ModelRefused where there is no key.
        """
        ...

    async def close(self) -> None: ...


class Wire(Protocol):
    """One API of models.

    `title` names it in sentences, `path` is where requests are posted, `key_hint` says how to get
    a key, `other_kind` what to do where a server speaks another API.
    """

    @property
    def title(self) -> str: ...

    @property
    def path(self) -> str: ...

    @property
    def key_hint(self) -> str: ...

    @property
    def other_kind(self) -> str: ...

    def connect(self, base_url: str) -> Connection:
        """A connection to a server. Raises ModelRefused where there is no key, or no package."""
        ...

    def body_to_post(self, body: dict[str, Any]) -> dict[str, Any]:
        """The body as it is posted: a long answer is streamed."""
        ...

    def message(self, body: bytes, *, streamed: bool) -> dict[str, Any]:
        """The answer in the form of the Messages API.

        Raises BrokenStream where a stream is not whole, NoMessage where it is no answer,
        msgspec.DecodeError where it is no JSON.
        """
        ...

    def request_hint(self, said: str) -> str:
        """What to know where a server declines a request over a part of it that replay decides on,
        else ""."""
        ...


STREAM_ABOVE = 16_000
"""A larger limit of an answer is streamed: it may take longer than a silent connection lasts."""

OUTPUT_LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens")


def output_limit(body: Mapping[str, Any]) -> int:
    """The most tokens that a request lets a model write."""
    return max(int(body[name]) for name in OUTPUT_LIMITS if name in body)


class NoMessage(Exception):
    """An answer that is none of this API; the text says why."""


class BrokenStream(Exception):
    """The stream holds no whole message. `kind` is the provider's word where it sent an error."""

    what = "the stream broke"

    def __init__(self, why: str, kind: str = "") -> None:
        super().__init__(why)
        self.kind = kind


class ServerFailed(BrokenStream):
    """The answer is whole, and says that the server failed."""

    what = "the server failed"


LONGEST_ASKED_WAIT_S = 300.0
"""A server that asks for more than this is not waited for."""

_TRANSIENT = {408, 409, 429}
_TRANSIENT_ERRORS = {"overloaded_error", "api_error", "rate_limit_error", "timeout_error"}
_TRANSIENT_ERRORS |= {"server_error", "rate_limit_exceeded", "internal_error"}
_USED_UP = {"insufficient_quota", "billing_hard_limit_reached"}
"""Why a server refuses that waiting does not mend, though it says 429."""


class Failed(NamedTuple):
    """An attempt without an answer. `error` is raised when there is no other attempt.

    `billed` tells whether it may have cost something; `wait_s` is what the server asked for.
    """

    error: ModelRefused
    again: bool
    billed: bool
    wait_s: float | None = None


class Asked(NamedTuple):
    """What was asked of whom, and when the reply is judged (seconds since the epoch)."""

    model: str
    address: str
    streamed: bool
    now_s: float
    wire: Wire


def judged(reply: Reply, asked: Asked) -> dict[str, Any] | Failed:
    """The message in a reply, or why there is none."""
    failed = declined(reply, asked)
    if failed is not None:
        return failed
    kind = reply.headers.get("content-type", "")
    if "html" in kind or reply.body.lstrip()[:1] == b"<":
        return _nonsense(asked, "a web page")
    try:
        return asked.wire.message(reply.body, streamed=asked.streamed)
    except BrokenStream as error:
        known = not error.kind or error.kind in _TRANSIENT_ERRORS
        said = ModelRefused(f"{asked.model}: {error.what}: {error}")
        return Failed(said, again=known, billed=True)
    except (msgspec.DecodeError, UnicodeDecodeError):
        said = ModelRefused(f"{asked.model}: response truncated in transit")
        return Failed(said, again=True, billed=True)
    except NoMessage as error:
        return _nonsense(asked, f"another format ({error})")


def _nonsense(asked: Asked, what: str) -> Failed:
    error = ModelRefused(
        f"{asked.address} returned {what}, not a message of {asked.wire.title}",
        asked.wire.other_kind,
    )
    return Failed(error, again=True, billed=True)


def declined(reply: Reply, asked: Asked) -> Failed | None:
    """Why a reply is no success, None where it is one.

    An HTTP error is one of this request, of the whole model, or of the moment.
    """
    if reply.broken is not None:
        error = ModelRefused(f"{asked.model}: {reply.broken}", f"requested from {asked.address}")
        return Failed(error, again=True, billed=reply.sent)
    if reply.status == 200:
        return None
    status, error_ = reply.status, _error(reply)
    said = str(error_.get("message") or ("server error" if status >= 500 else "declined"))
    where = f"{asked.model}: {said} (HTTP {status})"
    advice = reply.headers.get("x-should-retry")
    if status == 429 and {error_.get("code"), error_.get("type")} & _USED_UP:
        return Failed(ModelRefused(where, asked.wire.key_hint), again=False, billed=False)
    if status in _TRANSIENT or status >= 500 or advice == "true":
        wait_s = _asked_wait_s(reply, asked.now_s)
        again = advice != "false" and (wait_s is None or wait_s <= LONGEST_ASKED_WAIT_S)
        later = f"; retry after {wait_s:.0f} s" if wait_s is not None and not again else ""
        error = ModelRefused(where + later, "Completed calls are saved. Try: run it again later")
        return Failed(error, again=again, billed=False, wait_s=wait_s)
    if status in {400, 413, 422}:
        return Failed(
            RequestRefused(where, asked.wire.request_hint(said)), again=False, billed=False
        )
    hint = asked.wire.key_hint if status in {401, 403} else ""
    if status in {404, 405} and not _speaks_of(reply, asked.model):
        title, path = asked.wire.title.removeprefix("the "), asked.wire.path
        where = f"{asked.address} has no {title}: nothing at {path} (HTTP {status})"
        hint = asked.wire.other_kind
    elif status == 404:
        hint = f"Try: --model NAME, one that {asked.address} serves"
    return Failed(ModelRefused(where, hint), again=False, billed=False)


def _speaks_of(reply: Reply, model: str) -> bool:
    """Does an error come from a server of the Messages API, say that a deployment is not there, or
    name the model that was asked?"""
    known = (b'"type":"error"', b'"code":"DeploymentNotFound"')
    raw = reply.body.replace(b" ", b"")
    return any(each in raw for each in known) or model.encode() in reply.body


def _error(reply: Reply) -> dict[str, Any]:
    """The error in a reply, in the shape of the APIs (a platform may say its message alone); {}
    where it has none."""
    try:
        said = msgspec.json.decode(reply.body)
        error = said.get("error") or said.get("message")
    except (msgspec.DecodeError, UnicodeDecodeError, AttributeError):
        return {}
    return error if isinstance(error, dict) else {"message": error} if error else {}


def _asked_wait_s(reply: Reply, now_s: float) -> float | None:
    """Seconds the server asks to wait, by any of its headers; None where it does not."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            return max(0.0, float(reply.headers[name]) * unit)
        except (KeyError, ValueError):
            continue
    try:
        moment = parsedate_to_datetime(reply.headers["retry-after"])
    except (KeyError, ValueError):
        return _until_reset_s(reply)
    return max(0.0, moment.timestamp() - now_s)


_RESETS = ("x-ratelimit-reset-requests", "x-ratelimit-reset-tokens")
_LENGTH = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}


def _until_reset_s(reply: Reply) -> float | None:
    """Seconds until a limit of OpenAI's is open again (`6m0s`), of those that are used up."""
    waits = [
        sum(float(number) * _UNITS[unit] for number, unit in _LENGTH.findall(length))
        for name in _RESETS
        if (length := reply.headers.get(name))
        and reply.headers.get(name.replace("reset", "remaining")) == "0"
    ]
    return max(waits, default=None)


def events(raw: bytes) -> Iterator[dict[str, Any]]:
    """The data of each event, in order. Raises BrokenStream where one is not JSON."""
    for line in raw.splitlines():
        if line.startswith(b"data:"):
            if line[5:].strip() == b"[DONE]":  # how a chat of OpenAI's ends
                return
            try:
                event = msgspec.json.decode(line[5:])
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise BrokenStream(f"event is not JSON: {error}") from error
            if isinstance(event, dict):
                yield event
