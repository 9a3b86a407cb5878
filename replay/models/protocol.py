"""Who answers a request: one protocol, one module a model; and what is known before one is asked.

Which server is asked and under which name its answers are kept, what a whole answer is, where
the prompt cache may end, and the kill file (`ARC_KILL`): where it is, nothing is asked.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Generator, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable
from urllib.parse import SplitResult, urlsplit

from msgspec import Struct

from replay.errors import ModelRefused, RequestRefused
from replay.providers import (
    ANTHROPIC,
    AZURE,
    AZURE_RESPONSES,
    BEDROCK,
    OPENAI,
    RESPONSES,
    UNSEALED,
    VERTEX,
    Provider,
    Rates,
    bare,
)

BATCH_PRICE_SHARE = 0.5
"""What an answer of a batch costs, of its price alone."""


class Model(Protocol):
    """Anything that answers. `name` stands beside every figure that came from it."""

    name: str

    def complete(self, body: dict[str, Any], sample: int) -> dict[str, Any]:
        """The message that answers `body`, the `sample`-th of it.

        Raises ModelRefused where the model declines the request, OfflineMiss where it may not ask.
        """
        ...


@runtime_checkable
class Concurrent(Protocol):
    """What a model offers that answers several requests at once. As `claude.Claude`."""

    def complete_all(
        self,
        bodies: Iterable[dict[str, Any]],
        *,
        keep: Callable[[int, dict[str, Any]], dict[str, Any]],
        marked: bool,
    ) -> Generator[tuple[int, dict[str, Any] | RequestRefused]]: ...

    def pause(self, seconds: float) -> None: ...


class Sending(NamedTuple):
    """What is known of a batch before its id: its size, when it was sent, all ids sent before, and
    a `mark` of what it holds.

    `since_ns` counts from the epoch.
    """

    requests: int
    since_ns: int
    known: frozenset[str]
    mark: str = ""


class Unanswered(NamedTuple):
    """A request of a batch that may be sent again, and why it has no answer."""

    why: str


Result: TypeAlias = dict[str, Any] | RequestRefused | Unanswered
"""What a request of a batch came to."""


@runtime_checkable
class TakesBatches(Protocol):
    """What a model offers whose server answers many requests later. As `batches.Batching`."""

    def with_marker(self, body: dict[str, Any]) -> dict[str, Any]: ...

    def send_batch(self, requests: Mapping[str, dict[str, Any]], sending: Sending) -> str: ...

    def find_batch(self, sending: Sending) -> str | None: ...

    def batch_results(self, id: str, asked: Collection[str]) -> dict[str, Result] | None: ...


@runtime_checkable
class Connected(Protocol):
    """What a model that holds a connection offers beside its answers."""

    def stop(self) -> None:
        """Cancel the call in flight and refuse further ones. From any thread."""
        ...

    def close(self) -> None: ...


VARIABLE = "ARC_KILL"
POLL_S = 0.25
"""How often to look while calls are in flight."""


def killed() -> str | None:
    """Why no call may be made, None where one may."""
    named = os.environ.get(VARIABLE)
    if named and Path(named).exists():
        return f"stopped by the file {named} ({VARIABLE})"
    return None


def flaw(answer: Any) -> str | None:
    """Why this is no complete message of the Messages API, None where it is one.

    A stream that ended early, a page of a proxy and another provider's body all look like success
    to a client; none of them may be kept.
    """
    if not isinstance(answer, dict) or answer.get("type") != "message":
        return "not a message"
    content = answer.get("content")
    if not isinstance(content, list):
        return "content is not a list"
    if not isinstance(answer.get("stop_reason"), str):
        return "no stop reason"
    for block in content:
        if not isinstance(block, dict) or not isinstance(block.get("type"), str):
            return "content has an invalid block"
        if block["type"] == "tool_use" and not (
            isinstance(block.get("name"), str) and isinstance(block.get("input"), dict)
        ):
            return "a tool call without a name or arguments"
    return None


OFFICIAL = "https://api.anthropic.com"
SERVER_VARIABLE = "ANTHROPIC_BASE_URL"
OPENAI_VARIABLE = "OPENAI_BASE_URL"
AZURE_VARIABLE = "AZURE_OPENAI_ENDPOINT"

_PORTS = {"http": 80, "https": 443}


def server_url(given: str | None = None) -> str:
    """Where calls go: what is given, else what the environment names, else the official API.

    Raises ModelRefused where that is no address of a server of the Messages API.
    """
    url = given or os.environ.get(SERVER_VARIABLE) or OFFICIAL
    bare = url.rstrip("/")
    if bare.endswith("/v1"):
        raise ModelRefused(
            f"{SERVER_VARIABLE} must not end in /v1, which is added: {address(url)}",
            f"Try: set it to {address(bare.removesuffix('/v1'))}",
        )
    address(url)
    return url


def name(url: str) -> str:
    """What the answers of a server are kept under: "" for the official API, else its address."""
    found = address(url)
    return "" if found == OFFICIAL else found


def address(url_or_name: str) -> str:
    """`scheme://host[:port][/path]` of an address or a name, fit to be shown and compared.

    Raises ModelRefused where it is none.
    """
    parts = urlsplit(url_or_name or OFFICIAL)
    host, port = _place(parts)
    if not host or parts.scheme not in _PORTS:
        raise ModelRefused(
            f"{SERVER_VARIABLE} is not a server address",
            "Try: an address like http://localhost:11434",
        )
    shown = f"[{host}]" if ":" in host else host
    beside = f":{port}" if port is not None and port != _PORTS[parts.scheme] else ""
    return f"{parts.scheme}://{shown}{beside}{parts.path.rstrip('/')}"


def is_local(url: str) -> bool:
    """Does the address name this machine?"""
    host = urlsplit(url).hostname or ""
    return host in {"localhost", "::1"} or host.startswith("127.")


def _place(parts: SplitResult) -> tuple[str, int | None]:
    """Host (lower case) and port; no host where the port is no number."""
    try:
        return parts.hostname or "", parts.port
    except ValueError:
        return "", None


_URL_VARIABLES = {
    ANTHROPIC.name: SERVER_VARIABLE,
    OPENAI.name: OPENAI_VARIABLE,
    RESPONSES.name: OPENAI_VARIABLE,
    UNSEALED.name: OPENAI_VARIABLE,
    AZURE.name: AZURE_VARIABLE,
    AZURE_RESPONSES.name: AZURE_VARIABLE,
    BEDROCK.name: "ANTHROPIC_BEDROCK_BASE_URL",
    VERTEX.name: "ANTHROPIC_VERTEX_BASE_URL",
}


def url_variable(provider: Provider) -> str:
    """What names another server of a provider's API."""
    return _URL_VARIABLES[provider.name]


