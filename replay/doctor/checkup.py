"""The check-up: what replay takes for granted about the Messages API, tried at a real server.

Its report is fit to be attached: when, where, with what, and every assumption. It holds no key, no
address with a password, and no text but the server's own sentences.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib.metadata import version
from typing import Any

from msgspec import Struct

from replay.convert import APIS
from replay.doctor import context, openai_checks
from replay.doctor.assumptions import ASSUMPTIONS, OPENAI_ASSUMPTIONS, Assumption
from replay.doctor.context import ServerCheck, Unaffordable
from replay.doctor.probes import (
    BATCH,
    FORCED,
    PREFIX_CACHE,
    SAMPLING,
    STREAMED,
    THINKING_PROBES,
    TOKEN_COUNT,
    Found,
    Outcome,
    Probe,
    accepted,
)
from replay.errors import ModelRefused
from replay.models.line import max_cost
from replay.models.wire import output_limit
from replay.prices import price
from replay.providers import wire_of
from replay.store import answers
from replay.store.handle import Store
from replay.trace import Usage

DEFAULT_MODEL = "claude-haiku-5-5"
"""The cheapest model there is a price for; a check-up of it costs about a cent."""

PROBES: tuple[Probe, ...] = (
    accepted("tool_ids", context.called),
    accepted("results_then_text", context.results_then_text),
    accepted("tool_gone", context.tool_gone),
    accepted("system_after_user", context.system_after_user),
    accepted("system_after_answer", context.system_after_answer),
    FORCED,
    SAMPLING,
    THINKING_PROBES,
    TOKEN_COUNT,
    PREFIX_CACHE,
    BATCH,
    STREAMED,
)
"""In the order they are asked; the dearest, which a small budget may not allow, last."""


def probes_of(model: str) -> tuple[Probe, ...]:
    """What is tried of the API by which a model is asked."""
    return PROBES if wire_of(model) == "messages" else openai_checks.PROBES


def assumptions_of(model: str) -> tuple[Assumption, ...]:
    """What is assumed of that API."""
    return ASSUMPTIONS if wire_of(model) == "messages" else OPENAI_ASSUMPTIONS


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
    bodies = [body for probe in probes_of(model) for body in probe.likely(model)]
    likely = [_likely(body) for body in bodies]
    costs = [price(each, model) for each in likely]
    mosts = [max_cost(body, model).usd for body in bodies]
    return Expected(
        calls=len(bodies),
        input_tokens=sum(each.input_tokens or 0 for each in likely),
        usd=_sum([None if cost is None else cost.usd for cost in costs]),
        most_usd=_sum(mosts),
    )


def checkup(desk: ServerCheck) -> Iterator[Found]:
    """What every try came to, as they come: one outcome an assumption that can be tried.

    What the budget does not allow is "not run". Where the server stops answering altogether, so is
    the rest. Raises ModelRefused where not one could be tried, Stopped as the model does.
    """
    tried = False
    refused: ModelRefused | None = None
    over: ModelRefused | None = None  # refused for good: the rest is not even asked
    for probe in probes_of(desk.model):
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
            assert refused is not None, f"{check}: no result"
            yield Found(check=check, outcome="not run", finding=refused.message)
    if not tried:
        assert refused is not None
        raise refused


def _likely(body: context.Body) -> Usage:
    size = len(str({name: value for name, value in body.items() if name != "model"}))
    return Usage(
        input_tokens=size // CHARACTERS_PER_TOKEN,
        output_tokens=min(output_limit(body), LIKELY_OUTPUT_TOKENS),
    )


def _sum(costs: list[float | None]) -> float | None:
    known = [cost for cost in costs if cost is not None]
    return sum(known) if len(known) == len(costs) else None


PREFIX = "doctor:"


class Result(Struct, frozen=True, kw_only=True):
    """An assumption as it was found; "not checked" where nothing tries it."""

    id: str
    says: str
    outcome: Outcome | None
    finding: str
    otherwise: str


class Report(Struct, frozen=True, kw_only=True):
    """A check-up of `model` at `server` ("" for the official API) that began at `checked_ns`.

    `answered_by` is the model that said it answered. `lifecycle` and `max_input_tokens` are what
    the server says of the model, None where it says nothing. `most_usd` is at most what was spent,
    None where no price is known.
    """

    checked_ns: int
    server: str
    model: str
    answered_by: str | None
    lifecycle: str | None
    max_input_tokens: int | None
    sdk: str
    api: str
    most_usd: float | None
    results: tuple[Result, ...]

    @property
    def failed(self) -> tuple[Result, ...]:
        """The assumptions that do not hold."""
        return tuple(each for each in self.results if each.outcome == "fails")

    @property
    def tried(self) -> bool:
        """Did it come to any try at all?"""
        return any(each.outcome not in {None, "not run"} for each in self.results)

    def count(self, outcome: Outcome | None) -> int:
        return sum(each.outcome == outcome for each in self.results)


def report(desk: ServerCheck, about: dict[str, Any] | None, found: Iterable[Found]) -> Report:
    """The report of what was found so far; the rest of the assumptions is "not run"."""
    known = {each.check: each for each in found}
    says = about or {}
    limit = says.get("max_input_tokens")
    return Report(
        checked_ns=desk.began_ns,
        server=desk.server,
        model=desk.model,
        answered_by=desk.answered_by,
        lifecycle=str(says["lifecycle"]) if says.get("lifecycle") else None,
        max_input_tokens=limit if type(limit) is int else None,
        sdk=_sdk(desk.model),
        api=APIS[wire_of(desk.model)],
        most_usd=desk.budget.usd if desk.budget.usd_complete else None,
        results=tuple(_results(assumptions_of(desk.model), known)),
    )


def _sdk(model: str) -> str:
    name = "anthropic" if wire_of(model) == "messages" else "openai"
    return f"{name} {version(name)}"


def _results(assumed: Iterable[Assumption], known: dict[str, Found]) -> Iterable[Result]:
    for each in assumed:
        outcome: Outcome | None
        if each.untried is not None:
            outcome, finding = None, each.untried
        elif each.id in known:
            outcome, finding = known[each.id].outcome, known[each.id].finding
        else:
            outcome, finding = "not run", "stopped before"
        yield Result(
            id=each.id, says=each.says, outcome=outcome, finding=finding, otherwise=each.otherwise
        )


def keep(store: Store, made: Report) -> None:
    """Remember a report as the last of its server and model."""
    answers.keep(store, f"{PREFIX}{made.server}:{made.model}", made)


def kept(store: Store) -> tuple[Report, ...]:
    """The last report of every server and model, the latest first."""
    found = answers.found(store, PREFIX, Report)
    return tuple(sorted(found, key=lambda each: -each.checked_ns))
