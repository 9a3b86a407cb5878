"""One exchange with a server of the Messages API, as a value: what came back, or how it broke.

A stream of server-sent events is put together to the message it stands for; a failure that may
pass is told from a refusal.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Iterator, Mapping
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import msgspec
from msgspec import Struct

from replay.convert import SAMPLING
from replay.errors import ModelRefused, RequestRefused
from replay.models.protocol import SERVER_VARIABLE, flaw, is_local

MESSAGES = "/v1/messages"
NO_KEY = "no key for the Messages API"
KEY_HINT = "Try: set ANTHROPIC_API_KEY, or ANTHROPIC_BASE_URL to a local server"


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


class Wire(Protocol):
    """An open connection."""

    async def send(
        self, method: str, path: str, body: dict[str, Any] | None, timeout_s: float
    ) -> Reply:
        """Send one request. Every way it can go wrong is a value, but for being cancelled.

        Raises ModelRefused where there is no key.
        """
        ...

    async def close(self) -> None: ...


def connect(base_url: str, version: str) -> Wire:
    """A connection to a server, with the key of the environment or of the SDK's own log-in.

    Raises ModelRefused where there is no key; a server on this machine needs none.
    """
    import anthropic
    import httpx2
    from anthropic import AsyncAnthropic, AsyncStream
    from anthropic._types import RequestOptions

    # What the package remarks (a key that hides another, say) would land in the middle of a screen.
    logging.getLogger("anthropic").addHandler(logging.NullHandler())

    class Connection:
        def __init__(self) -> None:
            local = is_local(base_url)
            self._client = AsyncAnthropic(
                api_key="local" if local and not _key_is_set() else None,
                base_url=base_url,
                max_retries=0,
                default_headers={"anthropic-version": version},
                open_telemetry=False,
                # A proxy from the environment must not stand between this machine and itself.
                http_client=httpx2.AsyncClient(trust_env=False) if local else None,
            )

        async def send(
            self, method: str, path: str, body: dict[str, Any] | None, timeout_s: float
        ) -> Reply:
            try:
                if body is not None and body.get("stream"):
                    return await self._streamed(path, body, timeout_s)
                return await self._whole(method, path, body, timeout_s)
            except anthropic.APIStatusError as error:
                said = error.response
                return Reply(status=said.status_code, headers=said.headers, body=said.content)
            except anthropic.APITimeoutError:
                return Reply(broken=f"no response within {timeout_s:g} s")
            except (anthropic.APIConnectionError, httpx2.HTTPError) as error:
                cause = error.__cause__ or error
                unsent = isinstance(cause, (httpx2.ConnectError, httpx2.ConnectTimeout))
                why = f" ({cause})" if str(cause) else ""
                return Reply(broken=f"connection lost{why}", sent=not unsent)
            except anthropic.CredentialsError as error:
                raise ModelRefused(f"{NO_KEY}: {error}", KEY_HINT) from error

        async def _whole(
            self, method: str, path: str, body: dict[str, Any] | None, timeout_s: float
        ) -> Reply:
            options: RequestOptions = {"timeout": timeout_s}
            if method == "GET":
                got = await self._client.get(path, cast_to=httpx2.Response, options=options)
            else:
                got = await self._client.post(
                    path, cast_to=httpx2.Response, body=body, options=options
                )
            return Reply(status=got.status_code, headers=got.headers, body=got.content)

        async def _streamed(self, path: str, body: dict[str, Any], timeout_s: float) -> Reply:
            stream: AsyncStream[object] = await self._client.post(
                path, cast_to=object, body=body, options={"timeout": timeout_s},
                stream=True, stream_cls=AsyncStream[object],
            )  # fmt: skip
            parts = stream.response
            try:
                raw = b"".join([part async for part in parts.aiter_bytes()])
            finally:
                await stream.close()
            return Reply(status=parts.status_code, headers=parts.headers, body=raw)

        async def close(self) -> None:
            await self._client.close()

    try:
        made = Connection()
    except anthropic.CredentialsError as error:
        raise ModelRefused(f"{NO_KEY}: {error}", KEY_HINT) from error
    client = made._client
    if client.api_key is None and client.auth_token is None and client.credentials is None:
        raise ModelRefused(NO_KEY, KEY_HINT)
    return made


def require_key(base_url: str) -> None:
    """Raises ModelRefused where calls to a server would have no key. Calls nobody.

    The package is imported only where the environment names none: it may have a log-in of its own.
    """
    if not is_local(base_url) and not _key_is_set():
        asyncio.run(connect(base_url, "").close())


def is_keyless(base_url: str) -> bool:
    """Is it plain that calls to a server would have no key, without importing the package?"""
    named = {name for name, value in os.environ.items() if name.startswith("ANTHROPIC_") and value}
    log_in = Path.home() / ".config" / "anthropic"
    return not is_local(base_url) and not named - {SERVER_VARIABLE} and not log_in.exists()


def _key_is_set() -> bool:
    return any(os.environ.get(f"ANTHROPIC_{name}") for name in ("API_KEY", "AUTH_TOKEN"))


LONGEST_ASKED_WAIT_S = 300.0
"""A server that asks for more than this is not waited for."""

OTHER_KIND = "Try: set ANTHROPIC_BASE_URL to a server with the Messages API"

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
        answer = message(reply.body) if asked.streamed else msgspec.json.decode(reply.body)
    except BrokenStream as error:
        known = not error.kind or error.kind in _TRANSIENT_ERRORS
        said = ModelRefused(f"{asked.model}: the stream broke: {error}")
        return Failed(said, again=known, billed=True)
    except (msgspec.DecodeError, UnicodeDecodeError):
        said = ModelRefused(f"{asked.model}: response truncated in transit")
        return Failed(said, again=True, billed=True)
    wrong = flaw(answer)
    return _nonsense(asked, f"another format ({wrong})") if wrong is not None else answer


def _nonsense(asked: Asked, what: str) -> Failed:
    error = ModelRefused(
        f"{asked.address} returned {what}, not a message of the Messages API", OTHER_KIND
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
    status, said = reply.status, _error_text(reply)
    where = f"{asked.model}: {said} (HTTP {status})"
    advice = reply.headers.get("x-should-retry")
    if status in _TRANSIENT or status >= 500 or advice == "true":
        wait_s = _asked_wait_s(reply, asked.now_s)
        again = advice != "false" and (wait_s is None or wait_s <= LONGEST_ASKED_WAIT_S)
        later = f"; retry after {wait_s:.0f} s" if wait_s is not None and not again else ""
        error = ModelRefused(where + later, "Completed calls are saved. Try: run it again later")
        return Failed(error, again=again, billed=False, wait_s=wait_s)
    if status in {400, 413, 422}:
        return Failed(RequestRefused(where, request_hint(said)), again=False, billed=False)
    hint = KEY_HINT if status in {401, 403} else ""
    if status in {404, 405} and not _speaks_of(reply, asked.model):
        where = f"{asked.address} has no Messages API: nothing at {MESSAGES} (HTTP {status})"
        hint = OTHER_KIND
    elif status == 404:
        hint = f"Try: --model NAME, one that {asked.address} serves"
    return Failed(ModelRefused(where, hint), again=False, billed=False)


def _speaks_of(reply: Reply, model: str) -> bool:
    """Does an error come from a server of the Messages API, or name the model that was asked?"""
    try:
        said = msgspec.json.decode(reply.body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    ours = isinstance(said, dict) and said.get("type") == "error"
    return ours or model.encode() in reply.body


def _error_text(reply: Reply) -> str:
    """The server's own sentence, where it sent one in the API's shape."""
    try:
        error = msgspec.json.decode(reply.body).get("error")
    except (msgspec.DecodeError, UnicodeDecodeError, AttributeError):
        error = None
    said = error.get("message") if isinstance(error, dict) else None
    return str(said) if said else "server error" if reply.status >= 500 else "declined"


def request_hint(said: str) -> str:
    """What to know where a server declines a request over a part of it that replay decides on,
    else ""."""
    if "thinking" in said:
        return "this model requires its recorded thinking, which an edit makes invalid"
    named = next((name for name in SAMPLING if name in said), None)
    if named is not None:
        return (
            f"the recorded `{named}` was sent: the server must drop what its model does not accept"
        )
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


class BrokenStream(Exception):
    """The stream holds no whole message. `kind` is the provider's word where it sent an error."""

    def __init__(self, why: str, kind: str = "") -> None:
        super().__init__(why)
        self.kind = kind


