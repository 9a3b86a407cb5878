"""The parts of the first-contradiction screen: the head with the result and its notices, a row per
step with the detector's finding, the foot with progress and cost; and the page of a step: the
contradiction, the fix and its confirmation, the action.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

from msgspec import structs
from rich.cells import cell_len
from rich.text import Text
from textual.reactive import reactive
from typing_extensions import override

from arc_tui.experiments.screen import ExperimentFooter, ExperimentHead, limit_words
from arc_tui.features.bisect_steps.plan import DetectorName
from arc_tui.features.bisect_steps.state import EMPTY, BisectStepsState, figures, rate_words, spent
from arc_tui.features.bisect_steps.view import (
    NO_CONTRADICTION,
    NOT_EVALUATED,
    ConfirmationView,
    FixView,
    SourceRow,
    StepRow,
    StepsView,
    p_words,
)
from arc_tui.navigation import OpenTrace
from arc_tui.ui import format
from arc_tui.ui.bindings import bind
from arc_tui.ui.document import INDENT, Block, Document, HintBlock, Item, StepLink
from arc_tui.ui.format import fit, spread
from arc_tui.ui.list import RowList
from arc_tui.ui.styles import fold_sentence
from arc_tui.views import trace as traces
from arc_tui.views.step import StepView
from arc_tui.views.step_pages import response_page, results_page

MARK, STEP, MESSAGE, GAP = 1, 4, 7, "  "
FINDING = "finding"


class StepsList(RowList):
    """Every step with the detector's finding; enter opens the run there."""

    HELP = "the steps"
    HEAD = 1
    STYLES = {"decisive": "bold $warning", "bad": "$bad", "open": "$secondary", "quiet": "$quiet"}

    BINDINGS = [
        bind("enter", "open_row", id="steps.open",
             tooltip="Open the run at the step under the cursor"),
    ]  # fmt: skip

    state: reactive[BisectStepsState] = reactive(EMPTY, repaint=False)

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._widest = 0

    @property
    def rows(self) -> tuple[StepRow, ...]:
        return self.state.view.rows

    @property
    def row(self) -> StepRow | None:
        """The row under the cursor."""
        return self.rows[self.cursor] if self.cursor < len(self.rows) else None

    @property
    @override
    def row_count(self) -> int:
        return len(self.rows)

    def watch_state(self, before: BisectStepsState, state: BisectStepsState) -> None:
        if before.view is state.view:
            return
        phrases = (cell_len(_phrase(row)) for row in state.view.rows)
        self._widest = max(phrases, default=0)
        self.rows_changed()

    def go_to(self, step: int) -> None:
        """Put the cursor on a step. The rows are the steps, in their order."""
        self.cursor = step

    @override
    def draw_head(self, line: int, width: int) -> Text:
        del line
        places = (fit("step", STEP, right=True), fit("message", MESSAGE, right=True))
        cells = (fit("", MARK), *places, fit("action", self._room(width)), FINDING)
        return Text(f" {GAP.join(cells)}")

    @override
    def draw(self, index: int, width: int) -> Text:
        row = self.rows[index]
        message = format.UNKNOWN if row.message is None else str(row.message)
        places = (fit(str(row.step), STEP, right=True), fit(message, MESSAGE, right=True))
        line = Text.assemble(
            " ",
            (_mark(row), self.style_of(_style_name(row))),
            (f"{GAP}{GAP.join(places)}{GAP}", self.style_of("quiet")),
            fit(format.one_line(row.action), self._room(width)) + GAP,
        )
        finding = fit(_phrase(row), width - line.cell_len).rstrip()
        return line.append(finding, self.style_of(_style_name(row)))

    def _room(self, width: int) -> int:
        """Cells of the action: half of the line, and what the finding leaves."""
        places = 1 + MARK + STEP + MESSAGE + 4 * len(GAP)
        left = max(width - places, 0)
        return max(left // 2, left - max(self._widest, len(FINDING)))

    def action_open_row(self) -> None:
        row = self.row
        if row is not None:
            self.post_message(OpenTrace(self.state.request.trace, row.step))


def _mark(row: StepRow) -> str:
    if row.decisive:
        return "◆"
    return {True: "✗", False: "✓", None: "?"}[row.bad] if row.evaluated else " "


def _phrase(row: StepRow) -> str:
    good = NO_CONTRADICTION if row.evaluated and row.bad is False else ""
    return format.one_line(row.phrase) or good


def _style_name(row: StepRow) -> str:
    if row.decisive:
        return "decisive"
    if row.bad is None:
        return "open" if row.evaluated else "quiet"
    return "bad" if row.bad else "quiet"


class StepsHead(ExperimentHead[BisectStepsState]):
    """The run and the detectors, the sentence in bold, its confirmation, notices, next action."""

    STYLES = {
        **ExperimentHead.STYLES,
        "detector": "bold $primary",
        "confirmed": "bold $good",
        "refuted": "bold $bad",
        "inconclusive": "bold",
        "doing": "$primary",
    }

    state: reactive[BisectStepsState] = reactive(EMPTY, layout=True)

    @override
    def lines(self, width: int) -> list[Text]:
        return [self._title(width), *super().lines(width)]

    @override
    def parts(self, width: int) -> Iterator[tuple[str, list[str]]]:
        given = self.state.view.confirmation
        first, *more = map(self.with_keys, self.state.lines)
        yield "first" if self.state.trouble is None else "trouble", fold_sentence(first, width)
        for each in more:
            yield given.status if given is not None else "", fold_sentence(each, width)
        yield self.warnings(width)
        if self.state.doing:
            yield "doing", fold_sentence(self.with_keys(self.state.doing), width)

    def _title(self, width: int) -> Text:
        """The run, and the detectors with the chosen one marked."""
        detectors = Text(" ").join(
            Text(f"[{name}]", self.style_of("detector"))
            if name == self.state.request.detector
            else Text(name, self.style_of("title"))
            for name in get_args(DetectorName)
        )
        title = Text(self.state.title, self.style_of("title"))
        title.truncate(max(width - detectors.cell_len - 2, 0), overflow="ellipsis")
        return spread(title, detectors, width)


class StepsFoot(ExperimentFooter[BisectStepsState]):
    """Steps that were evaluated, then the model and its calls."""

    STOP = "steps.stop"

    state: reactive[BisectStepsState] = reactive(EMPTY)

    @override
    def progress(self, width: int) -> Text:
        view = self.state.view
        done, total = sum(row.evaluated for row in view.rows), len(view.rows)
        words = f"{done} of {format.count(total, 'step')} · {spent(view)}"
        return self.bar(done, total, f"{words}{limit_words(self.state.request.limits)}")

    @override
    def figures(self, width: int) -> Text:
        view = self.state.view
        words = figures(view) if any(row.evaluated for row in view.rows) else ""
        return spread(Text(words, self.style_of("figures")), Text(), width)


BLANK = Block(text="")


def steps_page(view: StepsView, row: StepRow | None, detail: StepView | None) -> Document:
    """The finding at the step, then its action; `detail` None until that is read."""
    if row is None:
        return ()
    parts = [tuple(_finding(row))]
    if row.decisive and view.confirmation is not None:
        parts.append(tuple(_confirmation(view.confirmation)))
    if row.decisive and view.fix is not None:
        parts.append(tuple(_fix(view.fix, is_tested=view.confirmation is not None)))
    if view.facts:
        parts.append(tuple(_facts(view.facts)))
    if detail is not None:
        parts.append(tuple(_action(detail)))
    return tuple(item for part in parts if part for item in (*part, BLANK))[:-1]


def _finding(row: StepRow) -> Iterator[Item]:
    """The things that contradict each other, each with its place; else the detector's phrase."""
    if row.sources:
        yield Block(text="contradiction", style="candidate" if row.decisive else "error")
        for place, each in enumerate(row.sources):
            yield _source(each, row.step, f"source {row.step} {place}")
    elif row.phrase and row.evaluated:
        yield Block(text=format.plain(row.phrase), style="role")
    elif not row.evaluated and row.phrase != NOT_EVALUATED:
        yield Block(text=f"{NOT_EVALUATED}: {format.plain(row.phrase)}", style="quiet")


def _source(each: SourceRow, here: int, key: str) -> StepLink:
    message = f", message {each.message}" if each.message is not None else ""
    return StepLink(
        text=format.plain(each.text),
        label=format.one_line(each.role),
        aside=format.one_line(f"{each.where}{message}"),
        step=each.step if each.step != here else None,
        indent=INDENT,
        key=key,
    )


def _confirmation(given: ConfirmationView) -> Iterator[Item]:
    """Both arms of the test with their intervals."""
    style = {"confirmed": "good", "refuted": "error"}.get(given.status, "role")
    by = f"{given.detector} · Fisher's exact test, two-sided, {p_words(given.p)}"
    yield Block(text=given.status, style=style, aside=format.one_line(by))
    for name, arm, lost, why in (
        ("control", given.control, given.control_unusable, given.control_why),
        ("edited", given.edited, given.edited_unusable, given.edited_why),
    ):
        yield Block(text=rate_words(arm, lost, why), label=name, indent=INDENT)


def _fix(fix: FixView, *, is_tested: bool) -> Iterator[Item]:
    name = "fix" if is_tested else "fix: ‹steps.confirm› confirm"
    yield HintBlock(text=name, style="role", aside=format.one_line(fix.name))
    for change in fix.changes:
        yield Block(text=format.plain(change), indent=INDENT)


def _facts(facts: tuple[str, ...]) -> Iterator[Item]:
    yield Block(text="facts", style="role")
    for fact in facts:
        yield Block(text=format.plain(fact), indent=INDENT)


def _action(detail: StepView) -> Iterator[Item]:
    """The step's text; then its calls, each with its result where that was recorded."""
    yield Block(text="action", style="role")
    response, results = detail.response, detail.observations
    if response is not None and results and (response.text or response.thinking):
        detail = structs.replace(detail, response=structs.replace(response, calls=()))
    yield from response_page(traces.EMPTY_TRACE, detail)
    if results:
        yield from results_page(traces.EMPTY_TRACE, detail)
