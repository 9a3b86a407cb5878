"""Two runs of one task before a judge, in both orders; several pairs, and how often the order
decides."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import Literal

from msgspec import Struct, structs

from arc_tui.experiments.models import NOTHING_SPENT, ModelPool, Spending
from arc_tui.experiments.request import ExperimentRequest, named_judge
from arc_tui.features.judge.run import load_with_gold
from arc_tui.ui import format
from replay.errors import ArcError, ModelRefused, RequestRefused
from replay.locked.estimate import NO_CALLS, Estimate
from replay.models.cached import Answered, Cached, Outcome
from replay.models.choose import DEMO, label
from replay.store import read
from replay.store.handle import Store
from replay.store.rows import trace_row
from replay.trace import Trace
from taxonomy.judge.pairs import (
    Bias,
    OrderAnswer,
    PairVerdict,
    Side,
    Verdict,
    bias,
    keep_verdict,
    name_of,
    no_answer,
    pair_requests,
    read_order,
    same_task,
    verdict,
)
from taxonomy.judge.requests import JudgeRequest, warning
from taxonomy.judge.scores import answers_each, ask_batch, estimate_cost, rule_judged

ORDERS: tuple[Literal["A", "B"], Literal["A", "B"]] = ("A", "B")
"""Which of the two stands first, in the order of the requests."""


CONFORMANCE = (
    "demo, rule-based: no model call; the run with the better mean score by rules: conformance"
)


class PairRequest(ExperimentRequest, frozen=True, kw_only=True):
    """Pairs of runs by their ids; `model` is the judge. `no_cache` asks anew; `batch` asks by the
    provider's batches."""

    pairs: tuple[tuple[str, str], ...]
    no_cache: bool = False
    batch: bool = False


class PairsView(Struct, frozen=True, eq=False, kw_only=True):
    """What a judge says of pairs so far; `bias` None for a single pair."""

    judge: str
    server: str
    by: str
    rows: tuple[PairVerdict, ...] = ()
    bias: Bias | None = None
    notices: tuple[str, ...] = ()
    total: int = 0
    missing: int = 0
    calls: int = 0
    cached: int = 0
    spent_usd: float = 0.0
    spent_complete: bool = True

    @property
    def done(self) -> int:
        return len(self.rows)

    @property
    def decided(self) -> int:
        """Pairs with an answer in both orders."""
        return sum(row.verdict != "not evaluated" for row in self.rows)


