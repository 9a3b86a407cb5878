"""The server as a test holds it: what it was asked, how it is scripted, which path leads where."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator

from tests.messages_api import faults, stream
from tests.messages_api.answering import Answered, Answering, Refused, invalid, missing
from tests.messages_api.batches import Batches, Fate
from tests.messages_api.cache import FLOOR_TOKENS, PrefixCache
from tests.messages_api.content import Body, Policy, message, text
from tests.messages_api.faults import BATCHES, MESSAGES, STREAM_CUTS, Fault
from tests.messages_api.handler import Received, Reply
from tests.messages_api.loopback import Loopback
from tests.messages_api.models import Catalogue, KnownModel
from tests.messages_api.refusal import ALWAYS_THINKING

VERSION = "2026-10-21"

_BATCH = re.compile(rf"{BATCHES}/([^/]+?)(/cancel|/results)?")
_MODEL = re.compile(r"/v1/models/([^/]+)")


class MessagesApi(Loopback):
    """The server of the Messages API.

    `policy` answers. With `reckons`, usage is counted from the request and the prompt cache, and
    answers end at `max_tokens`; else it is what the policy says. `models` are those it knows, None
    for any. `batch_polls`, `batch_expires` and `batch_fails` are the fate of the batches created
    from now on (see `Fate`). `clock` gives seconds since the epoch.
    """

    answers = MESSAGES

    def __init__(
        self,
        policy: Policy | None = None,
        *,
        reckons: bool = False,
        models: Iterable[KnownModel] | None = None,
        always_thinking: Collection[str] = ALWAYS_THINKING,
        batch_polls: int = 1,
        clock: Callable[[], float] = time.time,
        cache_floor_tokens: int = FLOOR_TOKENS,
    ) -> None:
        super().__init__()
        self.policy: Policy = policy or (lambda _: message(text("Done.")))
        self.batch_polls = batch_polls
        self.batch_expires: Collection[str | int] = ()
        self.batch_fails: Collection[str | int] = ()
        self._clock = clock
        self._catalogue = Catalogue(models)
        self._answering = Answering(
            lambda body: self.policy(body),
            self._catalogue,
            PrefixCache(clock, cache_floor_tokens),
            reckons=reckons,
            always_thinking=always_thinking,
        )
        self._batches = Batches(self._answering, clock, lambda: self.base_url)

    @property
    def answered(self) -> list[Answered]:
        """What was billed: every answer made, also those that a fault broke on their way."""
        return self._answering.answered

    def usage_total(self, *, batch: bool = False) -> Body:
        """The sums of the billed token figures: of single requests, or of batches."""
        return self._answering.usage_total(batch=batch)

    def _reply(self, received: Received, fault: Fault | None) -> Reply:
        if fault is not None and not fault.cut:
            return Reply(status=fault.status, headers=fault.headers, body=fault.sent)
        cut = fault.cut if fault is not None else ""
        if cut in STREAM_CUTS and not received.body.get("stream"):
            said = f"the scripted fault needs a stream: {cut}"
            return Reply(status=500, body=faults.error("api_error", said))
        found = _gate(received) or self._routed(received, cut)
        if isinstance(found, Refused):
            return Reply(status=found.status, body=faults.error(found.kind, found.why))
        return found

    def _routed(self, received: Received, cut: str) -> Reply | Refused:
        batch, model = _BATCH.fullmatch(received.path), _MODEL.fullmatch(received.path)
        match received.method, received.path:
            case "POST", "/v1/messages":
                return self._message(received, cut)
            case "POST", "/v1/messages/count_tokens":
                counted = self._answering.count(received.body, _betas(received))
                return _json({"input_tokens": counted} if isinstance(counted, int) else counted)
            case "POST" | "GET", "/v1/messages/batches":
                return _json(self._all_batches(received), cut)
            case method, _ if batch is not None:
                return self._batch(method, batch[1], batch[2] or "", cut)
            case "GET", "/v1/models":
                return _json(self._catalogue.page(), cut)
            case "GET", _ if model is not None:
                known = self._catalogue.find(model[1])
                return _json(known.info if known else missing(f"model: {model[1]}"), cut)
            case _:
                return missing(f"no such path: {received.path}")

    def _message(self, received: Received, cut: str) -> Reply | Refused:
        made = self._answering.answer(received.body, _betas(received))
        if isinstance(made, Refused):
            return made
        self.flights.hold()
        streamed = bool(received.body.get("stream"))
        self._answering.send(made, streamed=streamed)
        if not streamed:
            return _json(made.message, cut)
        last = self._answering.last_usage(made, streamed=True)
        return Reply(pieces=self._pieces(stream.events(made.message, last), cut), cut=cut)

    def _pieces(self, events: Iterator[Body], cut: str) -> list[bytes]:
        """The events of a stream as they are sent."""
        return list(stream.pieces(cut, events))

    def _all_batches(self, received: Received) -> Body | Refused:
        if received.method == "POST":
            fate = Fate(self.batch_polls, self.batch_expires, self.batch_fails)
            return self._batches.create(received.body, _betas(received), fate)
        limit = received.query.get("limit", "20")
        if not limit.isdecimal() or not 1 <= int(limit) <= 1000:
            return invalid("limit: must be between 1 and 1000")
        return self._batches.page(received.query.get("after_id"), int(limit))

    def _batch(self, method: str, id: str, action: str, cut: str) -> Reply | Refused:
        match method, action:
            case "GET", "":
                return _json(self._batches.retrieve(id), cut)
            case "GET", "/results":
                lines = self._batches.results(id)
                return lines if isinstance(lines, Refused) else Reply(body=lines, cut=cut)
            case "POST", "/cancel":
                return _json(self._batches.cancel(id), cut)
            case _:
                return missing(f"no such path: {BATCHES}/{id}{action}")


def _gate(received: Received) -> Refused | None:
    """Why nobody looks at a request at all."""
    if not received.headers.get("authorization") and not received.headers.get("x-api-key"):
        return Refused(401, "authentication_error", "no key")
    if received.headers.get("anthropic-version") != VERSION:
        return invalid("anthropic-version: not supported")
    if not received.readable:
        return invalid("the request body is not a JSON object")
    return None


def _betas(received: Received) -> frozenset[str]:
    named = received.headers.get("anthropic-beta", "").split(",")
    return frozenset(each.strip() for each in named if each.strip())


def _json(found: Body | Refused, cut: str = "") -> Reply | Refused:
    return found if isinstance(found, Refused) else Reply(body=json.dumps(found), cut=cut)
