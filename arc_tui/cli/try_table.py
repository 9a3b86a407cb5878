"""A tried edit as `arc try` prints it: the rates, what they mean, a row a run, a row a step."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from arc_tui import format
from arc_tui.cli.common import print_table, with_database
from arc_tui.views.trying.rows import TriedRun, TriedStep
from arc_tui.views.trying.view import TryView
from arc_tui.views.trying.words import (
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

_RUN, _PHRASE = 28, 48
_NARROW, _NARROW_RUN = 100, 20
"""Cells of a terminal below which a row keeps its sign, and not what was recorded."""


def print_try(out: Console, view: TryView, *, rows: bool = False) -> None:
    """The rates, the sentence, what stands against it, the rows; `rows`: all healthy steps."""
    _say(out, f"{format.one_line(view.edit)}: {headline(view)}", "bold")
    _say(out, sentence(view))
    for notice in notices(view):
        _say(out, notice, "yellow")
    out.print()
    _print_rows(out, "run", view.runs)
    _say(out, f"control, edited: {counted_at_breaks(view)}", "dim")
    _print_steps(out, view, rows=rows)
    out.print()
    for line in (*basis(view), _go_on(), f"{whom(view)} · {spent(view)}"):
        _say(out, line, "dim")


def _say(out: Console, line: str, style: str = "") -> None:
    """A line, wrapped between words on a terminal and whole in a pipe."""
    out.print(Text(format.plain(line), style), soft_wrap=not out.is_terminal)


def _print_steps(out: Console, view: TryView, *, rows: bool) -> None:
    shown = [row for row in view.steps if rows or row.effect in ("broke", "unknown")]
    if shown:
        out.print()
        _print_rows(out, "healthy step of", shown)
        _say(out, f"control, edited: {COUNTED_AT_STEPS}", "dim")
    hidden = len(view.steps) - len(shown)
    if hidden:
        held = format.count(hidden, "more healthy step" if shown else "healthy step")
        _say(out, f"{held} held (--rows shows them)", "dim")


def _print_rows(out: Console, what: str, rows: Sequence[TriedRun | TriedStep]) -> None:
    """A row each; where there is little room, the signs are told once, below."""
    narrow = out.is_terminal and out.width < _NARROW
    head = ["", "id", what, "step", "control", "edited", "recorded", "the edit mostly"]
    if narrow:
        head.remove("recorded")
    print_table(out, head, [_cells(row, narrow=narrow) for row in rows])
    if narrow:
        _say(out, " · ".join(dict.fromkeys(mark(row).strip() for row in rows)), "dim")


def _cells(row: TriedRun | TriedStep, *, narrow: bool) -> list[Text | str]:
    control, edited = arms(row)
    did = format.cut(said(row), _PHRASE) or format.UNKNOWN
    recorded = format.cut(format.one_line(row.recorded), _PHRASE) or format.UNKNOWN
    return [
        mark(row)[0] if narrow else mark(row),
        row.trace[:8],
        format.cut(row.run, _NARROW_RUN if narrow else _RUN),
        str(row.step),
        control,
        edited,
        *([did] if narrow else [recorded, did]),
    ]


def _go_on() -> str:
    words = shlex.join(with_database(("arc", "replay", "ID", "--edit", "NAME")))
    return f"`{words}` asks every step of a run, with --free the run goes on"
