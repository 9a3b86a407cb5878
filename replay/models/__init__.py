"""Who answers a request: one protocol, one module a model.

A model takes a Messages API request body and a sample number and returns a Messages API message,
both as plain JSON values. `demo` is local, rule-based and free; `claude` talks to a server;
`cached` stands in front of either and keeps every answer.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

from replay.errors import RequestRefused

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
    """What is known of a batch before its id: its size, when it was sent, all ids sent before.

    `since_ns` counts from the epoch.
    """

    requests: int
    since_ns: int
    known: frozenset[str]


class Unanswered(NamedTuple):
    """A request of a batch that may be sent again, and why it has no answer."""

    why: str


Result: TypeAlias = dict[str, Any] | RequestRefused | Unanswered
"""What a request of a batch came to."""


@runtime_checkable
class TakesBatches(Protocol):
    """What a model offers whose server answers many requests later. As `claude.Claude`."""

    def send_batch(self, requests: Mapping[str, dict[str, Any]], sending: Sending) -> str: ...

    def find_batch(self, sending: Sending) -> str | None: ...

    def batch_results(self, id: str) -> dict[str, Result] | None: ...


@runtime_checkable
class Connected(Protocol):
    """What a model that holds a connection offers beside its answers."""

    def stop(self) -> None:
        """Cancel the call in flight and refuse further ones. From any thread."""
        ...

    def close(self) -> None: ...
