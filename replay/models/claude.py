"""A model behind the Messages API: Claude, or anything that a compatible server serves.

A plain, synchronous face on what happens concurrently behind it: one request, several at once, or
a batch of them. Which answers are kept, and where, is `cached`'s concern.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from replay.budget import Budget
from replay.errors import RequestRefused
from replay.formats.common import ns
from replay.models import protocol
from replay.models.batches import Batches, Batching, json_object, objects_of
from replay.models.line import Body
from replay.models.messages import MESSAGES, PATH
from replay.models.protocol import Result, Sending, Unanswered, flaw, with_cache_marker

_COUNTED = ("model", "messages", "system", "tools", "tool_choice", "thinking", "output_config")
"""The fields of a request that the counting of its tokens takes."""

BATCHES = f"{PATH}/batches"


class Claude(Batching):
    """A live model behind the Messages API. `base_url` defaults to ANTHROPIC_BASE_URL; the rest is
    as of `Live`."""

    def __init__(
        self, name: str, *, budget: Budget, base_url: str | None = None, **beside: Any
    ) -> None:
        url = protocol.server_url(base_url)
        super().__init__(name, budget=budget, base_url=url, **{"wire": MESSAGES, **beside})
        self._batches = MessageBatches(self._line)

    def with_marker(self, body: Body) -> Body:
        return with_cache_marker(body)

    # --- what a server says of itself

    def about(self) -> dict[str, Any] | None:
        """What the server says of this model (`max_input_tokens`, `lifecycle`, …).

        None where it does not know the model, or says nothing of models at all.
        """
        found = json_object(self._loop.run(self._line.fetch("GET", f"/v1/models/{self.name}")))
        return found if found is not None and found.get("type") == "model" else None

    def count_tokens(self, body: Body) -> int | None:
        """The input tokens of a request as the server counts them, None where it does not."""
        asked = {name: body[name] for name in _COUNTED if name in body}
        reply = self._loop.run(self._line.fetch("POST", f"{PATH}/count_tokens", asked))
        count = (json_object(reply) or {}).get("input_tokens")
        return count if type(count) is int else None


class MessageBatches(Batches):
    """Batches of the Messages API: one request holds them all."""

    path = BATCHES

    async def creation(self, requests: Mapping[str, Body], sending: Sending) -> Body:
        del sending  # a batch holds no word of ours
        return {
            "requests": [{"custom_id": name, "params": asks} for name, asks in requests.items()]
        }

    def is_meant(self, batch: Body, sending: Sending) -> bool:
        """A server does not say what an unended batch holds, so size and time have to do; what it
        answers is matched by the ids of the requests."""
        return _size(batch) == sending.requests

    def created_ns(self, batch: Body) -> int:
        return ns(batch.get("created_at")) or 0

    def has_ended(self, batch: Body) -> bool:
        return batch.get("processing_status") == "ended"

    async def read(self, batch: Body, asked: Collection[str]) -> dict[str, Result] | None:
        del asked  # an ended batch speaks of every request
        if batch.get("archived_at") is not None:
            return None
        reply = await self._line.fetch("GET", f"{BATCHES}/{batch['id']}/results")
        if reply is None:
            return None
        lines = (each for each in objects_of(reply.body) if isinstance(each.get("result"), dict))
        return dict(map(self._result, lines))

    def _result(self, line: Body) -> tuple[str, Result]:
        result = line["result"]
        kind = str(result.get("type"))
        if kind == "succeeded":
            wrong = flaw(result.get("message"))
            answer: Result = Unanswered("broken") if wrong is not None else result["message"]
            return line["custom_id"], answer
        error = result.get("error") if kind == "errored" else None
        inner = error.get("error", error) if isinstance(error, dict) else {}
        said = str(inner.get("message") or "declined")
        if inner.get("type") in {"invalid_request_error", "request_too_large"}:
            where = f"{self._line.model}: {said} (in a batch)"
            return line["custom_id"], RequestRefused(where, MESSAGES.request_hint(said))
        return line["custom_id"], Unanswered(str(inner.get("type") or kind))


def _size(batch: Body) -> int | None:
    counts = batch.get("request_counts")
    if not isinstance(counts, dict):
        return None
    return sum(count for count in counts.values() if type(count) is int)
