"""One request until its answer: what is tried again, and what every attempt may cost.

The sample number never goes on the wire; the API has no seed, so another sample is the same
request asked again.
"""

from __future__ import annotations

from typing import Any

from replay import prices
from replay.budget import Worst
from replay.errors import ModelRefused
from replay.formats.normal import anthropic_usage
from replay.models.line import Line
from replay.models.received import Failed, judged
from replay.models.wire import MESSAGES
from replay.models.worst import worst
from replay.trace import Cost

STREAM_ABOVE = 16_000
"""A larger `max_tokens` is streamed: the answer may take longer than a silent connection lasts."""


class Call:
    """A request on its way. `asking` while the server may be at work on it, and so be paid.

    `last` set: what is under way is finished, and nothing is tried again.
    """

    def __init__(self, line: Line, body: dict[str, Any]) -> None:
        self.asking = False
        self.last = False
        self._line = line
        self._worst = worst(body, line.model)
        self._body = {**body, "stream": True} if body["max_tokens"] > STREAM_ABOVE else body

    async def answer(self) -> dict[str, Any]:
        """The message that answers.

        Raises RequestRefused where the server declines this request, ModelRefused where it
        declines altogether, stays unreachable, or the budget would be exceeded.
        """
        found: dict[str, Any] | Failed | None = None
        for attempt in range(self._line.attempts):
            try:
                found = await self._attempt()
            except ModelRefused as refused:
                if not isinstance(found, Failed):
                    raise
                said = f"{refused.message}, after a call that failed: {found.error.message}"
                raise ModelRefused(said, refused.hint) from refused
            if not isinstance(found, Failed):
                return found
            if not found.again or self.last or attempt == self._line.attempts - 1:
                raise found.error
            await self._line.wait(found, attempt)
        raise AssertionError("there is at least one attempt")

    async def _attempt(self) -> dict[str, Any] | Failed:
        """One exchange, paid for: what it cost takes the place of what was set aside."""
        reserved = await self._line.reserve(self._worst)
        self.asking = True
        found: dict[str, Any] | Failed | None = None
        free = False
        try:
            reply = await self._line.exchange("POST", MESSAGES, self._body)
            found = judged(reply, self._line.asked(streamed="stream" in self._body))
            free = isinstance(found, Failed) and not found.billed
            return found
        except ModelRefused:
            free = True
            raise
        finally:
            self.asking = False
            self._pay(reserved, None if isinstance(found, Failed) else found, free=free)

    def _pay(self, reserved: Worst, answer: dict[str, Any] | None, *, free: bool) -> None:
        if free:
            self._line.release(reserved)
            return
        spent = cost(answer, self._line.model) if answer is not None else None
        usage = anthropic_usage(answer.get("usage")) if answer is not None else None
        self._line.settle(reserved, usage, None if spent is None else spent.usd)


def cost(answer: dict[str, Any], model: str) -> Cost | None:
    """What an answer cost, None where no price is known for who gave it."""
    return prices.price(anthropic_usage(answer.get("usage")), answer.get("model"), model)
