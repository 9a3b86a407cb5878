"""A labelled run: what its labels say together, beside what the database says of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cached_property

import msgspec
from msgspec import Struct

from replay.store.handle import Store
from replay.store.rows import TraceRow, trace_rows
from taxonomy.calibration.labels import PlacedLabel
from taxonomy.classes import FailureClass
from taxonomy.findings import Candidate, Diagnosis, Source, StepScore
from taxonomy.judgements import diagnoses
from taxonomy.judgements.diagnoses import Suggested
from taxonomy.judgements.scores import all_scores

MEANT = 0.5
"""A finding that states a lower confidence is a hint: it does not count as found."""


class Labelled(Struct, frozen=True, eq=False, kw_only=True, dict=True):
    """A run, what its labels say, and what the database says of it."""

    row: TraceRow
    labels: tuple[PlacedLabel, ...]
    diagnosis: Diagnosis | None
    suggested: tuple[Suggested, ...]
    scores: tuple[StepScore, ...]

    @cached_property
    def decisive(self) -> tuple[int, ...]:
        """The steps that were called decisive, in order: alternatives."""
        said = {each.step for each in self.labels if each.label.decisive and each.step is not None}
        return tuple(sorted(said))

    @cached_property
    def classes(self) -> frozenset[FailureClass] | None:
        """The classes its labels name together, None where none says anything of classes."""
        said = [each.label.classes for each in self.labels if each.label.classes is not None]
        return frozenset(failure for classes in said for failure in classes) if said else None

    @cached_property
    def classes_at(self) -> Mapping[int, frozenset[FailureClass]]:
        """The same by step, of labels that name one."""
        found: dict[int, set[FailureClass]] = defaultdict(set)
        for each in self.labels:
            if each.step is not None and each.label.classes is not None:
                found[each.step].update(each.label.classes)
        return {step: frozenset(classes) for step, classes in found.items()}

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        return self.diagnosis.candidates if self.diagnosis else ()

    def found(self, source: Source) -> list[Suggested]:
        """What a source suggests and means."""
        return [each for each in self.suggested if each.source == source and meant(each)]

    def scored(self, by: str) -> dict[int, float]:
        """The scores of one source by step."""
        return {
            score.step: score.value
            for score in self.scores
            if score.by == by and score.source != "human" and score.value is not None
        }

    def answered(self, by: str) -> dict[int, dict[str, bool | None]]:
        """The rubric items of one source by step; None where it left an item undecided."""
        return {
            score.step: {item.name: item.held for item in score.items}
            for score in self.scores
            if score.by == by and score.source != "human"
        }

    @cached_property
    def scores_said(self) -> Mapping[int | None, float]:
        """What people score each step, and None the whole run; of several people the mean."""
        return {step: score for (_, step), score in mean_scores(self.labels).items()}

    @cached_property
    def answers_said(self) -> Mapping[int | None, Mapping[str, bool]]:
        """How people answer the rubric items of each step, where they agree."""
        return {step: answers for (_, step), answers in agreed_items(self.labels).items()}

    @cached_property
    def category(self) -> str | None:
        """The category of the task, as the labels or the trace's own have it."""
        said = next((each.label.category for each in self.labels if each.label.category), None)
        return said or own_category(self.row)


def own_category(row: TraceRow) -> str | None:
    """The category of its task that a trace itself states."""
    said = msgspec.json.decode(row.labels or b"{}").get("category")
    return said if isinstance(said, str) else None


def meant(found: Suggested) -> bool:
    """Is a suggestion more than a hint?"""
    return found.confidence is None or found.confidence >= MEANT


def labelled_runs(store: Store, placed: Iterable[PlacedLabel]) -> tuple[Labelled, ...]:
    """The runs that labels point at, in the order of the labels."""
    rows = {row.trace: row for row in trace_rows(store, every=True)}
    by_trace: dict[str, list[PlacedLabel]] = defaultdict(list)
    for each in placed:
        by_trace[each.trace].append(each)
    return tuple(
        Labelled(
            row=rows[key],
            labels=tuple(own),
            diagnosis=diagnoses.diagnosis(store, key),
            suggested=tuple(diagnoses.suggested(store, key)),
            scores=all_scores(store, key),
        )
        for key, own in by_trace.items()
    )


Where = tuple[str, int | None]


def mean_scores(placed: Iterable[PlacedLabel]) -> dict[Where, float]:
    """The mean of the scores that a step was given, or a run as a whole."""
    given: dict[Where, list[float]] = defaultdict(list)
    for each in placed:
        if each.label.score is not None:
            given[each.trace, each.step].append(each.label.score)
    return {where: sum(scores) / len(scores) for where, scores in given.items()}


def agreed_items(placed: Iterable[PlacedLabel]) -> dict[Where, dict[str, bool]]:
    """The rubric items that were answered of a step, those left out on which answers differ."""
    given: dict[Where, dict[str, set[bool]]] = defaultdict(lambda: defaultdict(set))
    for each in placed:
        for name, held in each.label.items.items():
            given[each.trace, each.step][name].add(held)
    return {
        where: {name: held for name, (held, *more) in answers.items() if not more}
        for where, answers in given.items()
    }
