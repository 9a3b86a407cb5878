"""What `arc try` will call, on which runs of a class, at which healthy steps, for about how much;
and what the same edit came to before.

The runs are those of a query or a list, each once; the control steps come from the same runs
before they broke and from runs that passed under the same prompts. Tries are remembered by edit,
and by the runs they were on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from msgspec import Struct

from arc_tui.experiments.models import ModelPool
from arc_tui.features.edit_test.view import (
    Case,
    Control,
    EditTestPlan,
    EditTestRequest,
    EditTestView,
)
from arc_tui.views.runs import run_rows
from replay import digests, kept, messages
from replay.edit.changes import Edit
from replay.errors import ArcError, BadEdit, NotFound
from replay.locked.estimate import Estimate, estimate, total_estimate
from replay.models.choose import default_name
from replay.plan import Plan, plans
from replay.store import answers, read
from replay.store.handle import Store, now_ns
from replay.trace import Trace
from taxonomy.edit_test import Break, LeftOut, Spot, break_of, drawn, healthy_steps, words_on
from taxonomy.held_out import hidden
from taxonomy.judgements.diagnoses import diagnosis
from taxonomy.query.listing import RunRow

HELD_OUT = "held-out task"
NO_MODEL = "model unknown; --model NAME sets one"
UNTOUCHED = "the edit does not change the request at the break"

_REASONS = 3
_LOOK = 'Try: arc ls, or arc failures; quote a class of two words: class:"wrong tool"'


def plan_edit_test(store: Store, request: EditTestRequest, models: ModelPool) -> EditTestPlan:
    """The plan. Asks nothing, and is the same whenever the database is.

    Raises NotFound where no run is meant, BadEdit where the edit applies to none, ModelRefused
    where nobody may be asked.
    """
    return _Planning(store, request, models).plan()


class Breaks(NamedTuple):
    """Where each run that is meant broke. `groups` are those that can be asked there, by trace,
    with what their answers are alike in; `not_applicable` says why the others cannot be."""

    found: Sequence[tuple[RunRow, Break]]
    groups: dict[str, str]
    left_out: Sequence[LeftOut]
    not_applicable: Sequence[LeftOut]


def list_breaks(store: Store, request: EditTestRequest, models: ModelPool) -> Breaks:
    """The breaks of the runs that are meant. Asks nothing; raises NotFound where no run is."""
    planning = _Planning(store, request, models)
    rows = planning.rows()
    if not rows:
        raise NotFound("run that matches", request.query, hint=_LOOK)
    found = list(planning.breaks(rows))
    groups: dict[str, str] = {}
    refused: list[LeftOut] = []
    for row, broke in found:
        asked = planning.ask_at(broke)
        if isinstance(asked, LeftOut):
            refused.append(LeftOut(trace=row.trace, why=asked.why))
        else:
            groups[row.trace] = row.task or asked
    return Breaks(found, groups, planning.left_out, refused)


def newest_prompt(store: Store, plan: EditTestPlan) -> str:
    """The system prompt at the break of the run that began last, "" where none was recorded."""
    case = max(plan.cases, key=lambda case: (case.row.start_ns or 0, case.row.imported_ns))
    system = read.load(store, case.broke.trace).steps[case.broke.step].ask.request.system
    return messages.text(system) if system is not None else ""


def by_trace(spots: Sequence[Spot]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The steps of each trace, in their order."""
    steps: dict[str, set[int]] = {}
    for spot in spots:
        steps.setdefault(spot.trace, set()).add(spot.step)
    for trace, found in steps.items():
        yield trace, tuple(sorted(found))


