"""Which observations were sent again and again, at what cost, and did anything ever repeat them?

An observation stays in the conversation, so every later request pays for it once more: at the
cached price for what lay within the part that was read from the cache, else at that of the rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from msgspec import Struct

from replay.trace import Step, ToolCall
from taxonomy.evidence.reading import Reading
from taxonomy.waste.echoes import Echoes
from taxonomy.waste.sends import Sends, sends, threads_of
from taxonomy.waste.sizes import How, Size, sizes
from taxonomy.waste.spending import Rates, rates_of, unread_rate


class Resent(Struct, frozen=True, kw_only=True):
    """An observation that more than one request carried.

    `tokens` and how they are known (`sizes`), None for media. `resends` are the requests after the
    first, up to `last_step`, and `resent_tokens` all they carried of it; `priced` of them have a
    known price, whose sum is `cost_usd`, which is `at_most` that where the source does not count
    what was read from the cache. `repeated`: does anything later repeat something of it, at step
    `repeated_at` first? None where a later answer was not recorded.
    """

    step: int
    span: str
    tool: str
    how: How
    tokens: int | None
    resends: int
    resent_tokens: int | None
    last_step: int
    priced: int
    cost_usd: float | None
    at_most: bool
    repeated: bool | None
    repeated_at: int | None = None


class _Paid(NamedTuple):
    usd: float
    at_most: bool


def resent(reading: Reading) -> tuple[Resent, ...]:
    """The observations sent more than once, those with most tokens sent again first."""
    echoes = Echoes(reading)
    till = _Till()
    found = [_resent(each, size, echoes, till) for each, size in _sized(reading)]
    return tuple(sorted(found, key=lambda each: (-(each.resent_tokens or 0), each.step)))


def _sized(reading: Reading) -> Iterator[tuple[Sends, Size]]:
    for steps in threads_of(reading.trace.steps).values():
        together: dict[tuple[int, int], list[Sends]] = {}
        for each in sends(steps):
            together.setdefault((each.asked.index, each.first.index), []).append(each)
        for group in together.values():
            given = [o for each in group if (o := each.act.observation) is not None]
            measured = sizes(group[0].asked, group[0].first, given)
            yield from (pair for pair in zip(group, measured, strict=True) if pair[0].again)


def _resent(each: Sends, size: Size, echoes: Echoes, till: _Till) -> Resent:
    act: ToolCall = each.act
    paid = [found for step in each.again[: each.near] if (found := till.paid(step, size))]
    repeated_at = echoes.first_repeat(act.id)
    deaf = echoes.deaf(each.asked.index)
    return Resent(
        step=each.asked.index,
        span=act.id,
        tool=act.name,
        how=size.how,
        tokens=size.tokens,
        resends=len(each.again),
        resent_tokens=None if size.tokens is None else size.tokens * len(each.again),
        last_step=each.again[-1].index,
        priced=len(paid),
        cost_usd=sum(found.usd for found in paid) if paid else None,
        at_most=any(found.at_most for found in paid),
        repeated=True if repeated_at is not None else None if deaf else False,
        repeated_at=repeated_at,
    )


class _Till:
    """What a request paid for an observation; the rates of a step are looked up once."""

    def __init__(self) -> None:
        self._rates: dict[int, Rates | None] = {}

    def paid(self, step: Step, size: Size) -> _Paid | None:
        """In USD; None where the price is not known, or where in the request it stood."""
        usage, rates = step.ask.usage, self._rates_of(step)
        if usage is None or rates is None or size.tokens is None:
            return None
        read = usage.cache_read_tokens
        if read is None:
            return _Paid(size.tokens * unread_rate(usage, rates), at_most=True)
        if size.start is None:
            return None
        cached = min(max(read - size.start, 0), size.tokens)
        rest = size.tokens - cached
        return _Paid(cached * rates.read + rest * unread_rate(usage, rates), at_most=False)

    def _rates_of(self, step: Step) -> Rates | None:
        if step.index not in self._rates:
            self._rates[step.index] = rates_of(step)
        return self._rates[step.index]
