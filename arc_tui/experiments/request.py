"""What a person wants asked: of whom, how often, and for how much; the run that asks it, and what
it will cost, said before anything is asked.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from itertools import chain, count
from typing import TypeAlias, TypeVar

from msgspec import Struct, field, structs

from arc_tui.experiments.models import ModelPool, servers_of
from arc_tui.ui import format
from arc_tui.ui.format import cost
from replay.budget import Limits
from replay.compare.rules import PLAIN, Rules
from replay.edit.changes import Edit, SetModel
from replay.errors import BadEdit, ModelRefused
from replay.free.recorded_results import Stub
from replay.locked.estimate import Estimate
from replay.locked.row import AUTO, LEVELS, Sampling
from replay.models.cached import Cached
from replay.models.choose import DEMO, label
from replay.store.handle import Store
from replay.trace import Effect


class ExperimentRequest(Struct, frozen=True, kw_only=True):
    """Whom to ask. `model` None is the trace's own; live calls need `live` and a limit, which holds
    for all of it together."""

    model: str | None = None
    live: bool = False
    limits: Limits = Limits()

    def model_pool(self, store: Store) -> ModelPool:
        """The models of one run."""
        return ModelPool(store, live=self.live, limits=self.limits)


R = TypeVar("R", bound=ExperimentRequest)
View = TypeVar("View")
Run: TypeAlias = Callable[[Store, R, ModelPool], Generator[View]]
"""Asks what a request says and yields a view whenever more is known."""


def views_of(run: Run[R, View], store: Store, request: R) -> Generator[View]:
    """The views of a run whose models are closed with it."""
    with request.model_pool(store) as models:
        yield from run(store, request, models)


def named_judge(request: ExperimentRequest, models: ModelPool) -> Cached:
    """The judge that was asked for. Raises ModelRefused for none."""
    if not request.model:
        raise ModelRefused(
            "no judge given",
            "Try: --model NAME, of another model family, or --model demo (by rule)",
        )
    return models.named(request.model)


class ReplayRequest(ExperimentRequest, frozen=True, kw_only=True):
    """What to replay: the run as recorded, and under `edit` and each of the `others` beside it.

    `resample` asks everything afresh, in a new range of samples beside those that are kept.
    """

    trace: str
    edit: Edit | None = None
    others: tuple[Edit, ...] = ()
    steps: Collection[int] | None = None
    sampling: Sampling = AUTO
    resample: bool = False
    rules: Rules = PLAIN

    @property
    def edits(self) -> tuple[Edit | None, ...]:
        """The edit of each arm beside control; None alone where there is none."""
        if self.edit is None and self.others:
            return self.others
        return (self.edit, *self.others)


class FreeRunRequest(ExperimentRequest, frozen=True, kw_only=True):
    """What to run on. `model` None is the edit's, else the trace's own.

    `start` None is the first step of the thread. `stubs` are kept with the trace; those it has are
    used in any case. `effects` says of tools by name whether they read or write. `max_steps` None
    is twice the recorded steps ahead and five.
    """

    trace: str
    edit: Edit | None = None
    start: int | None = None
    samples: int = 1
    stubs: tuple[Stub, ...] = ()
    allow_stale: bool = False
    effects: Mapping[str, Effect] = field(default_factory=dict)
    max_steps: int | None = None
    rules: Rules = PLAIN


def asked_models(model: str | None, *edits: Edit | None) -> tuple[str, ...]:
    """The models of control and of each edit, each once. () where it is not known which to ask."""
    others = [edit.model for edit in edits if edit is not None]
    named = (model, *(other or model for other in others))
    return tuple(dict.fromkeys(each for each in named if each is not None))


def with_own_names(edits: Sequence[Edit]) -> tuple[Edit, ...]:
    """The edits of several arms, each under a name that no other has.

    Raises BadEdit where two of them are one edit.
    """
    taken: dict[str, Edit] = {}
    for edit in edits:
        same = next((each for each in taken.values() if each.digest == edit.digest), None)
        if same is not None:
            raise BadEdit(f"two arms are the same edit: {same.name!r} and {edit.name!r}")
        tries = chain([edit.name], (f"{edit.name} {n}" for n in count(2)))
        name = next(each for each in tries if each not in taken)
        taken[name] = edit if name == edit.name else structs.replace(edit, name=name)
    return tuple(taken.values())


def model_arm(name: str) -> Edit:
    """The arm that asks another model what was recorded."""
    return Edit(name=label(name), changes=(SetModel(name),))


def is_local(models: tuple[str, ...]) -> bool:
    """Is all of it asked on this machine, for free?"""
    return set(models) == {DEMO}


MOST_SAMPLES = 100
_CALLS = re.compile(r"(\d+)\s*calls?")
_USD = re.compile(r"\$?\s*(\d+(?:\.\d*)?|\.\d+)\s*(?:USD|\$)?", re.IGNORECASE)


def limits_of(words: str) -> Limits:
    """What a person allows: `0.50`, `$2`, or `20 calls`. Raises BadEdit for anything else."""
    said = words.strip()
    if found := _CALLS.fullmatch(said):
        return Limits(calls=int(found[1]))
    if found := _USD.fullmatch(said):
        return Limits(usd=float(found[1]))
    raise BadEdit(
        f"{said!r} is not a limit",
        "Try: 0.50 (USD), or 20 calls",
    )


def levels_of(words: str) -> tuple[int, ...]:
    """How many samples a person wants: `auto`, or a number. Raises BadEdit for anything else."""
    said = words.strip().lower()
    if said == "auto":
        return LEVELS
    if said.isdecimal() and 1 <= int(said) <= MOST_SAMPLES:
        return (int(said),)
    raise BadEdit(f"{said!r} is neither auto nor a number from 1 to {MOST_SAMPLES}")


def levels_words(levels: tuple[int, ...]) -> str:
    """The number of samples as `levels_of` reads it."""
    return "auto" if len(levels) > 1 else str(levels[0])


def levels_meaning(levels: tuple[int, ...]) -> str:
    """What so many samples can tell."""
    if len(levels) > 1:
        first, *more = map(str, levels)
        return f"{first} per request, then {' and '.join(more)} where inconclusive"
    if levels == (1,):
        return "1 sample: not conclusive"
    return f"{levels[0]} per request"


class CostEstimate(Struct, frozen=True, eq=False, kw_only=True):
    """What a run will ask, before it asks anything. `calls` is None where that is not known."""

    models: tuple[str, ...] = ()
    calls: Estimate | None = None

    @property
    def is_free(self) -> bool:
        """Is all of it asked on this machine?"""
        return is_local(self.models)

    @property
    def asks(self) -> bool:
        """Is there anything that is not answered already?"""
        return self.calls is None or self.calls.calls > 0

    def question(self) -> str:
        """What a person reads before they say what it may cost. Raises ModelRefused for no
        server."""
        assert self.calls is not None
        return asking_price(self.models, self.calls)


def at_most(estimate: Estimate) -> str:
    """How many calls it may come to where samples disagree, "" where to no more."""
    if estimate.max_calls <= estimate.calls:
        return ""
    return f", at most {format.count(estimate.max_calls, 'call')} where inconclusive"


def asking_price(models: tuple[str, ...], estimate: Estimate) -> str:
    """What is shown before the first live call. Raises ModelRefused for no server."""
    by_size = (
        f" ({format.count(estimate.by_size, 'call')} estimated from text size)"
        if estimate.by_size
        else ""
    )
    whom = " and ".join(map(format.one_line, models))
    where = servers_of(models)
    return (
        f"{format.count(estimate.calls, 'call')} to {whom}{at_most(estimate)}:"
        f" {format.tokens(estimate.input_tokens)} tokens in,"
        f" {format.tokens(estimate.output_tokens)} out at first, {cost(estimate)}{by_size}.\n"
        f"Server: {where}. Responses are cached and never paid for twice."
    )
