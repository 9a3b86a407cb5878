"""The check-up: every assumption that can be tried, put to a real server.

The requests are real and are paid for, so what they would cost is said before, and one that does
not fit into the budget any more is left out with that reason.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from replay.doctor import requests
from replay.doctor.desk import Desk, Unaffordable
from replay.doctor.found import Found, Probe
from replay.doctor.metering import BATCH, PREFIX_CACHE, TOKEN_COUNT
from replay.doctor.shapes import FORCED, SAMPLING, STREAMED, accepted
from replay.doctor.thinking import THINKING
from replay.errors import ModelRefused
from replay.models.worst import worst
from replay.prices import price
from replay.trace import Usage

DEFAULT_MODEL = "claude-haiku-5-5"
"""The cheapest model there is a price for; a check-up of it costs about a cent."""

PROBES: tuple[Probe, ...] = (
    accepted("tool_ids", requests.called),
    accepted("results_then_text", requests.results_then_text),
    accepted("tool_gone", requests.tool_gone),
    accepted("system_after_user", requests.system_after_user),
    accepted("system_after_answer", requests.system_after_answer),
    FORCED,
    SAMPLING,
    THINKING,
    TOKEN_COUNT,
    PREFIX_CACHE,
    BATCH,
    STREAMED,
)
"""In the order they are asked; the dearest, which a small budget may not allow, last."""


class Expected(Struct, frozen=True, kw_only=True):
    """What a check-up would ask. `usd` is about what it costs, `most_usd` what it could at most.

    Both None where no price is known for the model.
    """

    calls: int
    input_tokens: int
    usd: float | None
    most_usd: float | None


CHARACTERS_PER_TOKEN = 3
LIKELY_OUTPUT_TOKENS = 100


def expected(model: str) -> Expected:
    """What a check-up of a model would ask. Asks nothing.

    Reckoned without the prefix cache and as if a batch cost its full price.
    """
    bodies = [body for probe in PROBES for body in probe.likely(model)]
    likely = [_likely(body) for body in bodies]
    costs = [price(each, model) for each in likely]
    mosts = [worst(body, model).usd for body in bodies]
    return Expected(
        calls=len(bodies),
        input_tokens=sum(each.input_tokens or 0 for each in likely),
        usd=_sum([None if cost is None else cost.usd for cost in costs]),
        most_usd=_sum(mosts),
    )


def checkup(desk: Desk) -> Iterator[Found]:
    """What every try came to, as they come: one outcome an assumption that can be tried.

    What the budget does not allow is "not run". Where the server stops answering altogether, so is
    the rest. Raises ModelRefused where not one could be tried, Stopped as the model does.
    """
    tried = False
    refused: ModelRefused | None = None
    over: ModelRefused | None = None  # refused for good: the rest is not even asked
    for probe in PROBES:
        left = list(probe.checks)
        try:
            for found in probe.run(desk) if over is None else ():
                tried = True
                left.remove(found.check)
                yield found
        except Unaffordable as error:
            refused = error
        except ModelRefused as error:
            refused = over = error
            if not tried:
                raise
        for check in left:
            assert refused is not None, f"{check} was tried and nothing came of it"
            yield Found(check=check, outcome="not run", finding=refused.message)
    if not tried:
        assert refused is not None
        raise refused


def _likely(body: requests.Body) -> Usage:
    size = len(str({name: value for name, value in body.items() if name != "model"}))
    return Usage(
        input_tokens=size // CHARACTERS_PER_TOKEN,
        output_tokens=min(body["max_tokens"], LIKELY_OUTPUT_TOKENS),
    )


def _sum(costs: list[float | None]) -> float | None:
    known = [cost for cost in costs if cost is not None]
    return sum(known) if len(known) == len(costs) else None
