"""Stored answers first: the model that stands in front of every other one.

An answer is looked up before anything else happens: before a budget, a key, or the import of an
SDK. So a replay that was run once runs again offline, costs nothing, and gives the same bytes.
A request without an answer is asked once, checked, kept, and read back.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any, NamedTuple, Protocol, runtime_checkable

from replay.convert import Sent, body_key
from replay.errors import ModelRefused, OfflineMiss
from replay.models import Model
from replay.store import Store, answers
from replay.trace import Cost

Price = Callable[[dict[str, Any]], Cost | None]
"""What an answer cost, None where that is not known."""


class Answered(NamedTuple):
    """An answer and the key it is stored under."""

    key: str
    body: dict[str, Any]


@runtime_checkable
class Connected(Protocol):
    """What a model that holds a connection offers beside its answers."""

    def stop(self) -> None:
        """Cancel the call in flight and refuse further ones. From any thread."""
        ...

    def close(self) -> None: ...


class Cached:
    """A model whose answers are kept. `inner` None never asks: what is not stored is a miss.

    `hits` counts answers found, `asks` those asked for; `usd` is what those cost, as far as known
    (`usd_complete`).
    """

    def __init__(
        self,
        store: Store,
        name: str,
        inner: Model | None = None,
        *,
        source: str = "local",
        price: Price | None = None,
    ) -> None:
        self.name = name
        self.hits = 0
        self.asks = 0
        self.usd = 0.0
        self.usd_complete = True
        self._store = store
        self._inner = inner
        self._source = source
        self._price = price

    def complete(self, body: dict[str, Any], sample: int) -> dict[str, Any]:
        """As `Model.complete`: the stored answer, else the one asked for."""
        return self._answer(body_key(body, sample), sample, lambda: body)

    def answer(self, sent: Sent, sample: int) -> Answered:
        """The same for a converted request, whose key costs only what is new in it.

        Raises OfflineMiss where there is no answer and none may be asked for, ModelRefused where
        the model declines.
        """
        key = sent.key(sample)
        return Answered(key, self._answer(key, sample, sent.body))

    def stored(self, sent: Sent, sample: int) -> bool:
        """Is this request answered already?"""
        return answers.get(self._store, sent.key(sample)) is not None

    def stop(self) -> None:
        """Cancel a call in flight, which then raises Stopped. From any thread."""
        if isinstance(self._inner, Connected):
            self._inner.stop()

    def close(self) -> None:
        """Close the connection, where there is one. From the thread that asked."""
        if isinstance(self._inner, Connected):
            self._inner.close()

    def __enter__(self) -> Cached:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()

    def _answer(self, key: str, sample: int, body: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        kept = answers.get(self._store, key)
        if kept is not None:
            self.hits += 1
            return kept.body
        if self._inner is None:
            raise OfflineMiss(
                f"no stored answer of {self.name} to this request",
                "--live with a limit (--budget USD) asks for it",
            )
        given = self._inner.complete(body(), sample)
        self.asks += 1
        wrong = flaw(given)
        if wrong is not None:
            raise ModelRefused(f"{self.name} did not answer with a message: {wrong}")
        return self._keep(key, sample, given)

    def _keep(self, key: str, sample: int, given: dict[str, Any]) -> dict[str, Any]:
        cost = self._price(given) if self._price is not None else None
        if cost is not None:
            self.usd += cost.usd
        elif self._price is not None:
            self.usd_complete = False
        kept = answers.put(
            self._store,
            key,
            model=self.name,
            sample=sample,
            body=given,
            source=self._source,
            cost_usd=cost.usd if cost is not None else None,
            prices=cost.prices if cost is not None else None,
        )
        return kept.body


def flaw(answer: Any) -> str | None:
    """Why this is no complete message of the Messages API, None where it is one.

    A stream that ended early, a page of a proxy and another provider's body all look like success
    to a client; none of them may be kept.
    """
    if not isinstance(answer, dict) or answer.get("type") != "message":
        return "it is no message"
    content = answer.get("content")
    if not isinstance(content, list):
        return "its content is no list"
    if not isinstance(answer.get("stop_reason"), str):
        return "it ends before its stop reason"
    for block in content:
        if not isinstance(block, dict) or not isinstance(block.get("type"), str):
            return "its content holds something that is no block"
        if block["type"] == "tool_use" and not (
            isinstance(block.get("name"), str) and isinstance(block.get("input"), dict)
        ):
            return "a call in it has no name or no arguments"
    return None
