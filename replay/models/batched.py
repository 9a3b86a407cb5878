"""Answers by way of batches, whatever happens between sending one and fetching it.

A request that a batch under way holds is never sent again: that batch is waited for, by whichever
run wants it. A batch whose id was lost is looked for at the server before anything is sent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from replay import digests
from replay.convert import Sent
from replay.errors import ModelRefused, RequestRefused
from replay.models.protocol import Sending, TakesBatches, Unanswered
from replay.models.protocol import with_cache_marker as with_marker
from replay.store import answers as batches
from replay.store.answers import Batch, fetched, forget, intend, pending
from replay.store.handle import Store

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
