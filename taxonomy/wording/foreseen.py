"""What would asking a task in other words cost? Said before the first call.

Paraphrases that nobody has written yet count as texts of the request's size. What a judge is asked
of an answer is foreseen of the recorded one (`taxonomy.judge.bench.foreseen`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import structs

from replay import canon
from replay.edit import Edit
from replay.locked.estimate import Estimate, estimate
from replay.locked.row import Models
from replay.locked.sampling import Sampling
from replay.models.cached import Cached
from replay.prices import price
from replay.trace import Trace, Usage
from taxonomy.judge.bench import CHARACTERS_PER_TOKEN
from taxonomy.wording.asked import inquiry

NOTHING = Estimate(calls=0, stored=0, input_tokens=0, output_tokens=0, usd=0.0, most_usd=0.0)


def total(parts: Iterable[Estimate]) -> Estimate:
    """All of it; the price is unknown where one part's is."""
    found = list(parts)
    prices = [each.usd for each in found]
    known = [usd for usd in prices if usd is not None]
    usd = sum(known) if len(known) == len(prices) else None
    calls = sum(each.calls for each in found)
    return Estimate(
        calls=calls,
        stored=sum(each.stored for each in found),
        input_tokens=sum(each.input_tokens for each in found),
        output_tokens=sum(each.output_tokens for each in found),
        by_size=sum(each.by_size for each in found),
        usd=usd,
        most_calls=calls,
        most_usd=usd,
    )


def of_answers(
    trace: Trace, wordings: Sequence[Edit], model: Cached, sampling: Sampling, steps: Sequence[int]
) -> Estimate:
    """The model's answers to the request and to each of its wordings."""
    models = Models.one(model)
    own = estimate(trace, None, models, sampling=sampling, steps=steps)
    both = (estimate(trace, each, models, sampling=sampling, steps=steps) for each in wordings)
    return total([own, *(_less(each, own) for each in both)])


def _less(both: Estimate, own: Estimate) -> Estimate:
    """What the edit's arm adds: control is asked once for all wordings."""
    known = both.usd is not None and own.usd is not None
    return Estimate(
        calls=both.calls - own.calls,
        stored=both.stored - own.stored,
        input_tokens=both.input_tokens - own.input_tokens,
        output_tokens=both.output_tokens - own.output_tokens,
        by_size=both.by_size - own.by_size,
        usd=(both.usd or 0.0) - (own.usd or 0.0) if known else None,
    )


def of_writing(original: str, count: int, writer: Cached) -> Estimate:
    """The first request for paraphrases; it is asked again where some are refused."""
    sent = inquiry(original, count, writer.name)
    if writer.stored(sent, 0):
        return structs.replace(NOTHING, stored=1)
    usage = Usage(
        input_tokens=len(canon.encode(sent.body())) // CHARACTERS_PER_TOKEN + 1,
        output_tokens=count * len(original) // CHARACTERS_PER_TOKEN + 1,
    )
    cost = price(usage, writer.name)
    return Estimate(
        calls=1,
        stored=0,
        input_tokens=usage.input_tokens or 0,
        output_tokens=usage.output_tokens or 0,
        by_size=1,
        usd=None if cost is None else cost.usd,
    )
