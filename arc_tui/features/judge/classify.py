"""A judge's class of whole runs where rules are silent: which runs, what it costs, what it said."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from itertools import islice

from msgspec import Struct, structs

from arc_tui.experiments.models import ModelPool
from arc_tui.experiments.request import ExperimentRequest, named_judge
from arc_tui.features.judge.run import load_with_gold, runs_named
from arc_tui.ui import format
from arc_tui.views.runs import chosen
from arc_tui.views.scores import stands
from replay.errors import ModelRefused, OfflineMiss, RequestRefused
from replay.locked.estimate import NO_CALLS, Estimate
from replay.models.cached import Answered, Cached, Outcome
from replay.models.choose import DEMO, label
from replay.store import read
from replay.store.handle import Store, now_ns
from replay.trace import Trace
from taxonomy.calibration.class_gate import class_trust
from taxonomy.classes import FailureClass, class_label
from taxonomy.diagnosis import diagnose
from taxonomy.findings import Finding
from taxonomy.judge.classify import (
    Classified,
    State,
    before_answer,
    classify_request,
    keep_classified,
    name_of,
    read_answer,
)
from taxonomy.judge.requests import JudgeRequest, Unasked, warning
from taxonomy.judge.scores import answers_each, ask_batch, estimate_cost
from taxonomy.judgements.tags import human_words
from taxonomy.query.failures import run_heads, unsaid_runs
from taxonomy.query.listing import held_out_note

AT_ONCE = 16
"""Runs that are in memory together, and asked about at once."""

CONFORMANCE = (
    "demo, rule-based: no model call; these are the rules' own findings: conformance, not accuracy"
)


class ClassifyRequest(ExperimentRequest, frozen=True, kw_only=True):
    """Which runs to classify; `model` is the judge. `no_cache` asks anew, beside what is stored;
    `batch` asks by the provider's batches."""

    traces: tuple[str, ...]
    no_cache: bool = False
    batch: bool = False


class ClassifyView(Struct, frozen=True, eq=False, kw_only=True):
    """What a judge says of runs so far.

    `judge` is the model as it is to be named, `by` the name its suggestions are kept under, `trust`
    how these stand; `quotes_dropped` counts citations that do not occur where they are said to.
    """

    judge: str
    server: str
    by: str
    trust: str
    rows: tuple[Classified, ...] = ()
    notices: tuple[str, ...] = ()
    total: int = 0
    quotes_dropped: int = 0
    calls: int = 0
    cached: int = 0
    spent_usd: float = 0.0
    spent_complete: bool = True

    @property
    def done(self) -> int:
        return len(self.rows)

    def count(self, state: State) -> int:
        """How many runs came to that."""
        return sum(row.state == state for row in self.rows)


# --- which runs


def runs_to_classify(
    store: Store, words: Sequence[str], *, tagged: bool = False, with_held_out: bool = False
) -> tuple[str, ...]:
    """The runs that these words mean: those they name, each of them; else of a query the failed
    runs that no person tagged; without words the failed runs of which nobody says anything.

    `tagged`: those of the query that people tagged or marked clean. Raises BadQuery.
    """
    named = runs_named(store, words) if words and not tagged else None
    if named is not None:
        return named
    without = held_out_note(store, shown=with_held_out).hidden
    meant = chosen(store, " ".join(words))
    if not words and not tagged:
        return tuple(run.trace for run in unsaid_runs(store, without=without))
    by_people = {word.run for word in human_words(store)}
    return tuple(
        run.trace
        for run in run_heads(store, without=without, chosen=meant)
        if (
            run.run in by_people if tagged else run.outcome == "failed" and run.run not in by_people
        )
    )


# --- asking


def estimate_classify(store: Store, request: ClassifyRequest) -> Estimate:
    """What `run_classify` would ask and cost. Asks nothing."""
    if request.model == DEMO:
        return NO_CALLS
    with ModelPool(store) as models:
        model = named_judge(request, models)
        asked = _pending(store, request, model)
        return estimate_cost(asked, model, 1, fresh=request.no_cache, batch=request.batch)


def run_classify(
    store: Store, request: ClassifyRequest, models: ModelPool
) -> Generator[ClassifyView]:
    """Classify runs; yields the view whenever a run is done. What was said is kept as it comes, so
    that one that ends early goes on where it stopped.

    Raises ModelRefused and Stopped.
    """
    if request.model == DEMO:
        yield from _by_rule(store, request)
        return
    work = _Work(store, request, models)
    yield work.view()
    refusal = work.ask_batch() if request.batch and request.live else None
    waiting = iter(request.traces)
    while keys := list(islice(waiting, AT_ONCE)):  # a run is long: few at a time
        for _ in work.classify([load_with_gold(store, key) for key in keys]):
            yield work.view()
    yield work.view()
    if refusal is not None:
        raise refusal


def _pending(
    store: Store, request: ClassifyRequest, model: Cached
) -> Iterator[JudgeRequest | Unasked]:
    return (_request(store, load_with_gold(store, key), model) for key in request.traces)


def _request(store: Store, trace: Trace, model: Cached) -> JudgeRequest | Unasked:
    return classify_request(trace, model.name, read.scores(store, trace.id))


