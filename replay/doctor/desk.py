"""Where a check-up asks: one model at one server, under one budget, every answer kept.

A check-up must meet the server itself, so no request of it is ever answered from the store: each
has a sample number of its own, counted on from the moment the check-up began.
"""

from __future__ import annotations

from itertools import count
from types import TracebackType
from typing import Any, Literal

import msgspec

from replay.budget import Budget, Worst
from replay.doctor.requests import Body
from replay.errors import ModelRefused
from replay.models import BATCH_PRICE_SHARE, server
from replay.models.batches import PATH
from replay.models.cached import Cached
from replay.models.claude import Claude
from replay.models.line import ATTEMPTS, Line, World
from replay.models.loop import Loop
from replay.models.received import declined
from replay.models.worst import worst
from replay.store import Store
from replay.store.handle import now_ns

TIMEOUT_S = 120.0


class Unaffordable(ModelRefused):
    """A request that could exceed the budget. A smaller one may still be made."""


class Desk:
    """Use as a context manager, or `close` it.

    `began_ns` counts from the epoch. `answered_by` is who gave the first answer, None before it.
    """

    def __init__(
        self, store: Store, model: str, budget: Budget, *, base_url: str | None = None
    ) -> None:
        url = server.base_url(base_url)
        self.model = model
        self.server = server.name(url)
        self.budget = budget
        self.began_ns = now_ns()
        self.answered_by: str | None = None
        self._samples = count(self.began_ns // 1_000)
        self._claude = Claude(model, budget=budget, base_url=url, timeout_s=TIMEOUT_S)
        self._heard = _Heard(self._claude)
        self._cached = Cached(
            store, model, self._heard, source="claude", price=self._claude.cost, server=self.server
        )
        self._loop = Loop()
        self._line = Line(
            model, url, budget=budget, timeout_s=TIMEOUT_S, attempts=ATTEMPTS, world=World()
        )

    def ask(self, body: Body) -> Body:
        """The message that answers, as it came over the wire.

        Raises RequestRefused where the server declines the request, Unaffordable where it could
        exceed the budget, ModelRefused where nothing can be asked.
        """
        self._afford(worst(body, self.model))
        self._cached.complete(body, next(self._samples))
        answer = self._heard.last
        self.answered_by = self.answered_by or str(answer.get("model") or "") or None
        return answer

    def about(self) -> dict[str, Any] | None:
        """What the server says of the model, None where it says nothing.

        Trouble is left for the first question to show: not every server has a word on its models.
        """
        try:
            return self._claude.about()
        except ModelRefused:
            return None

    def count_tokens(self, body: Body) -> int | None:
        """The input tokens of a request as the server counts them, None where it does not."""
        return self._claude.count_tokens(body)

    def send_batch(self, requests: dict[str, Body]) -> Body | None:
        """The batch as the server shows it, None where it takes none at all.

        Sent once: what might be taken twice is not tried again. Raises as `ask`.
        """
        each = [worst(body, self.model) for body in requests.values()]
        usd = [call.usd for call in each if call.usd is not None]
        whole = Worst(
            tokens=sum(call.tokens for call in each),
            usd=sum(usd) * BATCH_PRICE_SHARE if len(usd) == len(each) else None,
        )
        self._afford(whole)
        reserved = self.budget.reserve(whole)
        items = [{"custom_id": name, "params": body} for name, body in requests.items()]
        reply = self._loop.run(self._line.exchange("POST", PATH, {"requests": items}))
        failed = declined(reply, self._line.asked())
        if failed is None:
            self.budget.settle(reserved, None, None)  # what it will cost is not waited for
            return _object(reply.body)
        self.budget.release(reserved)
        if reply.status == 404:
            return None
        raise failed.error

    def batch(self, method: Literal["GET", "POST"], path: str) -> Body | None:
        """What a path under the batches says, None where nothing is there."""
        reply = self._loop.run(self._line.fetch(method, f"{PATH}/{path}"))
        return None if reply is None else _object(reply.body)

    def close(self) -> None:
        self._cached.close()
        self._claude.close()
        self._loop.close(self._line.close)

    def __enter__(self) -> Desk:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()

    def _afford(self, call: Worst) -> None:
        try:
            self.budget.fits(call)
        except ModelRefused as error:
            raise Unaffordable(error.message, error.hint) from error


class _Heard:
    """Claude, whose last answer can be had as it came: what is kept of it may be masked."""

    def __init__(self, claude: Claude) -> None:
        self.name = claude.name
        self.last: Body = {}
        self._claude = claude

    def complete(self, body: Body, sample: int) -> Body:
        self.last = self._claude.complete(body, sample)
        return self.last


def _object(raw: bytes) -> Body:
    try:
        found = msgspec.json.decode(raw)
    except msgspec.DecodeError:
        found = None
    return found if isinstance(found, dict) else {}
