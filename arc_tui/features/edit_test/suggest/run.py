"""Suggested edits from a request to views: `arc suggest` drains them, the screen's worker posts.

Each test is that of `arc try`, which keeps nothing of these edits before one is saved.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import structs

from arc_tui.experiments.models import ModelPool
from arc_tui.experiments.progress import BETWEEN_VIEWS_S
from arc_tui.features.edit_test.plan import (
    by_trace,
    fresh_range,
    plan_edit_test,
    take_range,
)
from arc_tui.features.edit_test.plan import estimate_cost as estimate_edit_test
from arc_tui.features.edit_test.plan import keep as keep_edit_test
from arc_tui.features.edit_test.run import run_edit_test
from arc_tui.features.edit_test.suggest.plan import (
    Half,
    Origin,
    Plan,
    half_test,
    keep,
    plan_suggestions,
    suggested_before,
)
from arc_tui.features.edit_test.suggest.view import (
    SuggestedEdit,
    SuggestRequest,
    SuggestView,
    Verdict,
    score_of,
)
from arc_tui.features.edit_test.view import (
    Case,
    EditTestRequest,
    EditTestView,
    Spent,
    by_reason,
)
from replay import bundle, digests, files, kept
from replay.bundle import BadBundle
from replay.compare.rules import PLAIN
from replay.edit.changes import Edit, InjectConstraint
from replay.edit.editor import diff_trace
from replay.errors import ArcError, BadEdit, OfflineMiss, Stopped
from replay.locked.estimate import NO_CALLS, Estimate, estimate, price_of, total_estimate
from replay.locked.run import Core, Lane, core, replay_all
from replay.models.choose import DEMO, default_name
from replay.store import edits, read
from replay.store.handle import Store, now_ns
from replay.trace import Usage
from taxonomy.edit_test import Spot, detector_of
from taxonomy.judgements.diagnoses import diagnosis
from taxonomy.suggestions.edits import (
    prompt_of,
)
from taxonomy.suggestions.reflection import Broken, Proposals, Reflected, propose
from taxonomy.suggestions.trial import holding

# --- what it would cost


class CostedPlan(NamedTuple):
    """The plan, the models it asks, what that would cost; and `before`, what the same came to the
    last time it was asked to its end."""

    plan: Plan
    models: tuple[str, ...]
    estimate: Estimate
    before: SuggestView | None
    view: SuggestView


def estimate_cost(store: Store, request: SuggestRequest) -> CostedPlan:
    """What testing would ask: every edit on one half, one on the other. Asks nothing."""
    models = ModelPool(store)
    plan = plan_suggestions(store, request, models)
    parts: list[Estimate] = []
    for at, origin in enumerate(plan.origins if plan.runs else ()):
        parts += _estimate(store, request, origin.made.edit, plan.compared, again=at > 0)
        if not at and plan.held_back.traces:
            parts += _estimate(store, request, origin.made.edit, plan.held_back, again=False)
    if request.reflect is not None and plan.runs:
        parts += _reflection(store, request, plan, models)
    names = tuple(dict.fromkeys(model.name for model in models.models))
    total = total_estimate(parts) if parts else NO_CALLS
    view = _Work(store, request, plan, models).view()
    return CostedPlan(plan, names, total, suggested_before(store, request, plan, names), view)


def _estimate(
    store: Store, request: SuggestRequest, edit: Edit, half: Half, *, again: bool
) -> Iterator[Estimate]:
    """Of one edit on one half; asked `again`, the control arm is answered already."""
    test = half_test(request, edit, half)
    try:
        whole = estimate_edit_test(store, test).estimate
    except ArcError:  # it is not applicable there: nothing is asked
        return
    yield _without(whole, _control(store, test)) if again else whole


def _reflection(
    store: Store, request: SuggestRequest, plan: Plan, models: ModelPool
) -> Iterator[Estimate]:
    """Of proposals, where each is good enough to be compared: the request for it by the size of the
    prompt, then a test like those of other edits."""
    model = models.named(request.reflect)
    like = Edit(name="a proposal", changes=(InjectConstraint("A sentence that joins the prompt."),))
    tests = list(_estimate(store, request, like, plan.compared, again=bool(plan.origins)))
    size = 0
    for trace in plan.compared.traces[:1]:
        step = read.load(store, trace).steps[0]
        size = len(prompt_of(step).text) // 4
    usage = Usage(input_tokens=size + TOLD_TOKENS, output_tokens=size + 1)
    cost = price_of(model, usage)
    usd = 0.0 if model.name == DEMO else cost.usd if cost is not None else None
    asked = Estimate(
        calls=1,
        stored=0,
        input_tokens=usage.input_tokens or 0,
        output_tokens=usage.output_tokens or 0,
        by_size=1,
        usd=usd,
    )
    for _ in range(request.proposals):
        yield from (asked, *tests)


TOLD_TOKENS = 1_000
"""About how much of the failures is told with a prompt."""


def _control(store: Store, test: EditTestRequest) -> Estimate:
    """What the control arm alone would ask."""
    models = ModelPool(store)
    plan = plan_edit_test(store, test, models)
    sampling = test.sampling(fresh_range(store, plan, models) if test.resample else 0)
    questions = {case.asks: Spot(case.broke.trace, case.broke.step, "") for case in plan.cases}
    spots = [*questions.values(), *(each.spot for each in plan.controls)]
    return total_estimate(
        estimate(
            trace := read.load(store, key),
            None,
            models.arms(test.model or default_name(trace), None),
            sampling=sampling,
            steps=steps,
        )
        for key, steps in by_trace(spots)
    )


def _without(whole: Estimate, part: Estimate) -> Estimate:
    """An estimate without a part of it."""
    return Estimate(
        calls=whole.calls - part.calls,
        stored=whole.stored - part.stored,
        input_tokens=whole.input_tokens - part.input_tokens,
        output_tokens=whole.output_tokens - part.output_tokens,
        by_size=whole.by_size - part.by_size,
        usd=None if whole.usd is None or part.usd is None else whole.usd - part.usd,
    )


# --- the run


def run_suggestions(
    store: Store, request: SuggestRequest, models: ModelPool
) -> Generator[SuggestView]:
    """Test the edits; yields the view whenever more is known, the first with nothing asked, the
    last with its digest. What was answered is kept; what a finished test came to, too.

    Raises as `plan_suggestions` does, OfflineMiss naming the run, and Stopped.
    """
    plan = plan_suggestions(store, request, models)
    work = _Work(store, request, plan, models)
    yield work.view()
    if plan.runs:
        yield from work.views()


class _Work:
    """Edits being tested: what is in so far."""

    def __init__(
        self, store: Store, request: SuggestRequest, plan: Plan, models: ModelPool
    ) -> None:
        self._store = store
        self._request = request
        self._plan = plan
        self._models = models
        self._edits = [_build_edit(store, origin) for origin in plan.origins]
        self._doing = ""
        self._now: EditTestView | None = None
        self._reflected: Reflected | None = None
        self._ended: str | None = None
        self._proposed = 0
        self._rejected: tuple[str, ...] = ()

    def views(self) -> Iterator[SuggestView]:
        try:
            if self._request.reflect is not None:
                yield from self._propose(self._request.reflect)
            if self._ended is None:
                yield from self._compare()
            yield from self._look()
        except (Stopped, OfflineMiss):
            yield self.view()
            raise
        self._doing, self._now = "", None
        view = self.view()
        if self._ended is None and view.tested:
            view = structs.replace(view, digest=_digest(view), ran_ns=now_ns())
            names = tuple(dict.fromkeys(model.name for model in self._models.models))
            keep(self._store, self._request, self._plan, names, view)
            if self._request.resample:
                self._take_ranges()
        yield view

    def _take_ranges(self) -> None:
        """The samples of this round are used: nobody's fresh ones are of it."""
        for half in (self._plan.compared, self._plan.held_back):
            if half.traces:
                plan = plan_edit_test(
                    self._store, half_test(self._request, None, half), self._models
                )
                used = fresh_range(self._store, plan, self._models)
                take_range(self._store, plan, self._models, used)

    def _propose(self, reflect: str) -> Iterator[SuggestView]:
        """Edits that a model proposes for the runs of the first half."""
        test = half_test(self._request, None, self._plan.compared)
        planned = plan_edit_test(self._store, test, self._models)
        runs = [broken_run(self._store, case, self._request, self._models)
                for case in planned.cases]  # fmt: skip
        range_ = fresh_range(self._store, planned, self._models) if test.resample else 0
        found = yield from self._reflect(
            propose(
                runs,
                self._models.named(reflect),
                proposals=self._request.proposals,
                samples=self._request.samples,
                range=range_,
            )
        )
        self._reflected = None
        self._proposed, self._rejected, self._ended = found.asked, found.rejected, found.ended
        known = {each.digest for each in self._edits}
        for made in found.made:
            masked = structs.replace(made, edit=edits.mask(self._store, made.edit))
            first = runs[0].broke
            each = _build_edit(self._store, Origin(masked, first.trace, first.step))
            if each.digest not in known:
                self._edits.append(each)
        yield self.view()

    def _reflect(
        self, work: Generator[Reflected, None, Proposals]
    ) -> Generator[SuggestView, None, Proposals]:
        """The proposals; says how far it is no more often than anyone reads."""
        shown = time.monotonic()
        with closing(work):
            while True:
                try:
                    far = next(work)
                except StopIteration as end:
                    found: Proposals = end.value
                    return found
                if (
                    self._reflected is None
                    or far.asked != self._reflected.asked
                    or (time.monotonic() - shown >= BETWEEN_VIEWS_S)
                ):
                    self._reflected, shown = far, time.monotonic()
                    self._doing = "Replaying as recorded, step"
                    if far.asked:
                        of = self._request.proposals
                        self._doing = f"Reflecting, proposal {far.asked} of {of}, step"
                    yield self.view()

    def _compare(self) -> Iterator[SuggestView]:
        """Every edit on the first half."""
        for at, edit in enumerate(self._edits):
            self._doing = f"Comparing edit {at + 1} of {len(self._edits)}, step"
            try:
                for test in self._run(edit, self._plan.compared):
                    self._edits[at] = structs.replace(self._edits[at], compared=test)
                    yield self.view()
            except BadEdit as none:
                self._edits[at] = structs.replace(self._edits[at], refused=none.message)
            if self._ended is not None:
                return
        self._judge()

    def _judge(self) -> None:
        """Nothing was looked at yet: what is not looked at afterwards was not chosen."""
        verdict: Verdict = "not chosen" if self._plan.held_back.traces else "look"
        self._edits = [
            structs.replace(each, verdict=verdict) if each.compared is not None else each
            for each in self._edits
        ]

    def _look(self) -> Iterator[SuggestView]:
        """The best edit on the other half, once."""
        at = self._best
        if at is None or self._ended is not None or not self._plan.held_back.traces:
            return
        self._doing = "Looking at the runs held back, step"
        self._edits[at] = structs.replace(self._edits[at], verdict="not tested")
        try:
            for test in self._run(self._edits[at], self._plan.held_back):
                self._edits[at] = structs.replace(self._edits[at], looked=test)
                yield self.view()
        except BadEdit as none:
            why = f"on the runs held back: {none.message}"
            self._edits[at] = structs.replace(self._edits[at], refused=why)
            return
        looked = self._edits[at].looked
        if self._ended is None and looked is not None:
            verdict: Verdict = "fix" if score_of(looked).is_fix else "no fix"
            self._edits[at] = structs.replace(self._edits[at], verdict=verdict)

    @property
    def _best(self) -> int | None:
        """The edit that is looked at, None where none makes the failure rarer."""
        tested = [at for at, each in enumerate(self._edits) if each.compared is not None]
        scores = [score_of(view) for at in tested if (view := self._edits[at].compared) is not None]
        return next((tested[at] for at in holding(scores)), None)

    def _run(self, edit: SuggestedEdit, half: Half) -> Iterator[EditTestView]:
        asked = Edit(name=edit.name, changes=edit.changes, thread=edit.thread)
        for view in run_edit_test(self._store, half_test(self._request, asked, half), self._models):
            self._now = view
            self._ended = view.ended
            yield view

    def view(self) -> SuggestView:
        plan = self._plan
        now = self._reflected or self._now
        return SuggestView(
            query=self._request.query,
            samples=self._request.samples,
            edits=tuple(self._edits),
            runs=plan.runs,
            compared=len(plan.compared.traces),
            compared_tasks=plan.compared.tasks,
            held_back=len(plan.held_back.traces),
            held_back_tasks=plan.held_back.tasks,
            proposed=self._proposed,
            rejected=self._rejected,
            without=by_reason(plan.without),
            left_out=by_reason(plan.left_out),
            not_applicable=by_reason(plan.not_applicable),
            doing=self._doing,
            done=now.done if now is not None else 0,
            total=now.total if now is not None else 0,
            spent=Spent.of(self._models),
            ended=self._ended,
        )


