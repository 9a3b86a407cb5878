"""Who is asked in one piece of work: a model, and where somebody judges its answers, the judge.

They share a limit, are counted together, and are stopped together.
"""

from __future__ import annotations

from types import TracebackType

from msgspec import structs

from arc_tui.experiments.request import ReplayRequest
from replay.budget import Budget
from replay.kept import next_range
from replay.locked.row import Models, Sampling
from replay.models.cached import Cached
from replay.models.choose import choose, default_name
from replay.store.handle import Store
from replay.trace import Trace


class Everyone:
    """`kept`, `asked` and `usd` count from when this was made; None among the models is nobody."""

    def __init__(self, *models: Cached | None) -> None:
        self.models = tuple(dict.fromkeys(each for each in models if each is not None))
        self._before = self._counted()

    @property
    def kept(self) -> int:
        """Answers that were stored."""
        return self._counted()[0] - self._before[0]

    @property
    def asked(self) -> int:
        return self._counted()[1] - self._before[1]

    @property
    def usd(self) -> float:
        """What those cost, as far as known (`usd_complete`)."""
        return self._counted()[2] - self._before[2]

    @property
    def usd_complete(self) -> bool:
        return all(each.usd_complete for each in self.models)

    def stop(self) -> None:
        """Cancel what is in flight; whoever waits for it gets Stopped. From any thread."""
        for each in self.models:
            each.stop()

    def __enter__(self) -> Everyone:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        for each in self.models:
            each.close()

    def _counted(self) -> tuple[int, int, float]:
        return (
            sum(each.hits for each in self.models),
            sum(each.asks for each in self.models),
            sum(each.usd for each in self.models),
        )


def chosen_models(store: Store, request: ReplayRequest, trace: Trace) -> Models:
    """Who is asked in each arm, under one budget: an edit may name another model."""
    budget = Budget(request.limits)
    name = request.model or default_name(trace)
    control = choose(name, store, live=request.live, budget=budget)
    other = request.edit.model if request.edit is not None else None
    if other is None:
        return Models(control, control)
    edited = choose(other, store, live=request.live, budget=budget)
    return Models(control, control if edited.name == control.name else edited)


def sampling_of(store: Store, request: ReplayRequest, trace: Trace, models: Models) -> Sampling:
    """How often each request is asked: afresh in a range of samples that nothing has used."""
    if not request.resample:
        return request.sampling
    fresh = next_range(store, trace.id, models.control.name)
    return structs.replace(request.sampling, range=fresh)
