"""How often does a behaviour appear, at which step does it begin, and how did the run get there?

Of runs that were made to bring a behaviour out (Bloom). The rate is the source's own word, elicited
or not; when and how is the next question (the ARC article on Bloom): begun in the first third of
the steps, where assumptions are made, or in the last, where the context is long.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Literal

import msgspec
from msgspec import Struct

from replay.statistics import Rate, rate
from replay.store.handle import Store
from replay.store.rows import TraceRow
from replay.trace import BEHAVIOR_LABEL, ELICITED_LABEL, PRESENCE_LABEL
from taxonomy.query.fields import StepSign, cited_steps, step_signs
from taxonomy.shapes import classify
from taxonomy.stats.runs import FAILED_BELOW, grouped, number_in

SHORTEST = 3
"""A run of fewer steps has no thirds, and no shape."""

Third = Literal["first", "middle", "last", "too short", "unknown"]
THIRDS: tuple[Third, ...] = ("first", "middle", "last", "too short", "unknown")


class Elicited(Struct, frozen=True, kw_only=True):
    """A run in which the behaviour appeared.

    `onset` is the first step that the source's judge cites, else (`by` "step scores") the first
    that a person, a judge or a file scored under .5; None where neither tells. `shape` is that of
    such scores; None where fewer than three steps have one: the scores of the rules do not measure
    the behaviour.
    """

    trace: str
    steps: int
    onset: int | None
    by: Literal["citation", "step scores"] | None
    third: Third
    shape: str | None


class Behaviour(Struct, frozen=True, eq=False, kw_only=True):
    """One behaviour over `runs` runs, of which elicited or not is known of `elicited.n`.

    `presence` is the mean of the judge's scores (1 to 10) of `scored` runs. `thirds` counts the
    elicited runs by where the behaviour began, `shapes` those whose shape is known.
    """

    behaviour: str
    group: dict[str, str | None]
    runs: int
    elicited: Rate
    presence: float | None
    scored: int
    onset_median: float | None
    thirds: dict[str, int]
    shapes: dict[str, int]
    found: tuple[Elicited, ...]


def behaviours(
    store: Store, rows: Sequence[TraceRow], by: Collection[str] = ()
) -> tuple[Behaviour, ...]:
    """A row a behaviour and value of the columns `by`; of runs whose source names a behaviour."""
    labels = {
        row.trace: msgspec.json.decode(row.labels, type=dict[str, str])
        for row in rows
        if BEHAVIOR_LABEL in row.labels
    }
    named: dict[str, list[TraceRow]] = {}
    for row in rows:
        name = labels.get(row.trace, {}).get(BEHAVIOR_LABEL)
        if name is not None:
            named.setdefault(name, []).append(row)
    hit = [trace for trace, own in labels.items() if own.get(ELICITED_LABEL) == "yes"]
    cited, signs = cited_steps(store, hit), step_signs(store, hit)
    runs = {row.trace: row for row in rows}
    found = {
        trace: _find_onset(runs[trace], cited.get(trace, ()), signs.get(trace, ())) for trace in hit
    }
    return tuple(
        _behaviour(name, dict(zip(by, key, strict=True)), [labels[t] | {"": t} for t in own], found)
        for name in sorted(named)
        for key, own in grouped(named[name], by).items()
    )


def _behaviour(
    name: str,
    group: dict[str, str | None],
    labels: Sequence[dict[str, str]],
    found: dict[str, Elicited],
) -> Behaviour:
    known = [each[ELICITED_LABEL] == "yes" for each in labels if ELICITED_LABEL in each]
    scores = [n for each in labels if (n := number_in(each.get(PRESENCE_LABEL))) is not None]
    own = tuple(found[trace] for each in labels if (trace := each[""]) in found)
    onsets = [each.onset for each in own if each.onset is not None]
    thirds = Counter(each.third for each in own)
    return Behaviour(
        behaviour=name,
        group=group,
        runs=len(labels),
        elicited=rate(sum(known), len(known)),
        presence=statistics.fmean(scores) if scores else None,
        scored=len(scores),
        onset_median=statistics.median(onsets) if onsets else None,
        thirds={third: thirds[third] for third in THIRDS if thirds[third]},
        shapes=dict(Counter(each.shape for each in own if each.shape is not None)),
        found=own,
    )


def _find_onset(row: TraceRow, cited: Sequence[int], signs: Sequence[StepSign]) -> Elicited:
    scores = [sign.score if sign.source not in (None, "rule") else None for sign in signs]
    low = _first_low(scores)
    onset = cited[0] if cited else low
    shape = classify(scores)
    return Elicited(
        trace=row.trace,
        steps=row.steps,
        onset=onset,
        by=None if onset is None else "citation" if cited else "step scores",
        third=third_of(onset, row.steps),
        shape=None if shape is None else shape.value,
    )


def _first_low(scores: Iterable[float | None]) -> int | None:
    low = (step for step, score in enumerate(scores) if score is not None and score < FAILED_BELOW)
    return next(low, None)


def third_of(step: int | None, steps: int) -> Third:
    """The third of a run that a step stands in, cut as the shapes cut it: the last takes what is
    left over."""
    if step is None:
        return "unknown"
    if steps < SHORTEST:
        return "too short"
    part = steps // 3
    return "first" if step < part else "middle" if step < 2 * part else "last"
