"""One exchange with a server of the Messages API, as a value: what came back, or how it broke.

The only module that uses the `anthropic` package, imported in one function because that takes
seconds. The package is used for its transport alone: its own retries, types and stream readers
take half an answer for a whole one.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct

from replay.errors import ModelRefused
from replay.models.server import VARIABLE, is_local

MESSAGES = "/v1/messages"
NO_KEY = "no key for the Messages API"
KEY_HINT = "set ANTHROPIC_API_KEY, or ANTHROPIC_BASE_URL to a server on this machine"


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
                return Reply(broken=f"no answer within {timeout_s:g} s")
            except (anthropic.APIConnectionError, httpx2.HTTPError) as error:
                cause = error.__cause__ or error
                unsent = isinstance(cause, (httpx2.ConnectError, httpx2.ConnectTimeout))
                why = f" ({cause})" if str(cause) else ""
                return Reply(broken=f"the connection broke{why}", sent=not unsent)
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
    return not is_local(base_url) and not named - {VARIABLE} and not log_in.exists()


def _key_is_set() -> bool:
    return any(os.environ.get(f"ANTHROPIC_{name}") for name in ("API_KEY", "AUTH_TOKEN"))
