"""The Messages API, as a wire: how it is connected to, and how its answers are read.

A stream of server-sent events is put together to the message it stands for.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from replay.convert import API, SAMPLING
from replay.errors import ModelRefused
from replay.models.connection import SdkConnection
from replay.models.protocol import SERVER_VARIABLE, flaw, is_local
from replay.models.wire import (
    STREAM_ABOVE,
    BrokenStream,
    Connection,
    NoMessage,
    events,
    output_limit,
)
from replay.providers import BEDROCK, VERTEX, Provider

if TYPE_CHECKING:
    from anthropic._base_client import AsyncAPIClient
    from httpx2 import AsyncClient

PATH = "/v1/messages"
NO_KEY = "no key for the Messages API"
KEY_HINT = "Try: set ANTHROPIC_API_KEY, or ANTHROPIC_BASE_URL to a local server"


class Messages(NamedTuple):
    """As `wire.Wire`. `key_variable` names what the key is in, None for the SDK's own ways."""

    title: str = "the Messages API"
    path: str = PATH
    key_variable: str | None = None
    other_kind: str = "Try: set ANTHROPIC_BASE_URL to a server with the Messages API"

    @property
    def key_hint(self) -> str:
        return f"Try: set {self.key_variable}" if self.key_variable else KEY_HINT

    def connect(self, base_url: str) -> Connection:
        return connect(base_url, API, self.key_variable)

    def body_to_post(self, body: dict[str, Any]) -> dict[str, Any]:
        return {**body, "stream": True} if output_limit(body) > STREAM_ABOVE else body

    def message(self, body: bytes, *, streamed: bool) -> dict[str, Any]:
        return whole_message(body, streamed=streamed)

    def request_hint(self, said: str) -> str:
        return request_hint(said)


def whole_message(body: bytes, *, streamed: bool) -> dict[str, Any]:
    """The message in an answer. Raises as `wire.Wire.message`."""
    answer = message(body) if streamed else msgspec.json.decode(body)
    wrong = flaw(answer)
    if wrong is not None:
        raise NoMessage(wrong)
    found: dict[str, Any] = answer
    return found


MESSAGES = Messages()


def connect(base_url: str, version: str, key_variable: str | None = None) -> Connection:
    """A connection to a server, with the key of the environment or of the SDK's own log-in.

    Raises ModelRefused where there is no key; a server on this machine needs none.
    """
    import anthropic
    import httpx2
    from anthropic import AsyncAnthropic

    # What the package remarks (a key that hides another, say) would land in the middle of a screen.
    logging.getLogger("anthropic").addHandler(logging.NullHandler())
    key = os.environ.get(key_variable) if key_variable else None
    local = is_local(base_url)
    if key_variable and not key and not local:
        raise ModelRefused(NO_KEY, f"Try: set {key_variable}")
    try:
        client = AsyncAnthropic(
            api_key=key or ("local" if local and not _key_is_set() else None),
            base_url=base_url,
            max_retries=0,
            default_headers={"anthropic-version": version},
            open_telemetry=False,
            # A proxy from the environment must not stand between this machine and itself.
            http_client=httpx2.AsyncClient(trust_env=False) if local else None,
        )
    except anthropic.CredentialsError as error:
        raise ModelRefused(f"{NO_KEY}: {error}", KEY_HINT) from error
    if client.api_key is None and client.auth_token is None and client.credentials is None:
        raise ModelRefused(NO_KEY, KEY_HINT)
    return _connection(client)


def _connection(
    client: AsyncAPIClient,
    *,
    no_key: str = NO_KEY,
    hint: str = KEY_HINT,
    keyless: tuple[type[Exception], ...] = (),
    framed: bool = False,
) -> Connection:
    import anthropic

    return SdkConnection(
        client,
        anthropic,
        lambda body: {"body": body},
        keyless=(anthropic.CredentialsError, *keyless),
        no_key=no_key,
        hint=hint,
        framed=framed,
    )


def require_key(base_url: str, key_variable: str | None = None) -> None:
    """Raises ModelRefused where calls to a server would have no key. Calls nobody.

    The package is imported only where the environment names none: it may have a log-in of its own.
    """
    set_ = bool(os.environ.get(key_variable)) if key_variable else _key_is_set()
    if not is_local(base_url) and not set_:
        asyncio.run(connect(base_url, "", key_variable).close())


