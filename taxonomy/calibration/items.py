"""How often does a source answer a rubric item as people do? Each item has figures of its own.

An item is a yes-or-no question of a step: did it hold? What a source leaves undecided is counted
and compared with nothing. Positive is "yes, it held": the true positive rate (TPR) is the share of
people's yes that the source calls yes, the true negative rate (TNR) that of their no.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from msgspec import Struct

from replay.statistics import Rate, rate
from taxonomy.calibration.agreement import Detection, detection
from taxonomy.calibration.labelled import Labelled
from taxonomy.calibration.rubric_items import item_names
from taxonomy.findings import Source


class Answers(NamedTuple):
    """An item of a step as people answered it and as a source did, None where it did not."""

    said: bool
    held: bool | None


class ItemAgreement(Struct, frozen=True, kw_only=True):
    """One item of one source beside people's answers.

    `labels` counts the steps that people answered it of and the source looked at, `undecided` those
    of them that it did not answer; every other figure is over the rest. `yes` is the base rate,
    people's share of yes: a source that always says yes agrees so often. `held` has κ, TPR
    (`recall`) and TNR (`specificity`).
    """

    source: Source
    by: str
    item: str
    labels: int
    undecided: int
    yes: Rate
    agreed: Rate
    held: Detection


def item_agreements(runs: Sequence[Labelled]) -> tuple[ItemAgreement, ...]:
    """Every source's every item that a person answered where the source looked, by source."""
    sources: dict[str, Source] = {
        score.by: score.source for run in runs for score in run.scores if score.source != "human"
    }
    return tuple(
        item_agreement(source, by, item, answers)
        for by, source in sorted(sources.items(), key=lambda known: (known[1], known[0]))
        for item, answers in item_answers(runs, by).items()
    )


def item_answers(runs: Iterable[Labelled], by: str) -> dict[str, list[Answers]]:
    """People's answers beside one source's, by item in the order of the rubric.

    One answer a step: where several people gave the same, it counts once; where they differ, not
    at all.
    """
    found: dict[str, list[Answers]] = defaultdict(list)
    for run in runs:
        answered = run.answered(by)
        for step, said in run.answers_said.items():
            if step is not None and step in answered:
                for item, held in said.items():
                    found[item].append(Answers(held, answered[step].get(item)))
    return {name: found[name] for name in item_names() if _answered(found[name])}


def _answered(answers: Iterable[Answers]) -> bool:
    """Did the source answer it even once? One that never does has another rubric."""
    return any(each.held is not None for each in answers)


def item_agreement(source: Source, by: str, item: str, answers: Sequence[Answers]) -> ItemAgreement:
    """The figures of one item."""
    pairs = list(_decided(answers))
    return ItemAgreement(
        source=source,
        by=by,
        item=item,
        labels=len(answers),
        undecided=len(answers) - len(pairs),
        yes=rate(sum(said for said, _ in pairs), len(pairs)),
        agreed=rate(sum(said == held for said, held in pairs), len(pairs)),
        held=detection(item, pairs),
    )


def _decided(answers: Iterable[Answers]) -> Iterator[tuple[bool, bool]]:
    for each in answers:
        if each.held is not None:
            yield each.said, each.held
