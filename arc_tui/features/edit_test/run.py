"""An edit tested on a class, from its options to its views: `arc try` drains them, the screen's
worker posts.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Generator, Iterator
from itertools import chain

import msgspec
from msgspec import structs

from arc_tui.experiments.models import ModelPool
from arc_tui.experiments.progress import BETWEEN_VIEWS_S
from arc_tui.features.edit_test.plan import (
    by_trace,
    fresh_range,
    keep,
    meant,
    plan_edit_test,
    take_range,
)
from arc_tui.features.edit_test.view import (
    Case,
    EditTestPlan,
    EditTestRequest,
    EditTestView,
    Spent,
    build_edit_test,
)
from replay import digests
from replay.errors import BadEdit, OfflineMiss, Stopped
from replay.locked.run import Lane, replay_all
from replay.locked.tally import Reply, StepResult
from replay.models.choose import default_name
from replay.predicate import Detector
from replay.store import edits, read
from replay.store.handle import Store
from replay.trace import Trace
from taxonomy.edit_test import detector_of
from taxonomy.judgements.diagnoses import diagnosis


def run_edit_test(
    store: Store, request: EditTestRequest, models: ModelPool
) -> Generator[EditTestView]:
    """Ask both arms at the break of every run, then at the healthy steps, several runs at a time;
    yields the view whenever more is known, the first with nothing asked, the last with its digest.

    What was answered is kept: closed and run again, it asks only what is missing. What a finished
    try came to is remembered, and holds the same whatever was answered first. Where a model
    declines altogether, the last view says so. Raises BadEdit where there is no edit, as
    `plan_edit_test` does, OfflineMiss naming the run, and Stopped.
    """
    if request.edit is None:
        raise BadEdit("no edit to test")
    kept = (edits.save if request.keeps else edits.mask)(store, request.edit)
    request = structs.replace(request, edit=kept)
    plan = plan_edit_test(store, request, models)
    work = _Work(store, request, plan, models)
    yield work.view()
    yield from work.views()


class _Work:
    """An edit being tried: what is in so far."""

    def __init__(
        self, store: Store, request: EditTestRequest, plan: EditTestPlan, models: ModelPool
    ) -> None:
        self._store = store
        self._request = request
        self._plan = plan
        self._models = models
        self._range = fresh_range(store, plan, models) if request.resample else 0
        self._results: dict[tuple[str, int], StepResult] = {}
        self._ended: str | None = None

    def views(self) -> Iterator[EditTestView]:
        shown = time.monotonic()
        try:
            for key, result in self._replay():
                self._results[key, result.step] = result
                if time.monotonic() - shown >= BETWEEN_VIEWS_S:
                    yield self.view()
                    shown = time.monotonic()
        except (Stopped, OfflineMiss):
            yield self.view()
            raise
        view = self.view()
        if self._ended is None:
            view = structs.replace(view, digest=self._digest(view.spent))
            if self._request.keeps:
                assert self._request.edit is not None
                keep(self._store, self._request.edit, meant(self._plan), view)
                take_range(self._store, self._plan, self._models, self._range)
        yield view

    def view(self) -> EditTestView:
        spent = Spent.of(self._models)
        return build_edit_test(
            self._request, self._plan, self._results, spent, self._ended, range=self._range
        )

    def _digest(self, spent: Spent) -> str:
        """What was asked and what was answered, in one word: the same whatever came first."""
        request = self._request
        assert request.edit is not None
        rules = msgspec.to_builtins(request.rules.paths)
        question = [
            request.edit.digest, spent.models, spent.servers, request.samples, self._range, rules,
        ]  # fmt: skip
        rows = [
            [*place, row.detector, [*map(_evidence, row.control)], [*map(_evidence, row.edited)]]
            for place, row in sorted(self._results.items())
        ]
        return digests.digest("try", digests.encode(question), digests.encode(rows))

    def _replay(self) -> Iterator[tuple[str, StepResult]]:
        """The breaks, then the healthy steps: what a limit cuts short tells of the breaks."""
        batch = self._request.schedule == "batch"
        breaks, controls = self._breaks(), self._controls()
        for lanes in [chain(breaks, controls)] if batch else [breaks, controls]:
            if self._ended is not None:
                return
            for lane, result in replay_all(lanes, batch=batch):
                if result.ended is None:
                    yield lane.trace.id, result
                else:  # what it lacks is asked when this is run again
                    self._ended = result.ended

    def _breaks(self) -> Iterator[Lane]:
        for case in self._plan.cases:
            trace = read.load(self._store, case.broke.trace)
            yield self._lane(trace, (case.broke.step,), self._detector(trace, case))

    def _detector(self, trace: Trace, case: Case) -> Detector | None:
        said = diagnosis(self._store, trace.id)
        return detector_of(trace, said.findings if said else (), case.broke)

    def _controls(self) -> Iterator[Lane]:
        for key, steps in by_trace([control.spot for control in self._plan.controls]):
            yield self._lane(read.load(self._store, key), steps)

    def _lane(self, trace: Trace, steps: Collection[int], detector: Detector | None = None) -> Lane:
        name = self._request.model or default_name(trace)
        assert name is not None, "a run whose model is not known is not applicable"
        return Lane(
            trace,
            self._request.edit,
            self._models.arms(name, self._request.edit),
            sampling=self._request.sampling(self._range),
            steps=steps,
            rules=self._request.rules,
            detector=detector,
        )


def _evidence(reply: Reply) -> tuple[str, bool | None, bool | None]:
    return reply.key, reply.shows, reply.against.same
