"""A tried edit as `arc try` prints it: the rates, what they mean, a row a run, a row a step."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from arc_tui import format
from arc_tui.cli.common import print_table
from arc_tui.views.try_rows import TriedRun, TriedStep
from arc_tui.views.try_words import (
    COUNTED_AT_STEPS,
    arms,
    basis,
    counted_at_breaks,
    headline,
    mark,
    notices,
    said,
    sentence,
    spent,
    whom,
)
from arc_tui.views.trying import TryView

_RUN, _PHRASE = 28, 48

GO_ON = "`arc replay ID --edit NAME` asks every step of a run, with --free the run goes on"


def print_try(out: Console, view: TryView, *, rows: bool = False) -> None:
    """The rates, the sentence, what stands against it, the rows; `rows`: all healthy steps."""
    out.print(Text(f"{format.one_line(view.edit)}: {headline(view)}", "bold"), soft_wrap=True)
    out.print(Text(format.plain(sentence(view))), soft_wrap=True)
    for notice in notices(view):
        out.print(Text(format.plain(notice), "yellow"), soft_wrap=True)
    out.print()
    head = ["", "id", "run", "step", "control", "edited", "recorded", "the edit mostly"]
    print_table(out, head, [_cells(row) for row in view.runs])
    counted = f"control, edited: {counted_at_breaks(view)}"
    out.print(Text(counted, "dim"), soft_wrap=True)
    _print_steps(out, view, rows=rows)
    out.print()
    asked = f"{whom(view)} · {spent(view)}"
    for line in (*basis(view), GO_ON, asked):
        out.print(Text(format.plain(line), "dim"), soft_wrap=True)


def _print_steps(out: Console, view: TryView, *, rows: bool) -> None:
    shown = [row for row in view.steps if rows or row.effect in ("broke", "unknown")]
    if shown:
        out.print()
        head = ["", "id", "healthy step of", "step", "control", "edited", "recorded",
                "the edit mostly"]  # fmt: skip
        print_table(out, head, [_cells(row) for row in shown])
        out.print(Text(f"control, edited: {COUNTED_AT_STEPS}", "dim"))
    hidden = len(view.steps) - len(shown)
    if hidden:
        held = format.count(hidden, "more healthy step" if shown else "healthy step")
        out.print(Text(f"{held} held (--rows shows them)", "dim"))


def _cells(row: TriedRun | TriedStep) -> list[Text | str]:
    control, edited = arms(row)
    return [
        mark(row),
        row.trace[:8],
        format.cut(row.run, _RUN),
        str(row.step),
        control,
        edited,
        format.cut(format.one_line(row.recorded), _PHRASE) or format.UNKNOWN,
        format.cut(said(row), _PHRASE) or format.UNKNOWN,
    ]
