"""Where a check-up asks, and what: one model at one server, under one budget, every answer kept.

The requests are our own texts, nothing of any run.
"""

from __future__ import annotations

from itertools import count
from types import TracebackType
from typing import Any, Literal, Self

import msgspec

from replay.budget import Budget, Worst
from replay.errors import ModelRefused
from replay.models import protocol
from replay.models.cached import Cached
from replay.models.claude import BATCHES, Claude
from replay.models.line import ATTEMPTS, Line, Loop, SharedClient, max_cost
from replay.models.live import Live
from replay.models.protocol import BATCH_PRICE_SHARE
from replay.models.wire import declined
from replay.store.handle import Store, now_ns

TIMEOUT_S = 120.0


class Unaffordable(ModelRefused):
    """A request that could exceed the budget. A smaller one may still be made."""


class ServerCheck:
    """Use as a context manager, or `close` it.

    `began_ns` counts from the epoch. `answered_by` is who gave the first answer, None before it.
    """

    def __init__(self, store: Store, budget: Budget, live: Live, server: str) -> None:
        self.model = live.name
        self.server = server
        self.budget = budget
        self.began_ns = now_ns()
        self.answered_by: str | None = None
        self._samples = count(self.began_ns // 1_000)
        self._live = live
        self._heard = _Counted(live)
        self._cached = Cached(
            store, live.name, self._heard, source="claude", price=live.cost, server=server
        )

    def ask(self, body: Body) -> Body:
        """The message that answers, as it came over the wire.

        Raises RequestRefused where the server declines the request, Unaffordable where it could
        exceed the budget, ModelRefused where nothing can be asked.
        """
        self.afford(max_cost(body, self.model))
        self._cached.complete(body, next(self._samples))
        answer = self._heard.last
        self.answered_by = self.answered_by or str(answer.get("model") or "") or None
        return answer

    def about(self) -> dict[str, Any] | None:
        """What the server says of the model, None where it says nothing."""
        return None

    def close(self) -> None:
        self._cached.close()
        self._live.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()

    def afford(self, call: Worst) -> None:
        """Raises Unaffordable where the budget does not allow a call."""
        try:
            self.budget.fits(call)
        except ModelRefused as error:
            raise Unaffordable(error.message, error.hint) from error


class CheckContext(ServerCheck):
    """The same at a server of the Messages API."""

    def __init__(
        self, store: Store, model: str, budget: Budget, *, base_url: str | None = None
    ) -> None:
        url = protocol.server_url(base_url)
        self._claude = Claude(model, budget=budget, base_url=url, timeout_s=TIMEOUT_S)
        super().__init__(store, budget, self._claude, protocol.name(url))
        self._loop = Loop()
        self._line = Line(
            model, url, budget=budget, timeout_s=TIMEOUT_S, attempts=ATTEMPTS, world=SharedClient()
        )

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
        each = [max_cost(body, self.model) for body in requests.values()]
        usd = [call.usd for call in each if call.usd is not None]
        whole = Worst(
            tokens=sum(call.tokens for call in each),
            usd=sum(usd) * BATCH_PRICE_SHARE if len(usd) == len(each) else None,
        )
        self.afford(whole)
        reserved = self.budget.reserve(whole)
        items = [{"custom_id": name, "params": body} for name, body in requests.items()]
        reply = self._loop.run(self._line.exchange("POST", BATCHES, {"requests": items}))
        failed = declined(reply, self._line.origin())
        if failed is None:
            self.budget.settle(reserved, None, None)  # what it will cost is not waited for
            return _object(reply.body)
        self.budget.release(reserved)
        if reply.status == 404:
            return None
        raise failed.error

    def batch(self, method: Literal["GET", "POST"], path: str) -> Body | None:
        """What a path under the batches says, None where nothing is there."""
        reply = self._loop.run(self._line.fetch(method, f"{BATCHES}/{path}"))
        return None if reply is None else _object(reply.body)

    def close(self) -> None:
        super().close()
        self._loop.close(self._line.close)


class _Counted:
    """A model whose last answer can be had as it came: what is kept of it may be masked."""

    def __init__(self, live: Live) -> None:
        self.name = live.name
        self.last: Body = {}
        self._live = live

    def complete(self, body: Body, sample: int) -> Body:
        self.last = self._live.complete(body, sample)
        return self.last


def _object(raw: bytes) -> Body:
    try:
        found = msgspec.json.decode(raw)
    except msgspec.DecodeError:
        found = None
    return found if isinstance(found, dict) else {}


Body = dict[str, Any]

SYSTEM = "You keep the log of a boiler room. Answer in one short sentence."
EDITED_SYSTEM = "You keep the log of an engine room. Answer in one short sentence."

ROOM_TOKENS = 256
"""Room for an answer; some models think first, and that counts."""

THINKING_TOKENS = 2048
STREAMED_TOKENS = 16_001
LOG_LINES = 400
"""Well over 4 096 tokens, the highest floor of a cache that is known."""

GAUGE: Body = {
    "name": "read_gauge",
    "description": "Reads a gauge of the boiler room. The pressure comes back in bar.",
    "input_schema": {
        "type": "object",
        "properties": {"gauge": {"type": "string", "description": "A letter, like A."}},
        "required": ["gauge"],
    },
}
CLOCK: Body = {
    "name": "read_clock",
    "description": "Reads the clock of the boiler room.",
    "input_schema": {"type": "object", "properties": {}},
}

THINKING: tuple[Body, ...] = ({"type": "adaptive"}, {"type": "enabled", "budget_tokens": 1024})
"""How thinking is turned on: on newer models, on older ones."""


def plain(model: str, text: str = "Say: all is well.", **beside: Any) -> Body:
    """One question."""
    return _body(model, [_user(text)], **beside)


def called(model: str, *after: Body, **beside: Any) -> Body:
    """Two calls in one turn and their results, as replay sends them; blocks `after` the results."""
    asked = [_call(0, "A"), _call(1, "B")]
    answered = [result("toolu_arc_0", "2.1 bar"), result("toolu_arc_1", "1.9 bar"), *after]
    messages = [
        _user("What do gauges A and B show?"),
        {"role": "assistant", "content": asked},
        {"role": "user", "content": answered},
    ]
    return _body(model, messages, **{"tools": [GAUGE], **beside})


def results_then_text(model: str) -> Body:
    return called(model, text_block("Which of the two is higher?"))


def tool_gone(model: str) -> Body:
    return called(model, tools=[CLOCK])


def system_after_user(model: str) -> Body:
    said = [_user("Is all well?"), _assistant("All is well."), _user("Are you sure?")]
    return _body(model, [*said, _system("The night shift has begun.")])


def system_after_answer(model: str) -> Body:
    said = [_user("Is all well?"), _assistant("All is well.")]
    return _body(model, [*said, _system("The night shift has begun."), _user("Are you sure?")])


def forced(model: str) -> Body:
    choice = {"type": "tool", "name": GAUGE["name"]}
    return plain(model, "Is all well with gauge A?", tools=[GAUGE], tool_choice=choice)


def warm(model: str) -> Body:
    return plain(model, temperature=0.5)


def streamed(model: str) -> Body:
    return plain(model, max_tokens=STREAMED_TOKENS)


def puzzle(model: str, thinking: Body) -> Body:
    """A question that is worth a thought and ends in a call."""
    text = (
        "One of the gauges A, B and C is broken. If A is broken, so is B. C is broken only if A"
        " is. Think about which one it must be, then read that gauge before you say anything."
    )
    beside = {"tools": [GAUGE], "thinking": thinking, "max_tokens": THINKING_TOKENS}
    return plain(model, text, **beside)


def log(model: str, stamp: int) -> Body:
    """A prompt long enough for every known cache; `stamp` makes it one that no cache has seen."""
    lines = (
        f"{at // 60:02d}:{at % 60:02d} valve {at * 7 % 90:02d} stood open by {at * 13 % 97} %."
        for at in range(LOG_LINES)
    )
    system = "\n".join([SYSTEM, f"The log of watch {stamp}:", *lines])
    return plain(model, "At what did the last valve stand?", system=system)


def log_extended(model: str, stamp: int) -> Body:
    first = log(model, stamp)
    more = [_assistant("At 10 %."), _user("And the one before it?")]
    return {**first, "messages": [*first["messages"], *more]}


def batched(model: str) -> dict[str, Body]:
    """Two requests of a batch by their ids."""
    return {f"arc-doctor-{at}": plain(model, f"Say: all is well in room {at}.") for at in (1, 2)}


def text_block(text: str) -> Body:
    return {"type": "text", "text": text}


def result(call_id: str, text: str) -> Body:
    return {"type": "tool_result", "tool_use_id": call_id, "content": text}


def _body(model: str, messages: list[Body], **beside: Any) -> Body:
    known = {"model": model, "max_tokens": ROOM_TOKENS, "system": SYSTEM, **beside}
    return {**known, "messages": messages}


def _user(text: str) -> Body:
    return {"role": "user", "content": text}


def _assistant(text: str) -> Body:
    return {"role": "assistant", "content": text}


def _system(text: str) -> Body:
    return {"role": "system", "content": text}


def _call(at: int, gauge: str) -> Body:
    known = {"type": "tool_use", "id": f"toolu_arc_{at}", "name": GAUGE["name"]}
    return {**known, "input": {"gauge": gauge}}
