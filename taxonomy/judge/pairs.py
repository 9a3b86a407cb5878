"""Which of two runs of one task does a judge call better, asked in both orders?

Models favour a place: the same two runs are shown a second time the other way round. Where both
answers name one run, or both call them equal, that is the verdict; else there is none
(`inconclusive`), and the rate of such pairs is the judge's position bias.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import Struct

from replay.errors import ArcError
from replay.messages import content_text
from replay.statistics import Rate, rate
from replay.store import answers
from replay.store.handle import Store
from replay.trace import SourceScore, Trace
from taxonomy.judge.exhibit import LONGEST_RUN, Exhibit, Exhibits, Piece, gold_text
from taxonomy.judge.requests import JudgeRequest, Place, Refused, sent_to, why_incomplete
from taxonomy.judge.rubrics import QUOTED, Rubric, closed_object

ANSWER_TOKENS = 200
"""About what an answer takes."""

_STEPS = {"type": "array", "items": {"type": "integer"}}
Better = Literal["first", "second", "equal"]

RUBRIC = Rubric(
    mode="run",
    number=1,
    words="You compare two runs of an agent on the same task and say which did it better: which"
    " reached more of what was asked, with correct facts and no harm done. `better` is first,"
    " second, or equal where neither is clearly better.",
    shape=closed_object(
        better={"type": "string", "enum": ["first", "second", "equal"]},
        reason={"type": "string"},
        first_steps=_STEPS,
        second_steps=_STEPS,
    ),
    manners=f"{QUOTED} You are not told how the runs ended; do not guess it.\n"
    "Judge what was done, not how it is written: length, confidence, polish and the place in which"
    " a run is shown earn nothing. Where gold is shown, it is what a correct run calls and says:"
    " another way to the same end is not worse. `reason` is one sentence; `first_steps` and"
    " `second_steps` list the steps of each run that it rests on, of those shown only.",
)
"""What a judge is told of a pair."""

Verdict = Literal["A", "B", "equal", "inconclusive", "not evaluated"]


class OrderAnswer(Struct, frozen=True, kw_only=True):
    """What a judge said of a pair in one order: `better` names A or B, whichever stood first; None
    where there is no answer, and `reason` says why."""

    first: Literal["A", "B"]
    better: Literal["A", "B", "equal"] | None
    reason: str
    a_steps: tuple[int, ...] = ()
    b_steps: tuple[int, ...] = ()
    missing: bool = False


class PairVerdict(Struct, frozen=True, kw_only=True):
    """A pair of runs, what a judge said in each order, and the verdict."""

    a: str
    b: str
    by: str
    verdict: Verdict
    orders: tuple[OrderAnswer, ...]


class Bias(Struct, frozen=True, kw_only=True):
    """Over pairs: how often each run is better, and how often the order decides. Rates are over the
    pairs with an answer in both orders; `towards_first` counts, among pairs whose answers name two
    different runs, those where the run shown first was named both times."""

    a: Rate
    b: Rate
    equal: Rate
    inconclusive: Rate
    towards_first: int
    towards_second: int


def name_of(model: str) -> str:
    """The name that a model's verdicts are kept under."""
    return f"judge:pair:{model}:{RUBRIC.version}"


class Side(NamedTuple):
    """A run and the scores of its source, whose words are withheld."""

    trace: Trace
    scores: Sequence[SourceScore] = ()


def same_task(a: Trace, b: Trace) -> bool | None:
    """Are they runs of one task? None where one names none."""
    mine, other = a.header.task, b.header.task
    return None if mine is None or other is None else mine == other


def pair_requests(a: Side, b: Side, model: str) -> tuple[JudgeRequest, JudgeRequest]:
    """What to ask a model about a pair: A first, then B first.

    Raises ArcError for one run twice, and for runs of two tasks.
    """
    if a.trace.id == b.trace.id:
        raise ArcError(f"{a.trace.id[:8]}: a run cannot be compared with itself")
    if same_task(a.trace, b.trace) is False:
        raise ArcError(
            f"{a.trace.id[:8]} and {b.trace.id[:8]} are runs of two tasks:"
            f" '{a.trace.header.task}' and '{b.trace.header.task}'",
            "Try: arc ls, for two runs of one task",
        )
    shown = {side.trace.id: _show(side) for side in (a, b)}
    gold = gold_text(a.trace) or gold_text(b.trace)
    return _in_order(a, b, shown, gold, model), _in_order(b, a, shown, gold, model)


