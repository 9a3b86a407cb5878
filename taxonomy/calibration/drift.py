"""What happened to a judge when its model, its rubric, its template or the goals changed?

Two sets of scores of one mode are held against each other at the steps that both scored, and each
against people's labels of those steps. Modes ask different things and are never compared. Takes
sets of scores by name, knows nothing of the database but where they lie.

A rubric's version is the number of its edition and a digest of all that we tell the judge: another
number is another rubric, another digest under the same number another template (its words, the
shape of the answer, or what is shown of a step).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

from msgspec import Struct

from replay.statistics import Rate, rate
from replay.store.handle import Store
from taxonomy.calibration.approval import band
from taxonomy.calibration.labelled import agreed_items, mean_scores
from taxonomy.calibration.labels import PlacedLabel, item_names
from taxonomy.findings import StepScore
from taxonomy.judge.scores import ScoreSet, parsed
from taxonomy.judgements.scores import judge_scores
from taxonomy.metrics.agreement import Estimate, kappa, mean_difference, pearson

HALF = 0.5
"""A step scored lower is bad; a score that crossed it changed its mind."""


class Place(NamedTuple):
    """A step of a trace."""

    trace: str
    step: int


class Given(Struct, frozen=True, eq=False, kw_only=True):
    """What a judge, or people, said of steps: scores 0..1 and rubric items, what is known."""

    scores: Mapping[Place, float]
    items: Mapping[Place, Mapping[str, bool]]


class JudgeSet(Struct, frozen=True, eq=False, kw_only=True):
    """A set of scores by its name, what that name says, and what it gave."""

    by: str
    identity: ScoreSet
    given: Given


class AgainstPeople(Struct, frozen=True, kw_only=True):
    """A judge's figures against people's, on steps that both sets and people scored."""

    r: Estimate
    kappa: Estimate


class ItemDrift(Struct, frozen=True, kw_only=True):
    """One rubric item in two sets: how often the answer turned, κ between them, and each one's κ
    with people on the steps where all three answered."""

    item: str
    turned: Rate
    kappa: Estimate
    people_before: Estimate
    people_after: Estimate


class Drift(Struct, frozen=True, kw_only=True):
    """Two sets of one mode, the earlier first. `changed` names what differs: model, rubric,
    template, goals.

    `shift` is the mean of (after - before) over the steps that both scored, `crossed` the share
    that came to lie on the other side of one half, `r` the correlation of the two.
    """

    mode: str
    before: str
    after: str
    changed: tuple[str, ...]
    shift: Estimate
    crossed: Rate
    r: Estimate
    people_before: AgainstPeople
    people_after: AgainstPeople
    items: tuple[ItemDrift, ...] = ()


def judge_sets(store: Store) -> tuple[JudgeSet, ...]:
    """Every set of judges' scores, in the order in which they were last added to."""
    found: dict[str, list[tuple[str, StepScore]]] = {}
    for trace, score in judge_scores(store):
        own = found.pop(score.by, [])  # the set added to last stands last
        own.append((trace, score))
        found[score.by] = own
    known = ((by, parsed(by), own) for by, own in found.items())
    return tuple(
        JudgeSet(by=by, identity=identity, given=_given(own))
        for by, identity, own in known
        if identity is not None
    )


def _given(said: Iterable[tuple[str, StepScore]]) -> Given:
    scores: dict[Place, float] = {}
    items: dict[Place, Mapping[str, bool]] = {}
    for trace, score in said:
        at = Place(trace, score.step)
        if score.value is not None:
            scores[at] = score.value
        items[at] = {item.name: item.held for item in score.items if item.held is not None}
    return Given(scores=scores, items=items)


def people_given(placed: Iterable[PlacedLabel]) -> Given:
    """What people said of steps: the mean of their scores; an item only where they agree on it."""
    known = list(placed)
    return Given(
        scores={
            Place(trace, step): score
            for (trace, step), score in mean_scores(known).items()
            if step is not None
        },
        items={
            Place(trace, step): answers
            for (trace, step), answers in agreed_items(known).items()
            if step is not None
        },
    )


def drifts(sets: Sequence[JudgeSet], people: Given) -> Iterator[Drift]:
    """Every two sets of one mode, and one rubric where a user wrote it, the latest pairs last."""
    for before, after in combinations(sets, 2):
        one, other = before.identity, after.identity
        if (one.mode, one.own) == (other.mode, other.own):
            yield drift(before, after, people)


def drift(before: JudgeSet, after: JudgeSet, people: Given) -> Drift:
    """What differs between two sets."""
    one, other = before.given, after.given
    both = sorted(one.scores.keys() & other.scores.keys())
    first, second = [one.scores[at] for at in both], [other.scores[at] for at in both]
    crossed = sum((a < HALF) != (b < HALF) for a, b in zip(first, second, strict=True))
    labelled = [at for at in both if at in people.scores]
    return Drift(
        mode=after.identity.mode,
        before=before.by,
        after=after.by,
        changed=changed(before.identity, after.identity),
        shift=mean_difference(first, second),
        crossed=rate(crossed, len(both)),
        r=pearson(first, second),
        people_before=_against(one, people, labelled),
        people_after=_against(other, people, labelled),
        items=tuple(_item_drifts(one, other, people)),
    )


def changed(before: ScoreSet, after: ScoreSet) -> tuple[str, ...]:
    """What differs between two identities, in words."""
    number, other = before.rubric.partition("-")[0], after.rubric.partition("-")[0]
    parts = {
        "model": before.model != after.model,
        "rubric": number != other,
        "template": number == other and before.rubric != after.rubric,
        "goals": before.goals != after.goals,
    }
    return tuple(name for name, differs in parts.items() if differs)


def _against(given: Given, people: Given, places: Sequence[Place]) -> AgainstPeople:
    human = [people.scores[at] for at in places]
    own = [given.scores[at] for at in places]
    pairs = [(band(a), band(b)) for a, b in zip(human, own, strict=True)]
    return AgainstPeople(r=pearson(human, own), kappa=kappa(pairs))


def _item_drifts(before: Given, after: Given, people: Given) -> Iterator[ItemDrift]:
    answered = {name for items in before.items.values() for name in items}
    for name in (*item_names(), *sorted(answered - set(item_names()))):
        both = [
            at
            for at in sorted(before.items.keys() & after.items.keys())
            if name in before.items[at] and name in after.items[at]
        ]
        if not both:
            continue
        one = [before.items[at][name] for at in both]
        other = [after.items[at][name] for at in both]
        said = [people.items.get(at, {}).get(name) for at in both]
        yield ItemDrift(
            item=name,
            turned=rate(sum(a != b for a, b in zip(one, other, strict=True)), len(both)),
            kappa=kappa(zip(one, other, strict=True)),
            people_before=_with_people(said, one),
            people_after=_with_people(said, other),
        )


def _with_people(said: Sequence[bool | None], held: Sequence[bool]) -> Estimate:
    return kappa((a, b) for a, b in zip(said, held, strict=True) if a is not None)
