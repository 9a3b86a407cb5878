"""A connection by one of the SDKs, as a value in and a value out.

Anthropic's and OpenAI's come from one generator: their clients post, stream and fail alike, by the
same names. What differs is how a body is handed to them, and what they raise without credentials.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from replay.errors import ModelRefused
from replay.models.wire import Payload, Reply, Upload

Body = dict[str, Any]


class SdkConnection:
    """As `wire.Connection`. `client` is an asynchronous one of the package `sdk`.

    `payload` makes the argument of `post` that holds a body. What is raised without credentials,
    one of `keyless`, becomes a refusal that says `no_key` and `hint`. `framed`: the client alone
    knows how its platform packs a stream.
    """

    def __init__(
        self,
        client: Any,
        sdk: ModuleType,
        payload: Callable[[Body | None], dict[str, Any]],
        *,
        keyless: tuple[type[Exception], ...] = (),
        no_key: str = "",
        hint: str = "",
        framed: bool = False,
    ) -> None:
        self._client = client
        self._sdk = sdk
        self._payload = payload
        self._keyless = keyless
        self._no_key, self._hint = no_key, hint
        self._framed = framed

    async def send(self, method: str, path: str, body: Payload, timeout_s: float) -> Reply:
        import httpx2

        try:
            if isinstance(body, dict) and body.get("stream"):
                return await self._streamed(path, body, timeout_s)
            return await self._whole(method, path, body, timeout_s)
        except self._sdk.APIStatusError as error:
            said = error.response
            return Reply(status=said.status_code, headers=said.headers, body=said.content)
        except self._sdk.APITimeoutError:
            return Reply(broken=f"no response within {timeout_s:g} s")
        except (self._sdk.APIConnectionError, httpx2.HTTPError) as error:
            cause = error.__cause__ or error
            unsent = isinstance(cause, (httpx2.ConnectError, httpx2.ConnectTimeout))
            why = f" ({cause})" if str(cause) else ""
            return Reply(broken=f"connection lost{why}", sent=not unsent)
        except self._keyless as error:
            raise ModelRefused(f"{self._no_key}: {error}", self._hint) from error

    async def _whole(self, method: str, path: str, body: Payload, timeout_s: float) -> Reply:
        import httpx2

        options: dict[str, Any] = {"timeout": timeout_s}
        if method == "GET":
            got = await self._client.get(path, cast_to=httpx2.Response, options=options)
        elif isinstance(body, Upload):
            options["headers"] = {"Content-Type": "multipart/form-data"}
            got = await self._client.post(
                path,
                cast_to=httpx2.Response,
                options=options,
                body=body.fields,
                files=[("file", (body.name, body.content, "application/jsonl"))],
            )
        else:
            got = await self._client.post(
                path, cast_to=httpx2.Response, options=options, **self._payload(body)
            )
        return Reply(status=got.status_code, headers=got.headers, body=got.content)

    async def _streamed(self, path: str, body: Body, timeout_s: float) -> Reply:
        stream = await self._client.post(
            path,
            cast_to=object,
            options={"timeout": timeout_s},
            stream=True,
            stream_cls=self._sdk.AsyncStream[object],
            **self._payload(body),
        )
        parts = stream.response
        try:
            if self._framed:
                events = [each.data.encode() async for each in stream._iter_events()]
                raw = b"".join(b"data: %b\n\n" % each for each in events)
            else:
                raw = b"".join([part async for part in parts.aiter_bytes()])
        finally:
            await stream.close()
        return Reply(status=parts.status_code, headers=parts.headers, body=raw)

    async def close(self) -> None:
        await self._client.close()