def pairs_named(store: Store, names: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """The runs of these names two by two. Raises NotFound, and ArcError for an odd one."""
    if not names or len(names) % 2:
        raise ArcError(
            f"--pair takes runs two by two; {format.count(len(names), 'run')} given",
            "Try: arc judge A B --pair",
        )
    traces = [trace_row(store, name).trace for name in names]
    return tuple(zip(traces[::2], traces[1::2], strict=True))


def estimate_pairs(store: Store, request: PairRequest) -> Estimate:
    """What `run_pairs` would ask and cost. Asks nothing."""
    if request.model == DEMO:
        return NO_CALLS
    with ModelPool(store) as models:
        model = named_judge(request, models)
        asked = _pending(store, request, model)
        return estimate_cost(asked, model, 1, fresh=request.no_cache, batch=request.batch)


def _pending(store: Store, request: PairRequest, model: Cached) -> Iterator[JudgeRequest]:
    """All that is to be asked about all pairs."""
    for pair in request.pairs:
        yield from pair_requests(*_sides(store, pair), model.name)


def run_pairs(store: Store, request: PairRequest, models: ModelPool) -> Generator[PairsView]:
    """Have pairs judged, one after another; yields the view whenever one is done. Verdicts are kept
    as they come.

    Raises ArcError for runs of two tasks, ModelRefused and Stopped.
    """
    model = None if request.model == DEMO else named_judge(request, models)
    before = models.spending
    rows: list[PairVerdict] = []
    notices: dict[str, None] = {}
    refusal: ModelRefused | None = None
    if model is not None and request.batch and request.live:
        pending = _pending(store, request, model)
        refusal = ask_batch(pending, model, fresh=request.no_cache)
        request = structs.replace(request, no_cache=False)
    for pair in request.pairs:
        a, b = _sides(store, pair)
        if model is None:
            notices[CONFORMANCE] = None
            rows.append(_by_rule(a.trace, b.trace))
        else:
            notices |= dict.fromkeys(_notices(model, a.trace, b.trace))
            rows.append(_by_model(a, b, model, fresh=request.no_cache))
            keep_verdict(store, rows[-1])
        spent = NOTHING_SPENT if model is None else models.spending.since(before)
        yield _view(request, model, rows, tuple(notices), spent)
    if refusal is not None:
        raise refusal


def _sides(store: Store, pair: tuple[str, str]) -> tuple[Side, Side]:
    a, b = (Side(load_with_gold(store, key), read.scores(store, key)) for key in pair)
    return a, b


def _by_model(a: Side, b: Side, model: Cached, *, fresh: bool) -> PairVerdict:
    asked = pair_requests(a, b, model.name)
    orders: dict[int, OrderAnswer] = {}
    for which, (outcome,) in answers_each(asked, model, fresh=fresh):
        orders[which] = _read(a.trace, b.trace, ORDERS[which], outcome)
    return verdict(
        a.trace.id, b.trace.id, name_of(model.name), [orders[at] for at in sorted(orders)]
    )


def _read(a: Trace, b: Trace, first: Literal["A", "B"], outcome: Outcome) -> OrderAnswer:
    match outcome:
        case Answered():
            return read_order(a, b, first, outcome.body)
        case RequestRefused():
            return no_answer(first, f"the request was declined: {outcome.message}")
        case _:
            return no_answer(first, "answer not stored", missing=True)


def _by_rule(a: Trace, b: Trace) -> PairVerdict:
    """The mean score of the rules decides, whichever stands first."""
    means = [_mean(trace) for trace in (a, b)]
    better: Literal["A", "B", "equal"] = "equal"
    if None not in means and means[0] != means[1]:
        better = "A" if (means[0] or 0) > (means[1] or 0) else "B"
    reason = "mean score by rules: A {}, B {}".format(*map(format.score, means))
    orders = [OrderAnswer(first=first, better=better, reason=reason) for first in ORDERS]
    return verdict(a.id, b.id, DEMO, orders)


def _mean(trace: Trace) -> float | None:
    values = [each.value for each in rule_judged(trace, "step") if each.value is not None]
    return sum(values) / len(values) if values else None


def _notices(model: Cached, a: Trace, b: Trace) -> Iterator[str]:
    agents = [
        name
        for trace in (a, b)
        for step in trace.steps
        if (name := step.ask.response.model or step.ask.request.model)
    ]
    warned = warning(model.name, agents)
    if warned:
        yield warned
    if same_task(a, b) is None:
        yield "the task of a run is not recorded: taken to be runs of one task"


def _view(
    request: PairRequest,
    model: Cached | None,
    rows: Sequence[PairVerdict],
    notices: tuple[str, ...],
    spent: Spending,
) -> PairsView:
    return PairsView(
        judge=label(model.name if model else DEMO),
        server=model.server if model else "",
        by=name_of(model.name) if model else DEMO,
        rows=tuple(rows),
        bias=bias(rows) if len(rows) > 1 else None,
        notices=notices,
        total=len(request.pairs),
        missing=sum(order.missing for row in rows for order in row.orders),
        calls=spent.calls,
        cached=spent.cached,
        spent_usd=spent.usd,
        spent_complete=spent.complete,
    )


# --- in words

VERDICTS: dict[Verdict, str] = {
    "A": "run A is better, in both orders",
    "B": "run B is better, in both orders",
    "equal": "equal, in both orders",
    "inconclusive": "inconclusive: the verdict changes with the order (position bias)",
    "not evaluated": "not evaluated",
}
"""What a verdict is called."""
