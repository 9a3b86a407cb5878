"""Where do labels, findings and people differ, worst first, and what was taken for what?

Agreement of two people on the same runs bounds what any rule or judge can be held against. A
small random sample of runs is offered for another look.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from hashlib import sha256
from itertools import combinations, groupby
from typing import Literal, get_args

from msgspec import Struct

from replay.statistics import Rate, rate
from taxonomy.calibration.approval import BANDS, Pair, band
from taxonomy.calibration.labelled import Labelled
from taxonomy.calibration.labels import Label
from taxonomy.calibration.report import score_pairs, scored_at, scorers
from taxonomy.classes import FailureClass, class_label
from taxonomy.findings import Source
from taxonomy.judgements.tags import Word
from taxonomy.metrics.agreement import Confusion, Estimate, confusion, kappa

About = Literal["break", "class", "score", "item"]
ORDER: tuple[About, ...] = get_args(About)

UNLABELLED = "not labelled"


class Disagreement(Struct, frozen=True, kw_only=True):
    """One point of difference. `off` is in steps for a break, in score for a score, None where
    there is no distance (nothing was found, or nothing was labelled).

    `step` is the labelled one, or the found one where nothing is labelled; None for a whole run.
    """

    about: About
    trace: str
    step: int | None
    labelled: str
    found: str
    off: float | None
    by: str | None = None
    strength: str | None = None
    note: str | None = None


def disagreements(runs: Sequence[Labelled]) -> tuple[Disagreement, ...]:
    """All of them: breaks, then classes, scores, rubric items; in each the farthest off first, and
    what was missed before what nobody labelled."""
    found = [
        *(each for run in runs for each in _breaks(run)),
        *(each for run in runs for each in _classes(run)),
        *(each for run in runs for each in _scores(run)),
        *(each for run in runs for each in _items(run)),
    ]
    return tuple(sorted(found, key=_worst_first))


def _worst_first(each: Disagreement) -> tuple[int, bool, float, bool]:
    return ORDER.index(each.about), each.off is None, -(each.off or 0), each.labelled == UNLABELLED


def _breaks(run: Labelled) -> Iterator[Disagreement]:
    """The first candidate is no decisive step."""
    if not run.decisive:
        return
    first = run.candidates[0] if run.candidates else None
    if first is not None and first.step in run.decisive:
        return
    wanted = min(run.decisive, key=lambda step: abs(step - first.step) if first else step)
    label = next(each.label for each in run.labels if each.label.decisive and each.step == wanted)
    yield Disagreement(
        about="break",
        trace=run.row.trace,
        step=wanted,
        labelled=" or ".join(f"step {step}" for step in run.decisive),
        found=f"step {first.step}: {first.why}" if first else "no candidate",
        off=None if first is None else abs(first.step - wanted),
        **_label_fields(label),
    )


def _classes(run: Labelled) -> Iterator[Disagreement]:
    """A class that labels name and the rules do not find in the run, or the other way round."""
    if run.classes is None:
        return
    found = {each.failure: each for each in reversed(run.found("rule"))}
    for failure in sorted(run.classes - set(found)):
        each = next(each for each in run.labels if failure in (each.label.classes or ()))
        yield Disagreement(
            about="class",
            trace=run.row.trace,
            step=each.step,
            labelled=failure.value,
            found="not found",
            off=None,
            **_label_fields(each.label),
        )
    for failure in sorted(set(found) - run.classes):
        yield Disagreement(
            about="class",
            trace=run.row.trace,
            step=found[failure].step,
            labelled=UNLABELLED,
            found=f"{failure.value}: {found[failure].why}",
            off=None,
            **_label_fields(run.labels[0].label),
        )


def _scores(run: Labelled) -> Iterator[Disagreement]:
    """A score beside a person's of the same step, or of the run."""
    for by in sorted({score.by for score in run.scores if score.source != "human"}):
        scored = run.scored(by)
        for each in run.labels:
            other = scored_at(scored, each.step) if scored else None
            if each.label.score is None or other is None or each.label.score == other:
                continue
            yield Disagreement(
                about="score",
                trace=run.row.trace,
                step=each.step,
                labelled=f"{each.label.score:.2f}",
                found=f"{other:.2f} · {by}",
                off=abs(other - each.label.score),
                **_label_fields(each.label),
            )


def _items(run: Labelled) -> Iterator[Disagreement]:
    """A source answers a rubric item otherwise than a person did."""
    for score in run.scores:
        if score.source == "human":
            continue
        answers = {item.name: item for item in score.items if item.held is not None}
        for each in run.labels:
            if each.step != score.step:
                continue
            for name, held in each.label.items.items():
                answer = answers.get(name)
                if answer is not None and answer.held != held:
                    because = f" ({answer.because})" if answer.because else ""
                    yield Disagreement(
                        about="item",
                        trace=run.row.trace,
                        step=each.step,
                        labelled=f"{name}: {_yes(held)}",
                        found=f"{_yes(not held)}{because} · {score.by}",
                        off=None,
                        **_label_fields(each.label),
                    )


def _yes(held: bool) -> str:
    return "yes" if held else "no"


def _label_fields(label: Label) -> dict[str, str | None]:
    return {"by": label.by, "strength": label.strength, "note": label.note}


