"""Is a localiser better than guesses that need no thought, on agents that it was not fitted on?

Labelled runs come in sources: one kind of agent, one set of annotators. Whatever is fitted, weights
or the best constant step, may have seen any source but the one it is measured on. A random step has
no luck here: its figures are those to be expected. What would have been the best constant of the
very labels is shown apart, as hindsight.
"""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from math import comb
from pathlib import Path
from typing import Any

from msgspec import Struct

from replay.statistics import Rate, rate
from replay.store import read
from replay.store.handle import Store
from replay.trace import Trace
from taxonomy.calibration.labels import By, Label, PlacedLabel, place, read_labels
from taxonomy.calibration.localisation import (
    NEAR,
    POSITIONS,
    TOP,
    Baselines,
    Hits,
    Localisation,
    Run,
    Stated,
    at_position,
    baselines,
    distance,
    fitted_source,
    localisation,
    stated_bands,
)
from taxonomy.diagnosis import published_step
from taxonomy.findings import FAILURE, Candidate
from taxonomy.localiser.baselines import Guesses, naive_guesses
from taxonomy.localiser.candidates import RunSignals, run_signals, shown
from taxonomy.localiser.features import Model
from taxonomy.localiser.weights import FOLDS, MODEL
from taxonomy.rules import findings
from taxonomy.rules.rule import RuleContext
from taxonomy.step_scores import rule_scores

OURS = "arc, all it shows"
MEANT = "arc, candidates alone"
RANDOM_STEP = "random step"
BEST_CONSTANT = "best constant step of the other sources"
BEST_POSITION = "best relative position of the other sources"

DRAWS = 2000
"""Times that the runs are drawn again for the interval of a difference."""


class SourceRun(Struct, frozen=True, eq=False, kw_only=True):
    """A labelled run: its signals, the naive guesses at it, and what labels say of its steps.

    `task` is shared by runs that are not independent. `decisive` is empty where no step was
    decisive; `erroneous` are all steps that a label calls wrong.
    """

    trace: str
    task: str
    steps: int
    signals: RunSignals
    naive: Guesses
    decisive: frozenset[int] = frozenset()
    erroneous: frozenset[int] = frozenset()


class Difference(Struct, frozen=True, kw_only=True):
    """A share less that of the best naive baseline on the same runs, with the 95 % interval of a
    paired bootstrap over tasks."""

    baseline: str
    value: float
    low: float
    high: float


class SourceFigures(Struct, frozen=True, kw_only=True):
    """One source, held out: the figures of the candidates and of every naive baseline.

    `runs` have a decisive step, `clean` none. `false_candidates` is the share of clean runs that
    get a candidate, `named_error` that of runs with any wrong step whose first guess is one.
    """

    name: str
    made_by: By
    runs: int
    clean: int
    localisation: tuple[Localisation, ...]
    hindsight: Baselines | None
    exact: Difference | None
    top_3: Difference | None
    false_candidates: Rate
    named_error: Rate
    stated: tuple[Stated, ...]

    @property
    def ours(self) -> Localisation:
        return next(each for each in self.localisation if each.name == OURS)


def source_run(
    trace: Trace, decisive: Iterable[int], erroneous: Iterable[int], *, is_hidden: bool = True
) -> SourceRun:
    """A labelled trace; `is_hidden`: as it is where nobody knows how the run ended."""
    case = RuleContext(trace)
    case = case.unjudged() if is_hidden else case
    found = findings(case)
    own = rule_scores(case, found)
    return SourceRun(
        trace=trace.id,
        task=trace.header.task or trace.id,
        steps=len(trace.steps),
        signals=run_signals(case, found, own),
        naive=naive_guesses(case.reading, found, published_step(case, own)),
        decisive=frozenset(decisive),
        erroneous=frozenset(erroneous),
    )


def _source_runs(
    store: Store, placed: Iterable[PlacedLabel], is_hidden: bool
) -> Iterator[SourceRun]:
    by_trace: dict[str, list[PlacedLabel]] = defaultdict(list)
    for each in placed:
        by_trace[each.trace].append(each)
    for key, own in sorted(by_trace.items()):
        named = [(each.step, each.label) for each in own if each.step is not None]
        decisive = {step for step, label in named if label.decisive}
        wrong = {step for step, label in named if _is_wrong(label)}
        trace = read.load(store, key)
        yield source_run(trace, decisive, decisive | wrong, is_hidden=is_hidden)


def _is_wrong(label: Label) -> bool:
    return bool(label.classes) or (label.score is not None and label.score < FAILURE)


