"""A judgement of the steps of runs, from its options to its views."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Sequence

from msgspec import structs

from arc_tui.experiments.models import NOTHING_SPENT, ModelPool, Spending
from arc_tui.experiments.progress import BETWEEN_VIEWS_S
from arc_tui.experiments.request import ExperimentRequest, named_judge
from arc_tui.importing import diagnose_one
from arc_tui.views.runs import chosen
from arc_tui.views.scores import ScoresView, goal_row, mean, score_row, share_of_yes, shown_notices
from replay.errors import ArcError, ModelRefused, NotFound
from replay.locked.estimate import Estimate
from replay.models.cached import Cached
from replay.models.choose import DEMO, label
from replay.store import read
from replay.store.handle import Store
from replay.store.rows import trace_row
from replay.trace import Trace
from taxonomy.evidence.reading import Reading
from taxonomy.findings import Source
from taxonomy.goals import Goal, Goals, Seen, first_seen, goal_scores, hindsight, weighted
from taxonomy.judge import requests, scores
from taxonomy.judge.requests import JudgeRequest, Unasked, judge_requests
from taxonomy.judge.rubrics import RUBRICS, Mode, Rubric
from taxonomy.judge.scores import Judged, ask_batch, estimate_cost, judged
from taxonomy.judgements.golds import with_own_gold
from taxonomy.query.failures import run_heads
from taxonomy.query.language import Word, parse
from taxonomy.query.listing import held_out_note


class ScoringRequest(ExperimentRequest, frozen=True, kw_only=True):
    """What to score; `model` is the judge. `rubric` None is the one in use for the mode.

    `goals_name` is the file the goals are from, as it is remembered with them. `no_cache` asks
    anew, beside the stored answers; `batch` asks by the provider's batches.
    """

    traces: tuple[str, ...]
    mode: Mode = "step"
    samples: int = 1
    rubric: Rubric | None = None
    goals: Goals | None = None
    goals_name: str = ""
    no_cache: bool = False
    batch: bool = False


def runs_named(store: Store, words: Sequence[str]) -> tuple[str, ...] | None:
    """The runs of these names, None where one of them names none."""
    try:
        return tuple(dict.fromkeys(trace_row(store, word).trace for word in words))
    except NotFound:
        return None


def runs_to_score(
    store: Store, words: Sequence[str], *, with_held_out: bool = False
) -> tuple[str, ...]:
    """The runs that these words name, else those that match them as a query, each run once.

    Raises BadQuery, and NotFound where there is none.
    """
    named = runs_named(store, words)
    if named is not None:
        return named
    query = " ".join(words)
    if isinstance(parse(query), Word):
        trace_row(store, query)  # a name that is misspelt is no query: this says so
    without = held_out_note(store, shown=with_held_out).hidden
    found = run_heads(store, without=without, chosen=chosen(store, query))
    if not found:
        raise NotFound("run that matches", query, hint="Try: arc ls, or arc failures")
    return tuple(run.trace for run in found)


def run_scoring(store: Store, request: ScoringRequest, models: ModelPool) -> Generator[ScoresView]:
    """Score traces one after another; yields the view of the one in hand whenever more is known.

    Scores are kept as far as they came, also where it ends early; run again it asks only what is
    missing. An answer that is not stored and may not be asked for is counted in `missing`.

    Raises ModelRefused, NotFound and Stopped.
    """
    seen = None if request.goals is None else first_seen(store, request.goals, request.goals_name)
    traces = [trace_row(store, name).trace for name in request.traces]
    if request.model == DEMO:
        for key in traces:
            yield _by_rule(store, request, seen, key)
        return
    model = named_judge(request, models)
    before = models.spending
    refusal: ModelRefused | None = None
    if request.batch and request.live:
        pending = _pending(store, request, model)
        refusal = ask_batch(pending, model, request.samples, fresh=request.no_cache)
        request = structs.replace(request, no_cache=False)
    for key in traces:
        work = _Work(request, load_with_gold(store, key), seen, model, models, before)
        yield from _by_model(store, request, work, model)
        before = models.spending
    if refusal is not None:
        raise refusal


def estimate_scoring(store: Store, request: ScoringRequest) -> Estimate:
    """What `run_scoring` would ask and cost. Asks nothing."""
    if request.model == DEMO:
        return Estimate(calls=0, stored=0, input_tokens=0, output_tokens=0, usd=0.0)
    with ModelPool(store) as models:
        model = named_judge(request, models)
        return estimate_cost(
            _pending(store, request, model),
            model,
            request.samples,
            fresh=request.no_cache,
            batch=request.batch,
        )


def _pending(
    store: Store, request: ScoringRequest, model: Cached
) -> Iterator[JudgeRequest | Unasked]:
    """All that is to be asked about all runs."""
    for name in request.traces:
        trace = load_with_gold(store, trace_row(store, name).trace)
        yield from _requests(store, request, model, trace)


def load_with_gold(store: Store, key: str) -> Trace:
    """A trace with the gold that its user wrote, where there is some."""
    return with_own_gold(store, read.load(store, key))


def _requests(
    store: Store, request: ScoringRequest, model: Cached, trace: Trace
) -> Iterator[JudgeRequest | Unasked]:
    goals = _goals(request, trace)
    scores = read.scores(store, trace.id)
    return judge_requests(trace, _rubric(request), model.name, goals=goals, scores=scores)


def _rubric(request: ScoringRequest) -> Rubric:
    return request.rubric or RUBRICS[request.mode]


def _goals(request: ScoringRequest, trace: Trace) -> tuple[Goal, ...]:
    return () if request.goals is None else request.goals.of(trace.header)


def _by_rule(store: Store, request: ScoringRequest, seen: Seen | None, key: str) -> ScoresView:
    work = _Work(request, load_with_gold(store, key), seen)
    work.notices = (scores.NOTICE,)
    work.given = list(scores.rule_judged(work.trace, work.mode))
    work.keep(store, "rule")
    return work.view()


def _by_model(
    store: Store, request: ScoringRequest, work: _Work, model: Cached
) -> Generator[ScoresView]:
    trace = work.trace
    agents = [step.ask.response.model or step.ask.request.model for step in trace.steps]
    work.notices = _notices(requests.warning(model.name, [name for name in agents if name]))
    pending = list(_requests(store, request, model, trace))
    work.total = sum(len(each.places) if isinstance(each, JudgeRequest) else 1 for each in pending)
    shown = 0.0
    try:
        for each in judged(pending, model, request.samples, fresh=request.no_cache):
            work.given.append(each)
            if time.monotonic() - shown >= BETWEEN_VIEWS_S:
                yield work.view()
                shown = time.monotonic()
    except ArcError:
        yield work.view()
        raise
    finally:
        work.keep(store, "judge")
    diagnose_one(store, trace.id)
    yield work.view()


class _Work:
    """The scores of one trace, as far as they are in; without a `model` they are the rules'.

    What it cost counts from what was spent `before`: the first of several bears their batch.
    """

    def __init__(
        self,
        request: ScoringRequest,
        trace: Trace,
        seen: Seen | None,
        model: Cached | None = None,
        models: ModelPool | None = None,
        before: Spending = NOTHING_SPENT,
    ) -> None:
        self.trace = trace
        self.mode = _rubric(request).mode
        self.given: list[Judged] = []
        self.notices: tuple[str, ...] = ()
        self.total = len(trace.steps)
        self._model = model
        self._models = models
        self._before = before
        self._samples = request.samples
        self._goals = _goals(request, trace)
        self._seen = seen
        self._turns = Reading(trace).turns if self._goals else ()
        self._set = scores.ScoreSet(
            mode=self.mode,
            model=model.name if model is not None else DEMO,
            rubric=_rubric(request).version if model is not None else scores.RULE_VERSION,
            goals=request.goals.version if request.goals is not None and self._goals else None,
        )

    def keep(self, store: Store, source: Source) -> None:
        scores.keep(store, self.trace.id, self._set.by, self.given, source)

    def view(self) -> ScoresView:
        steps = sorted((each for each in self.given if each.step is not None), key=_step)
        rows = tuple(map(score_row, steps))
        whole = next((score_row(each) for each in self.given if each.step is None), None)
        values = {each.step: each.value for each in steps if each.step is not None}
        reached = goal_scores(self._goals, self._turns, values)
        spent = self._spent()
        return ScoresView(
            trace=self.trace.id,
            judge=label(self._set.model),
            server=self._model.server if self._model is not None else "",
            mode=self.mode,
            rubric=self._set.rubric,
            by=self._set.by,
            k=self._samples if self._model is not None else 0,
            rows=rows,
            overall=whole,
            mean=mean(rows),
            yes=share_of_yes(rows),
            goals=self._set.goals,
            hindsight=self._hindsight(),
            goal_rows=tuple(map(goal_row, reached)),
            weighted=weighted([(each.value, each.goal.weight) for each in reached])
            if reached
            else None,
            notices=(*self.notices, *self._goal_notices(), *self._shown_notices()),
            done=len(rows),
            total=self.total,
            scored=sum(row.value is not None for row in rows),
            refused=sum(len(each.refused) for each in self._answers()),
            missing=sum(each.missing for each in self._answers()),
            calls=spent.calls,
            cached=spent.cached,
            spent_usd=spent.usd,
            spent_complete=spent.complete,
        )

    def _spent(self) -> Spending:
        if self._models is None:
            return NOTHING_SPENT
        return self._models.spending.since(self._before)

    def _answers(self) -> Sequence[Judged]:
        """What each answer was for: in mode `run` one answer is for all steps."""
        if self.mode != "run":
            return self.given
        return [each for each in self.given if each.step is None]

    def _hindsight(self) -> bool | None:
        if self._seen is None or not self._goals:
            return None
        return hindsight(self._seen, self.trace)

    def _goal_notices(self) -> Iterator[str]:
        if self._seen is None:
            return
        if not self._goals:
            task = self.trace.header.task
            yield f"no goals for its task ({task or 'unnamed'})"
        elif self._hindsight() is None:
            yield "the run has no times: unknown whether its goals were set before it"
        elif self._hindsight():
            yield "hindsight: these goals were first seen after the run"

    def _shown_notices(self) -> Iterator[str]:
        return shown_notices(self.given, self._samples) if self._model is not None else iter(())


def _notices(words: str | None) -> tuple[str, ...]:
    return (words,) if words else ()


def _step(given: Judged) -> int:
    return -1 if given.step is None else given.step
