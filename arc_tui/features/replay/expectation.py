"""Does a step, or a whole run, do what is expected of it? `arc replay --expect` drains the
views.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence

from msgspec import Struct, structs

from arc_tui.experiments import expectation
from arc_tui.experiments.models import ModelPool
from arc_tui.experiments.progress import resting
from arc_tui.experiments.request import FreeRunRequest, ReplayRequest
from arc_tui.ui import format
from replay import kept
from replay.bisection.change_point import HALF, LOOK, is_majority
from replay.bisection.rounds import SampleRequest
from replay.bisection.trials import Given, NotReplayable, Rollout, Rollouts, Trials, Version
from replay.errors import CannotTell, ModelRefused, OfflineMiss
from replay.free.recorded_results import Terms
from replay.locked.estimate import NO_CALLS, Estimate, estimate, total_estimate
from replay.locked.row import Models, fixed
from replay.models.cached import Cached
from replay.models.choose import default_name, label
from replay.statistics import Rate, rate
from replay.store import edits, read
from replay.store.handle import Store
from replay.store.rows import trace_row
from taxonomy.detectors import JudgeDetector
from taxonomy.judgements.golds import with_own_gold


class Question(Struct, frozen=True, kw_only=True):
    """What is expected of the trace that `wanted` names, under its edit.

    It is met where more than `share` of the samples meet it. `at` None is where it broke. `free`
    asks whole runs, on its terms; None asks one step.
    """

    request: ReplayRequest
    expect: str
    share: float = HALF
    at: int | None = None
    judge: str | None = None
    free: FreeRunRequest | None = None


def evaluate_expectation(
    store: Store, question: Question, models: ModelPool
) -> Generator[ExpectView]:
    """Ask level after level until it is clear; yields the view after each.

    Raises NotFound, BadEdit, BadPredicate, NothingExpected, ModelRefused where it is said wrongly,
    CannotTell where it could not be asked, and Stopped.
    """
    work = _Work(store, question, models)
    asked = 0
    for level in question.request.sampling.levels:
        work.ask(range(asked, level))
        asked = level
        view = work.view()
        yield view
        if not view.share.n or (view.met is not None and view.share.n > LOOK):
            break
    kept.take_range(store, work.trace.id, work.model.name, work.range)


def estimate_cost(store: Store, question: Question) -> Estimate:
    """What the first level asks of one step, and the last one at the most, the judge's calls
    included: one for each answer that it has not seen. Asks nothing."""
    work = _Work(store, question, ModelPool(store))
    levels = question.request.sampling.levels
    first, most = work.missing(levels[0]), work.missing(levels[-1])
    with Store.open(":memory:") as empty:
        one = Models.one(Cached(empty, work.model.name))
        each = estimate(work.trace, None, one, sampling=fixed(1), steps={work.step or 0})
    own = Estimate(
        calls=first,
        stored=levels[0] - first,
        input_tokens=first * each.input_tokens,
        output_tokens=first * each.output_tokens,
        by_size=first * each.by_size,
        usd=None if each.usd is None else first * each.usd,
    )
    judged = work.judged(levels[-1])
    unknown = each.usd is None or judged.usd is None
    return structs.replace(
        total_estimate([own, work.judged(levels[0])]),
        max_calls=most + judged.calls,
        max_usd=None if unknown else most * (each.usd or 0.0) + (judged.usd or 0.0),
    )


class _Work:
    """The samples of one question, as far as they are in."""

    def __init__(self, store: Store, question: Question, models: ModelPool) -> None:
        request, free = question.request, question.free
        found = read.load(store, trace_row(store, request.trace).trace)
        self.trace = with_own_gold(store, found)
        self._edit = edits.save(store, request.edit) if request.edit is not None else None
        named = self._edit.model if self._edit is not None else None
        name = named or request.model or default_name(self.trace)
        self.model = models.named(name)
        self._models = models
        self.step: int | None = free.start if free is not None else None
        if free is None:
            self.step = expectation.step_of(store, self.trace, question.at)
        self.range = (
            kept.next_range(store, self.trace.id, self.model.name) if request.resample else 0
        )
        version = Version(
            name=self._edit.name if self._edit is not None else "as recorded",
            edit=self._edit,
            start=self.step,
        )
        self._trials: Trials | Rollouts
        judge: Cached | None = None
        if free is None:
            assert self.step is not None
            judge = expectation.judge_of(models, question.expect, question.judge, self.model.name)
            detector = expectation.detector_of(store, self.trace, self.step, question.expect, judge)
            self._trials = Trials(self.trace, detector, self.model, range=self.range)
        else:
            self._trials = Rollouts(
                self.trace,
                expectation.ending(self.trace, question.expect),
                self.model,
                terms=Terms(
                    stubs=(*kept.stubs_of_trace(store, self.trace.id), *free.stubs),
                    allow_stale=free.allow_stale,
                    effects=free.effects,
                ),
                rules=free.rules,
                max_steps=free.max_steps,
            )
        try:
            self._trials.add(version)
        except NotReplayable as refusal:
            raise CannotTell(refusal.message, refusal.hint) from refusal
        self._expect = question.expect
        self._bound = question.share

    def ask(self, samples: Sequence[int]) -> None:
        try:
            self._trials.outcomes([SampleRequest(0, sample) for sample in samples])
        except (OfflineMiss, ModelRefused) as error:
            raise CannotTell(error.message, error.hint) from error

    def missing(self, samples: int) -> int:
        """How many of the first samples of a step are not stored."""
        assert isinstance(self._trials, Trials)
        asks = self._trials.asks(SampleRequest(0, sample) for sample in range(samples))
        return sum(not self.model.stored(sent, sample) for sent, sample in asks)

    def judged(self, samples: int) -> Estimate:
        """What judging the first samples of a step asks; each that is not stored is taken to be
        unlike the others."""
        assert isinstance(self._trials, Trials)
        detector = self._trials.detector
        if not isinstance(detector, JudgeDetector):
            return NO_CALLS
        wishes = [SampleRequest(0, sample) for sample in range(samples)]
        return detector.estimate_cost(self._trials.actions(wishes), self.missing(samples))

    def view(self) -> ExpectView:
        spent = self._models.spending
        samples = list(map(_sampled, self._trials.given))
        hits, share = share_of(samples)
        met = is_majority(hits, share.n, self._bound)
        lost = len(samples) - share.n
        free = isinstance(self._trials, Rollouts)
        guessed = (
            resting(self._trials.guessed, share.n) if isinstance(self._trials, Rollouts) else ""
        )
        fidelity = self._trials.fidelity
        return ExpectView(
            trace=self.trace.id,
            step=self.step,
            free=free,
            expected=self._expect,
            detector=self._trials.name,
            met=met,
            sentence="; ".join(
                filter(None, (expect_sentence(met, hits, share.n, lost, free=free), guessed))
            ),
            bound=self._bound,
            share=share,
            hits=hits,
            lost=lost,
            edit=self._edit.name if self._edit is not None else None,
            model=label(self.model.name),
            server=self.model.server,
            fidelity=fidelity.level.value if fidelity is not None else None,
            fidelity_reasons=fidelity.reasons if fidelity is not None else (),
            answers=answer_rows(samples),
            reasons=reasons_of(samples),
            calls=spent.calls,
            cached=spent.cached,
            spent_usd=spent.usd,
            spent_complete=spent.complete,
        )


def _sampled(given: Given | Rollout) -> Sampled:
    if isinstance(given, Rollout):
        return Sampled(did=" → ".join(given.run.path) or "nothing", bad=given.bad, why=given.why)
    did = given.action.phrase if given.action is not None else "no response"
    return Sampled(did=did, bad=given.bad, why=given.why)


_REASONS = 3


class AnswerRow(Struct, frozen=True, kw_only=True):
    """Samples that did the same: what, how often, and whether that meets it (None: unknown)."""

    did: str
    times: int
    met: bool | None


class ExpectView(Struct, frozen=True, eq=False, kw_only=True):
    """An expectation held against the samples of one step, or against whole runs (`free`).

    `expected` is what the user wrote, `detector` names what is bad. `met` is None where the samples
    leave it open whether more than `bound` of all meet it. `share` is that of the `hits` that
    meet it among those that could be judged; `lost` could not be, `reasons` say why. `fidelity` is
    that of the requests that were asked, with its own reasons.
    """

    trace: str
    step: int | None
    free: bool
    expected: str
    detector: str
    met: bool | None
    sentence: str
    share: Rate
    hits: int
    lost: int
    bound: float
    edit: str | None
    model: str
    server: str
    fidelity: str | None
    fidelity_reasons: tuple[str, ...] = ()
    answers: tuple[AnswerRow, ...] = ()
    reasons: tuple[str, ...] = ()
    calls: int = 0
    cached: int = 0
    spent_usd: float = 0.0
    spent_complete: bool = True


class Sampled(Struct, frozen=True, kw_only=True):
    """One sample: what it did, whether that is bad, and why that is unknown where it is None."""

    did: str
    bad: bool | None
    why: str | None = None


def share_of(samples: Sequence[Sampled]) -> tuple[int, Rate]:
    """How many meet it, and their share of those that can be judged."""
    judged = [each.bad for each in samples if each.bad is not None]
    hits = judged.count(False)
    return hits, rate(hits, len(judged))


def answer_rows(samples: Iterable[Sampled]) -> tuple[AnswerRow, ...]:
    """The samples by what they did, the most frequent first."""
    times: dict[tuple[str, bool | None], int] = {}
    for each in samples:
        met = None if each.bad is None else not each.bad
        times[each.did, met] = times.get((each.did, met), 0) + 1
    ordered = sorted(times.items(), key=lambda item: -item[1])
    return tuple(AnswerRow(did=did, times=many, met=met) for (did, met), many in ordered)


def reasons_of(samples: Iterable[Sampled]) -> tuple[str, ...]:
    """Why samples could not be judged, each reason once."""
    return tuple(dict.fromkeys(each.why for each in samples if each.why is not None))[:_REASONS]


def expect_sentence(met: bool | None, hits: int, n: int, lost: int, *, free: bool) -> str:
    """`met: 3 of 3 responses`: the verdict, and what it rests on."""
    noun = "run" if free else "response"
    if not n:
        return f"inconclusive: 0 of {format.count(lost, noun)} judged"
    verdict = {True: "met", False: "not met", None: "inconclusive"}[met]
    look = ", not conclusive" if n <= LOOK and met is not None else ""
    beside = f", {lost} more not judged" if lost else ""
    return f"{verdict}: {hits} of {format.count(n, noun)}{look}{beside}"