NOTHING = "none"
"""The row of what nobody labelled and the column of what nobody found."""


def taken_for(runs: Sequence[Labelled], source: Source) -> Confusion | None:
    """Labelled classes down, found ones across, by run; None where no label speaks of classes."""
    said = [run for run in runs if run.classes is not None]
    if not said:
        return None
    pairs = [
        pair
        for run in said
        for pair in crossed(
            run.classes or frozenset(), {each.failure for each in run.found(source)}
        )
    ]
    names = (*(each.value for each in FailureClass), NOTHING)
    shown = [name for name in names if name == NOTHING or any(name in pair for pair in pairs)]
    return confusion(pairs, shown, shown)


def crossed(
    labelled: AbstractSet[FailureClass], found: AbstractSet[FailureClass]
) -> Iterator[tuple[str, str]]:
    """The (labelled, found) pairs of a run that may have several classes.

    A class that both name meets itself. Of the rest each labelled one meets each found one; where
    one side has nothing left the other meets `NOTHING`, and a run without any is a pair of those.
    """
    both = labelled & found
    for each in sorted(both):
        yield each.value, each.value
    missed = [each.value for each in sorted(labelled - both)]
    extra = [each.value for each in sorted(found - both)]
    if not (missed or extra or both):
        yield NOTHING, NOTHING
    elif missed or extra:
        yield from ((one, other) for one in missed or [NOTHING] for other in extra or [NOTHING])


class Scatter(Struct, frozen=True, kw_only=True):
    """One source's scores over people's, a pair a step (or run). `bands` counts people's band
    down, the source's across."""

    source: Source
    by: str
    pairs: tuple[Pair, ...]
    bands: Confusion


def scatters(runs: Sequence[Labelled]) -> Iterator[Scatter]:
    """Of every source that scored a step which people scored too."""
    for by, source in scorers(runs).items():
        pairs = tuple(score_pairs(runs, by))
        if pairs:
            yield Scatter(
                source=source,
                by=by,
                pairs=pairs,
                bands=confusion(
                    ((band(pair.human), band(pair.other)) for pair in pairs), BANDS, BANDS
                ),
            )


NO_CLASS = "nothing wrong"
"""The word of a person who cleared a run, beside the names of the classes."""


class RaterLabel(Struct, frozen=True, kw_only=True):
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


class RaterPair(Struct, frozen=True, kw_only=True):
    """Two people's opinions of one run."""

    one: RaterLabel
    other: RaterLabel

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


def opinions(words: Iterable[Word]) -> Iterator[RaterLabel]:
    """An opinion a run and person, in the order of the words: by run, person and step."""
    for _, said in groupby(words, key=lambda word: (word.run, word.by)):
        every = list(said)
        own = [word for word in every if word.blind] or every
        tagged = [word for word in own if word.failure is not None]
        first = tagged[0] if tagged else own[0]
        yield RaterLabel(
            run=first.run,
            trace=first.trace,
            by=first.by,
            first=_name(first.failure),
            label=NO_CLASS if first.failure is None else class_label(first.failure, first.sub),
            step=first.step,
            classes=frozenset(_name(word.failure) for word in tagged or own),
            blind=first.blind,
            said_ns=max(word.said_ns for word in own),
        )


def _name(failure: FailureClass | None) -> str:
    return NO_CLASS if failure is None else failure.value


def pairs(said: Iterable[RaterLabel]) -> dict[tuple[str, str], list[RaterPair]]:
    """The runs that each two people have both a word on; names in alphabetical order."""
    by_run: dict[str, list[RaterLabel]] = defaultdict(list)
    for each in said:
        by_run[each.run].append(each)
    found: dict[tuple[str, str], list[RaterPair]] = defaultdict(list)
    for own in by_run.values():
        for one, other in combinations(sorted(own, key=lambda each: each.by), 2):
            found[one.by, other.by].append(RaterPair(one=one, other=other))
    return dict(sorted(found.items()))


def agreement(one: str, other: str, found: Sequence[RaterPair]) -> Agreement:
    """The figures of two people; total, also over no run."""
    apart = [pair.apart for pair in found if pair.apart is not None]
    names = [*(each.value for each in FailureClass), NO_CLASS]
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


def rater_disagreements(found: Iterable[RaterPair]) -> list[RaterPair]:
    """The pairs that part, worst first: another class before another step, far before near."""
    parted = [pair for pair in found if not pair.same or pair.apart]
    return sorted(parted, key=lambda pair: (pair.same, -(pair.apart or 0)))


SHARE = 0.08
"""Of the runs, for good: a spot audit of 5–10 %."""


def audit_sample(keys: Iterable[str], share: float = SHARE) -> tuple[str, ...]:
    """About `share` of the keys, in an order of their own; at least one where there is any."""
    drawn = sorted((_place(key), key) for key in keys)
    chosen = [key for place, key in drawn if place < share]
    return tuple(chosen or [key for _, key in drawn[:1] if share > 0])


def _place(key: str) -> float:
    """A number in [0, 1) that follows from the key."""
    return int.from_bytes(sha256(f"audit {key}".encode()).digest()[:8], "big") / 2**64