Locate = Callable[[SourceRun], Sequence[Candidate]]
Sources = Mapping[str, Sequence[SourceRun]]


class LabelFile(Struct, frozen=True, eq=False, kw_only=True):
    """The runs of one label file. Files of one `source` are of the same agents: none is fitted for
    another of them."""

    name: str
    source: str
    made_by: By
    runs: Sequence[SourceRun]


def read_file(
    store: Store, path: Path, source: str | None = None, *, is_hidden: bool = True
) -> LabelFile:
    """A label file and its runs in the database. The source is that of the fit that its first runs
    were part of, else the file itself. Raises ArcError where it holds no label."""
    labels, _ = read_labels(path)
    placed, _ = place(store, labels)
    runs = list(_source_runs(store, placed, is_hidden))
    known = [name for run in runs if (name := fitted_source(run.trace)) is not None]
    return LabelFile(
        name=path.stem,
        source=source or (known[0] if known else path.stem),
        made_by="rule" if all(each.made_by == "rule" for each in labels) else "people",
        runs=runs,
    )


def shipped_model(source: str) -> Model:
    """The model that was fitted without a source: the shipped one where it saw nothing of it."""
    return FOLDS.get(source, MODEL)


def measure_files(
    files: Sequence[LabelFile], model: Callable[[str], Model] = shipped_model
) -> tuple[SourceFigures, ...]:
    """The figures of each file, that with the least gain over the naive baselines first. `model`
    gives the model of a source, which must not have seen it."""
    found = []
    for each in files:
        held_out = model(each.source)
        others: dict[str, list[SourceRun]] = defaultdict(list)
        for other in files:
            if other.source != each.source and other.made_by == "people":
                others[other.source] += other.runs
        locate = partial(_locate, held_out)
        found.append(source_figures(each.name, each.made_by, each.runs, others, locate))
    return tuple(sorted(found, key=lambda each: each.exact.value if each.exact else math.inf))


def _locate(model: Model, run: SourceRun) -> Sequence[Candidate]:
    return shown(run.signals, model)


def source_figures(
    name: str, made_by: By, runs: Sequence[SourceRun], others: Sources, locate: Locate
) -> SourceFigures:
    """The figures of one source. `others` are what baselines are fitted on, each of them weighing
    the same; `locate` must not have been fitted on `runs`."""
    found = {run.trace: tuple(locate(run)) for run in runs}
    broken = [run for run in runs if run.decisive]
    clean = [run for run in runs if not run.decisive]
    wrong = [run for run in runs if run.erroneous]
    guessers = {
        OURS: [_steps(found[run.trace]) for run in broken],
        MEANT: [_candidates(found[run.trace]) for run in broken],
        **naive_guessers(broken, others),
    }
    trivial = [each for each in guessers if each not in (OURS, MEANT)]
    figures = [
        localisation(each, [_run(run, steps) for run, steps in zip(broken, guesses, strict=True)])
        for each, guesses in guessers.items()
    ]
    first = [(run, found[run.trace][0]) for run in broken if found[run.trace]]
    return SourceFigures(
        name=name,
        made_by=made_by,
        runs=len(broken),
        clean=len(clean),
        localisation=(*figures, random_step(broken)),
        hindsight=baselines([_run(run, ()) for run in broken]),
        exact=_difference(broken, guessers, trivial, 1),
        top_3=_difference(broken, guessers, trivial, TOP),
        false_candidates=rate(
            sum(bool(_candidates(found[run.trace])) for run in clean), len(clean)
        ),
        named_error=rate(
            sum(bool(set(_steps(found[run.trace])[:1]) & run.erroneous) for run in wrong),
            len(wrong),
        ),
        stated=stated_bands((each, each.step in run.decisive) for run, each in first),
    )


def _steps(candidates: Sequence[Candidate]) -> tuple[int, ...]:
    return tuple(each.step for each in candidates)


def _candidates(candidates: Sequence[Candidate]) -> tuple[int, ...]:
    """The steps of candidates, none where the first is only a positional guess."""
    return () if not candidates or candidates[0].is_positional else _steps(candidates)


def _run(run: SourceRun, guesses: Sequence[int]) -> Run:
    return Run(decisive=tuple(sorted(run.decisive)), guesses=tuple(guesses), steps=run.steps)


# --- naive guesses


