"""The head of a run, the detail of one step in tabs, and the values of its calls with their
origins.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.getters import query_one
from textual.reactive import reactive
from typing_extensions import override

from arc_tui.features.trace.pages import PAGES
from arc_tui.ui import format
from arc_tui.ui.document import EMPTY
from arc_tui.ui.format import spread
from arc_tui.ui.keys import with_keys
from arc_tui.ui.page import LinkedPage
from arc_tui.ui.styles import StyledWidget, TabLine
from arc_tui.views import step as steps
from arc_tui.views.columns import caps_text
from arc_tui.views.step import StepView
from arc_tui.views.trace import EMPTY_TRACE, TraceView
from taxonomy.query.listing import RunRow

NAMES = tuple(PAGES)

AGENT = 24
"""Cells of the name of who took a step."""


class Tabs(TabLine):
    """The names of the pages, each with its digit, after the step they are of."""

    STYLES = {
        "tab": "$quiet",
        "front": "bold $foreground on $cursor | bold reverse",
        "lead": "$quiet",
    }

    step: reactive[StepView] = reactive(steps.EMPTY)

    @property
    @override
    def lead(self) -> str:
        """Which step it is, and who took it where the source says."""
        if self.step is steps.EMPTY:
            return ""
        who = format.cut(format.one_line(self.step.agent), AGENT)
        return f"step {self.step.row.step} {f'· {who} ' if who else ''}"

    @override
    def names(self) -> Iterator[str]:
        """The tab of the tool results shows their number."""
        for name in NAMES:
            seen = len(self.step.observations) if name == "Results" else 0
            yield f" {name} {seen} " if seen else f" {name} "


class Detail(Vertical):
    """Tabs and the page in front."""

    view: reactive[TraceView] = reactive(EMPTY_TRACE, repaint=False)
    step: reactive[StepView] = reactive(steps.EMPTY, repaint=False)
    tab: reactive[int] = reactive(0, repaint=False)
    search: reactive[re.Pattern[str] | None] = reactive(None, repaint=False)

    page = query_one(LinkedPage)

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._shown: tuple[str, int, int] | None = None

    def compose(self) -> ComposeResult:
        yield Tabs().data_bind(Detail.step, Detail.tab)
        yield LinkedPage().data_bind(Detail.search)

    def watch_view(self) -> None:
        self._show()

    def watch_step(self) -> None:
        self._show()

    def watch_tab(self) -> None:
        self._show()

    def _show(self) -> None:
        if not self.is_mounted:
            return
        if self.step is steps.EMPTY:
            self.page.document = EMPTY
            return
        shown = (self.step.trace, self.step.row.step, self.tab)
        made = with_keys(self.screen, PAGES[NAMES[self.tab]](self.view, self.step))
        self.page.show(made, again=shown == self._shown)
        self._shown = shown


_PROVIDER = re.compile(r"[^\s,/]+/(?=[^\s,])")
"""What stands before a model's own name: there is no room for it in a head line."""

MODEL = 24
"""Cells of the name of a model."""

REST, SHORTEST = 70, 28
"""Cells kept for outcome, size and model beside a long title, and those a title keeps."""


class TraceHead(StyledWidget):
    """Name, outcome, size, model; candidates with the evidence of the first."""

    ALLOW_SELECT = False
    STYLES = {
        "passed": "bold $good",
        "warned": "bold $warning",
        "failed": "bold $bad",
        "unknown": "$quiet",
        "quiet": "$quiet",
        "candidate": "bold $warning",
    }

    view: reactive[TraceView] = reactive(EMPTY_TRACE)

    def render(self) -> Text:
        if self.view is EMPTY_TRACE:
            return Text()
        width = self.content_size.width
        quiet = self.style_of("quiet")
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
            (ended, self.style_of(warned)),
            f" · {format.count(row.steps, 'step')}",
            f" · {model_names(row.models) or 'model unknown'}",
            f" · {caps}" if (caps := caps_text(row)) else "",
        )

    def _break(self) -> Text:
        marked = self.view.marked
        if not marked:
            return Text(f" {nothing(self.view)}", self.style_of("quiet"))
        also = f" (also {', '.join(map(str, marked[1:]))})" if marked[1:] else ""
        return Text.assemble(
            " ",
            (f"candidate: step {marked[0]}", self.style_of("candidate")),
            also,
            f" · {format.one_line(self.view.run.why)}",
        )


def model_names(models: str | None) -> str:
    """The first model of a run, short, and how many others there are."""
    first, *others = _PROVIDER.sub("", format.one_line(models)).split(",")
    more = f" +{len(others)}" if others else ""
    return format.cut(first.strip(), MODEL) + more


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
        return "Blind review: other judgements are hidden."
    if view.diagnosis is None:
        return "Not analysed yet."
    warned = f"; {format.one_line(view.run.warnings[0])}" if view.run.warnings else ""
    return f"No break candidates{warned or '.'}"


def accuracy(view: TraceView) -> str:
    """How often such a first candidate is right: what was measured, and nothing more."""
    found = view.diagnosis.candidates if view.diagnosis is not None else ()
    return f"{found[0].accuracy} " if found else ""
