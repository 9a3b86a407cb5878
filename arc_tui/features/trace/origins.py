"""What is read of a step only where a person looks at it: where the values of its calls came from
and which probes it allows, which take the whole run; the messages that the step before saw too.

Nothing is looked up for a step that the cursor leaves at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import structs
from rich.cells import cell_len
from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.getters import query_one
from textual.message import Message
from textual.reactive import reactive
from textual.screen import ModalScreen
from textual.widgets import Static

from arc_tui.ui import format
from arc_tui.ui.bindings import bind
from arc_tui.ui.format import fit
from arc_tui.ui.keys import key_of
from arc_tui.ui.list import RowList
from arc_tui.ui.screen import ArcScreen
from arc_tui.views.step import EMPTY, StepView, read_earlier
from replay.trace import Json

if TYPE_CHECKING:
    from arc_tui.views.probe_offers import WhyProbes
    from arc_tui.views.value_origins import RunOrigins, StepOrigins, ValueRow
    from replay.store.handle import Store


REST_S = 0.12
"""A typist presses the next key of a row of moves sooner."""


class StepLookups:
    """Looks up what is not known of a step yet; answers come as messages to the screen."""

    class OriginsFound(Message):
        """The values of a step and where they came from; `to_show`: a person wants to see them."""

        def __init__(self, origins: StepOrigins, *, to_show: bool) -> None:
            super().__init__()
            self.origins = origins
            self.to_show = to_show

    class ProbesFound(Message):
        """What can be probed at a step."""

        def __init__(self, probes: WhyProbes) -> None:
            super().__init__()
            self.probes = probes

    class EarlierFound(Message):
        """A step with the messages that the step before it saw too."""

        def __init__(self, detail: StepView) -> None:
            super().__init__()
            self.detail = detail

    def __init__(self, screen: ArcScreen, trace: str) -> None:
        self._screen = screen
        self._trace = trace
        self._run: RunOrigins | None = None
        self._probes: WhyProbes | None = None
        """Those found last."""

    def find_earlier(self, detail: StepView) -> None:
        """Read the messages that the step before saw too."""
        self._screen.ask(
            lambda store: read_earlier(store, detail),
            self.EarlierFound,
            group="earlier",
            after_s=REST_S,
        )

    def complete(self, step: StepView) -> StepView:
        """The step with what is known of it already; the rest is looked up."""
        if step is EMPTY:
            return step
        number = step.row.step
        if step.value_origins is None:
            self._find_origins(number, to_show=False)
        if self._probes is None or self._probes.step != number:
            self._find_probes(number)
            return step
        return self.with_probes(step, self._probes)

    def with_probes(self, step: StepView, probes: WhyProbes) -> StepView:
        """Remember the probes that were found; the step with them where they are its own."""
        self._probes = probes
        if step.row.step != probes.step or step.probes is probes:
            return step
        return structs.replace(step, probes=probes)

    @staticmethod
    def with_earlier(step: StepView, found: StepView) -> StepView:
        """The step with the earlier messages that were found, where they are its own."""
        if (found.trace, found.row.step) != (step.trace, step.row.step):
            return step
        return structs.replace(step, earlier=found.earlier)

    @staticmethod
    def with_origins(step: StepView, origins: StepOrigins) -> StepView:
        """The step with the origins that were found, where they are its own."""
        if origins.step != step.row.step:
            return step
        return structs.replace(step, value_origins=origins)

    def open_origins(
        self, origins: StepOrigins, value: Json | None, go_to: Callable[[int | None], None]
    ) -> None:
        """Show a person where the values of a step come from, and go to the step they choose."""
        if origins.values:
            self._screen.app.push_screen(OriginsBox(origins, value), go_to)
        else:
            self._screen.say(f"Step {origins.step} has no call with values.")

    def show_origins(self, step: int) -> None:
        """Look up the values of a step, for a person who waits for them."""
        self._find_origins(step, to_show=True)

    def forget_run(self) -> None:
        """The run is another one than was read."""
        self._run = None

    def forget_probes(self) -> None:
        """A probe may have been run meanwhile."""
        self._probes = None

    def _find_origins(self, step: int, *, to_show: bool) -> None:
        def find(store: Store) -> StepOrigins:
            from arc_tui.views.value_origins import RunOrigins

            if self._run is None:
                self._run = RunOrigins(store, self._trace)
            return self._run.of_step(step)

        finding = self._screen.ask(
            find,
            lambda found: self.OriginsFound(found, to_show=to_show),
            group="origins to show" if to_show else "origins",
            after_s=0 if to_show else REST_S,
        )
        if to_show:
            self._screen.hold_keys(finding)

    def _find_probes(self, step: int) -> None:
        def find(store: Store) -> WhyProbes:
            from arc_tui.features.probes.offers import build_why_probes

            return build_why_probes(store, self._trace, step)

        self._screen.ask(find, self.ProbesFound, group="probes", after_s=REST_S)


class ValueList(RowList):
    """A value a line with what is known of its origin in short."""

    HELP = "values of the step's calls"
    STYLES = {"path": "$primary", "nowhere": "$bad", "place": "$quiet"}

    values: reactive[tuple[ValueRow, ...]] = reactive((), repaint=False)

    @property
    def row_count(self) -> int:
        return len(self.values)

    def watch_values(self) -> None:
        self.rows_changed()

    def _widths(self, width: int) -> tuple[int, int]:
        """Cells of the names and of the values, which give way to the origins."""
        names = max((cell_len(format.one_line(row.path)) for row in self.values), default=0)
        path = min(names, 24)
        origins = max((cell_len(format.one_line(row.where)) for row in self.values), default=0)
        return path, max(min(width - path - origins - 6, width // 2), 12)

    def draw(self, index: int, width: int) -> Text:
        row = self.values[index]
        path, value = self._widths(width)
        line = Text.assemble(
            (fit(format.one_line(row.path), path) + "  ", self.style_of("path")),
            fit(format.one_line(str(row.value)), value) + "  ",
        )
        if row.known == "nowhere":
            line.append(f"✗ {row.where}", self.style_of("nowhere"))
        else:
            line.append(format.one_line(row.where), self.style_of("place"))
        line.truncate(width, overflow="ellipsis")
        return line


class OriginsBox(ModalScreen[int | None]):
    """The values of a step; enter goes to the step that first held the one under the cursor."""

    CSS_PATH = "origins_box.tcss"
    HELP = "value origins"

    BINDINGS = [
        bind("enter", "jump", id="origins.jump", label="go there",
             tooltip="Go to the step where the value first appeared"),
        bind("esc", "leave", id="origins.leave", label="close", tooltip="Close"),
        bind("p", "leave", id="origins.close", show=False, tooltip="Close"),
    ]  # fmt: skip

    rows = query_one(ValueList)
    said = query_one("#origin", Static)

    def __init__(self, view: StepOrigins, at: Json | None) -> None:
        super().__init__()
        self._view = view
        self._at = at

    def compose(self) -> ComposeResult:
        with Vertical(id="origins"):
            yield ValueList()
            yield Static(id="origin", markup=False)
            jump, leave = key_of(self, "origins.jump"), key_of(self, "origins.leave")
            yield Static(f"{jump} go to the step · {leave} close", id="hint", markup=False)

    def on_mount(self) -> None:
        self.query_one("#origins").border_title = f"value origins · step {self._view.step}"
        self.rows.values = self._view.values
        values = [row.value for row in self._view.values]
        self.rows.cursor = values.index(self._at) if self._at in values else 0
        self._say()

    def on_row_list_moved(self, _: RowList.Moved) -> None:
        self._say()

    def _say(self) -> None:
        row = self._view.values[self.rows.cursor]
        text = Text(f"{format.one_line(str(row.value))}\n", "bold")
        where = format.one_line(row.where)
        if row.known != "shown":
            text = Text.assemble(text, f"step {self._view.step}: {where}")
        else:
            text = Text.assemble(text, f"first in {where} ({row.how})\n",
                                 (format.plain(row.text), "dim"))  # fmt: skip
        self.said.update(text)

    def action_jump(self) -> None:
        """A prompt or the user's first words are shown by step 0."""
        row = self._view.values[self.rows.cursor]
        if row.known == "shown":
            self.dismiss(row.step or 0)

    def action_leave(self) -> None:
        self.dismiss(None)