def naive_guessers(runs: Sequence[SourceRun], others: Sources) -> dict[str, list[tuple[int, ...]]]:
    """The guesses of each naive baseline at each run, those fitted on `others` among them."""
    names = dict.fromkeys(name for run in runs for name in run.naive)
    found = {name: [run.naive.get(name, ()) for run in runs] for name in names}
    known = {name: broken for name, each in others.items() if (broken := _broken(each))}
    if known:
        steps, places = best_constants(known), best_positions(known)
        found[BEST_CONSTANT] = [tuple(steps) for _ in runs]
        found[BEST_POSITION] = [
            tuple(dict.fromkeys(at_position(each, run.steps) for each in places)) for run in runs
        ]
    return found


def _broken(runs: Sequence[SourceRun]) -> list[SourceRun]:
    return [run for run in runs if run.decisive]


def best_constants(sources: Sources) -> list[int]:
    """The step that is decisive most often, and the two that add most to it; each source weighs
    the same."""
    latest = max(step for runs in sources.values() for run in runs for step in run.decisive)
    return _covering(range(latest + 1), sources, lambda step, _: step)


def best_positions(sources: Sources) -> list[float]:
    """The same of relative positions, 0 the first step and 1 the last."""
    places = [hundredth / (POSITIONS - 1) for hundredth in range(POSITIONS)]
    return _covering(places, sources, at_position)


def _covering(choices: Sequence[float], sources: Sources, step: Callable[..., int]) -> list[Any]:
    """`TOP` of the choices, each the one whose steps are decisive in most of what is left."""
    left = {name: list(runs) for name, runs in sources.items()}
    chosen: list[float] = []
    for _ in range(TOP):
        gains = [
            sum(
                sum(step(choice, run.steps) in run.decisive for run in left[name]) / len(runs)
                for name, runs in sources.items()
            )
            for choice in choices
        ]
        best = choices[max(range(len(choices)), key=gains.__getitem__)]
        chosen.append(best)
        for name, runs in left.items():
            left[name] = [run for run in runs if step(best, run.steps) not in run.decisive]
    return chosen


def random_step(runs: Sequence[SourceRun]) -> Localisation:
    """What is to be expected of a step drawn at random from those that a model took, and of three
    different ones."""
    near = [0.0] * len(NEAR)
    top = far = 0.0
    for run in runs:
        steps = run.signals.choices
        away = [distance(_run(run, (step,))) or 0 for step in steps]
        missed = sum(each > 0 for each in away)
        for at, reach in enumerate(NEAR):
            near[at] += sum(each <= reach for each in away) / len(steps)
        drawn = min(TOP, len(steps))
        top += 1 - comb(missed, drawn) / comb(len(steps), drawn)
        far += sum(away) / len(steps)
    n = len(runs)
    hits = Hits(
        exact=rate(near[0], n),
        within_1=rate(near[1], n),
        within_3=rate(near[2], n),
        within_5=rate(near[3], n),
        top_3=rate(top, n),
        mean_distance=far / n if n else None,
    )
    return Localisation(name=RANDOM_STEP, abstained=rate(0, n), over_all=hits, over_answered=hits)


# --- differences


def _difference(
    runs: Sequence[SourceRun],
    guessers: Mapping[str, Sequence[tuple[int, ...]]],
    trivial: Sequence[str],
    reach: int,
) -> Difference | None:
    """All that is shown against the naive baseline that is right most often here, by the first
    `reach` guesses."""
    if not runs or not trivial:
        return None
    right = {
        name: [bool(run.decisive & set(steps[:reach]))
               for run, steps in zip(runs, guessers[name], strict=True)]
        for name in (OURS, *trivial)
    }  # fmt: skip
    best = max(trivial, key=lambda name: sum(right[name]))
    gains = [int(ours) - int(other) for ours, other in zip(right[OURS], right[best], strict=True)]
    low, high = paired_bootstrap([(run.task, gain) for run, gain in zip(runs, gains, strict=True)])
    return Difference(baseline=best, value=sum(gains) / len(gains), low=low, high=high)


def paired_bootstrap(gains: Sequence[tuple[str, int]]) -> tuple[float, float]:
    """The 95 % interval of a mean gain; the runs of one task are drawn together."""
    by_task: dict[str, list[int]] = defaultdict(list)
    for task, gain in gains:
        by_task[task].append(gain)
    groups = [(sum(own), len(own)) for own in by_task.values()]
    source = random.Random(1)
    means = []
    for _ in range(DRAWS):
        drawn = source.choices(groups, k=len(groups))
        means.append(sum(gain for gain, _ in drawn) / sum(n for _, n in drawn))
    means.sort()
    return means[int(0.025 * DRAWS)], means[int(0.975 * DRAWS)]
