"""A replay as `arc replay` prints it: the sentence, a row a step, what it rests on."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from arc_tui import format
from arc_tui.cli.common import print_table
from arc_tui.views.replay.cells import WIDTH, arm_cell, mark_words
from arc_tui.views.replay.view import ReplayRow, ReplayView
from replay.compare import RULES, VERSION


def print_replay(out: Console, view: ReplayView, *, rules: bool = False) -> None:
    """The sentence, a row a step, what stands against it, the rules, the digest."""
    out.print(Text(view.verdict.sentence, "bold"), soft_wrap=True)
    for notice in view.verdict.notices:
        out.print(Text(format.plain(notice), "yellow"), soft_wrap=True)
    out.print()
    print_table(
        out, ["", "step", "recorded", "control", "edited"], [_cells(row) for row in view.rows]
    )
    if any(row.dimmed for row in view.rows):
        out.print("dim: the edited agent would not have been here; not counted", style="dim")
    if any(len(arm.answers) > 2 for row in view.rows for arm in (row.control, row.edited) if arm):
        out.print("+2: other answers, beside the one shown", style="dim")
    out.print()
    for line in _footer(view):
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


def _short(why: str) -> str:
    """A refusal in a cell; the notices above the table say all of it."""
    return format.cut(format.one_line(why), WIDTH)


def _footer(view: ReplayView) -> Iterator[str]:
    verdict = view.verdict
    if verdict.collateral is not None:
        each = verdict.collateral
        unclear = f" · unclear {each.unclear}" if each.unclear else ""
        yield (
            f"fixed {each.fixed} · broke {each.broke} · changed {each.changed}"
            f" · same {each.same}{unclear}"
        )
    yield from verdict.basis
    yield from (f"lost on the way: {loss}" for loss in verdict.losses)
    weakest = verdict.weakest.value if verdict.weakest else format.UNKNOWN
    masked = f", {verdict.masked} masked" if verdict.masked else ""
    server = f" at {view.server}" if view.server else ""
    yield (
        f"model {view.model}{server} · fidelity at worst {weakest}{masked}"
        f" · {view.asked} asked, {view.kept} kept"
        f" · spent {format.usd(view.spent_usd, complete=view.spent_complete)}"
    )
    yield f"compared by rules v{VERSION} (--rules prints them){_and(view.rules)}"
    yield f"digest {view.digest}" if view.digest is not None else "not finished: no digest"


def _and(rules: tuple[str, ...]) -> str:
    return "".join(f"; {rule}" for rule in rules)