def broken_run(store: Store, case: Case, request: SuggestRequest, models: ModelPool) -> Broken:
    """A run at its break, ready to be asked again."""
    trace = read.load(store, case.broke.trace)
    said = diagnosis(store, trace.id)
    found = said.findings if said else ()
    why = next((each.why for each in found if each.step == case.broke.step), case.broke.by)
    return Broken(
        trace=trace,
        broke=case.broke,
        detector=detector_of(trace, found, case.broke),
        why=why,
        models=models.arms(request.model or default_name(trace), None),
    )


def _build_edit(store: Store, origin: Origin) -> SuggestedEdit:
    made = origin.made
    return SuggestedEdit(
        name=made.edit.name,
        digest=made.edit.digest,
        changes=made.edit.changes,
        thread=made.edit.thread,
        targets=made.targets,
        because=made.because,
        by=made.by,
        runs=made.runs,
        trace=origin.trace,
        step=origin.step,
        diff=tuple(diff_trace(made.edit, read.load(store, origin.trace), {origin.step})),
    )


def _digest(view: SuggestView) -> str:
    """All evidence in one word: that of every test."""
    found = [
        [each.digest, each.verdict, *(test.digest for test in (each.compared, each.looked) if test)]
        for each in view.edits
    ]
    return digests.digest("suggestions", digests.encode(found))


