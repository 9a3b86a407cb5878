"""Which answers to another wording can be judged? Those on the recorded road, up to where it ends.

A locked replay asks each step with its recorded context, the user's words changed. Up to the first
step at which the model acts otherwise, the agent would have been there: that answer is the last one
that says anything. How it would have gone on is not shown; only a free replay can tell.

Where it is known at which step the run broke, a wording is scored there, or, where its road ends
before, at its end: the steps before repeat the recording under every wording, and a mean over them
would only hide the difference. Else it is scored by the mean over its whole road.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from replay.action import Action
from replay.locked.step_result import Reply, StepResult
from replay.locked.tally import against_recording
from replay.trace import Trace


class Answers(Struct, frozen=True, kw_only=True):
    """What was answered at a step, a sample each."""

    step: int
    actions: tuple[Action, ...]


class Road(Struct, frozen=True, kw_only=True):
    """The answers of one wording up to where it left the recording (`departs`, None: nowhere).

    `unasked` are steps of it that have no answer, with the reason.
    """

    answers: tuple[Answers, ...] = ()
    departs: int | None = None
    unasked: tuple[tuple[int, str], ...] = ()

    def judged(self, broke: int | None) -> tuple[Answers, ...]:
        """The answers to judge: at the step that broke or the departure before it, else all."""
        if broke is None:
            return self.answers
        end = broke if self.departs is None else min(broke, self.departs)
        return tuple(each for each in self.answers if each.step == end)


def steps_to_ask(trace: Trace, thread: str, broke: int | None) -> tuple[int, ...]:
    """The steps of the thread up to the one that broke; all of them where none is known."""
    return tuple(
        step.index
        for step in trace.steps
        if step.thread == thread and (broke is None or step.index <= broke)
    )


def road(rows: Iterable[StepResult], *, edited: bool) -> Road:
    """The road of one arm. What most samples of a step do counts as what it does there."""
    found: list[Answers] = []
    unasked: list[tuple[int, str]] = []
    for row in sorted(rows, key=lambda row: row.step):
        replies: Sequence[Reply] = row.edited if edited else row.control
        if not replies:
            why = row.refused or row.edited_refused or row.ended or "it was not asked"
            unasked.append((row.step, why))
            continue
        found.append(Answers(step=row.step, actions=tuple(each.action for each in replies)))
        if against_recording(replies).departs_mostly:
            return Road(answers=tuple(found), departs=row.step, unasked=tuple(unasked))
    return Road(answers=tuple(found), unasked=tuple(unasked))
