"""The API without a wire: what it refuses, what it answers, what that costs."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Collection

from msgspec import Struct

from replay.errors import ModelRefused
from tests.messages_api import answer, prefix, seal
from tests.messages_api.cache import PrefixCache, Reading
from tests.messages_api.content import Body, Policy
from tests.messages_api.models import Catalogue
from tests.messages_api.refusal import refusal
from tests.messages_api.schema import Counted, Create, Strict


class Refused(Struct, frozen=True):
    """A request that is not answered: the status, the API's word for the error, its sentence."""

    status: int
    kind: str
    why: str


class Made(Struct, frozen=True):
    """An answer that is not sent yet, and what it will leave in the cache."""

    message: Body
    reading: Reading
    batch: bool = False


class Answered(Struct, frozen=True):
    """A bill: every answer made is on it, whether or not it arrived."""

    model: str
    usage: Body
    batch: bool


def invalid(why: str) -> Refused:
    return Refused(400, "invalid_request_error", why)


def missing(what: str) -> Refused:
    return Refused(404, "not_found_error", what)


class Answering:
    """Answers request bodies by a policy. With `reckons`, usage is counted here, not said by it."""

    def __init__(
        self,
        policy: Policy,
        catalogue: Catalogue,
        cache: PrefixCache,
        *,
        reckons: bool,
        always_thinking: Collection[str],
    ) -> None:
        self._policy = policy
        self._catalogue = catalogue
        self._cache = cache
        self._reckons = reckons
        self._always_thinking = always_thinking
        self._lock = threading.Lock()
        self._answered: list[Answered] = []

    @property
    def answered(self) -> list[Answered]:
        """The bills so far, in the order of the answers."""
        with self._lock:
            return list(self._answered)

    def usage_total(self, *, batch: bool) -> Body:
        """The sums of the API's token figures, of single requests or of batches."""
        total: Counter[str] = Counter()
        for each in self.answered:
            if each.batch == batch:
                total.update({n: v for n, v in each.usage.items() if type(v) is int})
        return dict(total)

    def refusal(
        self, body: Body, betas: Collection[str], shape: type[Strict] = Create
    ) -> Refused | None:
        """Why a body is not answered, None where it would be."""
        wrong = refusal(body, shape, betas=betas, always_thinking=self._always_thinking)
        if wrong is not None:
            return invalid(wrong)
        if not self._catalogue.serves(body["model"]):
            return missing(f"model: {body['model']}")
        wrong = self._catalogue.limit_refusal(body, _input_tokens(body))
        return invalid(wrong) if wrong is not None else None

    def count(self, body: Body, betas: Collection[str]) -> int | Refused:
        """The input tokens of a request, as an answer to it would count them."""
        return self.refusal(body, betas, Counted) or _input_tokens(_shown(body)[0])

    def answer(self, body: Body, betas: Collection[str], *, batch: bool = False) -> Made | Refused:
        """The answer to a body, to be given to `send` when it goes out."""
        wrong = self.refusal(body, betas)
        if wrong is not None:
            return wrong
        shown, transformed = _shown(body)
        reading = self._cache.read(shown)
        try:
            said = self._said(shown)
        except ModelRefused as error:
            return invalid(str(error))
        if self._reckons:
            said = answer.cut(said, body["max_tokens"])
            said = {**said, "usage": answer.usage(said["content"], reading, batch=batch)}
        made = {**said, "content": seal.sealed(said["content"], body)}
        if seal.BINDING_BETA in betas:
            made["input_transformations"] = transformed
        return Made(made, reading, batch)

    def last_usage(self, made: Made, *, streamed: bool) -> Body:
        """The figures an answer ends with.

        A stream with figures of the policy's own ends on another count than it began with, so
        that a client which keeps the first one is found out.
        """
        usage: Body = made.message["usage"]
        if self._reckons or not streamed:
            return usage
        return {"output_tokens": usage["output_tokens"] + 2}

    def send(self, made: Made, *, streamed: bool = False) -> None:
        """The answer goes out: what it wrote can be read, and it is billed."""
        self._cache.write(made.reading)
        usage = {**made.message["usage"], **self.last_usage(made, streamed=streamed)}
        with self._lock:
            self._answered.append(Answered(made.message["model"], usage, made.batch))

    def _said(self, shown: Body) -> Body:
        if shown["max_tokens"] == 0:
            return {**answer.EMPTY, "model": shown["model"]}
        return self._policy(shown)


def _shown(body: Body) -> tuple[Body, list[Body]]:
    """What the model sees of a request that is taken, and what was left out of it."""
    gone = list(seal.broken(body))
    return seal.without(body, gone), [each.transformation for each in gone]


def _input_tokens(body: Body) -> int:
    return prefix.tokens(sum(block.characters for block in prefix.row(body)))