class _Planning:
    """The choice under way."""

    def __init__(self, store: Store, request: EditTestRequest, models: ModelPool) -> None:
        self._store = store
        self._request = request
        self._models = models
        self._words = words_on(store)
        self._hidden = frozenset() if request.with_held_out else hidden(store)
        self.left_out: list[LeftOut] = []
        self._not_applicable: list[LeftOut] = []

    def plan(self) -> EditTestPlan:
        rows, edit = self.rows(), self._request.edit
        if not rows:
            raise NotFound("run that matches", self._request.query, hint=_LOOK)
        cases = list(self._cases(rows))
        if not cases and self._request.needs_break:
            raise self._none(len(rows))
        controls = sorted(self._controls(cases), key=_control_place) if edit else ()
        if not cases and not controls:
            raise BadEdit(f"the edit reaches no healthy step of {len(rows)} runs")
        return EditTestPlan(
            cases=tuple(sorted(cases, key=lambda case: _place(case.row))),
            controls=tuple(controls),
            left_out=tuple(self.left_out),
            not_applicable=tuple(self._not_applicable),
        )

    def _none(self, runs: int) -> ArcError:
        """Why nothing can be tried: the reasons of most."""
        whys = Counter(left.why for left in (*self._not_applicable, *self.left_out))
        said = "; ".join(f"in {count} {why}" for why, count in whys.most_common(_REASONS))
        if len(whys) == 1:
            said = next(iter(whys))
        return BadEdit(f"cannot test the edit on any of {runs} runs: {said}")

    # --- the runs

    def rows(self) -> Sequence[RunRow]:
        """The runs that are meant, as lists show them."""
        traces = self._request.traces
        if traces is None:
            return run_rows(self._store, self._request.query)
        every = run_rows(self._store, every=True)
        runs = {row.run for row in every if row.trace in traces}
        return [row for row in every if row.preferred and row.run in runs]

    def breaks(self, rows: Iterable[RunRow]) -> Iterator[tuple[RunRow, Break]]:
        """Where each run broke; the others are left out."""
        for row in rows:
            if row.task in self._hidden:
                self.left_out.append(LeftOut(trace=row.trace, why=HELD_OUT))
                continue
            said = self._words.get(row.trace, ())
            broke = break_of(row.trace, row.outcome, said, diagnosis(self._store, row.trace))
            if isinstance(broke, LeftOut):
                self.left_out.append(broke)
            else:
                yield row, broke

    def _cases(self, rows: Iterable[RunRow]) -> Iterator[Case]:
        for row, broke in self.breaks(rows):
            asks = self.ask_at(broke)
            if isinstance(asks, LeftOut):
                self._not_applicable.append(asks)
            else:
                yield Case(row=row, broke=broke, asks=asks)

    def ask_at(self, broke: Break) -> str | LeftOut:
        """What is asked at a break, or why nothing can be."""
        try:
            spots, why = self._planned(broke.trace, lambda _: {broke.step})
        except BadEdit as error:
            said = error.message.removeprefix(f"step {broke.step}: ")
            return LeftOut(trace=broke.trace, why=said)
        return spots[0].asks if spots else LeftOut(trace=broke.trace, why=why)

    # --- the control steps

    def _controls(self, cases: Sequence[Case]) -> Iterator[Control]:
        rows = {case.broke.trace: case.row for case in cases}
        before = {case.broke.trace: case.broke.step for case in cases}
        alike = {_setting(case.row) for case in cases}
        for row in run_rows(self._store):
            meant = _setting(row) in alike or not self._request.needs_break
            if row.outcome == "passed" and meant and self._may_be_healthy(row):
                rows[row.trace] = row
        most = self._request.controls
        for spot in drawn(rows, lambda key: self._healthy(key, before.get(key)), most):
            yield Control(row=rows[spot.trace], spot=spot)

    def _may_be_healthy(self, row: RunRow) -> bool:
        chosen = self._request.healthy
        return row.task not in self._hidden and (chosen is None or row.trace in chosen)

    def _healthy(self, key: str, before: int | None) -> Sequence[Spot]:
        said = diagnosis(self._store, key)
        found = said.findings if said else ()
        try:
            return self._planned(key, lambda trace: set(healthy_steps(trace, found, before)))[0]
        except BadEdit:
            return ()

    def _planned(
        self, key: str, steps_of: Callable[[Trace], set[int]]
    ) -> tuple[Sequence[Spot], str]:
        """The steps at which both arms can be asked and differ, and why some were not taken."""
        trace = read.load(self._store, key)
        name = self._request.model or default_name(trace)
        if name is None:
            return (), NO_MODEL
        steps = steps_of(trace)
        if not steps:
            return (), ""
        control, edited = self._models.arms(name, self._request.edit)
        made = plans(trace, self._request.edit, control.name, steps, edited_model=edited.name)
        whys = [why for each in made if (why := self._why_not(each)) is not None]
        spots = [_spot(key, each) for each in made if self._why_not(each) is None]
        return spots, whys[0] if whys else f"there is no step {min(steps)}"

    def _why_not(self, plan: Plan) -> str | None:
        """Why a step is not asked in both arms, None where it is."""
        refused = plan.refusal or plan.edited_refusal
        if refused is not None or self._request.edit is None:
            return refused
        return UNTOUCHED if plan.edited.sent.asks_as(plan.control.sent) else None


def _spot(trace: str, plan: Plan) -> Spot:
    asks = digests.digest("asks", plan.control.sent.key(0), plan.edited.sent.key(0))
    return Spot(trace, plan.step.index, asks)


def _setting(row: RunRow) -> tuple[str | None, ...]:
    """What makes a passed run one that the edit is meant for too: the prompt it ran under."""
    return (row.prompt,) if row.prompt else (None, row.format, row.agent)


