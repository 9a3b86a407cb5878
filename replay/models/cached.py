"""Stored answers first: the model that stands in front of every other one.

An answer is looked up before anything else happens: before a budget, a key, or the import of an
SDK. So a replay that was run once runs again offline, costs nothing, and gives the same bytes.
A request without an answer is asked once, checked, kept, and read back; where another process asks
for it at this moment, its answer is waited for.

`Batched` gets answers by way of batches, whatever happens between sending one and fetching it. A
request that a batch under way holds is never sent again: that batch is waited for, by whichever
run wants it. A batch whose id was lost is looked for at the server before anything is sent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from contextvars import ContextVar
from types import TracebackType
from typing import Any, NamedTuple

from replay import digests
from replay.convert import Sent, body_key
from replay.errors import ModelRefused, OfflineMiss, RequestRefused
from replay.models import protocol
from replay.models.protocol import (
    BATCH_PRICE_SHARE,
    Concurrent,
    Connected,
    Model,
    Sending,
    TakesBatches,
    Target,
    Unanswered,
    flaw,
    url_variable,
)
from replay.providers import split_name, wire_of
from replay.store import answers
from replay.store.answers import Answer, Batch, fetched, forget, intend, pending
from replay.store.handle import Store
from replay.trace import Cost

MOST_REQUESTS = 10_000
MOST_BYTES = 64 * 2**20
"""Of one batch: well below what the service takes, so that its results fit into memory."""

AGAIN = "Try: run it again; only these requests are sent"

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
        mark = self._model.with_marker if marked else None
        for chunk in _chunks(rest, mark):
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
                f"{lost.total()} of {len(asks)} requests got no response: {whys}", AGAIN
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
                    yield answers.sent(self._store, self._server, batch, found)

    def _send(self, chunk: dict[str, tuple[str, int, Body]]) -> Batch:
        asks = {name: (key, sample) for name, (key, sample, _) in chunk.items()}
        intent = intend(self._store, self._server, self._name, asks)
        bodies = {name: body for name, (_, _, body) in chunk.items()}
        given = self._model.send_batch(bodies, self._sending(intent))
        return answers.sent(self._store, self._server, intent, given)

    def _sending(self, batch: Batch) -> Sending:
        known = answers.known(self._store, self._server)
        return Sending(len(batch.asks), batch.sent_ns, known, batch.mark)

    def _fetch(self, batch: Batch) -> Iterator[tuple[str, Body | RequestRefused | Unanswered]]:
        """All that a batch came to, by key: kept first, then given."""
        results = self._model.batch_results(batch.id, batch.asks)
        if results is None or not results.keys() & batch.asks.keys():
            # Deleted, too old, or taken for ours and another's.
            forget(self._store, self._server, batch)
            yield from ((key, Unanswered("no longer on the server")) for key in _keys(batch))
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
    asks: Mapping[str, Asked], mark: Callable[[Body], Body] | None
) -> Iterator[dict[str, tuple[str, int, Body]]]:
    """The requests by their ids, as many at a time as a batch may hold."""
    chunk: dict[str, tuple[str, int, Body]] = {}
    size = 0
    for key, (sent, sample) in asks.items():
        body = sent.body() if mark is None else mark(sent.body())
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


Price = Callable[[Body], Cost | None]
"""What an answer cost, None where that is not known."""

CLAIM_LOOK_S = 0.25
"""How often to look whether another process has its answer."""


class Ask(NamedTuple):
    """A request, and which of its answers is meant."""

    sent: Sent
    sample: int


class Answered(NamedTuple):
    """An answer and the key it is stored under."""

    key: str
    body: Body


Outcome = Answered | RequestRefused | OfflineMiss
"""What one of several requests comes to: an answer, or why there is none."""

_lacking: ContextVar[dict[str, Target] | None] = ContextVar("_lacking", default=None)


@contextmanager
def lacking() -> Iterator[dict[str, Target]]:
    """The models of a server of which an answer is looked for in the block and not stored, by
    their names: who would be asked, were it allowed. Those of this machine are never among them.
    """
    targets: dict[str, Target] = {}
    before = _lacking.set(targets)
    try:
        yield targets
    finally:
        _lacking.reset(before)


class Cached:
    """A model whose answers are kept. `inner` None never asks: what is not stored is a miss.

    `server` is what they are kept under, "" for the official API and for models of this machine;
    `target` is where it would be asked, None where it never is (a model of this machine, a bundle).
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
        server: str = "",
        target: Target | None = None,
    ) -> None:
        self.name = name
        self.server = server
        self.target = target
        self.hits = 0
        self.asks = 0
        self.usd = 0.0
        self.usd_complete = True
        self._store = store
        self._inner = inner
        self._source = source
        self._price = price

    def complete(self, body: Body, sample: int) -> Body:
        """As `Model.complete`: the stored answer, else the one asked for."""
        return self._answer(body_key(body, sample, wire_of(self.name)), sample, lambda: body)

    def answer(self, sent: Sent, sample: int) -> Answered:
        """The same for a converted request, whose key costs only what is new in it.

        Raises OfflineMiss where there is no answer and none may be asked for, ModelRefused where
        the model declines.
        """
        key = sent.key(sample)
        return Answered(key, self._answer(key, sample, sent.body))

    def answers(
        self, asks: Sequence[Ask], *, marked: bool = False, batch: bool = False
    ) -> Generator[tuple[int, Outcome]]:
        """What each of `asks` comes to, by its place, as it comes: stored answers first.

        Equal requests are asked once. Where the model can, several are asked at once, or as a
        `batch`; `marked` puts a marker for the provider's prefix cache on each. Closing cancels
        what is in flight.

        Raises ModelRefused where the model declines altogether, and Stopped after `stop`; what was
        answered by then is kept.
        """
        places: dict[str, list[int]] = {}
        for place, (sent, sample) in enumerate(asks):
            places.setdefault(sent.key(sample), []).append(place)
        found = answers.get_all(self._store, places, self.server)
        self.hits += len(found)
        for key, answer in found.items():
            yield from ((place, Answered(key, answer.body)) for place in places[key])
        missing = {key: asks[at[0]] for key, at in places.items() if key not in found}
        if not missing:
            return
        for key, given in self._ask_missing(missing, marked=marked, batch=batch):
            outcome = Answered(key, given) if isinstance(given, dict) else given
            yield from ((place, outcome) for place in places[key])

    def stored(self, sent: Sent, sample: int) -> bool:
        """Is this request answered already? One that is not is said to be lacking."""
        found = self.holds(sent, sample)
        if not found:
            self._lack()
        return found

    def holds(self, sent: Sent, sample: int) -> bool:
        """Is this request answered already?"""
        return answers.get(self._store, sent.key(sample), self.server) is not None

    def stop(self) -> None:
        """Cancel what is in flight; whoever waits for it gets Stopped. From any thread."""
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

    # --- one

    def _answer(self, key: str, sample: int, body: Callable[[], Body]) -> Body:
        kept = answers.get(self._store, key, self.server)
        if kept is not None:
            self.hits += 1
            return kept.body
        if self._inner is None:
            raise self._miss(key)
        return self._taken(key, sample, self._inner.complete(body(), sample))

    def _lack(self) -> None:
        targets = _lacking.get()
        asks_nobody = self._inner is None and self._store.path is not None
        if targets is not None and asks_nobody and self.target is not None:
            targets[self.name] = self.target

    def _miss(self, key: str) -> OfflineMiss:
        self._lack()
        hint = "Try: --live --budget 0.50, or another --model"
        for other in answers.others(self._store, key):
            shown, variable = self._server_shown(other)
            change = f"Try: set {variable} to it" if other else f"Try: unset {variable}"
            hint = f"a cached response of {shown} exists. {change}"
        return OfflineMiss(f"no cached response of {self.name} to this request", hint)

    def _server_shown(self, server: str) -> tuple[str, str]:
        """A server of this model's provider, and the variable that names one."""
        provider, _ = split_name(self.name)
        if provider is None:
            return protocol.address(server), protocol.SERVER_VARIABLE
        shown = protocol.address(server) if "://" in server else provider.title
        return shown, url_variable(provider)

    # --- several

    def _ask_missing(
        self, missing: Mapping[str, Ask], *, marked: bool, batch: bool
    ) -> Iterator[tuple[str, Body | RequestRefused | OfflineMiss]]:
        """What those without a stored answer come to, by key."""
        if self._inner is None:
            return ((key, self._miss(key)) for key in missing)
        if batch and not isinstance(self._inner, TakesBatches):
            raise ModelRefused(f"{self.name} does not accept batches", self._no_batches())
        if isinstance(self._inner, Concurrent):
            return self._claimed(self._inner, missing, marked=marked, batch=batch)
        return self._one_by_one(missing)

    def _no_batches(self) -> str:
        """What to do where the model's server takes no batches, as far as is known."""
        other = "Try: another --schedule"
        if self.target is None or not self.target.provider.batches:
            return other
        return f"{other}; or `batches = true` in a section [models.NAME], if its server takes them"

    def _claimed(
        self, inner: Concurrent, missing: Mapping[str, Ask], *, marked: bool, batch: bool
    ) -> Iterator[tuple[str, Body | RequestRefused]]:
        """What another process is asking for already is waited for, not paid twice; it is asked for
        here where that one ends without an answer."""
        waiting = dict(missing)
        while waiting:
            with answers.claimed(self._store, self.server, waiting) as mine:
                ours = {key: waiting.pop(key) for key in tuple(waiting) if key in mine}
                if ours and batch and isinstance(inner, TakesBatches):
                    yield from self._batched(inner, ours, marked=marked)
                elif ours:
                    yield from self._at_once(inner, ours, marked=marked)
            for key, answer in answers.get_all(self._store, waiting, self.server).items():
                del waiting[key]
                self.hits += 1
                yield key, answer.body
            if waiting:
                inner.pause(CLAIM_LOOK_S)

    def _one_by_one(
        self, missing: Mapping[str, Ask]
    ) -> Iterator[tuple[str, Body | RequestRefused]]:
        for key, (sent, sample) in missing.items():
            try:
                yield key, self._answer(key, sample, sent.body)
            except RequestRefused as refused:
                yield key, refused

    def _at_once(
        self, inner: Concurrent, missing: Mapping[str, Ask], *, marked: bool
    ) -> Iterator[tuple[str, Body | RequestRefused]]:
        keys = list(missing)

        def keep(place: int, given: Body) -> Body:
            return self._taken(keys[place], missing[keys[place]].sample, given)

        bodies: Iterable[Body] = (sent.body() for sent, _ in missing.values())
        with closing(inner.complete_all(bodies, keep=keep, marked=marked)) as arrivals:
            for place, given in arrivals:
                yield keys[place], given

    def _batched(
        self, inner: TakesBatches, missing: Mapping[str, Ask], *, marked: bool
    ) -> Iterator[tuple[str, Body | RequestRefused]]:
        batched = Batched(self._store, self.server, self.name, inner, self._taken_from_batch)
        return batched.answers(missing, marked=marked)

    # --- keeping

    def _taken(self, key: str, sample: int, given: Body) -> Body:
        """An answer that was asked for: checked, kept, and as it is kept."""
        wrong = flaw(given)
        if wrong is not None:
            raise ModelRefused(f"{self.name} returned an invalid message: {wrong}")
        return self._keep(key, sample, given, self._source, 1.0).body

    def _taken_from_batch(self, key: str, sample: int, given: Body) -> Body:
        return self._keep(key, sample, given, "batch", BATCH_PRICE_SHARE).body

    def _keep(self, key: str, sample: int, given: Body, source: str, share: float) -> Answer:
        cost = self._price(given) if self._price is not None else None
        usd = cost.usd * share if cost is not None else None
        self.asks += 1
        self.usd += usd or 0.0
        self.usd_complete = self.usd_complete and (usd is not None or self._price is None)
        return answers.put(
            self._store,
            key,
            model=self.name,
            sample=sample,
            body=given,
            source=source,
            cost_usd=usd,
            prices=cost.prices if cost is not None else None,
            server=self.server,
        )
