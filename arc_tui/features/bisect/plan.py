"""A bisection made ready: its versions, step and detector; and its cost, estimated before the first
call.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress

from msgspec import Struct

from arc_tui.experiments import expectation
from arc_tui.experiments.models import ModelPool
from arc_tui.experiments.request import ExperimentRequest
from arc_tui.features.bisect.versions import BadVersions, Source, merged
from arc_tui.features.bisect.view import BisectView, Kind, Label, text_diff
from replay import kept
from replay.bisection.course import bisect, bisect_hunks, spelled
from replay.bisection.hunks import Chosen, Hunk, expected_for_hunks, expected_for_versions, hunks
from replay.bisection.rounds import USUAL, Settings
from replay.bisection.trials import NotReplayable, Rollouts, Trials, Version
from replay.edit.changes import Edit
from replay.errors import BadEdit, ModelRefused, OfflineMiss
from replay.free import run as free
from replay.free.recorded_results import Terms
from replay.locked.estimate import estimate
from replay.locked.row import Models, fixed
from replay.models.cached import Cached
from replay.models.choose import DEMO, default_name
from replay.store import read
from replay.store.handle import Store
from replay.store.rows import trace_row
from replay.trace import Json, Trace
from taxonomy.detectors import JudgeDetector
from taxonomy.judgements.golds import with_own_gold
from taxonomy.query.failures import break_and_notice

KEPT = "bisect/"
"""Before the names under which results are remembered."""


class BisectRequest(ExperimentRequest, frozen=True, kw_only=True):
    """What to search. One of three: `sources`, the versions in their order; `old` and `new`, whose
    hunks are searched; `fix`, an edit tried from each step of the run.

    `expect` None is the rule's finding at the step. `at` None is where the run broke, or, for whole
    runs (`free`), their first step. `no_cache` ignores cached responses.
    """

    trace: str
    sources: tuple[Source, ...] = ()
    old: Source | None = None
    new: Source | None = None
    fix: Edit | None = None
    expect: str | None = None
    judge: str | None = None
    at: int | None = None
    free: bool = False
    settings: Settings = USUAL
    no_cache: bool = False
    allow_stale: bool = False
    max_steps: int | None = None

    @property
    def is_search(self) -> bool:
        """Is there something to search?"""
        return bool(self.sources) or self.new is not None or self.fix is not None

    @property
    def is_whole(self) -> bool:
        """Are whole runs judged?"""
        return self.free or self.fix is not None


class KeptBisect(Struct, frozen=True, kw_only=True):
    """What a bisection came to, as it is remembered. `range` is that of its samples."""

    trace: str
    model: str
    range: int
    view: BisectView


class Plan:
    """A search made ready: `trials` has its versions and judges their samples.

    `step` is the one asked at, None for runs from the first one; `parts` are the hunks, () where
    versions are searched; `models` are those that will be. Nothing is asked here, and nothing can
    be asked that the limits forbid. Raises as `run_bisection` does before it asks.
    """

    def __init__(self, store: Store, request: BisectRequest, models: ModelPool) -> None:
        found = read.load(store, trace_row(store, request.trace).trace)
        self.trace: Trace = with_own_gold(store, found)
        self.settings = request.settings
        self.free = request.is_whole
        self.notices: list[str] = []
        self.parts: tuple[Hunk, ...] = ()
        self.old = ""
        self._store = store
        self._request = request
        self._sources: tuple[Source, ...] = ()
        notice = break_and_notice(store, self.trace.id)[1]
        if notice is not None:
            self.notices.append(notice)
        name = request.model or default_name(self.trace)
        self.models = models
        self._model = models.named(name)
        self.range = (
            kept.next_range(store, self.trace.id, self._model.name) if request.no_cache else 0
        )
        self.step = self._first_step()
        self._judge = expectation.judge_of(models, request.expect, request.judge, self._model.name)
        self.trials = self._make_trials()
        self._fill()
        self.question: Json = [
            self.trace.id,
            self.step,
            self.trials.name,
            self._model.name,
            self._model.server,
            self.range,
        ]

    @property
    def kind(self) -> Kind:
        if self._request.fix is not None:
            return "prefix"
        return "hunks" if self.parts else "versions"

    @property
    def hunk_names(self) -> list[str]:
        """How the texts with none, one, two … of the hunks are called."""
        many = len(self.parts)
        return [spelled(frozenset(range(count)), many) for count in range(many + 1)]

    def hunk_edit(self, chosen: Chosen, text: str) -> Edit | None:
        """The edit that makes the prompt the old text with some of its hunks."""
        name = spelled(chosen, len(self.parts))
        return Source(name=name, text=text).edit(self.trace, self._at)

    def label(self, name: str) -> Label:
        """How a version is called, and what is known of it."""
        source = next((each for each in self._sources if each.name == name), None)
        if source is None:
            return Label(name)
        made = next((each for each in self.trials.versions if each.name == name), None)
        recorded = ("as recorded",) if made is not None and made.edit is None else ()
        note = " · ".join((source.note, *recorded) if source.note else recorded)
        return Label(name, note, source.note)

    def diff(self, among: Sequence[int]) -> tuple[str, ...]:
        """What the named version changes of the one before it."""
        if not among or not self._sources:
            return ()
        before, after = self._sources[min(among) - 1], self._sources[max(among)]
        return text_diff(before.text, after.text, before.name, after.name)

    # --- making ready

    @property
    def _at(self) -> int:
        """The step whose prompt is the recorded one."""
        return self.step if self.step is not None else 0

    def _first_step(self) -> int | None:
        request = self._request
        if not self.free or request.at is not None:
            return expectation.step_of(self._store, self.trace, request.at)
        return None

    def _make_trials(self) -> Trials | Rollouts:
        request = self._request
        if not self.free:
            assert self.step is not None
            detector = expectation.detector_of(
                self._store, self.trace, self.step, request.expect, self._judge
            )
            return Trials(self.trace, detector, self._model, range=self.range)
        known = kept.stubs_of_trace(self._store, self.trace.id)
        return Rollouts(
            self.trace,
            expectation.ending(self.trace, request.expect),
            self._model,
            terms=Terms(stubs=known, allow_stale=request.allow_stale),
            max_steps=request.max_steps,
            range=self.range,
        )

    def _fill(self) -> None:
        request = self._request
        if request.fix is not None:
            self._from_each_step(request.fix)
        elif request.old is not None and request.new is not None:
            self.old = request.old.text
            self.parts = hunks(request.old.text, request.new.text)
            if not self.parts:
                raise BadVersions("the two texts are the same", "Try: --old OLD --new NEW")
        else:
            distinct = merged(request.sources)
            self._sources = distinct.sources
            self.notices += distinct.notices
            self._add(
                Version(name=each.name, edit=_one_model(each.edit(self.trace, self._at)))
                for each in distinct.sources
            )

    def _add(self, versions: Iterable[Version]) -> None:
        for each in versions:
            self.trials.add(Version(name=each.name, edit=each.edit, start=self.step))

    def _from_each_step(self, fix: Edit) -> None:
        """The fix from each step of the run it applies to; the others are said."""
        thread = fix.thread or (self.trace.steps[0].thread if self.trace.steps else None)
        for step in self.trace.steps:
            if step.thread != thread or step.index < (self.step or 0):
                continue
            if step.ask.response.message is None:
                continue
            version = Version(name=f"step {step.index}", edit=_one_model(fix), start=step.index)
            try:
                self.trials.add(version)
            except NotReplayable as refusal:
                self.notices.append(refusal.message)
            except BadEdit as refusal:
                self.notices.append(f"left out: {refusal.message}")
        if len(self.trials.versions) < 2:
            why = self.notices[-1] if self.notices else "the run has too few"
            raise BadVersions(f"the fix applies to fewer than two steps: {why}")


def _one_model(edit: Edit | None) -> Edit | None:
    """The edit. Raises BadEdit where it would ask another model: one is asked of all versions."""
    if edit is not None and edit.model is not None:
        raise BadEdit(
            f"{edit.name} sets another model; all versions need the same",
            "Try: an edit without set_model",
        )
    return edit


class BisectEstimate(Struct, frozen=True, kw_only=True):
    """What a bisection may come to.

    `stored` samples are there already; about `samples` in all are wanted where a version fails in
    1 of 10 answers before the change and in 8 of 10 after it, and never more than `max_samples`. A
    sample is one call, or for whole runs up to `calls_each`. `input_tokens` and `usd` are of one
    sample, as its recorded steps were; None where that is not known. `settled`: the search comes to
    its end with what is stored. A `judge` is asked once more for every answer that is unlike those
    before it, for `judge_usd`; None where no model judges.
    """

    model: str
    stored: int
    samples: int
    max_samples: int
    calls_each: int
    input_tokens: int
    usd: float | None
    settled: bool = False
    judge: str | None = None
    judge_usd: float | None = 0.0

    @property
    def about_usd(self) -> float | None:
        """What the samples that are not stored are about to cost, and judging them."""
        if self.usd is None or self.judge_usd is None:
            return None
        return (self.usd + self.judge_usd) * max(0, self.samples - self.stored)


def estimate_cost(store: Store, request: BisectRequest) -> BisectEstimate:
    """What `run_bisection` with the same request may ask and cost. Asks nothing.

    Raises as `run_bisection` does before it asks.
    """
    plan = Plan(store, request, ModelPool(store))
    model = plan.trials.model
    stored, settled = (0, False) if request.no_cache else _stored(plan)
    if plan.parts:
        about = expected_for_hunks(len(plan.parts), plan.settings)
    else:
        about = expected_for_versions(len(plan.trials.versions), plan.settings)
    road = (
        free.recorded_actions(plan.trace, request.fix, model.name, plan.step) if plan.free else []
    )
    steps = {each.step.index for each in road} if plan.free else {plan.step or 0}
    with Store.open(":memory:") as empty:
        one = Models.one(Cached(empty, model.name))
        each = estimate(plan.trace, None, one, sampling=fixed(1), steps=steps)
    detector = plan.trials.detector if isinstance(plan.trials, Trials) else None
    judged = (
        detector if isinstance(detector, JudgeDetector) and detector.judge is not None else None
    )
    return BisectEstimate(
        model=model.name,
        stored=stored,
        samples=about,
        max_samples=plan.settings.max_samples,
        calls_each=free.limit_of(road, request.max_steps) if plan.free else 1,
        input_tokens=each.input_tokens,
        usd=0.0 if model.name == DEMO else each.usd,
        settled=settled,
        judge=judged.judge.name if judged is not None and judged.judge is not None else None,
        judge_usd=judged.estimate_cost((), 1).usd if judged is not None else 0.0,
    )


def _stored(plan: Plan) -> tuple[int, bool]:
    """How far the search gets with what is stored, and whether that is its end."""
    if plan.trials.model.name == DEMO:  # it would answer
        return 0, False
    going = (
        bisect_hunks(plan.trials, plan.old, plan.parts, plan.hunk_edit, plan.settings)
        if plan.parts
        else bisect(plan.trials, len(plan.trials.versions), plan.settings)
    )
    settled = False
    with suppress(OfflineMiss, ModelRefused):
        for _ in going:
            pass
        settled = True
    return len(plan.trials.evidence), settled
