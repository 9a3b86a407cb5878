"""A locked replay as a person reads it: the sentence, then a row a step with its mark and what each
arm did, in a few words.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct

from arc_tui.ui import format
from replay import digests
from replay.action import Act, Action
from replay.edit.changes import Edit
from replay.edit.editor import diff_trace
from replay.locked.estimate import Estimate
from replay.locked.row import Schedule
from replay.locked.tally import Counts, Mark, Reply, StepResult, against_recording
from replay.locked.verdict import Collateral, Verdict, summary
from replay.trace import Level, Trace

MARKS = {"fixed": "✓ fixed", "broke": "✗ broke", "changed": "≠ changed", "same": "· same"}
"""A mark for what the edit did to a step; anything else reads as `? unclear`."""


class Given(Struct, frozen=True, kw_only=True):
    """One answer of an arm and how often it came.

    `same` tells whether it does what was recorded (None: comparing cannot tell); `why` where it is
    not the recorded one, what sets it apart.
    """

    times: int
    phrase: str
    same: bool | None
    why: str = ""
    text: str = ""
    calls: tuple[Act, ...] = ()


class ArmRow(Struct, frozen=True, kw_only=True):
    """A step in one arm. `answers` are its different ones: first what it does mostly, diverging or
    not, then the others by how often they came. `counts` holds them against the recording."""

    answers: tuple[Given, ...]
    counts: Counts

    @property
    def usual(self) -> Given:
        return self.answers[0]


class ReplayRow(Struct, frozen=True, kw_only=True):
    """A step in both arms.

    `effect` tells whether the arms differ beyond chance, `p` is the test's; both None where nothing
    was tested. `dimmed` rows come after the edited arm diverged; `refused` says why a step
    was skipped, `edited_refused` why only its edited arm was; `reasons` are those of the fidelity,
    `masked` the values in its request that were redacted.
    """

    step: int
    fidelity: Level
    recorded: str
    control: ArmRow | None = None
    edited: ArmRow | None = None
    mark: Mark | None = None
    effect: bool | None = None
    p: float | None = None
    at_break: bool = False
    dimmed: bool = False
    refused: str | None = None
    edited_refused: str | None = None
    recorded_text: str = ""
    recorded_calls: tuple[Act, ...] = ()
    reasons: tuple[str, ...] = ()
    masked: int = 0
    losses: tuple[str, ...] = ()


class ReplayView(Struct, frozen=True, eq=False, kw_only=True):
    """Everything the replay screen draws and `arc replay` prints.

    `done` of `total` steps are in; `digest` is there at the end of a replay that was not cut short.
    `spent_usd` counts live calls of this run only (`spent_complete` where every price was known);
    `calls` were made, `cached` responses were there already. `unanswered` steps lack an arm that
    was declined; `ended` says why nothing more was asked of any arm, None where all was. `rules`
    are those of the user by which answers were compared, beside `replay.compare.actions.RULES`.
    `others` are the further arms, each as a replay of its own beside the same control.
    """

    trace: str
    edit: str | None
    diff: tuple[str, ...]
    model: str
    verdict: Verdict
    rows: tuple[ReplayRow, ...]
    done: int
    total: int
    calls: int
    cached: int
    spent_usd: float
    spent_complete: bool
    server: str = ""
    schedule: Schedule = "cheap"
    range: int = 0
    rules: tuple[str, ...] = ()
    estimate: Estimate | None = None
    unanswered: int = 0
    ended: str | None = None
    digest: str | None = None
    others: tuple[ReplayView, ...] = ()

    @property
    def arms(self) -> tuple[ReplayView, ...]:
        """Every arm beside control."""
        return (self, *self.others)

    @property
    def differs(self) -> bool:
        """Does an edit change an action: beyond chance, or, of one sample, in that sample?"""
        marks = (row.mark for arm in self.arms for row in arm.rows)
        return any(mark in ("fixed", "broke", "changed") for mark in marks)


EMPTY = ReplayView(
    trace="",
    edit=None,
    diff=(),
    model="",
    verdict=summary(()),
    rows=(),
    done=0,
    total=0,
    calls=0,
    cached=0,
    spent_usd=0.0,
    spent_complete=True,
)


def replay_rows(
    results: Sequence[StepResult], verdict: Verdict, masked: Mapping[int, int] = {}
) -> tuple[ReplayRow, ...]:
    """The steps that are in, in their order. `masked` counts masked values by step."""
    return tuple(
        _row(result, verdict, masked.get(result.step, 0))
        for result in sorted(results, key=lambda each: each.step)
    )


def _row(result: StepResult, verdict: Verdict, masked: int) -> ReplayRow:
    test = None if verdict.look else verdict.tests.get(result.step)
    return ReplayRow(
        step=result.step,
        fidelity=result.fidelity.level,
        recorded=result.recorded.phrase,
        control=_arm(result.control),
        edited=_arm(result.edited),
        mark=verdict.marks.get(result.step),
        effect=None if test is None else result.step in verdict.effects,
        p=None if test is None else test.p,
        at_break=result.step == verdict.break_step,
        dimmed=result.step in verdict.dimmed,
        refused=result.refused,
        edited_refused=result.edited_refused,
        recorded_text=result.recorded.text,
        recorded_calls=result.recorded.calls,
        reasons=result.fidelity.reasons,
        masked=masked,
        losses=result.losses,
    )


def _arm(replies: Sequence[Reply]) -> ArmRow | None:
    """An arm with equal answers counted together."""
    if not replies:
        return None
    groups: dict[str, list[Reply]] = {}
    for reply in replies:
        groups.setdefault(_identity(reply.action), []).append(reply)
    found = against_recording(replies)
    mostly = found.diverges_mostly

    def order(group: list[Reply]) -> tuple[bool, int]:
        return group[0].against.diverges != mostly, -len(group)

    return ArmRow(
        answers=tuple(_given(group) for group in sorted(groups.values(), key=order)),
        counts=found,
    )


def _identity(action: Action) -> str:
    """What makes two answers one in a list: their calls, or their words where they call nothing."""
    calls = [[call.tool, call.arguments, call.raw] for call in action.calls]
    return digests.canonical([calls, action.cut, None if calls else action.text])


def _given(group: Sequence[Reply]) -> Given:
    reply = group[0]
    return Given(
        times=len(group),
        phrase=reply.action.phrase,
        same=reply.against.same,
        why=_why(reply),
        text=reply.action.text,
        calls=reply.action.calls,
    )


def _why(reply: Reply) -> str:
    """In what an answer differs from the recording, with what is wrong with it in any case."""
    if reply.against.same:
        return "; ".join(reply.flaws)
    return "; ".join(filter(None, (reply.against.brief, *reply.flaws)))


def edit_diff(trace: Trace, edit: Edit | None, steps: Collection[int]) -> tuple[str, ...]:
    """The edit as a unified diff, each part against the first request of `steps` that has it."""
    return () if edit is None else tuple(diff_trace(edit, trace, steps))


# --- several arms


class StepRow(Struct, frozen=True):
    """A step in every arm beside one control."""

    arms: tuple[ReplayRow, ...]

    @property
    def first(self) -> ReplayRow:
        """The row of the first arm: what was recorded is the same in all."""
        return self.arms[0]


def step_rows(view: ReplayView) -> tuple[StepRow, ...]:
    """The steps that are in of every arm."""
    by_step: dict[int, list[ReplayRow]] = {}
    for arm in view.arms:
        for row in arm.rows:
            by_step.setdefault(row.step, []).append(row)
    many = len(view.arms)
    return tuple(StepRow(tuple(rows)) for rows in by_step.values() if len(rows) == many)


def arm_names(view: ReplayView) -> tuple[str, ...]:
    """The name of each arm beside control."""
    return tuple(format.one_line(arm.edit or "edited") for arm in view.arms)


def sentences(view: ReplayView) -> tuple[str, ...]:
    """The verdict: of one arm in a sentence, of several a line an arm between what holds of all."""
    if not view.others:
        return (view.verdict.sentence,)
    arms = zip(arm_names(view), view.arms, strict=True)
    scopes = dict.fromkeys(each for arm in view.arms for each in arm.verdict.parts.scope)
    return (
        view.verdict.parts.control,
        *(
            f"{name}: {' '.join(arm.verdict.parts.edit) or 'not replayed.'}"
            for name, arm in arms
            if arm.verdict.control.of
        ),
        *filter(None, (" ".join(scopes),)),
    )


def difference(row: ReplayRow) -> str:
    """What an arm does in a row of several: its mark, and what sets it apart from the recording."""
    if row.edited is None:
        return format.UNKNOWN
    sign = MARKS.get(row.mark or "", "? unclear")[:1] if row.mark is not None else ""
    usual = row.edited.usual
    said = phrase(row.edited) if usual.same is not False or not usual.why else usual.why
    return f"{sign} {format.one_line(said)}".strip()


def collateral_line(found: Collateral) -> str:
    """How many steps an edit left and how."""
    unclear = f" · unclear {found.unclear}" if found.unclear else ""
    return (
        f"fixed {found.fixed} · broke {found.broke} · changed {found.changed}"
        f" · same {found.same}{unclear}"
    )


WIDTH = 48
"""Characters of a phrase in a cell that nothing else limits."""


def mark_words(row: ReplayRow) -> str:
    """What the edit did to a step, as a mark and a word; "" where it was not replayed."""
    if row.refused is not None:
        return "– skipped"
    return "" if row.mark is None else MARKS.get(row.mark, "? unclear")


def is_beyond_chance(row: ReplayRow) -> bool:
    """Do samples show that the arms differ here, in what they do or in showing the failure?"""
    return bool(row.effect) or (row.mark == "fixed" and row.p is not None)


def arm_cell(arm: ArmRow | None) -> str:
    """What an arm mostly does; of several samples, how many of them: `same 7/8`."""
    return f"{format.cut(phrase(arm), WIDTH)} {tally(arm)}".rstrip()


def phrase(arm: ArmRow | None) -> str:
    """What an arm mostly does, `same` where that is what was recorded."""
    if arm is None:
        return format.UNKNOWN
    if arm.usual.same:
        return "same"
    if arm.usual.same is None and arm.counts.reworded:
        return "reworded"
    return format.one_line(arm.usual.phrase) or format.UNKNOWN


def tally(arm: ArmRow | None) -> str:
    """How many of several samples do as most do, and how many other answers stand behind those
    that diverge: `7/8 +1`. "" of one sample, and where none can be compared."""
    if arm is None or arm.counts.total <= 1 or not arm.counts.decided:
        return ""
    found, diverging = arm.counts, arm.usual.same is False
    times = found.diverges if diverging else found.decided - found.diverges
    others = len(arm.answers) - 1 if diverging else 0
    return f"{times}/{found.decided}{f' +{others}' if others else ''}"