def is_keyless(base_url: str, key_variable: str | None = None) -> bool:
    """Is it plain that calls to a server would have no key, without importing the package?"""
    if key_variable:
        return not is_local(base_url) and not os.environ.get(key_variable)
    named = {name for name, value in os.environ.items() if name.startswith("ANTHROPIC_") and value}
    log_in = Path.home() / ".config" / "anthropic"
    return not is_local(base_url) and not named - {SERVER_VARIABLE} and not log_in.exists()


def _key_is_set() -> bool:
    return any(os.environ.get(f"ANTHROPIC_{name}") for name in ("API_KEY", "AUTH_TOKEN"))


class Platform(NamedTuple):
    """Claude as a platform serves it, by its client of the same SDK. As `wire.Wire`."""

    provider: Provider
    package: str
    keyless: tuple[str, str]
    """The module and the class of what its package raises where there are no credentials."""
    variables: tuple[str, ...]
    """One of each is needed, where names with `|` between them mean the same."""
    make: Callable[[str | None], AsyncAPIClient]

    @property
    def title(self) -> str:
        return f"Claude on {self.provider.title}"

    @property
    def path(self) -> str:
        return PATH

    @property
    def key_hint(self) -> str:
        names = " and ".join(each.replace("|", " or ") for each in self.variables)
        return f"Try: set {names}, with the credentials of {self.provider.title}"

    @property
    def other_kind(self) -> str:
        return f"Try: --model {self.provider.name}:NAME, one that your account may use there"

    def require(self) -> None:
        """Raises ModelRefused where the package or a setting is lacking."""
        if not _is_installed(self.package):
            raise ModelRefused(
                f"{self.title} needs the package {self.package}, which is not installed",
                self.provider.install,
            )
        for names in self.variables:
            if not any(os.environ.get(name) for name in names.split("|")):
                lacks = names.replace("|", " or ")
                raise ModelRefused(f"{self.title}: {lacks} is not set", self.key_hint)

    def connect(self, base_url: str) -> Connection:
        self.require()
        logging.getLogger("anthropic").addHandler(logging.NullHandler())
        no_key = f"no credentials for {self.title}"
        try:
            client = self.make(base_url or None)
        except (ValueError, RuntimeError) as error:
            raise ModelRefused(f"{no_key}: {error}", self.key_hint) from error
        module, name = self.keyless
        its_own: type[Exception] = getattr(import_module(module), name)
        keyless = (RuntimeError, ValueError, its_own)
        return _connection(client, no_key=no_key, hint=self.key_hint, keyless=keyless, framed=True)

    def body_to_post(self, body: dict[str, Any]) -> dict[str, Any]:
        return MESSAGES.body_to_post(body)

    def message(self, body: bytes, *, streamed: bool) -> dict[str, Any]:
        return whole_message(body, streamed=streamed)

    def request_hint(self, said: str) -> str:
        return request_hint(said)


def _is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # of the package around it
        return False


def _bedrock(base_url: str | None) -> AsyncAPIClient:
    from anthropic import AsyncAnthropicBedrock

    return AsyncAnthropicBedrock(
        base_url=base_url, max_retries=0, open_telemetry=False, http_client=_local_http(base_url)
    )


def _vertex(base_url: str | None) -> AsyncAPIClient:
    from anthropic import AsyncAnthropicVertex

    return AsyncAnthropicVertex(
        base_url=base_url,
        max_retries=0,
        open_telemetry=False,
        http_client=_local_http(base_url),
        # As a user's own program does it that has no log-in of Google's on this machine.
        access_token=os.environ.get("ANTHROPIC_VERTEX_ACCESS_TOKEN"),
    )


def _local_http(base_url: str | None) -> AsyncClient | None:
    """No proxy from the environment may stand between this machine and itself."""
    import httpx2

    local = base_url is not None and is_local(base_url)
    return httpx2.AsyncClient(trust_env=False) if local else None


PLATFORMS = {
    BEDROCK.name: Platform(
        provider=BEDROCK,
        package="boto3",
        keyless=("botocore.exceptions", "BotoCoreError"),
        variables=("AWS_REGION|AWS_DEFAULT_REGION",),
        make=_bedrock,
    ),
    VERTEX.name: Platform(
        provider=VERTEX,
        package="google.auth",
        keyless=("google.auth.exceptions", "GoogleAuthError"),
        variables=("CLOUD_ML_REGION", "ANTHROPIC_VERTEX_PROJECT_ID"),
        make=_vertex,
    ),
}


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
