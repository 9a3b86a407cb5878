"""Message batches: taken whole, answered later, results in an order of their own.

No time passes here: a batch ends after as many polls as its fate says.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Collection
from datetime import UTC, datetime

from msgspec import Struct

from tests.messages_api.answering import Answering, Made, Refused, invalid, missing
from tests.messages_api.content import Body
from tests.messages_api.faults import BATCHES
from tests.messages_api.schema import BatchCreate, shape_refusal

LIFETIME_S = 24 * 3600.0


class Fate(Struct, frozen=True):
    """What becomes of a batch.

    The first `polls` of it find it in progress. Items named by custom_id or by their place expire,
    or fail by the server's own fault.
    """

    polls: int = 1
    expires: Collection[str | int] = ()
    fails: Collection[str | int] = ()

    def of(self, place: int, custom_id: str) -> str | None:
        """What happens to an item, None where it is answered."""
        for kind, names in (("expired", self.expires), ("failed", self.fails)):
            if place in names or custom_id in names:
                return kind
        return None


class Batch:
    """One batch and how far it is."""

    def __init__(
        self, id: str, requests: list[Body], betas: Collection[str], fate: Fate, created_s: float
    ) -> None:
        self.id = id
        self.requests = requests
        self.betas = betas
        self.fate = fate
        self.created_s = created_s
        self.polls_left = fate.polls
        self.cancelled_s: float | None = None
        self.ended_s: float | None = None
        self.results: list[Body] = []

    def shown(self, base_url: str) -> Body:
        """As the API shows it. Counts of outcomes stay zero until all of it has ended."""
        ended = self.ended_s is not None
        counts = Counter(each["result"]["type"] for each in self.results)
        outcomes = {name: counts[name] for name in ("succeeded", "errored", "canceled", "expired")}
        return {
            "id": self.id,
            "type": "message_batch",
            "processing_status": self._status(),
            "request_counts": {"processing": 0 if ended else len(self.requests), **outcomes},
            "created_at": _date(self.created_s),
            "expires_at": _date(self.created_s + LIFETIME_S),
            "ended_at": _date(self.ended_s),
            "cancel_initiated_at": _date(self.cancelled_s),
            "archived_at": None,
            "results_url": f"{base_url}{BATCHES}/{self.id}/results" if ended else None,
        }

    def _status(self) -> str:
        if self.ended_s is not None:
            return "ended"
        return "in_progress" if self.cancelled_s is None else "canceling"


class Batches:
    """Every batch a server was given. `clock` gives seconds since the epoch."""

    def __init__(
        self, answering: Answering, clock: Callable[[], float], base_url: Callable[[], str]
    ) -> None:
        self._answering = answering
        self._clock = clock
        self._base_url = base_url
        self._batches: dict[str, Batch] = {}
        self._lock = threading.RLock()

    def create(self, body: Body, betas: Collection[str], fate: Fate) -> Body | Refused:
        wrong = shape_refusal(body, BatchCreate)
        if wrong is not None:
            return invalid(wrong)
        ids = Counter(each["custom_id"] for each in body["requests"])
        twice = next((each for each, count in ids.items() if count > 1), None)
        if twice is not None:
            return invalid(f"requests: custom_id '{twice}' must be unique within the batch")
        with self._lock:
            name = f"msgbatch_{len(self._batches) + 1}"
            made = Batch(name, body["requests"], betas, fate, self._clock())
            self._batches[name] = made
            return self._shown(made)

    def retrieve(self, id: str) -> Body | Refused:
        """A poll. It may be the one that finds the batch ended."""
        with self._lock:
            batch = self._batches.get(id)
            if batch is None:
                return missing(f"no batch {id}")
            self._go_on(batch)
            return self._shown(batch)

    def cancel(self, id: str) -> Body | Refused:
        with self._lock:
            batch = self._batches.get(id)
            if batch is None:
                return missing(f"no batch {id}")
            if batch.ended_s is not None:
                return invalid(f"batch {id} has already ended")
            if batch.cancelled_s is None:
                batch.cancelled_s = self._clock()
            return self._shown(batch)

    def results(self, id: str) -> str | Refused:
        """One line an item, never in the order that was asked unless there is only one."""
        with self._lock:
            batch = self._batches.get(id)
            if batch is None or batch.ended_s is None:
                return missing(f"no results of batch {id}")
            return "".join(json.dumps(each) + "\n" for each in reversed(batch.results))

    def page(self, after_id: str | None, limit: int) -> Body:
        """The batches, the newest first."""
        with self._lock:
            newest = list(reversed(self._batches.values()))
            ids = [each.id for each in newest]
            start = ids.index(after_id) + 1 if after_id in ids else 0
            page = [self._shown(each) for each in newest[start : start + limit]]
        return {
            "data": page,
            "has_more": start + limit < len(newest),
            "first_id": page[0]["id"] if page else None,
            "last_id": page[-1]["id"] if page else None,
        }

    def _shown(self, batch: Batch) -> Body:
        return batch.shown(self._base_url())

    def _go_on(self, batch: Batch) -> None:
        if batch.ended_s is not None:
            return
        late = self._clock() >= batch.created_s + LIFETIME_S
        if not late and batch.cancelled_s is None and batch.polls_left > 0:
            batch.polls_left -= 1
            return
        cause = "canceled" if batch.cancelled_s is not None else "expired" if late else None
        batch.results = self._ended(batch, cause)
        batch.ended_s = self._clock()

    def _ended(self, batch: Batch, cause: str | None) -> list[Body]:
        """The result of every item. They run together, so none reads what another caches."""
        ends: list[tuple[str, Made | Body]] = []
        for place, each in enumerate(batch.requests):
            fate = cause or batch.fate.of(place, each["custom_id"])
            ends.append((each["custom_id"], self._end(each["params"], batch.betas, fate)))
        for _, end in ends:
            if isinstance(end, Made):
                self._answering.send(end)
        return [{"custom_id": name, "result": _result(end)} for name, end in ends]

    def _end(self, params: Body, betas: Collection[str], fate: str | None) -> Made | Body:
        if fate == "failed":
            return _errored("api_error", "Internal server error")
        if fate is not None:
            return {"type": fate}
        if params.get("stream"):
            return _errored("invalid_request_error", "stream: not supported in a batch")
        made = self._answering.answer(params, betas, batch=True)
        return _errored(made.kind, made.why) if isinstance(made, Refused) else made


def _result(end: Made | Body) -> Body:
    return {"type": "succeeded", "message": end.message} if isinstance(end, Made) else end


def _errored(kind: str, why: str) -> Body:
    error = {"type": "error", "error": {"type": kind, "message": why}, "request_id": None}
    return {"type": "errored", "error": error}


def _date(seconds: float | None) -> str | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat()
