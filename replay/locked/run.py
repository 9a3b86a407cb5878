"""Would the model, asked again at every recorded step, act as it did? And under an edit?

A locked replay asks each step with its own recorded context: the step before it is always the
recorded one, whatever the model just answered. So the steps do not depend on each other, and the
first step at which an arm departs is where a run under that prompt would have left the road. Later
rows rest on a history that run would not have had. Nothing here says how such a run would end.

Two arms go through the same conversion: control asks the request as recorded, the other with the
edit. The recording is one sample and no baseline; only control tells what the edit did and what
chance does. Both arms get the same number of samples of a step, more of them where it is open
whether the arms differ (`sampling`). A step whose request the edit does not touch is asked once
for both.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator, Sequence

from replay.compare.rules import PLAIN, Rules
from replay.edit import Edit
from replay.errors import ModelRefused, OfflineMiss
from replay.locked.asking import asked
from replay.locked.row import Missing, Models, Row
from replay.locked.sampling import AUTO, Sampling
from replay.locked.step_result import StepResult
from replay.oracle import Oracle
from replay.plan import plans
from replay.trace import Trace


def replay(
    trace: Trace,
    edit: Edit | None,
    models: Models,
    *,
    sampling: Sampling = AUTO,
    steps: Collection[int] | None = None,
    rules: Rules = PLAIN,
    oracle: Oracle | None = None,
) -> Generator[StepResult]:
    """Ask the steps of a trace again (all, or those of `steps`), control beside the edit.

    A step is yielded whenever more of it is known: a later value takes the place of an earlier
    one. `oracle` tells which answers at its step still show the failure. The edit is tried on
    every step before the first is asked. A request that the model declines gives its arm a
    sentence; a model that declines altogether ends the replay with one. Closing the iterator stops
    it; what was answered is kept, and asked for by nobody again.

    Raises BadEdit naming the step where the edit does not apply, OfflineMiss naming it where an
    answer is not stored and none may be asked for.
    """
    planned = plans(trace, edit, models.control.name, steps, edited_model=models.edited.name)
    rows = [Row(plan, edit, models, sampling, rules, oracle) for plan in planned]
    yield from (row.result() for row in rows if row.finished)
    waiting = [row for row in rows if not row.finished]
    in_turn = sampling.schedule == "cheap"
    try:
        yield from (_in_turn if in_turn else _together)(waiting, sampling)
    except ModelRefused as refused:
        for row in waiting:
            if not row.finished:
                row.end(refused)
                yield row.result()


def _in_turn(rows: Sequence[Row], sampling: Sampling) -> Iterator[StepResult]:
    """Step after step through all its levels. The first sample of an arm goes ahead and leaves its
    request in the provider's cache; the other samples, and the next step, read it there."""
    tests = sum(row.touched for row in rows)
    marked = len(rows) > 1 or sampling.levels[-1] > 1
    for row in rows:
        while not row.finished:
            missing = row.missing()
            _ask([each for each in missing if each.place == 0], marked=marked)
            _ask([each for each in missing if each.place > 0], marked=marked)
            row.advance(tests)
            yield row.result()


def _together(rows: Sequence[Row], sampling: Sampling) -> Iterator[StepResult]:
    """Every step at one level, then those that are still open at the next."""
    tests = sum(row.touched for row in rows)
    while rows:
        missing = [each for row in rows for each in row.missing()]
        _ask(missing, batch=sampling.schedule == "batch")
        for row in rows:
            row.advance(tests)
            yield row.result()
        rows = [row for row in rows if not row.finished]


def _ask(missing: Sequence[Missing], *, marked: bool = False, batch: bool = False) -> None:
    """Ask for samples, and give each to its row. Raises OfflineMiss naming the step."""
    for each, outcome in asked(missing, marked=marked, batch=batch):
        if isinstance(outcome, OfflineMiss):
            raise outcome
        each.row.take(each, outcome)
