"""What do people say of a step together, where several labelled it?

A step counts once in every figure, however many people looked at it: two labels of one step are no
two steps that a judge was right about. Keys are (trace, step), None for the whole run.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from taxonomy.calibration.labels import Placed

Where = tuple[str, int | None]


def mean_scores(placed: Iterable[Placed]) -> dict[Where, float]:
    """The mean of the scores that a step was given, or a run as a whole."""
    given: dict[Where, list[float]] = defaultdict(list)
    for each in placed:
        if each.label.score is not None:
            given[each.trace, each.step].append(each.label.score)
    return {where: sum(scores) / len(scores) for where, scores in given.items()}


def agreed_items(placed: Iterable[Placed]) -> dict[Where, dict[str, bool]]:
    """The rubric items that were answered of a step, those left out on which answers differ."""
    given: dict[Where, dict[str, set[bool]]] = defaultdict(lambda: defaultdict(set))
    for each in placed:
        for name, held in each.label.items.items():
            given[each.trace, each.step][name].add(held)
    return {
        where: {name: held for name, (held, *more) in answers.items() if not more}
        for where, answers in given.items()
    }
