"""What a person wants tried: which edit on which runs, how often, and of whom it is asked."""

from __future__ import annotations

from msgspec import Struct

from replay.budget import Budget, Limits
from replay.compare.rules import PLAIN, Rules
from replay.edit.changes import Edit
from replay.locked.row import Models, Sampling, Schedule
from replay.models.cached import Cached
from replay.models.choose import choose, default_name
from replay.store.handle import Store
from replay.trace import Trace

SAMPLES = 5
CONTROLS = 40


class EditTestRequest(Struct, frozen=True, kw_only=True):
    """What to try on what. `traces` are runs by their ids, which `query` then only names; None are
    those of the query. `edit` None only looks which runs that is.

    `model` None is each trace's own; live calls need `live` and a limit, which holds for all of
    it together. `controls` healthy steps at most are asked beside the runs; `rules` say which
    arguments of their calls count. `resample` asks everything afresh, beside what is kept.
    """

    edit: Edit | None
    query: str = ""
    traces: tuple[str, ...] | None = None
    samples: int = SAMPLES
    controls: int = CONTROLS
    schedule: Schedule = "cheap"
    resample: bool = False
    model: str | None = None
    live: bool = False
    limits: Limits = Limits()
    rules: Rules = PLAIN
    with_held_out: bool = False

    def sampling(self, range: int) -> Sampling:
        """How often each request is asked, of which range of samples."""
        return Sampling(levels=(self.samples,), range=range, schedule=self.schedule)


class Whom:
    """The models that are asked, each once, under one budget."""

    def __init__(self, store: Store, request: EditTestRequest, *, live: bool) -> None:
        self._store = store
        self._request = request
        self._live = live
        self._budget = Budget(request.limits)
        self._known: dict[str, Cached] = {}
        self._stopped = False

    @property
    def all(self) -> tuple[Cached, ...]:
        return tuple({id(model): model for model in list(self._known.values())}.values())

    def close(self) -> None:
        """Close their connections. From the thread that asked."""
        for model in self.all:
            model.close()

    def stop(self) -> None:
        """Cancel what is in flight; whoever waits for it gets Stopped. From any thread."""
        self._stopped = True
        for model in self.all:
            model.stop()

    def of(self, trace: Trace) -> Models | None:
        """Who is asked in each arm, None where nobody is named. Raises ModelRefused."""
        name = self._request.model or default_name(trace)
        if name is None:
            return None
        edit = self._request.edit
        other = edit.model if edit is not None else None
        return Models(self._named(name), self._named(other or name))

    def _named(self, name: str) -> Cached:
        if name not in self._known:
            made = choose(name, self._store, live=self._live, budget=self._budget)
            self._known[name] = next((e for e in self.all if e.name == made.name), made)
            if self._stopped:
                made.stop()
        return self._known[name]
