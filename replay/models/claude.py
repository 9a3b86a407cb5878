"""A model behind the Messages API: Claude, or anything that a compatible server serves.

A plain, synchronous face on what happens concurrently behind it: one request, several at once, or
a batch of them. Which answers are kept, and where, is `cached`'s concern.

A batch is many requests sent together, answered within a day at half the price. Here is the
exchange alone: send, wait until it has ended, fetch, and find one again whose id was lost. Which
requests a batch holds is remembered in the store (`cached`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from replay.budget import Budget, Worst
from replay.errors import ModelRefused, RequestRefused, Stopped
from replay.formats.common import anthropic_usage, ns
from replay.models import protocol
from replay.models.line import (
    LEAST_S,
    Body,
    Line,
    cost,
    max_cost,
)
from replay.models.live import Live
from replay.models.messages import MESSAGES, PATH
from replay.models.protocol import (
    BATCH_PRICE_SHARE,
    Result,
    Sending,
    Unanswered,
    flaw,
    with_cache_marker,
)
from replay.models.wire import Failed, Reply, declined

MOST_AT_ONCE = 8

_COUNTED = ("model", "messages", "system", "tools", "tool_choice", "thinking", "output_config")
"""The fields of a request that the counting of its tokens takes."""


class Claude(Live):
    """A live model behind the Messages API. `base_url` defaults to ANTHROPIC_BASE_URL; the rest is
    as of `Live`."""

    def __init__(
        self, name: str, *, budget: Budget, base_url: str | None = None, **beside: Any
    ) -> None:
        url = protocol.server_url(base_url)
        super().__init__(name, budget=budget, base_url=url, **{"wire": MESSAGES, **beside})
        self._batches = Batches(self._line)

    def with_marker(self, body: Body) -> Body:
        return with_cache_marker(body)

    def send_batch(self, requests: Mapping[str, Body], sending: Sending) -> str:
        """Send requests by their ids as one batch; the batch's own id.

        Raises ModelRefused where the server takes none, and where all of them at their worst could
        exceed the budget.
        """
        return self._loop.run(self._batches.send(requests, sending))

    def find_batch(self, sending: Sending) -> str | None:
        """The id of a batch that was sent, though its id never came; None where there is none."""
        return self._loop.run(self._batches.find(sending))

    def batch_results(self, id: str) -> dict[str, Result] | None:
        """What a batch came to, by the ids of its requests; waits until it has ended.

        None where the server has no such batch, or its results no longer.
        """
        try:
            return self._loop.run(self._batches.results(id))
        except Stopped as error:
            raise Stopped(
                error.message,
                f"batch {id} continues on the server. Try: the same command later, to fetch it",
            ) from error

    # --- what a server says of itself

    def about(self) -> dict[str, Any] | None:
        """What the server says of this model (`max_input_tokens`, `lifecycle`, …).

        None where it does not know the model, or says nothing of models at all.
        """
        found = _object(self._loop.run(self._line.fetch("GET", f"/v1/models/{self.name}")))
        return found if found is not None and found.get("type") == "model" else None

    def count_tokens(self, body: Body) -> int | None:
        """The input tokens of a request as the server counts them, None where it does not."""
        asked = {name: body[name] for name in _COUNTED if name in body}
        reply = self._loop.run(self._line.fetch("POST", f"{PATH}/count_tokens", asked))
        count = (_object(reply) or {}).get("input_tokens")
        return count if type(count) is int else None


def _object(reply: Reply | None) -> dict[str, Any] | None:
    """The JSON object of a reply, None where it holds none."""
    try:
        found = msgspec.json.decode(reply.body) if reply is not None else None
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return found if isinstance(found, dict) else None


# --- batches

BATCHES = f"{PATH}/batches"
FIRST_WAIT_S, LONGEST_WAIT_S = 1.0, 60.0

FETCH_AGAIN = "Try: the same command later, to fetch it"

_SKEW_NS = 10 * 60 * 10**9
"""How far the clocks of a server and this machine may differ."""


class _NeverTaken(ModelRefused):
    """The server has nothing of a batch, so nothing of it is to be paid."""


class Batches:
    """The batches of a server. Each of their requests is one call of the budget, at half price.

    What an earlier run sent was set aside from that run's budget, and is fetched without another.
    """

    def __init__(self, line: Line) -> None:
        self._line = line
        self._reserved: dict[str, dict[str, Worst]] = {}

    async def send(self, requests: Mapping[str, dict[str, Any]], sending: Sending) -> str:
        """The id of the batch, which the server has taken. As `Claude.send_batch`."""
        reserved = self._reserve(requests)
        try:
            given = await self._sent(requests, sending)
        except _NeverTaken as error:
            for each in reserved.values():
                self._line.budget.release(each)
            raise ModelRefused(error.message, error.hint) from error
        self._reserved[given] = reserved
        return given

    async def find(self, sending: Sending) -> str | None:
        """The id of a batch that was sent, though its id never came. As `Claude.find_batch`.

        A server does not say what an unended batch holds, so size and time have to do; what it
        answers is matched by the ids of the requests.
        """
        reply = await self._line.fetch("GET", f"{BATCHES}?limit=100")
        listed = _batch(reply).get("data") if reply is not None else None
        found = [
            (created_ns, each["id"])
            for each in (listed if isinstance(listed, list) else [])
            if isinstance(each, dict) and isinstance(each.get("id"), str)
            if each["id"] not in sending.known and _size(each) == sending.requests
            if (created_ns := ns(each.get("created_at")) or 0) >= sending.since_ns - _SKEW_NS
        ]
        return min(found)[1] if found else None

    async def results(self, id: str) -> dict[str, Result] | None:
        """What a batch came to, once it has ended. As `Claude.batch_results`."""
        if not await self._ended(id):
            return None
        reply = await self._line.fetch("GET", f"{BATCHES}/{id}/results")
        if reply is None:
            return None
        found = dict(self._read(line) for line in _lines(reply))
        if not found:
            raise ModelRefused(f"the results of batch {id} are empty", FETCH_AGAIN)
        self._pay(id, found)
        return found

    async def _sent(self, requests: Mapping[str, dict[str, Any]], sending: Sending) -> str:
        line = self._line
        body = {
            "requests": [{"custom_id": name, "params": asks} for name, asks in requests.items()]
        }
        maybe_taken = False
        for attempt in range(line.attempts):
            reply = await line.exchange("POST", BATCHES, body, least_s=LEAST_S)
            failed = self._refused(reply)
            if failed is None:
                return _id(_batch(reply))
            maybe_taken = maybe_taken or _may_be_taken(reply)
            if not failed.again or attempt == line.attempts - 1:
                kind = ModelRefused if maybe_taken else _NeverTaken
                raise kind(failed.error.message, failed.error.hint)
            await line.wait(failed, attempt)
            # A failure may hide that the batch was taken; sent again, it would be paid twice.
            found = await self.find(sending) if maybe_taken else None
            if found is not None:
                return found
        raise AssertionError("there is at least one attempt")

    def _refused(self, reply: Reply) -> Failed | None:
        """Why the server did not take a batch, None where it did."""
        asked = self._line.origin()
        if reply.status == 404:
            error = ModelRefused(
                f"{asked.address} does not accept batches", "Try: another --schedule"
            )
            return Failed(error, again=False, billed=False)
        return declined(reply, asked)

    async def _ended(self, id: str) -> bool:
        """Wait until a batch has ended; False where the server has nothing of it (any more)."""
        wait_s = FIRST_WAIT_S
        while True:
            reply = await self._line.fetch("GET", f"{BATCHES}/{id}")
            if reply is None:
                return False
            batch = _batch(reply)
            if batch.get("processing_status") == "ended":
                return batch.get("archived_at") is None
            left = self._line.budget.seconds_left
            if left is not None and left <= 0:
                minutes = self._line.budget.limits.minutes
                raise ModelRefused(
                    f"time limit of {minutes:g} minutes reached; batch {id} is still in process",
                    FETCH_AGAIN,
                )
            await self._line.world.sleep(wait_s if left is None else min(wait_s, left))
            wait_s = min(wait_s * 2, LONGEST_WAIT_S)

    def _reserve(self, requests: Mapping[str, dict[str, Any]]) -> dict[str, Worst]:
        """Set all of them aside, or none."""
        reserved: dict[str, Worst] = {}
        try:
            for name, body in requests.items():
                full = max_cost(body, self._line.model)
                usd = None if full.usd is None else full.usd * BATCH_PRICE_SHARE
                reserved[name] = self._line.budget.reserve(Worst(tokens=full.tokens, usd=usd))
        except ModelRefused as error:
            for each in reserved.values():
                self._line.budget.release(each)
            raise ModelRefused(
                f"{len(requests)} requests as a batch: {error.message}", error.hint
            ) from error
        return reserved

    def _pay(self, id: str, results: Mapping[str, Result]) -> None:
        """What was set aside for a batch sent here becomes what it cost."""
        reserved_by_request = self._reserved.get(id, {})
        for request in reserved_by_request.keys() & results.keys():
            answer, reserved = results[request], reserved_by_request.pop(request)
            if not isinstance(answer, dict):
                self._line.budget.release(reserved)
                continue
            spent = cost(answer, self._line.model)
            usage = anthropic_usage(answer.get("usage"))
            self._line.budget.settle(
                reserved, usage, None if spent is None else spent.usd * BATCH_PRICE_SHARE
            )

    def _read(self, line: dict[str, Any]) -> tuple[str, Result]:
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


def _lines(reply: Reply) -> list[dict[str, Any]]:
    """The results that came whole."""
    found = []
    for raw in reply.body.splitlines():
        try:
            line = msgspec.json.decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue
        if (
            isinstance(line, dict)
            and isinstance(line.get("custom_id"), str)
            and isinstance(line.get("result"), dict)
        ):
            found.append(line)
    return found


def _may_be_taken(reply: Reply) -> bool:
    """May a request have been acted on, though its reply was no success?"""
    if reply.broken is not None:
        return reply.sent
    return reply.status >= 500 and reply.status != 529


def _batch(reply: Reply) -> dict[str, Any]:
    found = _object(reply)
    if found is None:
        raise ModelRefused("the server returned no batch")
    return found


def _id(batch: dict[str, Any]) -> str:
    given = batch.get("id")
    if not isinstance(given, str) or not given:
        raise ModelRefused("the server accepted a batch without giving an id")
    return given


def _size(batch: dict[str, Any]) -> int | None:
    counts = batch.get("request_counts")
    if not isinstance(counts, dict):
        return None
    return sum(count for count in counts.values() if type(count) is int)
