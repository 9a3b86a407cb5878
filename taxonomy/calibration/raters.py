"""Do two people say the same of the same run? What any rule or judge can be held against at most.

A person's word on a run is a first class: of their earliest tagged step, or that nothing is wrong.
Where they gave tags before they saw what others say (a blind second pass), only those count, since
what is said after that is no second opinion. Two words are independent where the later one was
given blind; agreement of the others is an upper bound, and both are counted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, groupby

from msgspec import Struct

from replay.statistics import Rate, rate
from taxonomy.calibration.agreement import Estimate, kappa
from taxonomy.classes import FailureClass, class_label
from taxonomy.ledger import Word

NOTHING = "nothing wrong"
"""The word of a person who cleared a run, beside the names of the classes."""


class Opinion(Struct, frozen=True, kw_only=True):
    """What one person says of one run: the first class with its step, and every class they name.

    `first` is `NOTHING`, and `step` None, where they cleared it.
    """

    run: str
    trace: str
    by: str
    first: str
    label: str
    step: int | None
    classes: frozenset[str]
    blind: bool
    said_ns: int

    @property
    def words(self) -> str:
        """Class, sub-label and step in a few words."""
        return self.label if self.step is None else f"{self.label} at step {self.step}"


class Pair(Struct, frozen=True, kw_only=True):
    """Two people's opinions of one run."""

    one: Opinion
    other: Opinion

    @property
    def independent(self) -> bool:
        """Could the later of the two not have seen the earlier?"""
        return max(self.one, self.other, key=lambda each: each.said_ns).blind

    @property
    def same(self) -> bool:
        """The same first class?"""
        return self.one.first == self.other.first

    @property
    def apart(self) -> int | None:
        """Steps between the two; None where one names none, or they saw different recordings."""
        if self.one.step is None or self.other.step is None or self.one.trace != self.other.trace:
            return None
        return abs(self.one.step - self.other.step)


class PerClass(Struct, frozen=True, kw_only=True):
    """A class over the runs of two people: how many both name it in, only one, only the other."""

    name: str
    both: int
    only_one: int
    only_other: int
    neither: int
    kappa: Estimate


class Agreement(Struct, frozen=True, kw_only=True):
    """Two people over the `n` runs that both have a word on, `independent` of them blind.

    `same` and `kappa` are of the first class; `exact`, `within_1` and `within_3` of its step, over
    the runs where both name one in the same recording.
    """

    one: str
    other: str
    n: int
    independent: int
    same: Rate
    kappa: Estimate
    exact: Rate
    within_1: Rate
    within_3: Rate
    classes: tuple[PerClass, ...]


def opinions(words: Iterable[Word]) -> Iterator[Opinion]:
    """An opinion a run and person, in the order of the words: by run, person and step."""
    for _, said in groupby(words, key=lambda word: (word.run, word.by)):
        every = list(said)
        own = [word for word in every if word.blind] or every
        tagged = [word for word in own if word.failure is not None]
        first = tagged[0] if tagged else own[0]
        yield Opinion(
            run=first.run,
            trace=first.trace,
            by=first.by,
            first=_name(first.failure),
            label=NOTHING if first.failure is None else class_label(first.failure, first.sub),
            step=first.step,
            classes=frozenset(_name(word.failure) for word in tagged or own),
            blind=first.blind,
            said_ns=max(word.said_ns for word in own),
        )


def _name(failure: FailureClass | None) -> str:
    return NOTHING if failure is None else failure.value


def pairs(said: Iterable[Opinion]) -> dict[tuple[str, str], list[Pair]]:
    """The runs that each two people have both a word on; names in alphabetical order."""
    by_run: dict[str, list[Opinion]] = defaultdict(list)
    for each in said:
        by_run[each.run].append(each)
    found: dict[tuple[str, str], list[Pair]] = defaultdict(list)
    for own in by_run.values():
        for one, other in combinations(sorted(own, key=lambda each: each.by), 2):
            found[one.by, other.by].append(Pair(one=one, other=other))
    return dict(sorted(found.items()))


def agreement(one: str, other: str, found: Sequence[Pair]) -> Agreement:
    """The figures of two people; total, also over no run."""
    apart = [pair.apart for pair in found if pair.apart is not None]
    names = [*(each.value for each in FailureClass), NOTHING]
    return Agreement(
        one=one,
        other=other,
        n=len(found),
        independent=sum(pair.independent for pair in found),
        same=rate(sum(pair.same for pair in found), len(found)),
        kappa=kappa((pair.one.first, pair.other.first) for pair in found),
        exact=_within(apart, 0),
        within_1=_within(apart, 1),
        within_3=_within(apart, 3),
        classes=tuple(
            _per_class(name, [(name in pair.one.classes, name in pair.other.classes)
                              for pair in found])
            for name in names
        ),
    )  # fmt: skip


def _within(apart: Sequence[int], steps: int) -> Rate:
    return rate(sum(each <= steps for each in apart), len(apart))


def _per_class(name: str, named: Sequence[tuple[bool, bool]]) -> PerClass:
    return PerClass(
        name=name,
        both=named.count((True, True)),
        only_one=named.count((True, False)),
        only_other=named.count((False, True)),
        neither=named.count((False, False)),
        kappa=kappa(named),
    )


def disagreements(found: Iterable[Pair]) -> list[Pair]:
    """The pairs that part, worst first: another class before another step, far before near."""
    parted = [pair for pair in found if not pair.same or pair.apart]
    return sorted(parted, key=lambda pair: (pair.same, -(pair.apart or 0)))
