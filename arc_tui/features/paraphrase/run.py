"""A failing task in other words, from its options to its views: `arc vary` drains them."""

from __future__ import annotations

from collections.abc import Generator, Iterator

from arc_tui.experiments.models import ModelPool, Spending
from arc_tui.features.paraphrase.plan import (
    RUBRIC,
    ParaphraseRequest,
    Plan,
    Task,
    choose_models,
)
from arc_tui.features.paraphrase.view import (
    VaryView,
    WordingRow,
    build_unasked,
    build_vary,
    wording_row,
)
from replay.action import Action
from replay.edit.changes import Edit
from replay.locked.estimate import Estimate, total_estimate
from replay.locked.row import Models
from replay.locked.run import replay as replay_locked
from replay.locked.tally import StepResult
from replay.models.choose import DEMO, default_name, label
from replay.store import edits, read
from replay.store.handle import Store
from replay.store.rows import trace_row
from taxonomy.expectations import asked_of, by_rule
from taxonomy.judge import requests, run
from taxonomy.judge.run import Judged, judged
from taxonomy.paraphrase_test import paraphrases, result
from taxonomy.paraphrase_test.paraphrases import Paraphrase
from taxonomy.paraphrase_test.result import (
    ORIGINAL,
    Answers,
    Scored,
    Varied,
    recorded_path,
    sample_means,
)


def run_paraphrase_test(
    store: Store, request: ParaphraseRequest, models: ModelPool
) -> Generator[VaryView]:
    """Ask each task in each wording and judge what is answered; yields the view as more is known.

    What a run came to is kept when its last wording is judged, and every answer as it comes: run
    again it asks only what is missing. A run of an unknown model is listed in its wordings, as far
    as they are there, and nobody is asked. `hold` is given who is asked, for another thread to
    stop.
    Raises NotFound, NothingAsked, BadEdit, ModelRefused, OfflineMiss and Stopped.
    """
    traces = [read.load(store, trace_row(store, name).trace) for name in request.traces]
    for trace in traces:
        if (request.model or default_name(trace)) is None:
            task = Task(store, request, trace)
            yield build_unasked(
                trace,
                task.user_request,
                task.given() or (),
                broke=task.broke,
                judge=request.judge,
                samples=request.samples,
                unwritten=request.count if request.paraphrases is None else 0,
            )
            continue
        who = choose_models(models, request, trace)
        yield from _Work(store, Plan(store, request, trace, who), models).views()


def estimate_cost(store: Store, request: ParaphraseRequest) -> Estimate:
    """What it would ask and cost, as far as can be said. Asks nothing."""
    parts: list[Estimate] = []
    for name in request.traces:
        trace = read.load(store, trace_row(store, name).trace)
        who = choose_models(ModelPool(store), request, trace)
        parts += Plan(store, request, trace, who).estimates()
    return total_estimate(parts)


class _Work:
    """One run's task in several wordings, as far as they are in."""

    def __init__(self, store: Store, plan: Plan, models: ModelPool) -> None:
        self._store = store
        self._plan = plan
        self._texts: tuple[Paraphrase, ...] = ()
        self._found: list[Scored] = []
        self._rows: list[WordingRow] = []
        self._missing = 0
        self._models = models
        self._before = models.spending

    def views(self) -> Iterator[VaryView]:
        self._texts = self._plan.paraphrases()
        self._ask(ORIGINAL, self._plan.user_request.text, "the run", None)
        yield self._view()
        for at, each in enumerate(each for each in self._texts if each.refusal is None):
            name = chr(ord("A") + at)
            edit = edits.save(self._store, self._plan.edit(name, each.text))
            self._ask(name, each.text, each.by, edit)
            yield self._view()
        found = self._varied()
        if found.surface is not None and not self._missing:
            result.keep(self._store, found)
        yield self._view(done=True)

    def _ask(self, name: str, text: str, by: str, edit: Edit | None) -> None:
        """Ask a wording along the recorded road, and judge the answers that count."""
        way = recorded_path(self._replayed(edit), edited=edit is not None)
        opinions = [self._opinions(each) for each in way.judged(self._plan.broke)]
        self._missing += sum(each.missing for step in opinions for each in step)
        means = sample_means([[each.value for each in step] for step in opinions])
        steps = tuple(step[0].step for step in opinions if step[0].step is not None)
        scored = Scored(
            label=name,
            text=text,
            by=by,
            samples=means,
            steps=steps if means else (),
            departs=way.departs,
        )
        self._found.append(scored)
        self._rows.append(wording_row(scored, way, opinions))

    def _replayed(self, edit: Edit | None) -> list[StepResult]:
        models = Models.one(self._plan.who.model)
        going = replay_locked(
            self._plan.trace, edit, models, sampling=self._plan.sampling, steps=self._plan.steps
        )
        return list({result.step: result for result in going}.values())

    def _opinions(self, given: Answers) -> list[Judged]:
        """What the judge says of each sample of a step."""
        return [self._opinion(given.step, action) for action in given.actions]

    def _opinion(self, step: int, given: Action) -> Judged:
        judge = self._plan.who.judge
        if judge is None:
            return by_rule(self._plan.trace, step, given)
        inquiry = asked_of(
            self._plan.trace,
            step,
            given,
            RUBRIC,
            judge.name,
            goals=self._plan.goals,
            scores=self._plan.scores,
        )
        return next(judged([inquiry], judge, 1))

    def _varied(self) -> Varied:
        plan = self._plan
        judge = DEMO if plan.who.judge is None else plan.who.judge.name
        return Varied(
            trace=plan.trace.id,
            task=plan.trace.header.task,
            model=label(plan.who.model.name),
            judge=label(judge),
            broke=plan.broke,
            samples=plan.request.samples,
            wordings=tuple(self._found),
        )

    def _view(self, *, done: bool = False) -> VaryView:
        return build_vary(
            self._varied(),
            self._rows,
            self._texts,
            self._spent(),
            self._missing,
            message=self._plan.user_request.message,
            standing=tuple(self._standing()),
            done=done,
        )

    def _spent(self) -> Spending:
        return self._models.spending.since(self._before)

    def _standing(self) -> Iterator[str]:
        """What holds of all scores, whatever they are."""
        judge = self._plan.who.judge
        said = run.NOTICE
        if judge is not None:
            said = requests.warning(judge.name, [self._plan.who.model.name]) or ""
        yield from [said] if said else []
        if any(each.by == paraphrases.NAME for each in self._texts):
            yield paraphrases.NOTICE
        if not self._texts:
            yield f"{self._plan.request.file} has no paraphrases for this task"
        if self._rows and self._rows[0].departs is not None:
            at = self._rows[0].departs
            yield f"asked again in the user's own words, the model leaves the road at step {at}"
