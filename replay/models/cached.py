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
from collections.abc import (
    Callable,
    Collection,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import closing, contextmanager
from contextvars import ContextVar
from itertools import islice
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
MOST_BYTES = 16 * 2**20
"""Of one batch: well below what the service takes, so that it takes a tenth of a gigabyte here, and
its results fit into memory."""

AGAIN = "Try: run it again; only these requests are sent"

TOGETHER = 200
"""Requests whose stored answers are looked for together."""

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
        self, asks: Iterable[tuple[str, Asked]], *, marked: bool = False
    ) -> Iterator[tuple[str, Body | RequestRefused]]:
        """What each of `asks`, by key, comes to. They are sent as they come, and then only their
        keys stay in memory.

        Raises ModelRefused at the end where some were sent and not answered, or could not be sent.
        """
        wanted: set[str] = set()
        under_way: dict[str, Batch] = {}
        refusal = self._send_all(asks, wanted, under_way, marked=marked)
        lost: Counter[str] = Counter()
        for batch in under_way.values():
            for key, outcome in self._fetch(batch):
                if isinstance(outcome, Unanswered):
                    lost[outcome.why] += key in wanted
                elif key in wanted:
                    yield key, outcome
        if refusal is not None:
            raise refusal
        if lost.total():
            whys = ", ".join(f"{count} {why}" for why, count in sorted(lost.items()) if count)
            raise ModelRefused(
                f"{lost.total()} of {len(wanted)} requests got no response: {whys}", AGAIN
            )

    def _send_all(
        self,
        asks: Iterable[tuple[str, Asked]],
        wanted: set[str],
        under_way: dict[str, Batch],
        *,
        marked: bool,
    ) -> ModelRefused | None:
        """Send what no batch holds yet; why that ended early, if it did. Fills the keys of all that
        was asked, and the batches that hold them, by id."""
        holding = {
            key: batch
            for batch in pending(self._store, self._server, self._name)
            for key in _keys(batch)
        }

        def unsent() -> Iterator[tuple[str, Asked]]:
            for key, ask in asks:
                wanted.add(key)
                batch = holding.get(key)
                if batch is not None and batch.is_intent:
                    batch = self._look_for(batch, holding)
                if batch is None:
                    yield key, ask
                else:
                    under_way[batch.id] = batch

        rest = unsent()
        mark = self._model.with_marker if marked else None
        for chunk in _chunks(rest, mark):
            try:
                batch = self._send(chunk)
            except ModelRefused as error:
                for _ in rest:
                    pass  # of what is left, batches under way may hold some
                return error
            under_way[batch.id] = batch
        return None

    def _look_for(self, intent: Batch, holding: dict[str, Batch]) -> Batch | None:
        """A batch that was sent, or not, at the server; `holding` knows it from then on."""
        found = self._model.find_batch(self._sending(intent))
        if found is None:
            forget(self._store, self._server, intent)
            for key in _keys(intent):
                del holding[key]
            return None
        batch = answers.sent(self._store, self._server, intent, found)
        holding.update(dict.fromkeys(_keys(batch), batch))
        return batch

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
    asks: Iterable[tuple[str, Asked]], mark: Callable[[Body], Body] | None
) -> Iterator[dict[str, tuple[str, int, Body]]]:
    """The requests by their ids, as many at a time as a batch may hold."""
    chunk: dict[str, tuple[str, int, Body]] = {}
    size = 0
    for key, (sent, sample) in asks:
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
        self._ahead: dict[str, RequestRefused | OfflineMiss | None] = {}

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
        self.hits += len(found.keys() - self._ahead.keys())
        for key, answer in found.items():
            yield from ((place, Answered(key, answer.body)) for place in places[key])
        missing = {}
        for key, at in places.items():
            declined = self._ahead.get(key)
            if declined is not None and key not in found:
                yield from ((place, declined) for place in at)
            elif key not in found:
                missing[key] = asks[at[0]]
        if not missing:
            return
        for key, given in self._ask_missing(missing, marked=marked, batch=batch):
            outcome = Answered(key, given) if isinstance(given, dict) else given
            yield from ((place, outcome) for place in places[key])

    def ask_ahead(self, asks: Iterable[Ask]) -> ModelRefused | None:
        """Have all that is not stored answered by batches; `answers` gives what came of it then,
        and asks for none of it again. `asks` are sent as they come: of each only its key stays in
        memory, so they may be more than fit there. Returns why some were not sent, or not answered.

        Raises ModelRefused where the model takes no batches, and Stopped after `stop`.
        """
        if self._inner is None:
            return None
        inner = self._taking_batches(self._inner)
        elsewhere: list[Ask] = []
        refusal: ModelRefused | None = None
        with answers.claiming(self._store, self.server) as claim:
            ours = self._without_answer(asks, claim, elsewhere)
            try:
                for key, given in self._batched(inner).answers(ours):
                    self._ahead[key] = None if isinstance(given, dict) else given
            except ModelRefused as error:
                refusal = error
                lost = OfflineMiss(error.message, error.hint)
                missed = [k for k, got in self._ahead.items() if isinstance(got, OfflineMiss)]
                self._ahead.update(dict.fromkeys(missed, lost))
        for _ in self.answers(elsewhere, batch=True):
            pass  # others are asking for these, and are waited for
        return refusal

    def _without_answer(
        self,
        asks: Iterable[Ask],
        claim: Callable[[Collection[str]], frozenset[str]],
        elsewhere: list[Ask],
    ) -> Iterator[tuple[str, Ask]]:
        """What is not stored, once each; `elsewhere` gets what others are asking for."""
        coming = iter(asks)
        while group := {ask.sent.key(ask.sample): ask for ask in islice(coming, TOGETHER)}:
            for key in answers.stored_keys(self._store, group, self.server):
                del group[key]
            mine = claim([key for key in group if key not in self._ahead])
            for key, ask in group.items():
                if key in mine:
                    self._ahead[key] = OfflineMiss("not answered")
                    yield key, ask
                elif key not in self._ahead:
                    elsewhere.append(ask)

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
        if batch:
            self._taking_batches(self._inner)
        if isinstance(self._inner, Concurrent):
            return self._claimed(self._inner, missing, marked=marked, batch=batch)
        return self._one_by_one(missing)

    def _taking_batches(self, inner: Model) -> TakesBatches:
        if not isinstance(inner, TakesBatches):
            raise ModelRefused(f"{self.name} does not accept batches", self._no_batches())
        return inner

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
                    yield from self._batched(inner).answers(ours.items(), marked=marked)
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

    def _batched(self, inner: TakesBatches) -> Batched:
        return Batched(self._store, self.server, self.name, inner, self._taken_from_batch)

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
