"""What would a replay ask, and about what would it cost? Said before the first call, of one replay
or of several together.

From the recorded tokens, where there are some; from the size of the text, where there are none. In
turn, a request is reckoned as it meets the provider's prefix cache: it reads what the step before
it left there and writes the rest. A cache is the provider's affair, so this is an estimate; what
bounds the spending is the budget.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple

from msgspec import Struct

from replay import digests
from replay.edit.changes import Edit
from replay.locked.row import AUTO, Models, Sampling, Schedule
from replay.models.cached import Cached
from replay.models.protocol import BATCH_PRICE_SHARE
from replay.plan import Arm, Plan, naming_arm, plans
from replay.prices import price
from replay.trace import Cost, Step, Trace, Usage

CACHED_ABOVE = 1024
"""Input tokens below which providers keep no prefix; their floors differ by model."""


class Estimate(Struct, frozen=True, kw_only=True):
    """What a replay would ask and cost, before it asks anything.

    `stored` calls are already answered and cost nothing. Figures cover the other `calls`, the
    samples that are asked at first; `max_calls` and `max_usd` would be reached if every step had
    to be asked to the last level. `by_size` of the calls had no recorded tokens. `usd` None: no
    price is known for the model.
    """

    calls: int
    stored: int
    input_tokens: int
    output_tokens: int
    by_size: int = 0
    usd: float | None = None
    max_calls: int = 0
    max_usd: float | None = None


class _Call(NamedTuple):
    """A call that would be made, with its tokens and price."""

    usage: Usage
    by_size: bool
    usd: float | None


def estimate(
    trace: Trace,
    edit: Edit | None,
    models: Models,
    *,
    sampling: Sampling = AUTO,
    steps: Collection[int] | None = None,
) -> Estimate:
    """What `locked.replay` with the same arguments would ask for. Asks nothing.

    Raises BadEdit as `locked.replay` does.
    """
    return estimate_arms(trace, [(edit, models)], sampling=sampling, steps=steps)


def estimate_arms(
    trace: Trace,
    arms: Sequence[tuple[Edit | None, Models]],
    *,
    sampling: Sampling = AUTO,
    steps: Collection[int] | None = None,
) -> Estimate:
    """What `arms.replay_arms` with the same arguments would ask for, what arms share once.

    Raises BadEdit as `locked.replay` does.
    """
    planned = []
    for edit, models in arms:
        with naming_arm(edit, len(arms)):
            planned.append((_open_plans(trace, edit, models, steps), models))
    first, stored = _calls(planned, sampling, sampling.first)
    ceiling, _ = _calls(planned, sampling, sampling.last)
    return Estimate(
        calls=len(first),
        stored=stored,
        input_tokens=sum(call.usage.input_tokens or 0 for call in first),
        output_tokens=sum(call.usage.output_tokens or 0 for call in first),
        by_size=sum(call.by_size for call in first),
        usd=_sum(first),
        max_calls=len(ceiling),
        max_usd=_sum(ceiling),
    )


def _open_plans(
    trace: Trace, edit: Edit | None, models: Models, steps: Collection[int] | None
) -> list[Plan]:
    """The steps that can be asked."""
    planned = plans(trace, edit, models.control.name, steps, edited_model=models.edited.name)
    return [plan for plan in planned if plan.refusal is None]


def _sum(calls: list[_Call]) -> float | None:
    known = [call.usd for call in calls if call.usd is not None]
    return sum(known) if len(known) == len(calls) else None


def _calls(
    arms: Iterable[tuple[list[Plan], Models]], sampling: Sampling, samples: Callable[[int], int]
) -> tuple[list[_Call], int]:
    """The calls that are not answered yet, each key once, and how many are; `samples` of a step."""
    found: dict[str, _Call | None] = {}
    for planned, models in arms:
        for model, sides in (
            (models.control, [plan.control for plan in planned]),
            (models.edited, [plan.edited for plan in planned]),
        ):
            _add_calls(found, model, list(zip(planned, sides, strict=True)), sampling, samples)
    calls = [call for call in found.values() if call is not None]
    return calls, len(found) - len(calls)


def _add_calls(
    found: dict[str, _Call | None],
    model: Cached,
    requests: list[tuple[Plan, Arm]],
    sampling: Sampling,
    samples: Callable[[int], int],
) -> None:
    """The calls of one arm by their keys, None for those that are answered."""
    left = 0
    for plan, arm in requests:
        if arm is plan.edited and plan.edited_refusal is not None:
            continue
        usage = _usage(plan.step, arm)
        first = _call(plan, usage, model, sampling.schedule, left)
        again = _call(plan, usage, model, sampling.schedule, None)
        touched = not plan.edited.sent.asks_as(plan.control.sent)
        wanted = samples if touched else sampling.first
        for place in range(wanted(plan.step.index)):
            number = sampling.number(place)
            key = arm.sent.key(number)
            if key not in found:
                known = model.stored(arm.sent, number)
                found[key] = None if known else again if place else first
        left = usage.input_tokens or 0


def price_of(model: Cached, usage: Usage) -> Cost | None:
    """What a call of a model would cost: at the prices of the settings, where they have some."""
    rates = model.target.prices if model.target is not None else None
    return price(usage, model.name) if rates is None else rates.price(usage)


def _call(plan: Plan, usage: Usage, model: Cached, schedule: Schedule, left: int | None) -> _Call:
    """A call; `left` tokens of it the step before left in the cache, all of them where None."""
    cost = price_of(model, _reading(usage, left) if schedule == "cheap" else usage)
    share = BATCH_PRICE_SHARE if schedule == "batch" else 1.0
    return _Call(usage, not _counted(plan.step), None if cost is None else cost.usd * share)


def _reading(usage: Usage, left: int | None) -> Usage:
    """The usage with what it reads from the prefix cache and what it writes there."""
    whole = usage.input_tokens or 0
    if whole < CACHED_ABOVE:
        return usage
    read = whole if left is None else left if CACHED_ABOVE <= left <= whole else 0
    return Usage(
        input_tokens=whole,
        output_tokens=usage.output_tokens,
        cache_read_tokens=read,
        cache_write_tokens=whole - read,
    )


def _counted(step: Step) -> bool:
    usage = step.ask.usage
    return usage is not None and usage.input_tokens is not None and usage.output_tokens is not None


def _usage(step: Step, arm: Arm) -> Usage:
    """The recorded tokens of a step; where there are none, a quarter of its characters."""
    usage = step.ask.usage
    if usage is not None and _counted(step):
        return Usage(input_tokens=usage.input_tokens, output_tokens=usage.output_tokens)
    response = step.ask.response.message
    return Usage(
        input_tokens=len(digests.encode(arm.sent.body())) // 4 + 1,
        output_tokens=len(digests.encode(response.body if response is not None else "")) // 4 + 1,
    )


NO_CALLS = Estimate(calls=0, stored=0, input_tokens=0, output_tokens=0, usd=0.0, max_usd=0.0)


def total_estimate(parts: Iterable[Estimate]) -> Estimate:
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
        max_calls=calls,
        max_usd=usd,
    )
