"""A locked replay as a person reads it: the sentence, then a row a step."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from replay.action import Act
from replay.budget import Estimate
from replay.edit import Edit, diff
from replay.locked import Reply, StepResult
from replay.trace import Level, Trace
from replay.verdict import Mark, Verdict, summary

MARKS = {"fixed": "✓ fixed", "broke": "✗ broke", "changed": "≠ changed", "same": "· same"}
"""A mark for what the edit did to a step; anything else reads as `? unclear`."""


class ReplayRow(Struct, frozen=True, kw_only=True):
    """A step in both arms, each as one phrase.

    `same` tells of each arm whether it does what was recorded (None: comparing cannot tell).
    `dimmed` rows come after the edited arm left the road; `refused` says why a step was not asked.
    `calls` and `text` of an arm are all of its answer, `why` says where it is not the recorded one
    or why that cannot be told; `reasons` are those of the fidelity.
    """

    step: int
    fidelity: Level
    recorded: str
    control: str | None
    control_same: bool | None
    edited: str | None
    edited_same: bool | None
    mark: Mark | None
    at_break: bool
    dimmed: bool
    refused: str | None
    recorded_text: str = ""
    control_text: str = ""
    edited_text: str = ""
    recorded_calls: tuple[Act, ...] = ()
    control_calls: tuple[Act, ...] = ()
    edited_calls: tuple[Act, ...] = ()
    control_why: str = ""
    edited_why: str = ""
    reasons: tuple[str, ...] = ()
    losses: tuple[str, ...] = ()


class ReplayView(Struct, frozen=True, eq=False, kw_only=True):
    """Everything the replay screen draws and `arc replay` prints.

    `done` of `total` steps are in; `digest` is there at the end. `spent_usd` counts live calls of
    this run only (`spent_complete` where every price was known); `asked` calls were made, `kept`
    answers were there already.
    """

    trace: str
    edit: str | None
    diff: tuple[str, ...]
    model: str
    verdict: Verdict
    rows: tuple[ReplayRow, ...]
    done: int
    total: int
    asked: int
    kept: int
    spent_usd: float
    spent_complete: bool
    estimate: Estimate | None = None
    digest: str | None = None

    @property
    def differs(self) -> bool:
        """Does the edit change an action anywhere, as far as one look tells?"""
        return any(row.mark in ("fixed", "broke", "changed") for row in self.rows)


EMPTY = ReplayView(
    trace="",
    edit=None,
    diff=(),
    model="",
    verdict=summary(()),
    rows=(),
    done=0,
    total=0,
    asked=0,
    kept=0,
    spent_usd=0.0,
    spent_complete=True,
)


def replay_rows(results: Sequence[StepResult], verdict: Verdict) -> tuple[ReplayRow, ...]:
    """The steps that are in, in their order."""
    dimmed = set(verdict.dimmed)
    return tuple(
        _row(result, verdict, result.step in dimmed)
        for result in sorted(results, key=lambda each: each.step)
    )


def _row(result: StepResult, verdict: Verdict, dimmed: bool) -> ReplayRow:
    control, edited = _first(result.control), _first(result.edited)
    return ReplayRow(
        step=result.step,
        fidelity=result.fidelity.level,
        recorded=result.recorded.phrase,
        control=control.action.phrase if control else None,
        control_same=control.against.same if control else None,
        edited=edited.action.phrase if edited else None,
        edited_same=edited.against.same if edited else None,
        mark=verdict.marks.get(result.step),
        at_break=result.step == verdict.break_step,
        dimmed=dimmed,
        refused=result.refused,
        recorded_text=result.recorded.text,
        control_text=control.action.text if control else "",
        edited_text=edited.action.text if edited else "",
        recorded_calls=result.recorded.calls,
        control_calls=control.action.calls if control else (),
        edited_calls=edited.action.calls if edited else (),
        control_why=_why(control),
        edited_why=_why(edited),
        reasons=result.fidelity.reasons,
        losses=result.losses,
    )


def _why(reply: Reply | None) -> str:
    """In what an answer differs from the recording, with what is wrong with it in any case."""
    if reply is None or reply.against.same:
        return ""
    return "; ".join(filter(None, (reply.against.brief, *reply.flaws)))


def _first(replies: tuple[Reply, ...]) -> Reply | None:
    return replies[0] if replies else None


def edit_diff(trace: Trace, edit: Edit | None) -> tuple[str, ...]:
    """The edit as a unified diff against the first request it can be seen in."""
    if edit is None or not trace.steps:
        return ()
    threads = (step for step in trace.steps if edit.thread in (None, step.thread))
    first = next(threads, trace.steps[0])
    return tuple(diff(edit, first.ask.request))
