"""Batches: many requests sent together, answered within a day at half the price.

Here is the exchange alone: send, wait until it has ended, fetch, and find one again whose id was
lost. Which requests a batch holds is remembered in the store (`cached`). What the APIs do alike is
in `Batches`; each says how a batch is created, looked at and read.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping

import msgspec

from replay.budget import Worst
from replay.errors import ModelRefused, Stopped
from replay.formats.common import anthropic_usage
from replay.models.line import LEAST_S, Body, Line, cost, max_cost
from replay.models.live import Live
from replay.models.protocol import BATCH_PRICE_SHARE, Result, Sending
from replay.models.wire import Failed, Reply, declined

FIRST_WAIT_S, LONGEST_WAIT_S = 1.0, 60.0

FETCH_AGAIN = "Try: the same command later, to fetch it"

SKEW_NS = 10 * 60 * 10**9
"""How far the clocks of a server and this machine may differ."""


class Batching(Live):
    """A live model whose server takes batches, which `_batches` knows how to send."""

    _batches: Batches

    def send_batch(self, requests: Mapping[str, Body], sending: Sending) -> str:
        """Send requests by their ids as one batch; the batch's own id.

        Raises ModelRefused where the server takes none, and where all of them at their worst could
        exceed the budget.
        """
        return self._loop.run(self._batches.send(requests, sending))

    def find_batch(self, sending: Sending) -> str | None:
        """The id of a batch that was sent, though its id never came; None where there is none."""
        return self._loop.run(self._batches.find(sending))

    def batch_results(self, id: str, asked: Collection[str]) -> dict[str, Result] | None:
        """What a batch came to, by the ids of its requests, of which `asked` are known; waits until
        it has ended.

        None where the server has no such batch, or its results no longer.
        """
        try:
            return self._loop.run(self._batches.results(id, asked))
        except Stopped as error:
            raise Stopped(
                error.message,
                f"batch {id} continues on the server. Try: the same command later, to fetch it",
            ) from error


class NeverTaken(ModelRefused):
    """The server has nothing of a batch, so nothing of it is to be paid."""


class Batches(ABC):
    """The batches of a server. Each of their requests is one call of the budget, at half price.

    What an earlier run sent was set aside from that run's budget, and is fetched without another.
    `path` is where batches are created and listed.
    """

    path: str

    def __init__(self, line: Line) -> None:
        self._line = line
        self._reserved: dict[str, dict[str, Worst]] = {}

    async def send(self, requests: Mapping[str, Body], sending: Sending) -> str:
        """The id of the batch, which the server has taken. As `Batching.send_batch`."""
        reserved = self._reserve(requests)
        try:
            given = await self._create(requests, sending)
        except NeverTaken as error:
            for each in reserved.values():
                self._line.budget.release(each)
            raise ModelRefused(error.message, error.hint) from error
        self._reserved[given] = reserved
        return given

    async def find(self, sending: Sending) -> str | None:
        """The id of a batch that was sent, though its id never came. As `Batching.find_batch`."""
        reply = await self._line.fetch("GET", f"{self.path}?limit=100")
        listed = _batch(reply).get("data") if reply is not None else None
        found = [
            (created_ns, each["id"])
            for each in (listed if isinstance(listed, list) else [])
            if isinstance(each, dict) and isinstance(each.get("id"), str)
            if each["id"] not in sending.known and self.is_meant(each, sending)
            if (created_ns := self.created_ns(each)) >= sending.since_ns - SKEW_NS
        ]
        return min(found)[1] if found else None

    async def results(self, id: str, asked: Collection[str]) -> dict[str, Result] | None:
        """What a batch came to, once it has ended. As `Batching.batch_results`."""
        ended = await self._wait(id)
        if ended is None:
            return None
        found = await self.read(ended, asked)
        if found == {}:
            raise ModelRefused(f"the results of batch {id} are empty", FETCH_AGAIN)
        if found is not None:
            self._pay(id, found)
        return found

    # --- what differs

    @abstractmethod
    async def creation(self, requests: Mapping[str, Body], sending: Sending) -> Body:
        """The body that creates a batch. Raises NeverTaken where the server declines before."""

    @abstractmethod
    def is_meant(self, batch: Body, sending: Sending) -> bool:
        """May that listed batch be the one?"""

    @abstractmethod
    def created_ns(self, batch: Body) -> int:
        """When a batch was created, since the epoch; 0 where it does not say."""

    @abstractmethod
    def has_ended(self, batch: Body) -> bool: ...

    @abstractmethod
    async def read(self, batch: Body, asked: Collection[str]) -> dict[str, Result] | None:
        """What an ended batch came to; None where the server has its results no longer, {} where
        they did not come whole."""

    # --- what is alike

    async def _create(self, requests: Mapping[str, Body], sending: Sending) -> str:
        line = self._line
        body = await self.creation(requests, sending)
        maybe_taken = False
        for attempt in range(line.attempts):
            reply = await line.exchange("POST", self.path, body, least_s=LEAST_S)
            failed = self._decline(reply)
            if failed is None:
                return _id(_batch(reply))
            maybe_taken = maybe_taken or _may_be_taken(reply)
            if not failed.again or attempt == line.attempts - 1:
                kind = ModelRefused if maybe_taken else NeverTaken
                raise kind(failed.error.message, failed.error.hint)
            await line.wait(failed, attempt)
            # A failure may hide that the batch was taken; sent again, it would be paid twice.
            found = await self.find(sending) if maybe_taken else None
            if found is not None:
                return found
        raise AssertionError("there is at least one attempt")

    def _decline(self, reply: Reply) -> Failed | None:
        """Why the server did not take a batch, None where it did."""
        if reply.status == 404:
            return Failed(self.none_taken(), again=False, billed=False)
        return declined(reply, self._line.origin())

    def none_taken(self) -> ModelRefused:
        """The refusal of a server that knows no batches."""
        address = self._line.origin().address
        return ModelRefused(f"{address} does not accept batches", "Try: another --schedule")

    async def _wait(self, id: str) -> Body | None:
        """The batch, once it has ended; None where the server has nothing of it (any more)."""
        wait_s = FIRST_WAIT_S
        while True:
            reply = await self._line.fetch("GET", f"{self.path}/{id}")
            if reply is None:
                return None
            batch = _batch(reply)
            if self.has_ended(batch):
                return batch
            left = self._line.budget.seconds_left
            if left is not None and left <= 0:
                minutes = self._line.budget.limits.minutes
                raise ModelRefused(
                    f"time limit of {minutes:g} minutes reached; batch {id} is still in process",
                    FETCH_AGAIN,
                )
            await self._line.world.sleep(wait_s if left is None else min(wait_s, left))
            wait_s = min(wait_s * 2, LONGEST_WAIT_S)

    def _reserve(self, requests: Mapping[str, Body]) -> dict[str, Worst]:
        """Set all of them aside, or none."""
        reserved: dict[str, Worst] = {}
        try:
            for name, body in requests.items():
                full = max_cost(body, self._line.model, self._line.rates)
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
            spent = cost(answer, self._line.model, self._line.rates)
            usage = anthropic_usage(answer.get("usage"))
            self._line.budget.settle(
                reserved, usage, None if spent is None else spent.usd * BATCH_PRICE_SHARE
            )


def objects_of(raw: bytes) -> list[Body]:
    """The lines of a file of results that came whole."""
    found = []
    for line in raw.splitlines():
        try:
            value = msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError):
            continue
        if isinstance(value, dict) and isinstance(value.get("custom_id"), str):
            found.append(value)
    return found


def json_object(reply: Reply | None) -> Body | None:
    """The JSON object of a reply, None where it holds none."""
    try:
        found = msgspec.json.decode(reply.body) if reply is not None else None
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return found if isinstance(found, dict) else None


def _may_be_taken(reply: Reply) -> bool:
    """May a request have been acted on, though its reply was no success?"""
    if reply.broken is not None:
        return reply.sent
    return reply.status >= 500 and reply.status != 529


def _batch(reply: Reply) -> Body:
    found = json_object(reply)
    if found is None:
        raise ModelRefused("the server returned no batch")
    return found


def _id(batch: Body) -> str:
    given = batch.get("id")
    if not isinstance(given, str) or not given:
        raise ModelRefused("the server accepted a batch without giving an id")
    return given
