"""What `arc replay --expect` shows: is it met, by how many samples, and what they did."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from arc_tui import format
from replay.bisection.share import LOOK
from replay.statistics import Rate, rate

_REASONS = 3


class AnswerRow(Struct, frozen=True, kw_only=True):
    """Samples that did the same: what, how often, and whether that meets it (None: nobody can
    tell)."""

    did: str
    times: int
    met: bool | None


class ExpectView(Struct, frozen=True, eq=False, kw_only=True):
    """An expectation held against the samples of one step, or against whole runs (`free`).

    `expected` is what the user wrote, `oracle` says what is bad. `met` is None where the samples
    leave it open whether more than `bound` of all would meet it. `share` is that of the `hits` that
    meet it among those that could be judged; `lost` could not be, `reasons` say why. `fidelity` is
    that of the requests that were asked, with its own reasons.
    """

    trace: str
    step: int | None
    free: bool
    expected: str
    oracle: str
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
    asked: int = 0
    kept: int = 0
    spent_usd: float = 0.0
    spent_complete: bool = True


class Sampled(Struct, frozen=True, kw_only=True):
    """One sample: what it did, whether that is bad, and why nobody can tell where that is None."""

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
    """`met: 3 of 3 answers`: the verdict, and what it rests on."""
    noun = "run" if free else "answer"
    if not n:
        return f"cannot tell: none of {format.count(lost, noun)} could be judged"
    verdict = {True: "met", False: "not met", None: "cannot tell"}[met]
    look = ", a look" if n <= LOOK and met is not None else ""
    beside = f", {lost} more could not be judged" if lost else ""
    return f"{verdict}: {hits} of {format.count(n, noun)}{look}{beside}"
