"""Batches: many requests sent together, answered within a day at half the price.

The first part owns the exchange with a server alone: send, wait until a batch has ended, fetch, and
find one again whose id was lost. The second gets answers that way whatever happens between sending
and fetching: which requests a batch holds is remembered in the store, a request that a batch under
way holds is never sent again (that batch is waited for, by whichever run wants it), and a batch
whose id was lost is looked for at the server before anything is sent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from replay import digests
from replay.budget import Worst
from replay.convert import Sent
from replay.errors import ModelRefused, RequestRefused
from replay.formats.common import anthropic_usage, ns
from replay.models.line import LEAST_S, Line, cost, max_cost
from replay.models.protocol import (
    BATCH_PRICE_SHARE,
    Result,
    Sending,
    TakesBatches,
    Unanswered,
    flaw,
)
from replay.models.protocol import with_cache_marker as with_marker
from replay.models.wire import MESSAGES, Failed, Reply, declined, request_hint
from replay.store import answers as batches
from replay.store.answers import Batch, fetched, forget, intend, pending
from replay.store.handle import Store

PATH = f"{MESSAGES}/batches"
FIRST_WAIT_S, LONGEST_WAIT_S = 1.0, 60.0

FETCH_AGAIN = "the same command fetches it later"

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
        reply = await self._line.fetch("GET", f"{PATH}?limit=100")
        listed = _object(reply).get("data") if reply is not None else None
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
        reply = await self._line.fetch("GET", f"{PATH}/{id}/results")
        if reply is None:
            return None
        found = dict(self._read(line) for line in _lines(reply))
        if not found:
            raise ModelRefused(f"what came as the results of batch {id} holds none", FETCH_AGAIN)
        self._pay(id, found)
        return found

    async def _sent(self, requests: Mapping[str, dict[str, Any]], sending: Sending) -> str:
        line = self._line
        body = {
            "requests": [{"custom_id": name, "params": asks} for name, asks in requests.items()]
        }
        maybe_taken = False
        for attempt in range(line.attempts):
            reply = await line.exchange("POST", PATH, body, least_s=LEAST_S)
            failed = self._refused(reply)
            if failed is None:
                return _id(_object(reply))
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
            error = ModelRefused(f"{asked.address} does not take batches", "use another schedule")
            return Failed(error, again=False, billed=False)
        return declined(reply, asked)

    async def _ended(self, id: str) -> bool:
        """Wait until a batch has ended; False where the server has nothing of it (any more)."""
        wait_s = FIRST_WAIT_S
        while True:
            reply = await self._line.fetch("GET", f"{PATH}/{id}")
            if reply is None:
                return False
            batch = _object(reply)
            if batch.get("processing_status") == "ended":
                return batch.get("archived_at") is None
            left = self._line.budget.seconds_left
            if left is not None and left <= 0:
                minutes = self._line.budget.limits.minutes
                raise ModelRefused(
                    f"the {minutes:g} minutes allowed are over and batch {id} is still processed",
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
            return line["custom_id"], RequestRefused(where, request_hint(said))
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


def _object(reply: Reply) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(reply.body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        found = None
    if not isinstance(found, dict):
        raise ModelRefused("the server answers with something else than a batch")
    return found


def _id(batch: dict[str, Any]) -> str:
    given = batch.get("id")
    if not isinstance(given, str) or not given:
        raise ModelRefused("the server took a batch and gave it no id")
    return given


def _size(batch: dict[str, Any]) -> int | None:
    counts = batch.get("request_counts")
    if not isinstance(counts, dict):
        return None
    return sum(count for count in counts.values() if type(count) is int)


MOST_REQUESTS = 10_000
MOST_BYTES = 64 * 2**20
"""Of one batch: well below what the service takes, so that its results fit into memory."""

AGAIN = "run it again: only these are asked"

Body = dict[str, Any]


Asked = tuple[Sent, int]
"""A request, and which of its answers is meant."""


class Batched:
    """The batches of one model at one server.

    `keep` is given the key, the sample and the answer of all that comes, wanted or not, and gives
    the answer as kept.
    """

    def __init__(
        self,
        store: Store,
        server: str,
        name: str,
        model: TakesBatches,
        keep: Callable[[str, int, Body], Body],
    ) -> None:
        self._store = store
        self._server = server
        self._name = name
        self._model = model
        self._keep = keep

    def answers(
        self, asks: Mapping[str, Asked], *, marked: bool = False
    ) -> Iterator[tuple[str, Body | RequestRefused]]:
        """What each of `asks`, by key, comes to.

        Raises ModelRefused at the end where some were sent and not answered, or could not be sent.
        """
        under_way = [batch for batch in self._found(asks) if _keys(batch) & asks.keys()]
        held = {key for batch in under_way for key in _keys(batch)}
        rest = {key: ask for key, ask in asks.items() if key not in held}
        refusal: ModelRefused | None = None
        for chunk in _chunks(rest, marked=marked):
            try:
                under_way.append(self._send(chunk))
            except ModelRefused as error:
                refusal = error
                break
        lost: Counter[str] = Counter()
        for batch in under_way:
            for key, outcome in self._fetch(batch):
                if isinstance(outcome, Unanswered):
                    lost[outcome.why] += key in asks
                elif key in asks:
                    yield key, outcome
        if refusal is not None:
            raise refusal
        if lost.total():
            whys = ", ".join(f"{count} {why}" for why, count in sorted(lost.items()) if count)
            raise ModelRefused(
                f"{lost.total()} of {len(asks)} requests were not answered: {whys}", AGAIN
            )

    def _found(self, asks: Mapping[str, Asked]) -> Iterator[Batch]:
        """The batches under way; one that was sent, or not, is looked for where it is wanted."""
        for batch in pending(self._store, self._server, self._name):
            if not batch.is_intent:
                yield batch
            elif _keys(batch) & asks.keys():
                found = self._model.find_batch(self._sending(batch))
                if found is None:
                    forget(self._store, self._server, batch)
                else:
                    yield batches.sent(self._store, self._server, batch, found)

    def _send(self, chunk: dict[str, tuple[str, int, Body]]) -> Batch:
        asks = {name: (key, sample) for name, (key, sample, _) in chunk.items()}
        intent = intend(self._store, self._server, self._name, asks)
        bodies = {name: body for name, (_, _, body) in chunk.items()}
        given = self._model.send_batch(bodies, self._sending(intent))
        return batches.sent(self._store, self._server, intent, given)

    def _sending(self, batch: Batch) -> Sending:
        known = batches.known(self._store, self._server)
        return Sending(len(batch.asks), batch.sent_ns, known)

    def _fetch(self, batch: Batch) -> Iterator[tuple[str, Body | RequestRefused | Unanswered]]:
        """All that a batch came to, by key: kept first, then given."""
        results = self._model.batch_results(batch.id)
        if results is None or not results.keys() & batch.asks.keys():
            # Deleted, too old, or taken for ours and another's.
            forget(self._store, self._server, batch)
            yield from ((key, Unanswered("no longer known")) for key in _keys(batch))
            return
        outcomes: dict[str, Body | RequestRefused | Unanswered] = {}
        for name, (key, sample) in batch.asks.items():
            result = results.get(name, Unanswered("missing"))
            outcomes[key] = self._keep(key, sample, result) if isinstance(result, dict) else result
        if batch.asks.keys() <= results.keys():
            fetched(self._store, self._server, batch)
        yield from outcomes.items()


def _keys(batch: Batch) -> set[str]:
    return {key for key, _ in batch.asks.values()}


def _chunks(
    asks: Mapping[str, Asked], *, marked: bool
) -> Iterator[dict[str, tuple[str, int, Body]]]:
    """The requests by their ids, as many at a time as a batch may hold."""
    chunk: dict[str, tuple[str, int, Body]] = {}
    size = 0
    for key, (sent, sample) in asks.items():
        body = with_marker(sent.body()) if marked else sent.body()
        weight = len(digests.pack(body))
        if chunk and (len(chunk) == MOST_REQUESTS or size + weight > MOST_BYTES):
            yield chunk
            chunk, size = {}, 0
        chunk[request_id(key)] = (key, sample, body)
        size += weight
    if chunk:
        yield chunk


def request_id(key: str) -> str:
    """The id under which a batch holds the request of a key: its hex digits."""
    return key.partition(":")[2]
