"""The calibration screen: how right the judgements are, held against labels.

A sentence for a person in a hurry, then pages: where runs broke, which class, which score, where
labels and findings part, what the figures mean. People's labels and a rule's are never in one
figure: one part is in front at a time. Looking keeps nothing; a verdict on a judge is kept when
a person says so, as `arc calibrate` does.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import get_args

from msgspec import structs
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.getters import query_one
from textual.message import Message
from textual.reactive import reactive
from textual.worker import get_current_worker
from typing_extensions import override

from arc_tui.features.calibration.pages import break_page, classes_page, missing_page, notes_page
from arc_tui.features.calibration.score_pages import scores_page
from arc_tui.features.calibration.tables import Line
from arc_tui.features.calibration.text import ALL_AGREE, basis, sentence
from arc_tui.features.calibration.view import EMPTY as NO_FIGURES
from arc_tui.features.calibration.view import (
    EMPTY_STATE,
    KEPT,
    CalibrationState,
    Kept,
    PartDrawn,
    held_against,
    keep_verdicts,
)
from arc_tui.features.calibration.widgets import (
    BREAK,
    CLASSES,
    NOTES,
    PAGES,
    SCORES,
    WORST,
    CalibrationHead,
    CalibrationPage,
    CalibrationTabs,
    CalibrationWorst,
    in_full,
)
from arc_tui.ui import format
from arc_tui.ui.bindings import bind, choice
from arc_tui.ui.dialogs import AskBox, Option
from arc_tui.ui.keys import KeyBar, write_keys
from arc_tui.ui.list import RowList
from arc_tui.ui.screen import ArcScreen, ViewSwitch
from replay.errors import ArcError
from replay.store.handle import now_ns
from taxonomy.calibration.disagreement import About
from taxonomy.calibration.noise import Cell, noise_table

KINDS = ("all", *get_args(About))
"""What the list of disagreements shows."""

READING = "Comparing judgements with labels …"


class CalibrationScreen(ArcScreen):
    """Judgements against labels, a page a question."""

    CSS_PATH = "calibration.tcss"
    HELP = "calibration"

    BINDINGS = [
        bind("tab", "turn(1)", id="calibration.next", label="next page",
             tooltip="Show the next page"),
        bind("shift+tab", "turn(-1)", id="calibration.before", show=False,
             tooltip="Show the previous page"),
        *(choice(place, f"page({place - 1})", name.lower(), id=f"calibration.page_{place}",
                 tooltip=f"Show the page “{name}”")
          for place, name in enumerate(PAGES, 1)),
        bind("v", "view_menu", id="calibration.view",
             tooltip="Change the view: label source, score source, kind of disagreement, noise"),
        bind("o", "labels", id="calibration.labels", label="label file", only="o",
             tooltip="Read the labels of a file, or the labels in the database"),
        bind("+", "keep", id="calibration.keep",
             tooltip="Approve for 30 days the scores that these labels support"),
        bind("^r", "refresh", id="calibration.refresh", show=False,
             tooltip="Read labels and judgements again"),
        bind("y", "copy", id="calibration.copy", show=False, tooltip="Copy the page as text"),
        bind("esc", "back", id="calibration.back", tooltip="Back to where you came from"),
    ]  # fmt: skip

    state: reactive[CalibrationState] = reactive(EMPTY_STATE, repaint=False)
    tab: reactive[int] = reactive(BREAK, repaint=False)
    kind: reactive[str] = reactive(KINDS[0], repaint=False)
    chosen_part: reactive[int] = reactive(0, repaint=False)
    chosen_source: reactive[int] = reactive(0, repaint=False)

    head = query_one(CalibrationHead)
    tabs = query_one(CalibrationTabs)
    page = query_one("#figures", CalibrationPage)
    worst = query_one(CalibrationWorst)
    note = query_one("#note", CalibrationPage)

    class Loaded(Message):
        """The judgements were held against the labels."""

        def __init__(self, state: CalibrationState) -> None:
            super().__init__()
            self.state = state

    class NoiseCounted(Message):
        """Runs of known shape were made and classified."""

        def __init__(self, cells: tuple[Cell, ...]) -> None:
            super().__init__()
            self.cells = cells

    class VerdictsKept(Message):
        """What these labels say of trust holds from now on."""

        def __init__(self, kept: Kept) -> None:
            super().__init__()
            self.kept = kept

    def __init__(self, path: Path, labels: Path | None = None) -> None:
        """`labels` None: what people said in the database."""
        super().__init__(path)
        self._labels = labels

    def compose(self) -> ComposeResult:
        yield CalibrationHead()
        yield CalibrationTabs().data_bind(CalibrationScreen.tab)
        yield CalibrationPage(id="figures")
        with Vertical(id="apart"):
            yield CalibrationWorst(id="worst")
            yield CalibrationPage(id="note")
        yield KeyBar()

    def on_mount(self) -> None:
        self.head.sentence = READING
        self.note.can_focus = False
        self.load(self._labels)

    # --- the figures

    def load(self, labels: Path | None) -> None:
        """Read labels and hold the judgements against them."""
        self.ask(
            lambda store: held_against(store, labels, lambda: get_current_worker().is_cancelled),
            self.Loaded,
            group="calibrate",
        )

    def on_calibration_screen_loaded(self, event: Loaded) -> None:
        self._labels = event.state.labels
        self.state = structs.replace(event.state, noise=self.state.noise)

    def show_error(self, error: ArcError) -> None:
        """Where nothing was read yet, what went wrong stands in the sentence's place too."""
        super().show_error(error)
        if self.state is EMPTY_STATE:
            self.state = CalibrationState(view=NO_FIGURES, parts=(), trouble=error.message)

    @property
    def drawn(self) -> PartDrawn | None:
        """The part in front, None where no label points at a run."""
        parts = self.state.parts
        return parts[self.chosen_part % len(parts)] if parts else None

    # --- what is shown

    def watch_state(self) -> None:
        self._show()

    def watch_tab(self) -> None:
        self._show()

    def watch_kind(self) -> None:
        self._show()

    def watch_chosen_part(self) -> None:
        self._show()

    def watch_chosen_source(self) -> None:
        self._show()

    def _show(self) -> None:
        if not self.is_mounted or self.state is EMPTY_STATE:
            return
        drawn = self.drawn
        self.head.sentence = write_keys(self, sentence(self.state, drawn))
        self.head.basis = write_keys(self, basis(self.state, drawn))
        self.tabs.worst = len(drawn.worst) if drawn is not None else 0
        listed = self.tab == WORST and drawn is not None
        self.set_class(listed, "-listed")
        if listed and drawn is not None:
            self._list(drawn)
        else:
            self.page.drawing = self._drawing
        (self.worst if listed else self.page).focus()
        self.refresh_bindings()

    def _drawing(self, width: int, height: int) -> list[Line]:
        """The lines of the page in front."""
        drawn, with_keys = self.drawn, partial(write_keys, self)
        if drawn is None and self.tab != NOTES:
            return missing_page(self.state, width, with_keys)
        match self.tab:
            case tab if tab == NOTES or drawn is None:
                return notes_page(self.state, width, with_keys)
            case tab if tab == CLASSES:
                return classes_page(self.state, drawn, width, with_keys)
            case tab if tab == SCORES:
                return scores_page(self.state, drawn, self.chosen_source, width, height, with_keys)
            case _:
                return break_page(drawn.part.figures, width)

    def _list(self, drawn: PartDrawn) -> None:
        wanted = self.kind
        self.worst.rows = tuple(
            each for each in drawn.worst if wanted in (KINDS[0], each.disagreement.about)
        )
        about = "" if wanted == KINDS[0] else f", {wanted}"
        self.worst.border_title = f"worst first{about}: {len(self.worst.rows)}"
        self.worst.nothing = ALL_AGREE if not drawn.worst else f"none about the {wanted}"

    def on_row_list_moved(self, event: RowList.Moved) -> None:
        if event.rows is self.worst:
            row = self.worst.row
            self.note.drawing = lambda width, _: in_full(row, width)

    def on_tab_line_picked(self, event: CalibrationTabs.Picked) -> None:
        self.tab = event.tab

    # --- keys

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        del parameters
        drawn = self.drawn
        match action:
            case "part":
                return len(self.state.parts) > 1
            case "source":
                return self.tab == SCORES and drawn is not None and len(drawn.scorers) > 1
            case "kind":
                return self.tab == WORST and drawn is not None
            case "view_menu":
                return self.has_switches
            case "keep":
                of_people = drawn is not None and drawn.made_by == "people"
                return self.tab == SCORES and of_people and bool(drawn and drawn.scorers)
            case "noise":
                return self.tab == NOTES and not self.state.noise
            case _:
                return True

    @override
    def view_switches(self) -> Sequence[ViewSwitch]:
        return (
            ViewSwitch("part", "label source", "labels of people, or of a rule"),
            ViewSwitch("source", "score source", "scores of another judge, or of the rules"),
            ViewSwitch("kind", "about", "the break, the class, the score, or all"),
            ViewSwitch("noise", "noise", "measure how noise and length blur the shape of a run"),
        )

    def action_turn(self, pages: int) -> None:
        self.tab = (self.tab + pages) % len(PAGES)

    def action_page(self, tab: int) -> None:
        self.tab = tab

    def action_part(self) -> None:
        self.chosen_part = (self.chosen_part + 1) % len(self.state.parts)

    def action_source(self) -> None:
        drawn = self.drawn
        if drawn is not None:
            self.chosen_source = (self.chosen_source + 1) % len(drawn.scorers)

    def action_kind(self) -> None:
        self.kind = KINDS[(KINDS.index(self.kind) + 1) % len(KINDS)]

    def action_labels(self) -> None:
        choices = [Option(KEPT, "labels of people in this database")]
        hint = "or the path of a label file (JSON Lines)"
        self.app.push_screen(AskBox("which labels?", hint=hint, choices=choices), self._take)

    def _take(self, answer: str | None) -> None:
        if answer is not None:
            self.load(None if answer == KEPT else Path(answer).expanduser())

    def action_keep(self) -> None:
        view = self.state.view
        self.ask(lambda store: keep_verdicts(store, view, now_ns()), self.VerdictsKept,
                 group="keep")  # fmt: skip

    def on_calibration_screen_verdicts_kept(self, event: VerdictsKept) -> None:
        verdicts = format.count(event.kept.verdicts, "verdict")
        again = format.count(len(event.kept.again), "run")
        self.say(f"{verdicts} saved for 30 days; {again} analysed again")
        self.load(self._labels)

    def action_noise(self) -> None:
        self.say("counting; the page shows it in a moment")
        self.ask(lambda _: tuple(noise_table()), self.NoiseCounted, group="noise")

    def on_calibration_screen_noise_counted(self, event: NoiseCounted) -> None:
        self.state = structs.replace(self.state, noise=event.cells)

    def action_refresh(self) -> None:
        self.load(self._labels)

    def action_copy(self) -> None:
        text = self.page.text
        self.app.copy_to_clipboard(text)
        self.say(f"{PAGES[self.tab]} copied as text, {len(text)} characters")

    def action_back(self) -> None:
        self.dismiss()
