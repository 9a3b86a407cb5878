"""A failing task paraphrased: which models are called, for about how much, and the result.

`arc experiment paraphrase` drains the views.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator

from msgspec import Struct

from arc_tui.experiments.models import ModelPool, Spending
from arc_tui.experiments.request import ExperimentRequest
from arc_tui.features.paraphrase.view import (
    ParaphraseView,
    WordingRow,
    build_paraphrase_view,
    build_without_model,
    wording_row,
)
from replay.action import Action
from replay.edit.changes import Edit, SetMessage
from replay.errors import ModelRefused, no_step
from replay.locked.estimate import Estimate, total_estimate
from replay.locked.row import Models, fixed
from replay.locked.run import replay as replay_locked
from replay.locked.tally import StepResult
from replay.models.cached import Cached
from replay.models.choose import DEMO, default_name, label
from replay.store import edits, read
from replay.store.handle import Store
from replay.store.rows import trace_row
from replay.trace import Trace
from taxonomy.detectors import asked_of, by_rule
from taxonomy.goals import Goals
from taxonomy.judge import requests, scores
from taxonomy.judge.requests import JudgeRequest, judge_requests
from taxonomy.judge.rubrics import RUBRICS
from taxonomy.judge.scores import Judged, judged
from taxonomy.paraphrase_test import paraphrases, result
from taxonomy.paraphrase_test.paraphrases import Paraphrase, Paraphrases, request_of, tried
from taxonomy.paraphrase_test.result import (
    ORIGINAL,
    Answers,
    Scored,
    Varied,
    recorded_path,
    sample_means,
    steps_to_ask,
)
from taxonomy.query.failures import break_and_notice

# --- what is asked, and of whom

RUBRIC = RUBRICS["step"]
"""What a judge is asked of an answer."""


class ParaphraseRequest(ExperimentRequest, frozen=True, kw_only=True):
    """What to paraphrase.

    `judge` None judges by rule where the demo model answers. `paraphrases` (from `file`) None
    asks `writer` for `count` of them (None: the model itself). `step` None is where the run broke,
    as far as is known; `whole` scores the whole road whatever is known.
    """

    traces: tuple[str, ...]
    judge: str | None = None
    writer: str | None = None
    paraphrases: Paraphrases | None = None
    file: str = ""
    count: int = 3
    samples: int = 1
    message: int | None = None
    step: int | None = None
    whole: bool = False
    goals: Goals | None = None


class TestModels(Struct, frozen=True, eq=False, kw_only=True):
    """Who is asked: the model, the judge (None: the rules), who writes (None: nobody)."""

    model: Cached
    judge: Cached | None
    writer: Cached | None


def choose_models(models: ModelPool, request: ParaphraseRequest, trace: Trace) -> TestModels:
    """Who is asked. Raises ModelRefused where a judge is not named."""
    model = models.named(request.model or default_name(trace))
    judge = request.judge or (DEMO if model.name == DEMO else None)
    if judge is None:
        raise ModelRefused(
            "no judge given",
            "Try: --judge NAME, of another model family, or --judge demo (by rule)",
        )
    writer = request.writer or model.name
    unwritten = request.paraphrases is None and writer != DEMO
    return TestModels(
        model=model,
        judge=None if judge == DEMO else models.named(judge),
        writer=models.named(writer) if unwritten else None,
    )


class Task:
    """One run's task: what was asked, and where it broke.

    Raises NothingAsked where no user asks for anything, NotFound where there is no such step.
    """

    def __init__(self, store: Store, request: ParaphraseRequest, trace: Trace) -> None:
        self.request = request
        self.trace = trace
        self.user_request = request_of(trace, request.message)
        self.broke = self._breaks_at(store)

    def _breaks_at(self, store: Store) -> int | None:
        """The step to score at: as asked for, else where the run broke; None for all of them."""
        if self.request.step is not None:
            if not 0 <= self.request.step < len(self.trace.steps):
                raise no_step(self.request.step, len(self.trace.steps))
            return self.request.step
        if self.request.whole:
            return None
        at, _ = break_and_notice(store, self.trace.id)
        own = at is not None and self.trace.steps[at].thread == self.user_request.thread
        return at if own else None

    def given(self) -> tuple[Paraphrase, ...] | None:
        """The paraphrases of the file, None without one."""
        if self.request.paraphrases is None:
            return None
        return tried(
            self.user_request.text, self.request.paraphrases.of(self.trace), self.request.file
        )


class Plan(Task):
    """A task with the words to ask it in, and who is asked."""

    def __init__(
        self, store: Store, request: ParaphraseRequest, trace: Trace, who: TestModels
    ) -> None:
        super().__init__(store, request, trace)
        self.who = who
        self.steps = steps_to_ask(trace, self.user_request.thread, self.broke)
        self.sampling = fixed(request.samples)
        self.goals = request.goals.of(trace.header) if request.goals is not None else ()
        self.scores = read.scores(store, trace.id)

    def paraphrases(self) -> tuple[Paraphrase, ...]:
        """Those of the file, else by rule or asked of a model. Raises OfflineMiss, ModelRefused."""
        text, count = self.user_request.text, self.request.count
        given = self.given()
        if given is not None:
            return given
        if self.who.writer is None:
            return tried(text, paraphrases.framed(text, count), paraphrases.NAME)
        return result.paraphrases(text, count, self.who.writer)

    def edit(self, name: str, text: str) -> Edit:
        """The request in other words, as an edit of the run."""
        task = self.trace.header.task or self.trace.id[:8]
        return Edit(
            name=f"{task} in other words {name}",
            changes=(SetMessage(self.user_request.message, text),),
            thread=self.user_request.thread,
        )

    def estimates(self) -> Iterator[Estimate]:
        """What is still to be asked of each."""
        writer, model, judge = self.who.writer, self.who.model, self.who.judge
        if writer is not None:
            yield result.of_writing(self.user_request.text, self.request.count, writer)
            # of about their size
            texts = paraphrases.framed(self.user_request.text, self.request.count)
        else:
            texts = tuple(each.text for each in self.paraphrases() if each.refusal is None)
        wordings = [self.edit(str(at), text) for at, text in enumerate(texts)]
        if model.name != DEMO:
            yield result.of_answers(self.trace, wordings, model, self.sampling, self.steps)
        if judge is not None:
            places = self.steps if self.broke is None else (self.broke,)
            recorded = judge_requests(
                self.trace, RUBRIC, judge.name, goals=self.goals, scores=self.scores
            )
            there = [
                e for e in recorded if isinstance(e, JudgeRequest) and e.places[0].step in places
            ]
            yield scores.estimate_cost(there, judge, (len(wordings) + 1) * self.request.samples)


# --- the test


def run_paraphrase_test(
    store: Store, request: ParaphraseRequest, models: ModelPool
) -> Generator[ParaphraseView]:
    """Ask each task in each wording and judge what is answered; yields the view as more is known.

    What a run came to is kept when its last wording is judged, and every answer as it comes: run
    again it asks only what is missing. A run of an unknown model is listed in its wordings, as far
    as they are there, and nobody is asked.

    Raises NotFound, NothingAsked, BadEdit, ModelRefused, OfflineMiss and Stopped.
    """
    traces = [read.load(store, trace_row(store, name).trace) for name in request.traces]
    for trace in traces:
        if (request.model or default_name(trace)) is None:
            task = Task(store, request, trace)
            yield build_without_model(
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

    def views(self) -> Iterator[ParaphraseView]:
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
            diverges=way.diverges,
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

    def _view(self, *, done: bool = False) -> ParaphraseView:
        return build_paraphrase_view(
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
        said = scores.NOTICE
        if judge is not None:
            said = requests.warning(judge.name, [self._plan.who.model.name]) or ""
        yield from [said] if said else []
        if any(each.by == paraphrases.NAME for each in self._texts):
            yield paraphrases.NOTICE
        if not self._texts:
            yield f"no paraphrases for this task in {self._plan.request.file}"
        if self._rows and self._rows[0].diverged is not None:
            at = self._rows[0].diverged
            yield f"in the user's own wording the model diverges at step {at}"
