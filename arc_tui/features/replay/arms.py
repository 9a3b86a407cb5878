"""Several arms on the replay screen: a column an arm beside one control, a line an arm above them,
and the dialog that adds an arm or leaves one out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from textual.app import App

from arc_tui.experiments.dialogs import edit_option
from arc_tui.experiments.locked_view import (
    ReplayRow,
    ReplayView,
    StepRow,
    arm_names,
    collateral_line,
    difference,
    phrase,
    tally,
)
from arc_tui.experiments.request import model_arm
from arc_tui.ui import format
from arc_tui.ui.dialogs import AskBox, Option
from arc_tui.ui.format import Cell
from replay.edit.changes import Edit
from replay.models.choose import DEMO
from replay.store.edits import KeptEdit

GAP = 2
LEAST, READABLE, MOST = 14, 24, 48
"""Cells of an arm's column: at least, cut short to show one more, and at the most where others want
room too."""


class Columns(NamedTuple):
    """The widths of what is in sight: `arms` from the arm `first` on."""

    recorded: int
    control: int
    first: int
    arms: tuple[int, ...]

    @property
    def end(self) -> int:
        """The place after the last arm in sight."""
        return self.first + len(self.arms)


def columns(rows: Sequence[StepRow], names: Sequence[str], room: int, first: int) -> Columns:
    """What fits into `room` cells, from the arm `first` on, one arm at least. What is left over
    goes to what was recorded."""
    asked = [row for row in rows if len(row.arms) == len(names)]
    control = _width([control_cell(row.first) for row in asked], "control")
    control = min(control, max(room // 6, LEAST))
    recorded = min(_width([recorded_cell(row) for row in rows], "recorded"), max(room // 6, LEAST))
    left = room - recorded - control - 2 * GAP
    wanted = [
        min(max(_width([arm_shown(row.arms[at]) for row in asked], names[at]), LEAST), MOST)
        for at in range(first, len(names))
    ]
    arms: list[int] = []
    for width in (min(each, READABLE) for each in wanted):
        if arms and sum(arms) + GAP * len(arms) + width > left:
            break
        arms.append(width)
    spare = left - sum(arms) - GAP * (len(arms) - 1)
    for at, width in enumerate(arms):
        arms[at] = max(min(wanted[at], width + spare), 1)
        spare -= arms[at] - width
    return Columns(recorded + max(spare, 0), control, first, tuple(arms))


def _width(cells: Sequence[Cell], title: str) -> int:
    return max((cell.width for cell in (*cells, Cell(title))), default=0)


def recorded_cell(row: StepRow) -> Cell:
    return Cell(format.one_line(row.first.recorded))


def control_cell(row: ReplayRow) -> Cell:
    return Cell(phrase(row.control), tally(row.control))


def arm_shown(row: ReplayRow) -> Cell:
    """What an arm does that sets it apart, under its mark."""
    if row.edited_refused is not None:
        return Cell(f"skipped: {format.one_line(row.edited_refused)}")
    return Cell(difference(row), tally(row.edited))


def in_sight(names: Sequence[str], shown: Columns) -> str:
    """Which arms have room, "" where all have."""
    if len(shown.arms) == len(names):
        return ""
    first, last = shown.first + 1, shown.end
    which = f"arm {first}" if first == last else f"arms {first}–{last}"
    return f"{which} of {len(names)} · ‹steps.left› ‹steps.right› others"


def arm_lines(view: ReplayView) -> Iterator[str]:
    """A line an arm: where it first diverges, and how many steps it left how."""
    for name, arm in zip(arm_names(view), view.arms, strict=True):
        step, counted = arm.verdict.edited_diverges, arm.verdict.collateral
        where = "no divergence" if step is None else f"first diverges at step {step}"
        if arm.verdict.edited is None:
            where = "not replayed"
        said = f" · {collateral_line(counted)}" if counted is not None else ""
        yield f"{name}: {where}{said}"


# --- the dialog

THIS = "this edit"
MODEL = "another model"


class ArmChange(NamedTuple):
    """What a person wants: an arm more, one less (`without`, by its place), or the edit that is
    being written kept as an arm."""

    added: Edit | str | None = None
    without: int | None = None
    keeps_this: bool = False


async def ask_arm(
    app: App[None],
    arms: Sequence[Edit],
    kept: Sequence[KeptEdit],
    *,
    edits: bool,
    recorded: str | None,
) -> ArmChange | None:
    """Ask which arm to add, or leave out. `edits` tells whether an edit is being written,
    `recorded` is the recorded model. From a worker; None where nothing was chosen."""
    without = {f"without {at}": at - 1 for at in range(1, len(arms) + 1)}
    options = [Option(THIS, "keep it as an arm and write another")] if edits else []
    options.append(Option(MODEL, "what was recorded, asked of that model"))
    options += [
        Option(name, format.one_line(arms[at].name), "leave out") for name, at in without.items()
    ]
    taken = {arm.digest for arm in arms}
    options += [edit_option(each) for each in kept if each.digest not in taken]
    hint = "or a file: a system prompt (.md, .txt) or changes (.toml)"
    chosen = await app.push_screen_wait(AskBox("add an arm", hint=hint, choices=options))
    if chosen is None:
        return None
    if chosen == THIS:
        return ArmChange(keeps_this=True)
    if chosen in without:
        return ArmChange(without=without[chosen])
    if chosen != MODEL:
        return ArmChange(added=chosen)
    names = [Option(DEMO, "rule-based, local, free")]
    if recorded not in (None, DEMO):
        names.insert(0, Option(str(recorded), "the recorded model"))
    box = AskBox("which model?", hint="[PROVIDER:]NAME", choices=names)
    model = await app.push_screen_wait(box)
    return ArmChange(added=model_arm(model)) if model is not None else None
