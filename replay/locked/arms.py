"""What may be said of several edits of one run beside one control?

Each is a replay of its own (`run.replay_arms`). What differs from a replay of one edit is how much
may be said: Holm's correction is over all steps of all arms.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import chain

from msgspec import structs

from replay.locked.tally import Held, StepResult, break_test, step_test
from replay.locked.verdict import Verdict, summary
from replay.statistics import holm


def beside_one_control(arms: Sequence[Collection[StepResult]]) -> list[list[StepResult]]:
    """The results of each arm, every step with all samples of control that an arm had of it.

    They are samples of one request, in one order: an arm that needed fewer has the first of them.
    """
    most: dict[int, StepResult] = {}
    for row in chain.from_iterable(arms):
        if row.step not in most or len(row.control) > len(most[row.step].control):
            most[row.step] = row

    def share(row: StepResult) -> StepResult:
        control = most[row.step].control
        edited = row.edited if row.touched or not row.edited else control
        return structs.replace(row, control=control, edited=edited)

    return [[share(row) for row in results] for results in arms]


def verdicts(
    arms: Sequence[Sequence[StepResult]],
    break_step: int | None = None,
    *,
    models: Sequence[str | None],
    notice: str | None = None,
    masked: Mapping[int, int] = {},
) -> list[Verdict]:
    """The verdict on each arm, significant where that holds among the tests of all of them.

    `arms` are the results of each `beside_one_control`, `models` those of the edited arms, None
    where control's is asked. Otherwise as `summary`.
    """
    steps: dict[tuple[int, int], float] = {}
    breaks: dict[int, float] = {}
    for place, results in enumerate(arms):
        for row in results:
            test = step_test(row)
            if test is not None:
                steps[place, row.step] = test.p
            broken = break_test(row) if row.step == break_step else None
            if broken is not None:
                breaks[place] = broken.p
    held, held_breaks = holm(steps), holm(breaks)
    return [
        summary(
            results,
            break_step,
            notice=notice,
            masked=masked,
            edited_model=models[place],
            held=Held(
                steps={step for at, step in held if at == place},
                at_break=place in held_breaks,
                tests=len(steps),
                arms=len(arms),
            ),
        )
        for place, results in enumerate(arms)
    ]
