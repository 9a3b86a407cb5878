"""The gate screen: two groups of runs held against each other, task by task.

A person names both by a query, chosen from the variants there are or typed. The tasks own the
place, the largest drop first; what has to be known of the whole stands beside them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from rich.cells import cell_len
from rich.text import Text
from textual.message import Message
from textual.reactive import reactive
from typing_extensions import override

from arc_tui.features.gate.text import markdown
from arc_tui.navigation import OpenDrift, OpenRuns
from arc_tui.ui import format
from arc_tui.ui.bindings import bind, pane_keys
from arc_tui.ui.comparison_screen import ComparisonHead, ComparisonScreen
from arc_tui.ui.document import Block, Document
from arc_tui.ui.format import fit
from arc_tui.ui.list import RowList
from arc_tui.ui.styles import fold_sentence
from arc_tui.views.gate import (
    GateRequest,
    GateView,
    basis,
    build_gate,
    cells,
    facts,
    notices,
    power_line,
    reasons,
    sentence,
)
from arc_tui.views.groups import group_queries
from replay.store.handle import Store
from taxonomy.gate import TaskPair

SIDE, CHANGE = 9, 10
LEAST, MOST = 12, 60
"""Cells of the name of a task; a longer one is cut with `…`."""


class GateTasks(RowList):
    """A row a task: how many of its trials passed in each group."""

    HELP = "the tasks"
    HEAD = 1
    STYLES = {"worse": "$bad", "better": "$good", "quiet": "$quiet"}

    BINDINGS = [
        bind("enter", "open_row", id="gate.open", label="its runs",
             tooltip="List the runs of the task under the cursor, of both groups"),
    ]  # fmt: skip

    view: reactive[GateView | None] = reactive(None, repaint=False)
    changed_only: reactive[bool] = reactive(False, repaint=False)

    class Chosen(Message):
        """The runs of a task are wanted."""

        def __init__(self, pair: TaskPair) -> None:
            super().__init__()
            self.pair = pair

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._shown: tuple[TaskPair, ...] = ()
        self._widest = LEAST

    @property
    def row_count(self) -> int:
        return len(self._shown)

    def watch_view(self) -> None:
        self._choose()

    def watch_changed_only(self) -> None:
        self._choose()

    def _choose(self) -> None:
        pairs = self.view.rows if self.view is not None else ()
        self._shown = tuple(pair for pair in pairs if pair.change or not self.changed_only)
        widest = max((cell_len(format.one_line(pair.task)) for pair in pairs), default=LEAST)
        self._widest = min(max(widest, LEAST), MOST)
        if self.view is not None:
            self.nothing = "No task changed."
        self.rows_changed()

    def draw_head(self, line: int, width: int) -> Text:
        del line
        return Text(self._line("task", "baseline", "candidate", "change", width))

    @override
    def draw(self, index: int, width: int) -> Text:
        pair = self._shown[index]
        style = "worse" if pair.change < 0 else "better" if pair.change > 0 else "quiet"
        return Text(self._line(*cells(pair), width), self.style_of(style))

    def _line(self, task: str, before: str, after: str, change: str, width: int) -> str:
        name = max(min(self._widest, width - 2 * SIDE - CHANGE - 6), LEAST)
        figures = f"{fit(before, SIDE)}  {fit(after, SIDE)}  {fit(change, CHANGE)}"
        return fit(f"{fit(task, name)}  {figures}", width)

    def action_open_row(self) -> None:
        if self.cursor < self.row_count:
            self.post_message(self.Chosen(self._shown[self.cursor]))


class GateHead(ComparisonHead[GateView]):
    """Which groups, the verdict in bold, what blocks, and what could not be seen."""

    STYLES = {"sentence": "bold", "blocked": "$bad", "quiet": "$quiet"}

    @override
    def lines(self, width: int) -> list[Text]:
        view = self.view
        if view is None:
            said = self.waiting.split("\n")
            return self.styled_lines(("quiet", fold_sentence(line, width)) for line in said)
        named = f"{view.candidate.query} against {view.baseline.query}"
        blocked = [line for why in reasons(view) for line in fold_sentence(why, width)]
        return self.styled_lines(
            [
                ("quiet", fold_sentence(named, width)),
                ("sentence", fold_sentence(sentence(view), width)),
                ("blocked", blocked),
                ("", fold_sentence(power_line(view), width) if power_line(view) else []),
            ]
        )


def gate_page(view: GateView) -> Document:
    """The figures of both groups, and what has to be known of them."""
    return tuple(_blocks(view))


def _blocks(view: GateView) -> Iterator[Block]:
    for name, before, after in facts(view):
        yield Block(text=name, style="head")
        yield Block(text=before, label="baseline")
        yield Block(text=after, label="candidate")
    said = notices(view)
    if said:
        yield Block(text="notes", style="head")
        yield from (Block(text=line) for line in said)
    yield Block(text="how it is decided", style="head")
    yield from (Block(text=line, style="quiet") for line in basis(view))


class GateScreen(ComparisonScreen[GateView]):
    """A candidate held against a baseline."""

    CSS_PATH = "../../ui/comparison_screen.tcss"
    HELP = "a gate"
    NAME = "gate"
    TITLES = ("baseline: the runs to hold against", "candidate: the runs of the change")
    NEED_VIEW = ComparisonScreen.NEED_VIEW | {"changed", "environments"}

    BINDINGS = [
        bind("o", "choose", id="gate.choose", label="other runs", only="o",
             tooltip="Choose two other groups of runs, by variant or by query"),
        bind("f", "changed", id="gate.changed", label="changed only",
             tooltip="Show only the tasks that changed, or all again"),
        *pane_keys("gate", "Switch between the tasks and the figures"),
        bind("^v", "environments", id="gate.drift", show=False,
             tooltip="Compare the environments of both groups: tools, results, models, versions"),
        bind("y", "copy", id="gate.copy", tooltip="Copy the gate as Markdown"),
        bind("^r", "refresh", id="gate.refresh", show=False, tooltip="Read the database again"),
        bind("esc", "back", id="gate.back",
             tooltip="Back to the tasks, then to where you came from"),
    ]  # fmt: skip

    view: reactive[GateView | None] = reactive(None, repaint=False)
    changed_only: reactive[bool] = reactive(False, repaint=False)

    def __init__(self, path: Path, baseline: str = "", candidate: str = "") -> None:
        """Without both queries a person is asked for them."""
        super().__init__(path, group_queries, (baseline, candidate))

    @override
    def head_and_list(self) -> tuple[GateHead, GateTasks]:
        head = GateHead().data_bind(GateScreen.view)
        return head, GateTasks(id="rows").data_bind(GateScreen.view, GateScreen.changed_only)

    @override
    def build(self, store: Store, queries: tuple[str, str]) -> GateView:
        return build_gate(store, GateRequest(baseline=queries[0], candidate=queries[1]))

    @override
    def sides(self, queries: tuple[str, str]) -> str:
        return " against ".join(reversed(queries))

    @override
    def show_figures(self, view: GateView) -> None:
        self.page.document = gate_page(view)

    @override
    def text(self, view: GateView) -> tuple[str, str]:
        return markdown(view), "the gate copied as Markdown"

    def on_gate_tasks_chosen(self, event: GateTasks.Chosen) -> None:
        pair = event.pair
        traces = (*(pair.baseline.traces or ()), *(pair.candidate.traces or ()))
        self.post_message(OpenRuns(format.one_line(pair.task), traces))

    def action_changed(self) -> None:
        self.changed_only = not self.changed_only

    def action_environments(self) -> None:
        self.post_message(OpenDrift(*self._groups.queries))
