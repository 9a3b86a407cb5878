"""Suggested edits from a request to views: `arc suggest` drains them, the screen's worker posts.

The edits are written for the runs of the half on which they are compared; the other half is not
read before the one look at it. Each test is that of `arc try`, which keeps nothing of these edits.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from typing import NamedTuple

from msgspec import Struct, structs

from arc_tui.cli import require
from arc_tui.experiments.models import ModelPool
from arc_tui.experiments.progress import BETWEEN_VIEWS_S
from arc_tui.features.edit_test.plan import (
    by_trace,
    fresh_range,
    list_breaks,
    plan_edit_test,
    take_range,
)
from arc_tui.features.edit_test.plan import estimate_cost as estimate_edit_test
from arc_tui.features.edit_test.plan import keep as keep_edit_test
from arc_tui.features.edit_test.run import run_edit_test
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
from arc_tui.views.columns import run_name
from arc_tui.views.runs import run_rows
from replay import digests
from replay.edit.changes import Edit, InjectConstraint
from replay.edit.editor import diff_trace
from replay.errors import ArcError, BadEdit, OfflineMiss, Stopped
from replay.locked.estimate import NO_CALLS, Estimate, estimate, price_of, total_estimate
from replay.models.choose import DEMO, default_name
from replay.store import answers, edits, read
from replay.store.handle import Store, now_ns
from replay.trace import Usage
from taxonomy.edit_test import Break, LeftOut, Spot, detector_of
from taxonomy.judgements.diagnoses import diagnosis
from taxonomy.query.listing import RunRow
from taxonomy.suggestions.edits import (
    NoSuggestion,
    Passed,
    Suggestion,
    most_frequent,
    prompt_of,
    restore_prompt,
    suggest_edits,
)
from taxonomy.suggestions.reflection import Broken, Proposals, Reflected, propose
from taxonomy.suggestions.trial import Halves, halves, holding


class Half(NamedTuple):
    """The failing runs of a half, and the passed ones that its healthy steps are drawn from."""

    traces: tuple[str, ...]
    healthy: frozenset[str]
    tasks: int


class Origin(NamedTuple):
    """An edit, and the run at whose break it was written."""

    made: Suggestion
    trace: str
    step: int


class Plan(Struct, frozen=True, eq=False, kw_only=True):
    """The two halves of the runs that can be replayed, the edits of the first, and of which runs
    nothing is asked. Where none can be, edits are written for all and nothing is tested."""

    compared: Half
    held_back: Half
    origins: tuple[Origin, ...]
    without: tuple[LeftOut, ...]
    left_out: tuple[LeftOut, ...]
    not_applicable: tuple[LeftOut, ...]

    @property
    def runs(self) -> int:
        return len(self.compared.traces) + len(self.held_back.traces)


def plan_suggestions(store: Store, request: SuggestRequest, models: ModelPool) -> Plan:
    """The plan. Asks nothing, and is the same whenever the database is.

    Raises NotFound where no run is meant, BadEdit where none of them broke anywhere, ArcError where
    a model is to propose edits and the optimiser is not installed.
    """
    if request.reflect is not None:
        require("arc suggest --reflect", "gepa", extra="suggest")
    whole = _test(request, None, None)
    found, groups, left_out, not_applicable = list_breaks(store, whole, models)
    if not found:
        whys = Counter(left.why for left in left_out)
        raise BadEdit(f"no edit to suggest: {'; '.join(why for why, _ in whys.most_common(3))}")
    if request.reflect is not None:
        models.named(request.reflect)
    tasks = {row.trace: groups.get(row.trace, row.task or row.trace) for row, _ in found}
    split = halves(Counter(tasks[trace] for trace in groups))
    sides: tuple[list[tuple[RunRow, Break]], list[tuple[RunRow, Break]]] = ([], [])
    silent: list[tuple[RunRow, Break]] = []
    for row, broke in found:
        if row.trace not in groups:  # an edit may be written for it, none is tested on it
            if not split.is_held_back(tasks[row.trace]):
                silent.append((row, broke))
        else:
            sides[split.is_held_back(tasks[row.trace])].append((row, broke))
    healthy = _healthy(store, split)
    origins, without = _origins(store, [*sides[0], *silent], request.most)
    return Plan(
        compared=_half(sides[0], tasks, healthy[0]),
        held_back=_half(sides[1], tasks, healthy[1]),
        origins=origins,
        without=without,
        left_out=tuple(left_out),
        not_applicable=tuple(not_applicable),
    )


def _healthy(store: Store, split: Halves) -> tuple[frozenset[str], frozenset[str]]:
    """The passed runs by half: a task's are in the half of its failing ones."""
    sides: tuple[set[str], set[str]] = (set(), set())
    for row in run_rows(store):
        if row.outcome == "passed":
            sides[split.is_held_back(row.task or row.trace)].add(row.trace)
    return frozenset(sides[0]), frozenset(sides[1])


def _half(
    found: Sequence[tuple[RunRow, Break]], tasks: dict[str, str], healthy: frozenset[str]
) -> Half:
    traces = tuple(row.trace for row, _ in found)
    return Half(traces, healthy, len({tasks[trace] for trace in traces}))