class Target(Struct, frozen=True, kw_only=True):
    """Whom to ask. `model` is the whole name, from which the API follows; `server` is what answers
    are kept under; `url` None is the provider's own. `batches`: does it take them? `api_version` is
    that of Azure's API, None elsewhere."""

    model: str
    provider: Provider
    url: str | None
    server: str
    key_env: str | None = None
    prices: Rates | None = None
    batches: bool = False
    api_version: str | None = None

    @property
    def name(self) -> str:
        """The name as the server knows it."""
        return bare(self.model)

    @property
    def address(self) -> str:
        """Where it is, as a person reads it."""
        return address(self.url) if self.url else self.provider.title


_UNMARKED = {"thinking", "redacted_thinking"}
"""Blocks on which a marker is refused."""


def with_cache_marker(body: dict[str, Any]) -> dict[str, Any]:
    """The body with one cache marker, on the last block of its last message that may carry one.

    The body itself where no block may. Nothing of the body given is changed.
    """
    *before, last = body["messages"]
    content = last["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else [*content]
    for at in reversed(range(len(blocks))):
        if _may_carry(blocks[at]):
            blocks[at] = {**blocks[at], "cache_control": {"type": "ephemeral"}}
            return {**body, "messages": [*before, {**last, "content": blocks}]}
    return body


def _may_carry(block: dict[str, Any]) -> bool:
    if block.get("type") == "text":
        return bool(str(block.get("text", "")).strip())
    return block.get("type") not in _UNMARKED