def message(raw: bytes) -> dict[str, Any]:
    """The message of a whole stream. Raises BrokenStream where it is not whole."""
    try:
        return _message(raw)
    except (KeyError, TypeError, AttributeError) as error:
        raise BrokenStream(f"unexpected event: {error!r}") from error


def _message(raw: bytes) -> dict[str, Any]:
    answer: dict[str, Any] = {}
    blocks: dict[int, dict[str, Any]] = {}
    parts: dict[tuple[int, str], list[Any]] = {}
    for event in events(raw):
        match event.get("type"):
            case "message_start":
                answer = {**event["message"]}
            case "content_block_start":
                blocks[event["index"]] = {**event["content_block"]}
            case "content_block_delta":
                field, key = _DELTAS.get(event["delta"]["type"], ("", ""))
                if field:
                    parts.setdefault((event["index"], field), []).append(event["delta"][key])
            case "message_delta":
                answer.update(event["delta"])
                answer["usage"] = {**answer.get("usage", {}), **event.get("usage", {})}
            case "error":
                error = event["error"]
                raise BrokenStream(str(error.get("message")), str(error.get("type")))
            case "message_stop":
                for (index, field), given in parts.items():
                    blocks[index][field] = _whole(field, blocks[index].get(field), given)
                return {**answer, "content": [blocks[index] for index in sorted(blocks)]}
            case _:  # a ping, the end of a block, a kind that is newer than this
                pass
    raise BrokenStream("no final event")


_DELTAS = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "thinking"),
    "signature_delta": ("signature", "signature"),
    "citations_delta": ("citations", "citation"),
    "input_json_delta": ("input", "partial_json"),
}
"""Where each kind of delta belongs: the block's field, and the delta's own."""


def _whole(field: str, start: Any, given: list[Any]) -> Any:
    """A field from what its block began with and the deltas that followed."""
    if field == "citations":
        return [*(start or []), *given]
    text = "".join(given)
    if field != "input":
        return (start or "") + text
    try:
        return msgspec.json.decode(text) if text else start
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BrokenStream("truncated call arguments") from error


def events(raw: bytes) -> Iterator[dict[str, Any]]:
    """The data of each event, in order. Raises BrokenStream where one is not JSON."""
    for line in raw.splitlines():
        if line.startswith(b"data:"):
            try:
                event = msgspec.json.decode(line[5:])
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise BrokenStream(f"event is not JSON: {error}") from error
            if isinstance(event, dict):
                yield event