def _place(row: RunRow) -> tuple[bool, str, str, str]:
    """By task and trial; what has none last."""
    return row.task is None, row.task or "", row.trial or "", row.trace


def _control_place(control: Control) -> tuple[tuple[bool, str, str, str], int]:
    return _place(control.row), control.spot.step


# --- what is remembered of tries

KEPT = "try/"
"""Before the names under which they are remembered."""


class SavedEditTest(Struct, frozen=True, eq=False, kw_only=True):
    """A finished try. `edit` is the edit's digest, `traces` are the runs that were meant, whether
    anything was asked of them or not."""

    edit: str
    traces: tuple[str, ...]
    models: tuple[str, ...]
    ran_ns: int
    view: EditTestView


def keep(store: Store, edit: Edit, traces: Sequence[str], view: EditTestView) -> None:
    """Remember a finished try of an edit on those runs. The same evidence again only gets the newer
    date."""
    assert view.digest is not None
    value = SavedEditTest(
        edit=edit.digest,
        traces=tuple(traces),
        models=view.spent.models,
        ran_ns=now_ns(),
        view=view,
    )
    answers.keep(store, f"{KEPT}{value.edit}/{view.digest}", value)


def saved_edit_tests(store: Store, edit: Edit | str | None = None) -> list[SavedEditTest]:
    """The finished tries of an edit, or of all, the latest first."""
    digest = edit.digest if isinstance(edit, Edit) else edit
    prefix = KEPT if digest is None else f"{KEPT}{digest}/"
    return sorted(answers.found(store, prefix, SavedEditTest), key=lambda each: -each.ran_ns)


def tested_before(
    store: Store, request: EditTestRequest, plan: EditTestPlan, models: tuple[str, ...]
) -> SavedEditTest | None:
    """The latest try of the same edit on the same runs by the same models."""
    if request.edit is None:
        return None
    runs = meant(plan)
    same = (
        each
        for each in saved_edit_tests(store, request.edit)
        if each.traces == runs and each.models == models
    )
    return next(same, None)


def meant(plan: EditTestPlan) -> tuple[str, ...]:
    """The runs a plan is about."""
    left = (each.trace for each in (*plan.left_out, *plan.not_applicable))
    return tuple(sorted({*(case.row.trace for case in plan.cases), *left}))


def fresh_range(store: Store, plan: EditTestPlan, models: ModelPool) -> int:
    """A range of samples that nothing finished has used of these runs."""
    return max(kept.next_range(store, *each) for each in _traces_and_models(plan, models))


def take_range(store: Store, plan: EditTestPlan, models: ModelPool, range: int) -> None:
    """Remember that a finished try used that range: nobody's fresh samples are of it."""
    for trace, model in _traces_and_models(plan, models):
        kept.take_range(store, trace, model, range)


def _traces_and_models(plan: EditTestPlan, models: ModelPool) -> Iterator[tuple[str, str]]:
    """The traces a plan asks at, each with every model it asks."""
    breaks = {case.broke.trace for case in plan.cases}
    for trace in sorted(breaks | {control.spot.trace for control in plan.controls}):
        yield from ((trace, model.name) for model in models.models)


# --- what it would cost


class CostedPlan(NamedTuple):
    """The plan, the models it asks, what that would cost; and `before`, the latest finished try of
    the same edit on the same runs by the same models."""

    plan: EditTestPlan
    models: tuple[str, ...]
    estimate: Estimate
    before: SavedEditTest | None


def estimate_cost(store: Store, request: EditTestRequest) -> CostedPlan:
    """What trying would ask. Asks nothing. Raises as `plan_edit_test` does."""
    models = ModelPool(store)
    plan = plan_edit_test(store, request, models)
    estimate = total_estimate(_estimates(store, request, plan, models))
    names = tuple(model.name for model in models.models)
    return CostedPlan(plan, names, estimate, tested_before(store, request, plan, names))


def _estimates(
    store: Store, request: EditTestRequest, plan: EditTestPlan, models: ModelPool
) -> Iterator[Estimate]:
    """What each run would ask, a question that two of them ask once."""
    sampling = request.sampling(fresh_range(store, plan, models) if request.resample else 0)
    questions = {case.asks: Spot(case.broke.trace, case.broke.step, "") for case in plan.cases}
    controls = [control.spot for control in plan.controls]
    for key, steps in by_trace((*questions.values(), *controls)):
        trace = read.load(store, key)
        name = request.model or default_name(trace)
        if name is not None:
            arms = models.arms(name, request.edit)
            yield estimate(trace, request.edit, arms, sampling=sampling, steps=steps)