def _show(side: Side) -> Exhibit:
    return Exhibits(side.trace, scores=side.scores).of_whole(LONGEST_RUN // 2, gold=False)


def _in_order(
    first: Side, second: Side, shown: Mapping[str, Exhibit], gold: str | None, model: str
) -> JudgeRequest:
    parts = [("first run", shown[first.trace.id]), ("second run", shown[second.trace.id])]
    pieces = [
        Piece(f"{name} · {piece.label}", piece.text)
        for name, exhibit in parts
        for piece in exhibit.pieces
    ]
    if gold:
        pieces.insert(0, Piece("gold: what a correct run of the task does", gold))
    exhibits = [exhibit for _, exhibit in parts]
    cut = [
        f"Of the {name} steps {exhibit.left_out[0]} to {exhibit.left_out[1]} are left out: too"
        " long. "
        for name, exhibit in parts
        if exhibit.left_out is not None
    ]
    return JudgeRequest(
        rubric=RUBRIC,
        places=tuple(
            Place(step.index, step.ask.id) for side in (first, second) for step in side.trace.steps
        ),
        exhibit=Exhibit(
            pieces=tuple(pieces),
            steps=exhibits[0].steps | exhibits[1].steps,
            withheld=sum(each.withheld for each in exhibits),
            cut=sum(each.cut for each in exhibits),
        ),
        sent=sent_to(model, RUBRIC, pieces, f"{''.join(cut)}Now say which run is better."),
        answer_tokens=ANSWER_TOKENS,
    )


class _Answer(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    better: Better
    reason: str
    first_steps: tuple[int, ...]
    second_steps: tuple[int, ...]


def read_order(
    a: Trace, b: Trace, first: Literal["A", "B"], answer: Mapping[str, Any]
) -> OrderAnswer:
    """What a message of the Messages API says of a pair in one order."""
    found = _decode(answer)
    if isinstance(found, Refused):
        return no_answer(first, found.why)
    own, other = found.first_steps, found.second_steps
    a_steps, b_steps = (own, other) if first == "A" else (other, own)
    for name, trace, steps in (("A", a, a_steps), ("B", b, b_steps)):
        wrong = next((step for step in steps if not 0 <= step < len(trace.steps)), None)
        if wrong is not None:
            return no_answer(first, f"it cites step {wrong} of {name}, which does not exist")
    second: Literal["A", "B"] = "B" if first == "A" else "A"
    named: dict[Better, Literal["A", "B", "equal"]] = {
        "first": first, "second": second, "equal": "equal",
    }  # fmt: skip
    return OrderAnswer(
        first=first,
        better=named[found.better],
        reason=" ".join(found.reason.split()),
        a_steps=a_steps,
        b_steps=b_steps,
    )


def no_answer(first: Literal["A", "B"], why: str, *, missing: bool = False) -> OrderAnswer:
    """An order without an answer."""
    return OrderAnswer(first=first, better=None, reason=why, missing=missing)


def _decode(answer: Mapping[str, Any]) -> _Answer | Refused:
    incomplete = why_incomplete(answer)
    if incomplete is not None:
        return incomplete
    try:
        found = msgspec.json.decode(content_text(answer.get("content")), type=_Answer)
    except msgspec.DecodeError as error:
        return Refused(f"it does not follow its schema: {error}")
    return found if found.reason.strip() else Refused("it gives no reason")


def verdict(a: str, b: str, by: str, orders: Sequence[OrderAnswer]) -> PairVerdict:
    """The verdict of two answers, one an order."""
    said = {order.better for order in orders}
    found: Verdict = "inconclusive"
    if None in said:
        found = "not evaluated"
    elif len(said) == 1:
        found = next(each for each in said if each is not None)
    return PairVerdict(a=a, b=b, by=by, verdict=found, orders=tuple(orders))


def bias(pairs: Iterable[PairVerdict]) -> Bias:
    """How several pairs went."""
    known = [pair for pair in pairs if pair.verdict != "not evaluated"]

    def share(name: Verdict) -> Rate:
        return rate(sum(pair.verdict == name for pair in known), len(known))

    turned = [pair.orders for pair in known if {each.better for each in pair.orders} == {"A", "B"}]
    first = sum(all(each.better == each.first for each in orders) for orders in turned)
    return Bias(
        a=share("A"),
        b=share("B"),
        equal=share("equal"),
        inconclusive=share("inconclusive"),
        towards_first=first,
        towards_second=len(turned) - first,
    )


# --- what is kept

_NOTE = "judged pair "


def keep_verdict(store: Store, given: PairVerdict) -> None:
    """Keep a verdict in place of the judge's last one on the pair; one without answers is none."""
    if given.verdict != "not evaluated":
        answers.keep(store, f"{_NOTE}{given.a} {given.b} {given.by}", given)


def kept_verdicts(store: Store, a: str, b: str) -> Iterator[PairVerdict]:
    """What judges said of a pair, whichever was called A, by judge."""
    for one, other in ((a, b), (b, a)):
        yield from answers.found(store, f"{_NOTE}{one} {other} ", PairVerdict)
