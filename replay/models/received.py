"""What came back from a server: an answer, a failure that may pass, or a refusal?

Much that is no answer looks like one: a proxy's page with status 200, another provider's body, a
stream without its end. Only a whole message of the Messages API is taken; anything else may be a
gateway's bad moment, and is asked for again like an error of the server.
"""

from __future__ import annotations

from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple

import msgspec

from replay.convert import SAMPLING
from replay.errors import ModelRefused, RequestRefused
from replay.models import stream
from replay.models.message import flaw
from replay.models.wire import KEY_HINT, MESSAGES, Reply

LONGEST_ASKED_WAIT_S = 300.0
"""A server that asks for more than this is not waited for."""

OTHER_KIND = "ANTHROPIC_BASE_URL must name a server that speaks the Messages API"

_TRANSIENT = {408, 409, 429}
_TRANSIENT_ERRORS = {"overloaded_error", "api_error", "rate_limit_error", "timeout_error"}


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


def judged(reply: Reply, asked: Asked) -> dict[str, Any] | Failed:
    """The message in a reply, or why there is none."""
    failed = declined(reply, asked)
    if failed is not None:
        return failed
    kind = reply.headers.get("content-type", "")
    if "html" in kind or reply.body.lstrip()[:1] == b"<":
        return _nonsense(asked, "a web page")
    try:
        answer = stream.message(reply.body) if asked.streamed else msgspec.json.decode(reply.body)
    except stream.BrokenStream as error:
        known = not error.kind or error.kind in _TRANSIENT_ERRORS
        said = ModelRefused(f"{asked.model}: the stream broke: {error}")
        return Failed(said, again=known, billed=True)
    except (msgspec.DecodeError, UnicodeDecodeError):
        said = ModelRefused(f"{asked.model}: its answer was cut off on the way")
        return Failed(said, again=True, billed=True)
    wrong = flaw(answer)
    return _nonsense(asked, f"something else ({wrong})") if wrong is not None else answer


def _nonsense(asked: Asked, what: str) -> Failed:
    error = ModelRefused(
        f"{asked.address} answers with {what}, not with a message of the Messages API", OTHER_KIND
    )
    return Failed(error, again=True, billed=True)


def declined(reply: Reply, asked: Asked) -> Failed | None:
    """Why a reply is no success, None where it is one.

    An HTTP error is one of this request, of the whole model, or of the moment.
    """
    if reply.broken is not None:
        error = ModelRefused(f"{asked.model}: {reply.broken}", f"asked at {asked.address}")
        return Failed(error, again=True, billed=reply.sent)
    if reply.status == 200:
        return None
    status, said = reply.status, _said(reply)
    where = f"{asked.model}: {said} (HTTP {status})"
    advice = reply.headers.get("x-should-retry")
    if status in _TRANSIENT or status >= 500 or advice == "true":
        wait_s = _asked_wait_s(reply, asked.now_s)
        again = advice != "false" and (wait_s is None or wait_s <= LONGEST_ASKED_WAIT_S)
        later = f"; it asks to wait {wait_s:.0f} s" if wait_s is not None and not again else ""
        error = ModelRefused(where + later, "what was answered is kept; run it again later")
        return Failed(error, again=again, billed=False, wait_s=wait_s)
    if status in {400, 413, 422}:
        return Failed(RequestRefused(where, request_hint(said)), again=False, billed=False)
    hint = KEY_HINT if status in {401, 403} else ""
    if status in {404, 405} and not _speaks_of(reply, asked.model):
        where = f"{asked.address} has no Messages API: nothing at {MESSAGES} (HTTP {status})"
        hint = OTHER_KIND
    elif status == 404:
        hint = f"does {asked.address} serve a model of that name? --model names another"
    return Failed(ModelRefused(where, hint), again=False, billed=False)


def _speaks_of(reply: Reply, model: str) -> bool:
    """Does an error come from a server of the Messages API, or name the model that was asked?"""
    try:
        said = msgspec.json.decode(reply.body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    ours = isinstance(said, dict) and said.get("type") == "error"
    return ours or model.encode() in reply.body


def _said(reply: Reply) -> str:
    """The server's own sentence, where it sent one in the API's shape."""
    try:
        error = msgspec.json.decode(reply.body).get("error")
    except (msgspec.DecodeError, UnicodeDecodeError, AttributeError):
        error = None
    said = error.get("message") if isinstance(error, dict) else None
    return str(said) if said else "the server failed" if reply.status >= 500 else "declined"


def request_hint(said: str) -> str:
    """What to know where a server declines a request over a part of it that replay decides on,
    else ""."""
    if "thinking" in said:
        return "this model wants its recorded thinking back, which an edit makes unusable"
    named = next((name for name in SAMPLING if name in said), None)
    if named is not None:
        return f"the recorded `{named}` was sent: let the server drop what its model does not take"
    return ""


def _asked_wait_s(reply: Reply, now_s: float) -> float | None:
    """Seconds the server asks to wait, by any of its three headers; None where it does not."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            return max(0.0, float(reply.headers[name]) * unit)
        except (KeyError, ValueError):
            continue
    try:
        moment = parsedate_to_datetime(reply.headers["retry-after"])
    except (KeyError, ValueError):
        return None
    return max(0.0, moment.timestamp() - now_s)
