"""A replay as `arc replay` prints it: the sentences, a row a step, what it rests on; and as CSV."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from arc_tui.cli import print_table
from arc_tui.experiments.locked_view import (
    WIDTH,
    ArmRow,
    ReplayRow,
    ReplayView,
    StepRow,
    arm_cell,
    arm_names,
    collateral_line,
    difference,
    mark_words,
    sentences,
    step_rows,
    tally,
)
from arc_tui.experiments.models import spending_of
from arc_tui.experiments.progress import spending_line
from arc_tui.ui import format
from arc_tui.ui.tables import csv_text
from replay.compare.actions import RULES, VERSION


def print_replay(out: Console, view: ReplayView, *, rules: bool = False) -> None:
    """The sentences, the notices, a row a step, the rules, the digest."""
    for said in sentences(view):
        out.print(Text(format.plain(said), "bold"), soft_wrap=True)
    for notice in dict.fromkeys(each for arm in view.arms for each in arm.verdict.notices):
        out.print(Text(format.plain(notice), "yellow"), soft_wrap=True)
    out.print()
    if view.others:
        titles = ["step", "recorded", "control", *arm_names(view)]
        print_table(out, titles, [_arm_cells(row) for row in step_rows(view)])
    else:
        titles = ["", "step", "recorded", "control", "edited"]
        print_table(out, titles, [_cells(row) for row in view.rows])
    rows = [row for arm in view.arms for row in arm.rows]
    if any(row.dimmed for row in rows):
        out.print("dim: after divergence, not counted", style="dim")
    if any(len(arm.answers) > 2 for row in rows for arm in (row.control, row.edited) if arm):
        out.print("+2: other responses than the one shown", style="dim")
    out.print()
    for line in footer(view):
        out.print(Text(format.plain(line), "dim"), soft_wrap=True)
    if rules:
        out.print(f"\n{RULES}", soft_wrap=True)


def _cells(row: ReplayRow) -> list[Text | str]:
    style = "dim" if row.dimmed else ""
    recorded = format.cut(format.one_line(row.recorded), WIDTH) or format.UNKNOWN
    if row.refused is not None:
        return [mark_words(row), str(row.step), recorded, _short(row.refused), ""]
    edited = _short(row.edited_refused) if row.edited_refused else arm_cell(row.edited)
    at = f"{row.step}{' ◆' if row.at_break else ''}"
    cells = (mark_words(row), at, recorded, arm_cell(row.control), edited)
    return [Text(cell, style) for cell in cells]


def _arm_cells(row: StepRow) -> list[Text | str]:
    """A step of several arms: each with its mark, and what it does that control does not."""
    first = row.first
    recorded = format.cut(format.one_line(first.recorded), WIDTH) or format.UNKNOWN
    at = f"{first.step}{' ◆' if first.at_break else ''}"
    if first.refused is not None:
        return [at, recorded, _short(first.refused), *("" for _ in row.arms)]
    arms = (Text(_arm(each), "dim" if each.dimmed else "") for each in row.arms)
    return [at, recorded, arm_cell(first.control), *arms]


def _arm(row: ReplayRow) -> str:
    if row.edited_refused is not None:
        return f"skipped: {_short(row.edited_refused)}"
    return f"{format.cut(difference(row), WIDTH)} {tally(row.edited)}".rstrip()


def _short(why: str) -> str:
    """A refusal in a cell; the notices above the table say all of it."""
    return format.cut(format.one_line(why), WIDTH)


def footer(view: ReplayView) -> Iterator[str]:
    """What the sentences rest on, a line each: collateral, tests, losses, model, rules, digest."""
    verdict = view.verdict
    for name, arm in zip(arm_names(view), view.arms, strict=True):
        counted = arm.verdict.collateral
        said = [collateral_line(counted)] if counted is not None else []
        if view.others:
            said += filter(None, [arm.verdict.parts.significance])
            yield from (f"{name}: {each}" for each in ["; ".join(said)] if each)
        else:
            yield from (*said, *arm.verdict.basis)
    if view.others:
        yield from filter(None, (verdict.parts.method, verdict.parts.noise))
    yield from dict.fromkeys(f"lost: {loss}" for arm in view.arms for loss in arm.verdict.losses)
    weakest = verdict.weakest.value if verdict.weakest else format.UNKNOWN
    masked = f", {verdict.masked} masked" if verdict.masked else ""
    server = f" at {view.server}" if view.server else ""
    yield (
        f"model {view.model}{server} · lowest fidelity {weakest}{masked}"
        f" · {spending_line(spending_of(view))}"
    )
    yield f"comparison rules v{VERSION} (--rules prints them){_and(view.rules)}"
    if view.digest is None:
        yield "not finished: no digest"
    elif not view.others:
        yield f"digest {view.digest}"
    else:
        for name, arm in zip(arm_names(view), view.arms, strict=True):
            yield f"digest of {name} {arm.digest}"


def _and(rules: tuple[str, ...]) -> str:
    return "".join(f"; {rule}" for rule in rules)


# --- as CSV

COLUMNS = (
    "step", "arm", "mark", "significant", "p", "at_break", "after_divergence", "fidelity",
    "samples", "repeats", "reworded", "diverges", "unclear", "recorded", "answer", "difference",
    "not_asked",
)  # fmt: skip
"""A row is a step of one arm, control first. `answer` is what the arm mostly does, `difference`
what sets that apart from the recording; `mark` is held against control."""


def csv_of(view: ReplayView) -> str:
    """Every step of every arm."""
    return csv_text(COLUMNS, _csv_rows(view))


def _csv_rows(view: ReplayView) -> Iterator[list[object]]:
    names = arm_names(view)
    for row in step_rows(view):
        yield _csv_row(row.first, "control", row.first.control, row.first.refused)
        for name, each in zip(names, row.arms, strict=True):
            yield _csv_row(each, name, each.edited, each.edited_refused, edited=True)


def _csv_row(
    row: ReplayRow, name: str, arm: ArmRow | None, refused: str | None, *, edited: bool = False
) -> list[object]:
    counts = arm.counts if arm is not None else None
    usual = arm.usual if arm is not None else None
    figures = () if counts is None else (
        counts.total, counts.repeats, counts.reworded, counts.diverges, counts.unclear
    )  # fmt: skip
    return [
        row.step, name, row.mark if edited else None, row.effect if edited else None,
        row.p if edited else None, row.at_break, row.dimmed if edited else None,
        row.fidelity.value, *(figures or [None] * 5), row.recorded,
        usual.phrase if usual else None, usual.why if usual else None, refused,
    ]  # fmt: skip