class _Work:
    """What was said so far."""

    def __init__(self, store: Store, request: ClassifyRequest, models: ModelPool) -> None:
        self._store = store
        self._request = request
        self._models = models
        self._model = named_judge(request, models)
        self._by = name_of(self._model.name)
        self._trust = class_trust(store, self._by, now_ns())
        self._before = models.spending
        self._rows: list[Classified] = []
        self._agents: dict[str, None] = {}

    def ask_batch(self) -> ModelRefused | None:
        """Have all runs answered for by batches; what follows finds the answers stored. Why some
        were not, if so."""
        asked = _pending(self._store, self._request, self._model)
        refusal = ask_batch(asked, self._model, fresh=self._request.no_cache)
        self._request = structs.replace(self._request, no_cache=False)
        return refusal

    def classify(self, traces: Sequence[Trace]) -> Iterator[None]:
        about: list[tuple[Trace, JudgeRequest]] = []
        for trace in traces:
            models = (step.ask.response.model or step.ask.request.model for step in trace.steps)
            self._agents |= dict.fromkeys(name for name in models if name)
            asked = _request(self._store, trace, self._model)
            if isinstance(asked, Unasked):
                self._rows.append(before_answer(trace, self._by, asked))
                yield
            else:
                about.append((trace, asked))
        answers = answers_each(
            [asked for _, asked in about], self._model, fresh=self._request.no_cache
        )
        for which, (outcome,) in answers:
            found = _read(self._by, *about[which], outcome)
            keep_classified(self._store, found, approved=self._trust.state == "approved")
            self._rows.append(found)
            yield

    def view(self) -> ClassifyView:
        spent = self._models.spending.since(self._before)
        warned = warning(self._model.name, self._agents) if self._rows else None
        return ClassifyView(
            judge=label(self._model.name),
            server=self._model.server,
            by=self._by,
            trust=stands(self._trust),
            rows=tuple(self._rows),
            notices=(*([warned] if warned else ()), *_shown_notices(self._rows)),
            total=len(self._request.traces),
            quotes_dropped=sum(len(row.dropped) for row in self._rows),
            calls=spent.calls,
            cached=spent.cached,
            spent_usd=spent.usd,
            spent_complete=spent.complete,
        )


def _read(by: str, trace: Trace, asked: JudgeRequest, outcome: Outcome) -> Classified:
    match outcome:
        case Answered():
            return read_answer(trace, by, asked, outcome.body)
        case RequestRefused():
            found = before_answer(trace, by, asked)
            return Classified(
                trace=found.trace,
                by=by,
                state="refused",
                reason=f"the request was declined: {outcome.message}",
            )
        case OfflineMiss():
            return before_answer(trace, by, asked)


def _shown_notices(rows: Sequence[Classified]) -> Iterator[str]:
    """What the judge was shown, where that is not all there is."""
    gold = sum(row.gold for row in rows)
    if gold:
        yield f"gold shown to the judge in {gold} of {format.count(len(rows), 'run')}"
    cut = sum(row.cut for row in rows)
    if cut:
        yield f"{format.count(cut, 'long text')} shown to the judge without the middle"
    left_out = [row for row in rows if row.left_out is not None]
    if left_out:
        hidden = sum(row.steps - row.shown for row in left_out)
        runs = format.count(len(left_out), "run")
        yield f"too long to be shown whole: {format.count(hidden, 'step')} of {runs} left out"
    withheld = sum(row.withheld for row in rows)
    if withheld:
        yield f"{format.count(withheld, 'text')} that reveal the outcome withheld from the judge"


def _by_rule(store: Store, request: ClassifyRequest) -> Generator[ClassifyView]:
    """The rules in the place of a judge: their first finding of each run. Nothing is kept."""
    rows: list[Classified] = []
    for key in request.traces:
        trace = load_with_gold(store, key)
        findings = diagnose(trace, read.scores(store, key)).findings
        first = min((each for each in findings if not each.is_hint), key=_step, default=None)
        rows.append(
            Classified(
                trace=key,
                by=DEMO,
                state="none" if first is None else "suggested",
                reason="no rule matches" if first is None else first.why,
                suggestion=first,
                steps=len(trace.steps),
                shown=len(trace.steps),
            )
        )
        yield ClassifyView(
            judge=label(DEMO),
            server="",
            by=DEMO,
            trust="",
            rows=tuple(rows),
            notices=(CONFORMANCE,),
            total=len(request.traces),
        )


def _step(found: Finding) -> int:
    return found.step


# --- in words


def row_text(row: Classified) -> tuple[str, str, str, str]:
    """(step, class, attribution, reason) of a run, or in their place why there is none."""
    found = row.suggestion
    if found is not None:
        whose = found.attribution.value if found.attribution else format.UNKNOWN
        return str(found.step), class_label(found.failure, found.sub), whose, row.reason
    words: dict[State, str] = {
        "none": "no failure seen",
        "no quote": "no suggestion: no quote occurs where it is cited",
        "refused": "answer refused",
        "missing": "answer not stored",
        "unasked": "not asked",
    }
    unknown = format.UNKNOWN
    return unknown, words[row.state], unknown, row.reason or "; ".join(row.dropped)


def classes_line(view: ClassifyView) -> str:
    """How many runs each class is suggested for, most first."""
    found = Counter(row.suggestion.failure for row in view.rows if row.suggestion is not None)
    order = list(FailureClass)
    counted = sorted(found.items(), key=lambda each: (-each[1], order.index(each[0])))
    return " · ".join(f"{failure.value} {count}" for failure, count in counted)
