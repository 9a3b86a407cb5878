"""The two lines over a trace: what it is and how it ended, then where it may have broken."""

from __future__ import annotations

import re

from rich.text import Text
from textual.reactive import reactive

from arc_tui import format
from arc_tui.views.trace.view import EMPTY, TraceView
from arc_tui.widgets.cells import spread
from arc_tui.widgets.ink import Inked
from taxonomy.query.listing import RunRow

_PROVIDER = re.compile(r"[^\s,/]+/(?=[^\s,])")
"""What stands before a model's own name: there is no room for it in a head line."""

REST, SHORTEST = 70, 28
"""Cells kept for outcome, size and model beside a long title, and those a title keeps."""


class TraceHead(Inked):
    """Name, outcome, size, model; candidates with the evidence of the first."""

    ALLOW_SELECT = False
    INKS = {
        "passed": "bold $good",
        "warned": "bold $warning",
        "failed": "bold $bad",
        "unknown": "$quiet",
        "quiet": "$quiet",
        "candidate": "bold $warning",
    }

    view: reactive[TraceView] = reactive(EMPTY)

    def render(self) -> Text:
        if self.view is EMPTY:
            return Text()
        width = self.content_size.width
        quiet = self.ink("quiet")
        row = self.view.run
        return Text("\n").join(
            [
                spread(self._what(row), Text(figures(row), quiet), width),
                spread(self._break(), Text(accuracy(self.view), quiet), width),
            ]
        )

    def _what(self, row: RunRow) -> Text:
        warned = "warned" if row.outcome == "passed" and row.warnings else row.outcome
        mark = format.outcome_mark(row.outcome, warned=bool(row.warnings)).plain
        ended = f"{mark} {format.one_line(row.outcome_value) or row.outcome}"
        ended = "outcome unknown" if row.outcome == "unknown" else ended
        ended = "● live" if row.live else ended
        return Text.assemble(
            " ",
            (format.cut(title(row), max(self.content_size.width - REST, SHORTEST)), "bold"),
            " · ",
            (ended, self.ink(warned)),
            f" · {format.count(row.steps, 'step')}",
            f" · {_PROVIDER.sub('', format.one_line(row.models)) or 'model unknown'}",
        )

    def _break(self) -> Text:
        marked = self.view.marked
        if not marked:
            return Text(f" {nothing(self.view)}", self.ink("quiet"))
        also = f" (also {', '.join(map(str, marked[1:]))})" if marked[1:] else ""
        return Text.assemble(
            " ",
            (f"break? {marked[0]}", self.ink("candidate")),
            also,
            f" · {format.one_line(self.view.run.why)}",
        )


def title(row: RunRow) -> str:
    """What a run is called where there is room for it."""
    if row.task is None:
        return format.one_line(row.title or row.source_id)
    task, trial = format.one_line(row.task), format.one_line(row.trial)
    if not trial:
        return task
    return trial if trial.startswith(f"{task}_") else f"{task} · trial {trial}"


def figures(row: RunRow) -> str:
    """Time, tokens and cost as far as they are known."""
    known = [
        format.duration(row.duration_ns),
        f"{format.tokens(row.input_tokens)} tokens" if row.input_tokens is not None else "",
        format.usd(row.cost_usd, complete=row.cost_complete),
        f"{row.masked} masked" if row.masked else "",
    ]
    return " · ".join(part for part in known if part and part != format.UNKNOWN) + " "


def nothing(view: TraceView) -> str:
    """What is said where there is no candidate."""
    if view.blind:
        return "a blind pass: what others say is hidden"
    if view.diagnosis is None:
        return "the rules have not looked at this run yet"
    warned = f"; {format.one_line(view.run.warnings[0])}" if view.run.warnings else ""
    return f"no break found{warned}"


def accuracy(view: TraceView) -> str:
    """How often such a first candidate is right: what was measured, and nothing more."""
    found = view.diagnosis.candidates if view.diagnosis is not None else ()
    return f"{found[0].accuracy} " if found else ""
