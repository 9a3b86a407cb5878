"""The Messages API, as a wire: how it is connected to, and how its answers are read.

A stream of server-sent events is put together to the message it stands for.
"""

from __future__ import annotations

import asyncio
import logging
import os
from pathlib import Path
from typing import Any

import msgspec

from replay.convert import API, SAMPLING
from replay.errors import ModelRefused
from replay.models.protocol import SERVER_VARIABLE, flaw, is_local
from replay.models.wire import (
    STREAM_ABOVE,
    BrokenStream,
    Connection,
    NoMessage,
    Reply,
    events,
    output_limit,
)

PATH = "/v1/messages"
NO_KEY = "no key for the Messages API"
KEY_HINT = "Try: set ANTHROPIC_API_KEY, or ANTHROPIC_BASE_URL to a local server"


class Messages:
    """As `wire.Wire`."""

    title = "the Messages API"
    path = PATH
    key_hint = KEY_HINT
    other_kind = "Try: set ANTHROPIC_BASE_URL to a server with the Messages API"

    def connect(self, base_url: str) -> Connection:
        return connect(base_url, API)

    def posted(self, body: dict[str, Any]) -> dict[str, Any]:
        return {**body, "stream": True} if output_limit(body) > STREAM_ABOVE else body

    def message(self, body: bytes, *, streamed: bool) -> dict[str, Any]:
        answer = message(body) if streamed else msgspec.json.decode(body)
        wrong = flaw(answer)
        if wrong is not None:
            raise NoMessage(wrong)
        found: dict[str, Any] = answer
        return found

    def request_hint(self, said: str) -> str:
        return request_hint(said)


MESSAGES = Messages()


def connect(base_url: str, version: str) -> Connection:
    """A connection to a server, with the key of the environment or of the SDK's own log-in.

    Raises ModelRefused where there is no key; a server on this machine needs none.
    """
    import anthropic
    import httpx2
    from anthropic import AsyncAnthropic, AsyncStream
    from anthropic._types import RequestOptions

    # What the package remarks (a key that hides another, say) would land in the middle of a screen.
    logging.getLogger("anthropic").addHandler(logging.NullHandler())

    class Client:
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
        made = Client()
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
