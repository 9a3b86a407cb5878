"""Judges' scores in the database: who said them, by which rubric, and what stands behind each.

A set is named by its mode, model and rubric version, so that scores under another rubric,
another model or other goals stand beside and never over. The trace is not touched. Steps are in
the ledger's table of scores; what is said of a whole run belongs to no step and is a note of its
own.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import get_args

from msgspec import Struct

from replay.store import answers
from replay.store.handle import Store
from taxonomy.findings import Item, Source, StepScore
from taxonomy.judge.rubrics import Mode
from taxonomy.judge.run import Judged
from taxonomy.judgements.scores import all_scores, keep_scores

SAMPLES = "samples"
"""The name of the item that lists a score's samples; it decides nothing."""

_NOTE = "judged run:"
_MODES: dict[str, Mode] = {mode: mode for mode in get_args(Mode)}


class ScoreSet(Struct, frozen=True, kw_only=True):
    """What makes two scores comparable. `goals` is the version of the goals where there are any."""

    mode: Mode
    model: str
    rubric: str
    goals: str | None = None

    @property
    def by(self) -> str:
        """`judge:<mode>:<model>:<rubric version>`, the goals' version joined to the rubric's."""
        goals = f"+goals-{self.goals}" if self.goals else ""
        return f"judge:{self.mode}:{self.model}:{self.rubric}{goals}"


def parsed(by: str) -> ScoreSet | None:
    """The set a score's `by` names, None where it is no judge's. A model's name may hold colons."""
    kind, _, rest = by.partition(":")
    mode, _, rest = rest.partition(":")
    model, _, version = rest.rpartition(":")
    if kind != "judge" or mode not in _MODES or not model:
        return None
    rubric, _, goals = version.partition("+goals-")
    return ScoreSet(mode=_MODES[mode], model=model, rubric=rubric, goals=goals or None)


class RunScore(Struct, frozen=True, kw_only=True):
    """A judge's score 0..1 of a whole run, and what stands behind it."""

    trace: str
    by: str
    value: float
    items: tuple[Item, ...]


def keep(
    store: Store, trace: str, by: str, given: Iterable[Judged], source: Source = "judge"
) -> None:
    """Keep what a judge said, in place of what the same set said of the same steps before.

    What has no value is not kept: nothing was scored, and an older score of it still stands.
    """
    known = [each for each in given if each.value is not None]
    steps = (
        StepScore(
            step=each.step,
            value=each.value,
            source=source,
            by=by,
            span=each.span,
            items=_items(each),
        )
        for each in known
        if each.step is not None
    )
    with store.writing():
        keep_scores(store, trace, steps)
        for each in known:
            if each.step is None and each.value is not None:
                whole = RunScore(trace=trace, by=by, value=each.value, items=_items(each))
                answers.keep(store, f"{_NOTE}{trace}:{by}", whole)


def _items(given: Judged) -> tuple[Item, ...]:
    shown = ", ".join(f"{value:.2f}" for value in given.samples)
    return (*given.items, Item(name=SAMPLES, held=None, because=shown))


def scores(store: Store, trace: str) -> tuple[StepScore, ...]:
    """The scores that judges gave the steps of a trace, of every set."""
    return tuple(each for each in all_scores(store, trace) if parsed(each.by) is not None)


def run_scores(store: Store, trace: str) -> tuple[RunScore, ...]:
    """The scores that judges gave the run as a whole, by set."""
    return tuple(answers.found(store, f"{_NOTE}{trace}:", RunScore))
