"""What may be said of a locked replay, and nothing beyond it.

The answer at the break step, control against edited; the first departure of each arm; what the
edit changed elsewhere. One sample is a look, not a result. Whether the edited run would have ended
well is not known and never said: only a run that goes on from the departure could tell.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct, structs

from replay.compare import Difference
from replay.locked import StepResult
from replay.models.choose import label
from replay.sentence import sentence
from replay.trace import Level

Mark: TypeAlias = Literal["fixed", "broke", "changed", "same", "unclear"]
"""What the edit did to a step, against control.

`fixed` the recorded action at the break is gone; `broke` an answer that is wrong whatever was meant
(a tool not offered, a required argument left out) where control's was not; `changed` it acts
otherwise; `unclear` comparing cannot tell.
"""

AtBreak: TypeAlias = Literal["gone", "still there", "in other words", "not control's", "unknown"]
"""What became of the recorded action at the break step under the edit.

`not control's`: the unedited request does not give it either, so its absence says nothing.
"""


class Collateral(Struct, frozen=True, kw_only=True):
    """How many steps the edit left and how."""

    fixed: int = 0
    broke: int = 0
    changed: int = 0
    same: int = 0
    unclear: int = 0


class Match(Struct, frozen=True, kw_only=True):
    """How often an arm repeats the recording, of the steps that were asked.

    `reworded` steps only speak, in other words; `unclear` are the others that cannot be compared.
    """

    repeated: int
    of: int
    reworded: int = 0
    unclear: int = 0


class Verdict(Struct, frozen=True, kw_only=True):
    """Everything a replay lets one say.

    `model` is the name to show. The first departures are step numbers, None for none; `edited` and
    what depends on it are None without an edit. `dimmed` steps come after the first departure of
    the edited arm: their history is not one it would have had. `weakest` is the lowest fidelity of
    a request that was asked, with its `reasons`; `losses` is what no request could be sent with.
    `marks` says by step what the edit did; `notices` are sentences to stand beside `sentence`.
    """

    sentence: str
    model: str
    samples: int
    control: Match
    control_departs: int | None = None
    edited: Match | None = None
    edited_departs: int | None = None
    break_step: int | None = None
    at_break: AtBreak | None = None
    marks: Mapping[int, Mark] = {}
    collateral: Collateral | None = None
    dimmed: tuple[int, ...] = ()
    weakest: Level | None = None
    reasons: tuple[str, ...] = ()
    losses: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()


def summary(
    results: Iterable[StepResult], break_step: int | None = None, *, notice: str | None = None
) -> Verdict:
    """The verdict over the steps asked so far, in any order. `break_step` is where the run broke.

    `notice` is what the caller knows against a prompt edit, for example that every call of the
    recording is malformed: no prompt answers that.
    """
    rows = sorted(results, key=lambda row: row.step)
    asked = [row for row in rows if row.control]
    edited = [row for row in asked if row.edited]
    departs = next((row.step for row in edited if row.edited[0].against.departs), None)
    # Past the departure nothing is fixed: the edited agent would not have been there.
    past = departs is not None and break_step is not None and break_step > departs
    found = ((row.step, mark(row, None if past else break_step)) for row in edited)
    marks = {step: each for step, each in found if each is not None}
    weakest = max((row.fidelity for row in asked), key=lambda each: each.level.rank, default=None)
    facts = Verdict(
        sentence="",
        model=label(rows[0].model) if rows else "",
        samples=max((len(row.control) for row in asked), default=0),
        control=_match(row.control[0].against for row in asked),
        control_departs=next((row.step for row in asked if row.control[0].against.departs), None),
        edited=_match(row.edited[0].against for row in edited) if edited else None,
        edited_departs=departs,
        break_step=break_step,
        at_break=_at_break(edited, break_step) if edited else None,
        marks=marks,
        collateral=_collateral(marks) if edited else None,
        dimmed=tuple(row.step for row in rows if departs is not None and row.step > departs),
        weakest=weakest.level if weakest is not None else None,
        reasons=weakest.reasons if weakest is not None else (),
        losses=tuple(dict.fromkeys(loss for row in asked for loss in row.losses)),
        notices=(*_refusals(rows), *([notice] if notice else [])),
    )
    return structs.replace(facts, sentence=sentence(facts, rows))


def mark(row: StepResult, break_step: int | None) -> Mark | None:
    """What the edit did to a step, None where both arms were not asked; only the break is fixed.

    `Verdict.marks` holds these under the rule that nothing past the departure is fixed.
    """
    if not row.control or not row.edited or row.between is None:
        return None
    if row.between.same:
        return "same"
    if row.edited[0].flaws and not row.control[0].flaws:
        return "broke"
    if row.step == break_step and _gone(row):
        return "fixed"
    return "changed" if row.between.departs else "unclear"


def _gone(row: StepResult) -> bool:
    """Does control act as the recording does, and the edited request otherwise?"""
    control, edited = row.control[0].against, row.edited[0].against
    return bool(control.same or control.reworded) and edited.departs


def _match(found: Iterable[Difference]) -> Match:
    differences = list(found)
    reworded = sum(each.reworded for each in differences)
    return Match(
        repeated=sum(each.same is True for each in differences),
        of=len(differences),
        reworded=reworded,
        unclear=sum(each.same is None for each in differences) - reworded,
    )


def _collateral(marks: Mapping[int, Mark]) -> Collateral:
    counted = Counter(marks.values())
    return Collateral(
        fixed=counted["fixed"],
        broke=counted["broke"],
        changed=counted["changed"],
        same=counted["same"],
        unclear=counted["unclear"],
    )


def _at_break(rows: Sequence[StepResult], break_step: int | None) -> AtBreak | None:
    if break_step is None:
        return None
    row = next((row for row in rows if row.step == break_step), None)
    if row is None:
        return "unknown"
    control, edited = row.control[0].against, row.edited[0].against
    if edited.same:
        return "still there"
    if control.departs:
        return "not control's"
    if _gone(row):
        return "gone"
    return "in other words" if edited.reworded else "unknown"


def _refusals(rows: Sequence[StepResult]) -> tuple[str, ...]:
    refused = [row for row in rows if row.refused is not None]
    if not refused:
        return ()
    more = f" ({len(refused) - 1} more steps were not asked)" if len(refused) > 1 else ""
    return (f"step {refused[0].step} was not asked: {refused[0].refused}{more}",)
