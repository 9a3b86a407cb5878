"""How right are rules, judge and localiser, held against labels?

Puts together what the modules of figures give: where a run broke (`localisation`), which class its
failure has, what a step's score is and whether confidences mean what they say (`agreement`),
whether a source of scores may be trusted (`approval`). Labels of people measure accuracy; labels
made by a rule measure conformance to it and are kept apart.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from taxonomy.calibration.approval import JudgeApproval, Pair, achieved, band, by_category, gate
from taxonomy.calibration.labelled import Labelled
from taxonomy.calibration.labels import By
from taxonomy.calibration.localisation import (
    Baselines,
    Localisation,
    Run,
    Stated,
    baselines,
    fitted_source,
    localisation,
    stated_bands,
)
from taxonomy.classes import FailureClass
from taxonomy.findings import Source
from taxonomy.metrics.agreement import (
    Detection,
    Estimate,
    Macro,
    Reliability,
    detection,
    kappa,
    macro_f1,
    pearson,
    reliability,
    spearman,
)

BAD = 0.5
"""A step scored lower is bad: the first such step of a run is the plainest guess at its break."""


CANDIDATES = "candidates"


class ClassTable(Struct, frozen=True, kw_only=True):
    """Every class, as one source found it: per run (does the run show it?) or per step.

    `n` counts runs or steps. `macro_labelled` is over the classes that were labelled, `macro_all`
    also over those that were only found, where F1 is 0.
    """

    source: Source
    per: str
    n: int
    rows: tuple[Detection, ...]
    macro_labelled: Macro
    macro_all: Macro


class ScoreAgreement(Struct, frozen=True, kw_only=True):
    """Scores of one source beside people's. `kappa` is over the judge's four bands.

    `achieved` takes a step as done where its score is in the upper two bands; `bias` is the mean
    of (theirs - people's). `category` None is all of them.
    """

    source: Source
    by: str
    category: str | None
    r: Estimate
    rho: Estimate
    kappa: Estimate
    achieved: Detection
    bias: float


class Calibration(Struct, frozen=True, kw_only=True):
    """Every figure on the labels of one kind. `decisive` counts runs with a decisive step, `fitted`
    those of them that the localiser was made with in sight: its candidates are not measured on
    them."""

    made_by: By
    labels: int
    runs: int
    weak: int
    decisive: int
    fitted: int
    localisation: tuple[Localisation, ...]
    baselines: Baselines | None
    classes: tuple[ClassTable, ...]
    scores: tuple[ScoreAgreement, ...]
    gates: tuple[JudgeApproval, ...]
    stated: tuple[Stated, ...]
    findings: Reliability


def calibrate(made_by: By, runs: Sequence[Labelled], now_ns: int = 0) -> Calibration:
    """Every figure on labelled runs. `now_ns` dates the gates."""
    sources = scorers(runs)
    pairs = {by: list(score_pairs(runs, by)) for by in sources}
    known = {by: found for by, found in pairs.items() if found}
    labels = [each.label for run in runs for each in run.labels]
    broken = [run for run in runs if run.decisive]
    unseen = [run for run in broken if fitted_source(run.row.trace) is None]
    return Calibration(
        made_by=made_by,
        labels=len(labels),
        runs=len(runs),
        weak=sum(label.strength == "weak" for label in labels),
        decisive=len(broken),
        fitted=len(broken) - len(unseen),
        localisation=tuple(
            localisation(name, [_run(run, guess) for run in measured])
            for name, guess in guessers(broken).items()
            if (measured := unseen if name == CANDIDATES else broken)
        ),
        baselines=baselines([_run(run, _nothing) for run in broken]),
        classes=tuple(class_tables(runs)),
        scores=tuple(
            agreement
            for by, found in known.items()
            for agreement in score_agreements(sources[by], by, found)
        ),
        gates=tuple(gate(by, found, now_ns) for by, found in known.items()),
        stated=stated_bands(
            (run.candidates[0], run.candidates[0].step in run.decisive)
            for run in unseen
            if run.candidates
        ),
        findings=reliability(
            (found.confidence, found.failure in run.classes)
            for run in runs
            if run.classes is not None
            for found in run.suggested
        ),
    )


# --- where it broke

Guesser = Callable[[Labelled], tuple[int, ...]]


def guessers(runs: Sequence[Labelled]) -> dict[str, Guesser]:
    """Who names steps: the candidates, the published rule, the first bad score of each source."""
    found: dict[str, Guesser] = {CANDIDATES: _candidates, "published rule": _published}
    for by in scorers(runs):
        found[f"first score under {BAD} · {by}"] = _first_bad(by)
    return found


def _run(labelled: Labelled, guess: Guesser) -> Run:
    return Run(decisive=labelled.decisive, guesses=guess(labelled), steps=labelled.row.steps)


def _nothing(_: Labelled) -> tuple[int, ...]:
    return ()


def _candidates(labelled: Labelled) -> tuple[int, ...]:
    return tuple(candidate.step for candidate in labelled.candidates)


def _published(labelled: Labelled) -> tuple[int, ...]:
    said = labelled.diagnosis.published if labelled.diagnosis else None
    return () if said is None else (said,)


def _first_bad(by: str) -> Guesser:
    def guess(labelled: Labelled) -> tuple[int, ...]:
        bad = sorted(step for step, score in labelled.scored(by).items() if score < BAD)
        return tuple(bad[:1])

    return guess


# --- which class


def class_tables(runs: Sequence[Labelled]) -> Iterator[ClassTable]:
    """Per run and per step, for the rules and for every other source that suggests a class."""
    said = [run for run in runs if run.classes is not None]
    placed = [run for run in said if run.classes_at]
    sources: dict[Source, None] = {"rule": None}
    sources |= dict.fromkeys(
        each.source
        for run in said
        for each in run.suggested
        # judges are told apart by name (`taxonomy.calibration.class_gate`); agents read the rules
        if each.source not in ("judge", "agent")
    )
    for source in sources:
        if said:
            yield _class_table(source, "run", said, _per_run)
        if placed:
            yield _class_table(source, "step", placed, _per_step)


Marks = Iterator[tuple[frozenset[FailureClass], frozenset[FailureClass]]]


def _class_table(
    source: Source, per: str, runs: Sequence[Labelled], marks: Callable[[Labelled, Source], Marks]
) -> ClassTable:
    pairs = [pair for run in runs for pair in marks(run, source)]
    rows = tuple(
        detection(failure.value, ((failure in labelled, failure in found)
                                  for labelled, found in pairs))
        for failure in FailureClass
    )  # fmt: skip
    return ClassTable(
        source=source,
        per=per,
        n=len(pairs),
        rows=rows,
        macro_labelled=macro_f1(row for row in rows if row.recall.n),
        macro_all=macro_f1(rows),
    )


def _per_run(run: Labelled, source: Source) -> Marks:
    found = frozenset(each.failure for each in run.found(source))
    yield run.classes or frozenset(), found


def _per_step(run: Labelled, source: Source) -> Marks:
    found: dict[int, set[FailureClass]] = defaultdict(set)
    for each in run.found(source):
        found[each.step].add(each.failure)
    for step in range(run.row.steps):
        yield run.classes_at.get(step, frozenset()), frozenset(found[step])


# --- which score


def scorers(runs: Sequence[Labelled]) -> dict[str, Source]:
    """Who but people scored a step of these runs."""
    found: dict[str, Source] = {
        score.by: score.source
        for run in runs
        for score in run.scores
        if score.source != "human" and score.value is not None
    }
    return dict(sorted(found.items(), key=lambda item: (item[1], item[0])))


def score_pairs(runs: Iterable[Labelled], by: str) -> Iterator[Pair]:
    """People's scores beside one source's: of a step, or of a run as the mean of its steps.

    One pair a step (or run): where several people scored it, the mean of theirs, so that n counts
    steps and not people.
    """
    for run in runs:
        scored = run.scored(by)
        for step, human in run.scores_said.items():
            other = scored_at(scored, step) if scored else None
            if other is not None:
                yield Pair(human, other, run.category)


def scored_at(scored: Mapping[int, float], step: int | None) -> float | None:
    """The score of a step, None without one; of the whole run the mean of its steps' scores."""
    return sum(scored.values()) / len(scored) if step is None else scored.get(step)


def score_agreements(source: Source, by: str, pairs: Sequence[Pair]) -> Iterator[ScoreAgreement]:
    """All pairs together and, where there are several, each category of tasks."""
    yield _agreement(source, by, None, pairs)
    categories = by_category(pairs)
    if len(categories) > 1:
        for category, own in categories.items():
            yield _agreement(source, by, category, own)


def _agreement(
    source: Source, by: str, category: str | None, pairs: Sequence[Pair]
) -> ScoreAgreement:
    human, other = [pair.human for pair in pairs], [pair.other for pair in pairs]
    return ScoreAgreement(
        source=source,
        by=by,
        category=category,
        r=pearson(human, other),
        rho=spearman(human, other),
        kappa=kappa((band(pair.human), band(pair.other)) for pair in pairs),
        achieved=detection(
            "achieved", ((achieved(pair.human), achieved(pair.other)) for pair in pairs)
        ),
        bias=sum(pair.other - pair.human for pair in pairs) / len(pairs),
    )