def _origins(
    store: Store, found: Iterable[tuple[RunRow, Break]], most: int
) -> tuple[tuple[Origin, ...], tuple[LeftOut, ...]]:
    """The edits that most runs lead to, each with the first of them; and the runs without one."""
    made: list[Suggestion] = []
    first: dict[str, tuple[str, int]] = {}
    without: list[LeftOut] = []
    passed = _Passed(store)
    for row, broke in found:
        said = diagnosis(store, broke.trace)
        trace = read.load(store, broke.trace)
        suggested = suggest_edits(trace, broke, said.findings if said else ())
        other = passed.of(row)
        restored = restore_prompt(trace, broke, other) if other is not None else None
        more = () if restored is None else (restored,)
        if isinstance(suggested, NoSuggestion):
            if not more:
                without.append(LeftOut(trace=row.trace, why=suggested.why))
            suggested = ()
        for each in (*suggested[:1], *more, *suggested[1:]):
            masked = structs.replace(each, edit=edits.mask(store, each.edit))
            made.append(masked)
            first.setdefault(masked.edit.digest, (broke.trace, broke.step))
    chosen = most_frequent(made, most)
    return tuple(Origin(each, *first[each.edit.digest]) for each in chosen), tuple(without)


class _Passed:
    """The runs that passed, by task: the latest under each prompt."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._by_task: dict[str, list[RunRow]] = {}
        for row in sorted(run_rows(store), key=lambda row: (row.start_ns or 0, row.trace)):
            if row.outcome == "passed" and row.task and row.prompt and row.steps:
                self._by_task.setdefault(row.task, []).append(row)

    def of(self, row: RunRow) -> Passed | None:
        """The latest run of the same task by the same agent that passed under another prompt."""
        others = [
            each
            for each in self._by_task.get(row.task or "", ())
            if each.prompt != row.prompt and (each.format, each.agent) == (row.format, row.agent)
        ]
        if not others:
            return None
        other = others[-1]
        named = other.variant or f"the prompt of {run_name(other)}"
        return Passed(read.load(self._store, other.trace), named)


def _test(request: SuggestRequest, edit: Edit | None, half: Half | None) -> EditTestRequest:
    """The test of an edit on one half; None: on all runs that are meant."""
    return EditTestRequest(
        edit=edit,
        query=request.query,
        traces=request.traces if half is None else half.traces,
        samples=request.samples,
        controls=request.controls,
        schedule=request.schedule,
        resample=request.resample,
        with_held_out=request.with_held_out,
        model=request.model,
        live=request.live,
        limits=request.limits,
        healthy=None if half is None else half.healthy,
        keeps=False,
    )


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
    test = _test(request, edit, half)
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
                plan = plan_edit_test(self._store, _test(self._request, None, half), self._models)
                used = fresh_range(self._store, plan, self._models)
                take_range(self._store, plan, self._models, used)

    def _propose(self, reflect: str) -> Iterator[SuggestView]:
        """Edits that a model proposes for the runs of the first half."""
        test = _test(self._request, None, self._plan.compared)
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
        for view in run_edit_test(self._store, _test(self._request, asked, half), self._models):
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


# --- what is kept of it

KEPT = "suggest/"
"""Before the names under which finished tests are remembered."""


class SavedSuggestions(Struct, frozen=True, eq=False, kw_only=True):
    """A finished test of suggested edits."""

    view: SuggestView


def keep(
    store: Store, request: SuggestRequest, plan: Plan, models: tuple[str, ...], view: SuggestView
) -> None:
    """Remember what a finished test came to."""
    name = f"{KEPT}{_key(request, plan, models)}"
    answers.keep(store, name, SavedSuggestions(view=structs.replace(view, doing="")))


def suggested_before(
    store: Store, request: SuggestRequest, plan: Plan, models: tuple[str, ...]
) -> SuggestView | None:
    """What the same edits came to on the same runs by the same models, None where that is not
    known to the end."""
    name = f"{KEPT}{_key(request, plan, models)}"
    found = answers.found(store, name, SavedSuggestions)
    return found[-1].view if found else None


def _key(request: SuggestRequest, plan: Plan, models: tuple[str, ...]) -> str:
    """What was asked: the edits, the runs of both halves, the models, how often."""
    return digests.digest(
        "suggest",
        digests.encode([origin.made.edit.digest for origin in plan.origins]),
        digests.encode([*plan.compared.traces, "", *plan.held_back.traces]),
        digests.encode([*sorted(plan.compared.healthy), "", *sorted(plan.held_back.healthy)]),
        digests.encode([*models, request.reflect or "", str(request.proposals)]),
        digests.encode([request.samples, request.controls]),
    )


def _digest(view: SuggestView) -> str:
    """All evidence in one word: that of every test."""
    found = [
        [each.digest, each.verdict, *(test.digest for test in (each.compared, each.looked) if test)]
        for each in view.edits
    ]
    return digests.digest("suggestions", digests.encode(found))


def save_edit(store: Store, edit: SuggestedEdit, query: str) -> str:
    """Keep an edit among the saved ones, with what its tests came to on each half; its name."""
    kept = edits.save(store, Edit(name=edit.name, changes=edit.changes, thread=edit.thread))
    for view, half in ((edit.compared, "compared"), (edit.looked, "held back")):
        if view is not None and view.digest is not None:
            left = (trace for each in (*view.left_out, *view.not_applicable)
                    for trace in each.traces)  # fmt: skip
            runs = sorted({*(row.trace for row in view.runs), *left})
            keep_edit_test(store, kept, runs, structs.replace(view, query=f"{query} ({half})"))
    return kept.name