# --- what is saved of it


def save_edit(store: Store, edit: SuggestedEdit, query: str) -> str:
    """Keep an edit among the saved ones, with what its tests came to on each half; its name."""
    saved = edits.save(store, Edit(name=edit.name, changes=edit.changes, thread=edit.thread))
    for view, half in ((edit.compared, "compared"), (edit.looked, "held back")):
        if view is not None and view.digest is not None:
            left = (trace for each in (*view.left_out, *view.not_applicable)
                    for trace in each.traces)  # fmt: skip
            runs = sorted({*(row.trace for row in view.runs), *left})
            keep_edit_test(store, saved, runs, structs.replace(view, query=f"{query} ({half})"))
    return saved.name


SUGGESTION = "suggestion.json"
"""Beside the bundles of the runs: the halves and all figures."""


def write_bundles(
    store: Store, request: SuggestRequest, view: SuggestView, folder: Path
) -> Iterator[Path]:
    """What the tests of the best edit rest on, once it is saved: a bundle of every run that was
    asked, at the steps that were, out of stored answers alone. The replays are kept, as others are.

    Raises BadBundle where one cannot be written, OfflineMiss where an answer is gone.
    """
    best = view.best
    assert best is not None
    assert view.saved is not None
    saved = edits.find(store, view.saved)
    offline = structs.replace(request, live=False)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        said = msgspec.json.format(msgspec.json.encode(view), indent=2)
        files.put(BytesIO(said + b"\n"), folder / SUGGESTION)
    except OSError as error:
        raise BadBundle(f"{folder}: cannot be written: {error.strerror}") from error
    with offline.model_pool(store) as models:
        for test, half in ((best.compared, "compared"), (best.looked, "held-back")):
            if test is None:
                continue
            asked = [(row.trace, row.step) for row in test.runs]
            asked += [(row.trace, row.step) for row in test.steps]
            for key in dict.fromkeys(trace for trace, _ in asked):
                steps = sorted({step for trace, step in asked if trace == key})
                file = folder / f"{half}-{key[:8]}.zip"
                bundle.write(store, _core(store, offline, models, saved, test, key, steps), file)
                yield file


def _core(
    store: Store,
    request: SuggestRequest,
    models: ModelPool,
    edit: Edit,
    view: EditTestView,
    key: str,
    steps: Sequence[int],
) -> Core:
    """A run's replay at the steps of a test, out of the answers that are stored, and kept."""
    trace = read.load(store, key)
    arms = models.arms(request.model or default_name(trace), edit)
    sampling = half_test(request, edit, None).sampling(view.range)
    lane = Lane(trace, edit, arms, sampling=sampling, steps=steps)
    results = [result for _, result in replay_all([lane])]
    made = core(trace, edit, arms, results, sampling=sampling, steps=steps, rules=PLAIN)
    return kept.find(store, kept.keep(store, made))
