"""An edit tested on a class of runs, as values: what a person wants tested, the steps that come of
it, and what became of each break and each healthy step.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct

from arc_tui.experiments.models import ModelPool, Spending
from arc_tui.experiments.request import ExperimentRequest
from arc_tui.views.columns import run_name
from replay.compare.rules import PLAIN, Rules
from replay.edit.changes import Edit
from replay.locked.row import Sampling, Schedule
from replay.locked.tally import BreakTest, Counts, Reply, StepResult
from replay.statistics import ALPHA, Clustered, Table, clustered, stratified
from taxonomy.edit_test import Break, Effect, LeftOut, Ruling, Spot, held, judged
from taxonomy.query.listing import RunRow

# --- what is asked

SAMPLES = 5
CONTROLS = 40


class EditTestRequest(ExperimentRequest, frozen=True, kw_only=True):
    """What to try on what. `traces` are runs by their ids, which `query` then only names; None are
    those of the query. `edit` None only looks which runs that is.

    `model` None is each trace's own. `controls` healthy steps at most are asked beside the runs;
    `rules` say which arguments of their calls count. `resample` asks everything afresh, beside
    what is kept. `healthy` are the passed runs that healthy steps are drawn from, None any. What is
    tried for a comparison `keeps` neither the edit, nor its result, nor which samples it used: the
    edits compared share the control arm. Without `needs_break`, runs need not have failed: every
    passed run that may give healthy steps does, whatever prompt it ran under.
    """

    edit: Edit | None
    query: str = ""
    traces: tuple[str, ...] | None = None
    samples: int = SAMPLES
    controls: int = CONTROLS
    schedule: Schedule = "cheap"
    resample: bool = False
    rules: Rules = PLAIN
    with_held_out: bool = False
    healthy: frozenset[str] | None = None
    keeps: bool = True
    needs_break: bool = True

    def sampling(self, range: int) -> Sampling:
        """How often each request is asked, of which range of samples."""
        return Sampling(levels=(self.samples,), range=range, schedule=self.schedule)


class Case(Struct, frozen=True, eq=False, kw_only=True):
    """A run to try the edit on: where it broke, and what is asked there.

    `asks` are the requests of both arms in one word: runs that ask the same are one question.
    `group` is what its answers are alike in: its task, else that word.
    """

    row: RunRow
    broke: Break
    asks: str

    @property
    def group(self) -> str:
        return self.row.task or self.asks


class Control(Struct, frozen=True, eq=False, kw_only=True):
    """A step that went well, of a run that passed or has not broken yet."""

    row: RunRow
    spot: Spot

    @property
    def group(self) -> str:
        return self.row.task or self.spot.asks


class EditTestPlan(Struct, frozen=True, eq=False, kw_only=True):
    """What is asked, and of which runs nothing is: they were `left_out`, or the edit or the model
    is `not_applicable` to them."""

    cases: tuple[Case, ...]
    controls: tuple[Control, ...]
    left_out: tuple[LeftOut, ...]
    not_applicable: tuple[LeftOut, ...]


# --- rows


class Share(Struct, frozen=True, kw_only=True):
    """So many answers of an arm, of those that can be told."""

    hits: int
    n: int

    @property
    def words(self) -> str:
        return f"{self.hits}/{self.n}"


class TestedRun(Struct, frozen=True, kw_only=True):
    """A run at its break: how many samples of each arm still show the failure, by which detector;
    `unjudged` ones are in neither count.

    `by` says why this is its break. `ruling` None: not asked yet; `why`, where nothing can be
    said, says why, and `lacks` why there are fewer answers than were wanted. `p` is of the run's
    own test, `by_chance` how likely it would be called fixed by chance alone. `did` is what the
    edited arm mostly does there. `like` is another run that asks the very same: together they are
    one question.
    """

    trace: str
    run: str
    task: str | None
    step: int
    by: str
    ruling: Ruling | None = None
    detector: str | None = None
    control: Share | None = None
    edited: Share | None = None
    p: float | None = None
    by_chance: float | None = None
    unjudged: int = 0
    recorded: str = ""
    did: str = ""
    why: str = ""
    lacks: str | None = None
    like: str | None = None


class TestedStep(Struct, frozen=True, kw_only=True):
    """A step that went well: how many answers of each arm diverge from what was recorded.

    `passed` tells a step of a run that passed from one before a break. `flawed` answers of the
    edited arm are wrong whatever was meant. `effect` None: not asked yet. `p` is of the step's own
    test, `by_chance` how likely it would be called broken by chance alone.
    """

    trace: str
    run: str
    task: str | None
    step: int
    passed: bool
    effect: Effect | None = None
    control: Share | None = None
    edited: Share | None = None
    p: float | None = None
    by_chance: float | None = None
    flawed: int = 0
    recorded: str = ""
    did: str = ""
    why: str = ""
    lacks: str | None = None


def run_row(case: Case, result: StepResult | None, like: str | None) -> TestedRun:
    """A run as far as it is known; `like` names an earlier one that asks the same."""
    row, broke = case.row, case.broke
    known = TestedRun(
        trace=broke.trace, run=run_name(row), task=row.task, step=broke.step, by=broke.by, like=like
    )
    if result is None:
        return known
    found = judged(result)
    test = found.test
    return TestedRun(
        trace=known.trace,
        run=known.run,
        task=known.task,
        step=known.step,
        by=known.by,
        ruling=found.ruling,
        detector=test.detector if test is not None else None,
        control=Share(hits=test.control, n=test.control_n) if test is not None else None,
        edited=Share(hits=test.edited, n=test.edited_n) if test is not None else None,
        p=found.own.p if found.own is not None else None,
        by_chance=found.own.by_chance if found.own is not None else None,
        unjudged=_unjudged(result, test),
        recorded=result.recorded.phrase,
        did=_most_frequent(result.edited),
        why=found.why,
        lacks=result.lacks,
        like=like,
    )


def step_row(control: Control, result: StepResult | None) -> TestedStep:
    """A step that went well as far as it is known."""
    row, spot = control.row, control.spot
    known = TestedStep(
        trace=spot.trace,
        run=run_name(row),
        task=row.task,
        step=spot.step,
        passed=row.outcome == "passed",
    )
    if result is None:
        return known
    found = held(result)
    return TestedStep(
        trace=known.trace,
        run=known.run,
        task=known.task,
        step=known.step,
        passed=known.passed,
        effect=found.effect,
        control=_diverges(found.control),
        edited=_diverges(found.edited),
        p=found.own.p if found.own is not None else None,
        by_chance=found.own.by_chance if found.own is not None else None,
        flawed=found.flawed,
        recorded=result.recorded.phrase,
        did=_most_frequent(result.edited),
        why=found.why,
        lacks=result.lacks,
    )


def table(row: TestedRun | TestedStep) -> Table | None:
    """The counts of a row, edited against control; None without answers of both."""
    if row.control is None or row.edited is None or not row.control.n or not row.edited.n:
        return None
    return Table(row.edited.hits, row.edited.n, row.control.hits, row.control.n)


def _unjudged(result: StepResult, test: BreakTest | None) -> int:
    """Answers of either arm of which the detector cannot tell."""
    judged_n = test.control_n + test.edited_n if test is not None else 0
    return len(result.control) + len(result.edited) - judged_n


def _diverges(counts: Counts) -> Share:
    return Share(hits=counts.diverges, n=counts.decided)


def _most_frequent(replies: Sequence[Reply]) -> str:
    """What most answers do, the first of equals."""
    did = Counter(reply.action.phrase for reply in replies)
    return did.most_common(1)[0][0] if did else ""


# --- the whole

Results: TypeAlias = Mapping[tuple[str, int], StepResult]
"""What is in so far, by trace and step."""


class Left(Struct, frozen=True, kw_only=True):
    """Runs on which nothing was tried, by the reason."""

    why: str
    traces: tuple[str, ...]


class Spent(Struct, frozen=True, kw_only=True):
    """The calls so far, of which models and servers, and what they cost."""

    models: tuple[str, ...] = ()
    servers: tuple[str, ...] = ()
    calls: int = 0
    cached: int = 0
    usd: float = 0.0
    complete: bool = True

    @classmethod
    def of(cls, pool: ModelPool) -> Spent:
        """By the models of a pool so far."""
        spending = pool.spending
        return cls(
            models=tuple(dict.fromkeys(model.name for model in pool.models)),
            servers=tuple(dict.fromkeys(model.server for model in pool.models)),
            calls=spending.calls,
            cached=spending.cached,
            usd=spending.usd,
            complete=spending.complete,
        )

    @property
    def spending(self) -> Spending:
        return Spending(calls=self.calls, cached=self.cached, usd=self.usd, complete=self.complete)


class EditTestView(Struct, frozen=True, eq=False, kw_only=True):
    """Everything the try screen draws and `arc try` prints.

    `fixed` and `broke` are shares of the runs and of the steps of which something can be said;
    their intervals mind that runs of one task are alike. `fixed_by_chance` and `broke_by_chance`:
    how many of them chance alone would call so, None where that was not reckoned. `control` and
    `edited` count the answers that still show the failure, each question once, and `p` is how often
    chance alone sets the arms so far apart; `step_p` is that of the divergences at the healthy
    steps. `done` of `total` steps are in; `ended` says why no more will be, where it was cut short.
    `rules` are those of the user by which actions were compared. `range` numbers rounds of samples,
    0 the first; `digest` is over all evidence of a finished try, whatever was answered first.
    """

    query: str
    edit: str | None
    samples: int
    runs: tuple[TestedRun, ...]
    steps: tuple[TestedStep, ...]
    left_out: tuple[Left, ...]
    not_applicable: tuple[Left, ...]
    fixed: Clustered
    broke: Clustered
    fixed_by_chance: float | None = None
    broke_by_chance: float | None = None
    control: Share
    edited: Share
    p: float
    step_p: float
    done: int
    total: int
    spent: Spent = Spent()
    ended: str | None = None
    rules: tuple[str, ...] = ()
    range: int = 0
    digest: str | None = None

    @property
    def fixes(self) -> bool:
        """Was something fixed, beyond chance?"""
        return self.fixed.hits > 0 and self.rarer

    @property
    def rarer(self) -> bool:
        """Over all runs together, is the failure rarer under the edit, beyond chance?"""
        rarer = self.edited.hits * self.control.n < self.control.hits * self.edited.n
        return rarer and self.p <= ALPHA


NOTHING = clustered(())
NO_RESULTS: Results = {}

EMPTY = EditTestView(
    query="",
    edit=None,
    samples=0,
    runs=(),
    steps=(),
    left_out=(),
    not_applicable=(),
    fixed=NOTHING,
    broke=NOTHING,
    control=Share(hits=0, n=0),
    edited=Share(hits=0, n=0),
    p=1.0,
    step_p=1.0,
    done=0,
    total=0,
)


def build_edit_test(
    request: EditTestRequest,
    plan: EditTestPlan,
    results: Results = NO_RESULTS,
    spent: Spent = EMPTY.spent,
    ended: str | None = None,
    *,
    range: int = 0,
) -> EditTestView:
    """The view of a plan as far as its steps are in."""
    runs = _runs(plan, results)
    steps = [
        step_row(each, results.get((each.spot.trace, each.spot.step))) for each in plan.controls
    ]
    groups = [case.group for case in plan.cases]
    step_groups = [control.group for control in plan.controls]
    questions = [row for row in runs if row.like is None]
    tables = [found for found in map(table, questions) if found is not None]
    return EditTestView(
        query=request.query,
        edit=request.edit.name if request.edit is not None else None,
        samples=request.samples,
        runs=tuple(runs),
        steps=tuple(steps),
        left_out=by_reason(plan.left_out),
        not_applicable=by_reason(plan.not_applicable),
        fixed=clustered(
            (group, row.ruling == "fixed")
            for group, row in zip(groups, runs, strict=True)
            if row.by_chance is not None
        ),
        broke=clustered(
            (group, row.effect == "broke")
            for group, row in zip(step_groups, steps, strict=True)
            if row.by_chance is not None
        ),
        fixed_by_chance=_by_chance(runs),
        broke_by_chance=_by_chance(steps),
        control=_control(tables),
        edited=_edited(tables),
        p=stratified(tables),
        step_p=stratified(found for found in map(table, steps) if found is not None),
        done=sum(row.ruling is not None for row in runs)
        + sum(row.effect is not None for row in steps),
        total=len(runs) + len(steps),
        spent=spent,
        ended=ended,
        rules=request.rules.lines,
        range=range,
    )


def _runs(plan: EditTestPlan, results: Results) -> list[TestedRun]:
    """The runs, those that ask what another one asks after it, with its name."""
    first: dict[str, str] = {}
    rows = []
    for case in plan.cases:
        row = run_row(case, results.get((case.broke.trace, case.broke.step)), first.get(case.asks))
        first.setdefault(case.asks, row.run)
        rows.append(row)
    return rows


def _by_chance(rows: Iterable[TestedRun | TestedStep]) -> float:
    return math.fsum(row.by_chance for row in rows if row.by_chance is not None)


def by_reason(left: Iterable[LeftOut]) -> tuple[Left, ...]:
    """The reason of most runs first."""
    traces: dict[str, list[str]] = {}
    for each in left:
        traces.setdefault(each.why, []).append(each.trace)
    ordered = sorted(traces.items(), key=lambda item: -len(item[1]))
    return tuple(Left(why=why, traces=tuple(found)) for why, found in ordered)


def _edited(tables: Sequence[Table]) -> Share:
    return Share(hits=sum(t.hits for t in tables), n=sum(t.n for t in tables))


def _control(tables: Sequence[Table]) -> Share:
    return Share(hits=sum(t.other_hits for t in tables), n=sum(t.other_n for t in tables))
