"""Several edits of one run beside one control: each is a replay of its own, asked together.

Control's requests are the same in all of them, so each of its samples is asked once. What differs
from a replay of one edit is how much may be said: Holm's correction is over all steps of all arms.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping, Sequence
from itertools import chain

from msgspec import structs

from replay.compare.rules import PLAIN, Rules
from replay.edit.changes import Edit
from replay.locked.row import AUTO, Models, Sampling
from replay.locked.run import Lane, replay_all
from replay.locked.tally import Held, StepResult, break_test, step_test
from replay.locked.verdict import Verdict, summary
from replay.plan import naming_arm
from replay.predicate import Detector
from replay.statistics import holm
from replay.trace import Trace


def replay_arms(
    trace: Trace,
    arms: Sequence[tuple[Edit | None, Models]],
    *,
    sampling: Sampling = AUTO,
    steps: Collection[int] | None = None,
    rules: Rules = PLAIN,
    detector: Detector | None = None,
) -> Generator[tuple[int, StepResult]]:
    """Ask the steps of a trace again under each edit; yields the place of an arm, and a step of it
    as `locked.replay` does. Raises as that does, naming the arm too where there are several."""
    lanes = []
    for edit, models in arms:
        name = edit.name if edit is not None and len(arms) > 1 else ""
        with naming_arm(edit, len(arms)):
            lane = Lane(
                trace,
                edit,
                models,
                sampling=sampling,
                steps=steps,
                rules=rules,
                detector=detector,
                name=name and f"arm {name}",
            )
        lanes.append(lane)
    tests = sum(lane.tests for lane in lanes)
    for lane in lanes:
        lane.tests, lane.breaks = tests, len(lanes)
    places = {lane: place for place, lane in enumerate(lanes)}
    for lane, result in replay_all(lanes, batch=sampling.schedule == "batch"):
        yield places[lane], result


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
