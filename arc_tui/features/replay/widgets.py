"""What the replay screen is put together from: the steps as recorded and as either arm did them,
the lines above and below them, and the dialogs for one change more and for the edit's name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from msgspec import structs
from rich.style import Style
from rich.text import Text
from textual.app import App
from textual.geometry import Size
from textual.message import Message
from textual.reactive import reactive
from typing_extensions import override

from arc_tui.experiments.edits import Draft, edit_of
from arc_tui.experiments.locked_view import (
    ArmRow,
    ReplayRow,
    ReplayView,
    StepRow,
    arm_names,
    is_beyond_chance,
    mark_words,
    phrase,
    tally,
)
from arc_tui.experiments.models import spending_of
from arc_tui.experiments.progress import progress_line, spending_line, spent_so_far
from arc_tui.experiments.screen import ExperimentFooter, ExperimentHead
from arc_tui.features.replay.arms import Columns, arm_shown, columns, control_cell, in_sight
from arc_tui.features.replay.state import EMPTY, ReplayState
from arc_tui.ui import format
from arc_tui.ui.bindings import bind
from arc_tui.ui.dialogs import AskBox, Option
from arc_tui.ui.format import Cell, fit, pack_lines
from arc_tui.ui.keys import write_keys
from arc_tui.ui.list import RowList
from arc_tui.ui.styles import fold_sentence
from replay.budget import Limits
from replay.edit.changes import (
    Change,
    Edit,
    InjectConstraint,
    SetEffort,
    SetModel,
    SetParameter,
    describe,
)
from replay.edit.places import edit_problem
from replay.errors import BadEdit
from replay.providers import EFFORTS

MARK = 10
EDGE = 1
STEP = 6
GAP = 2
LEAST = 7
"""Cells of an arm's column at least: its title."""

MEASURED = 2000
"""Rows looked at to choose widths."""

QUIET = ("same", "reworded", format.UNKNOWN)
"""What an arm does where it does nothing else than was recorded."""

DIMMED = "╎"
"""Marks a step after the edited arm diverged."""

EFFECT = "┃"
"""Marks a step at which the arms differ significantly."""


class StepDiff(RowList):
    """One step a line under a head that names the arms."""

    HELP = "the steps"
    HEAD = 1

    STYLES = {
        "fixed": "$good",
        "broke": "$bad",
        "changed": "$warning",
        "same": "$quiet",
        "unclear": "$secondary",
        "refused": "$bad",
        "break": "bold $warning",
        "number": "$quiet",
        "dimmed": "$calm",
        "quiet": "$quiet",
    }

    BINDINGS = [
        bind("enter", "open_row", id="steps.choose", label="in full", show=False,
             tooltip="Go to the step in full"),
        bind("l", "arms(1)", id="steps.right", show=False,
             tooltip="Show the arms further right, where they have no room"),
        bind("h", "arms(-1)", id="steps.left", show=False, tooltip="Show the arms further left"),
    ]  # fmt: skip

    state: reactive[ReplayState] = reactive(EMPTY, repaint=False)

    class Chosen(Message):
        """The step under the cursor was chosen."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._rows: tuple[StepRow, ...] = ()
        self._names: tuple[str, ...] = ()
        self._widths = (0, 0, 0)
        self._columns = Columns(0, 0, 0, ())

    @property
    def row_count(self) -> int:
        return len(self._rows)

    @property
    def step(self) -> StepRow | None:
        """The step under the cursor, in every arm."""
        return self._rows[self.cursor] if self._rows else None

    @property
    def row(self) -> ReplayRow | None:
        """The step under the cursor, in the first arm."""
        return self.step.first if self.step is not None else None

    @property
    def _several(self) -> bool:
        return bool(self.state.view.others)

    def watch_state(self, before: ReplayState, state: ReplayState) -> None:
        """Other rows, and with them another one under the cursor."""
        if state.draft is before.draft and state.view.rows is before.view.rows:
            return
        self._rows = state.rows
        self._names = arm_names(state.view)
        self.border_title = caption([row for step in self._rows for row in step.arms])
        self.rows_changed()
        self.post_message(self.Moved(self))

    def rows_changed(self) -> None:
        measured = self._rows[:MEASURED]
        self._widths = widths([row.first for row in measured], self.row_width - MARK - STEP)
        first = min(self._columns.first, max(len(self._names) - 1, 0))
        room = self.row_width - EDGE - STEP
        self._columns = columns(measured, self._names, room, first)
        hidden = in_sight(self._names, self._columns) if self._several else ""
        self.border_subtitle = write_keys(self.screen, hidden) if hidden else ""
        super().rows_changed()

    def action_arms(self, direction: int) -> None:
        """Scroll the arms by one column."""
        first = self._columns.first + direction
        more = direction < 0 or self._columns.end < len(self._names)
        if self._several and first >= 0 and more:
            self._columns = self._columns._replace(first=first)
            self.rows_changed()

    def go_to(self, step: int) -> None:
        """Put the cursor on a step."""
        found = (place for place, row in enumerate(self._rows) if row.first.step == step)
        self.cursor = next(found, self.cursor)

    def next_difference(self, direction: int) -> bool:
        """To the next step where an arm is not the same as control; is there one?"""
        ahead = range(self.cursor + direction, self.row_count if direction > 0 else -1, direction)
        marks = ({row.mark for row in self._rows[at].arms} - {None, "same"} for at in ahead)
        found = next((at for at, differ in zip(ahead, marks, strict=True) if differ), None)
        if found is not None:
            self.cursor = found
        return found is not None

    def draw_head(self, line: int, width: int) -> Text:
        del line, width
        if self._several:
            return self._draw_arms_head()
        titles = zip(("recorded", "control", "edited"), self._widths, strict=True)
        return Text(" " * MARK + fit("step", STEP) + _joined(fit(*title) for title in titles))

    def draw(self, index: int, width: int) -> Text:
        del width
        if self._several:
            return self._draw_arms(self._rows[index])
        row = self._rows[index].first
        name = "refused" if row.refused is not None else row.mark or ""
        style = self._row_style(name, row) + Style(bold=is_beyond_chance(row))
        edge = DIMMED if row.dimmed else EFFECT if is_beyond_chance(row) else " "
        line = Text.assemble(
            (edge, self._row_style("number", row) if row.dimmed else style),
            (fit(mark_words(row), MARK - 1), style),
            (f"{row.step:>{STEP - 3}} ", self._row_style("number", row)),
            ("◆ " if row.at_break else "  ", self._row_style("break", row)),
        )
        for cell, room in self._cells(row):
            quiet = cell.words in QUIET
            line.append(cell.fit(room), self._row_style("quiet" if quiet else "", row))
            line.append(" " * GAP)
        return line

    def _draw_arms_head(self) -> Text:
        shown = self._columns
        titles = [("recorded", shown.recorded), ("control", shown.control)]
        titles += zip(self._names[shown.first : shown.end], shown.arms, strict=True)
        return Text(" " * EDGE + fit("step", STEP) + _joined(fit(*each) for each in titles))

    def _draw_arms(self, step: StepRow) -> Text:
        """A step of several arms: what was recorded and control once, then a column an arm."""
        shown, row = self._columns, step.first
        line = Text.assemble(
            " " * EDGE,
            (f"{row.step:>{STEP - 3}} ", self.style_of("number")),
            ("◆ " if row.at_break else "  ", self.style_of("break")),
            fit(format.one_line(row.recorded), shown.recorded),
        )
        if row.refused is not None:
            room = shown.control + sum(shown.arms) + GAP * len(shown.arms)
            return line.append(" " * GAP + fit(row.refused, room), self.style_of("refused"))
        control = control_cell(row)
        quiet = self.style_of("quiet") if control.words in QUIET else Style.null()
        line.append(" " * GAP + control.fit(shown.control), quiet)
        for each, room in zip(step.arms[shown.first : shown.end], shown.arms, strict=False):
            style = self._row_style(each.mark or "", each) + Style(bold=is_beyond_chance(each))
            line.append(" " * GAP + arm_shown(each).fit(room), style)
        return line

    def _cells(self, row: ReplayRow) -> Iterable[tuple[Cell, int]]:
        """The columns of a row with their widths; a refusal takes those of both arms."""
        if row.refused is None:
            return zip(shown(row), self._widths, strict=True)
        recorded, control, edited = self._widths
        arms = control + GAP + edited
        why = Cell(format.one_line(row.refused))
        return (Cell(format.one_line(row.recorded)), recorded), (why, arms)

    def _row_style(self, name: str, row: ReplayRow) -> Style:
        if row.dimmed:
            return self.style_of("dimmed")
        return self.style_of(name) if name else Style.null()

    def action_open_row(self) -> None:
        self.post_message(self.Chosen())


def caption(rows: Sequence[ReplayRow]) -> str:
    """The title, with the meaning of the marks at the edge that are there."""
    said = ["steps"]
    if any(is_beyond_chance(row) and not row.dimmed for row in rows):
        said.append(f"{EFFECT} significant")
    if any(row.dimmed for row in rows):
        said.append(f"{DIMMED} after divergence, not counted")
    return " · ".join(said)


def shown(row: ReplayRow) -> tuple[Cell, Cell, Cell]:
    """What each arm does, `same` where that is what was recorded."""
    recorded = Cell(format.one_line(row.recorded))
    if row.refused is not None:
        return recorded, Cell(""), Cell("")
    return recorded, _arm(row.control), _arm(row.edited, row.edited_refused)


def _arm(arm: ArmRow | None, refused: str | None = None) -> Cell:
    if refused is not None:
        return Cell(f"skipped: {format.one_line(refused)}")
    return Cell(phrase(arm), tally(arm))


def widths(rows: Sequence[ReplayRow], room: int) -> tuple[int, int, int]:
    """Columns for recorded, control and edited in `room` cells.

    An arm takes what it needs, edited up to two fifths, control up to half of what that leaves.
    """
    _, control, edited = (
        max((cell.width for cell in cells), default=0)
        for cells in (zip(*map(shown, rows), strict=True) if rows else ((), (), ()))
    )
    room = max(room - 2 * GAP, 0)
    edited = min(max(edited, LEAST), room * 2 // 5)
    control = min(max(control, LEAST), (room - edited) // 2)
    return room - control - edited, control, edited


def _joined(cells: Iterable[str]) -> str:
    return (" " * GAP).join(cells)


# --- the first lines and the last one


class ReplayHead(ExperimentHead[ReplayState]):
    """How the replay stands; in a tall terminal, what that rests on."""

    TYPING = True

    state: reactive[ReplayState] = reactive(EMPTY, layout=True)

    @override
    def parts(self, width: int) -> Iterator[tuple[str, list[str]]]:
        yield from self.sentences(width)
        if self.state.basis and self.is_tall:
            yield "basis", fold_sentence("; ".join(self.state.basis), width)
        yield self.warnings(width)


class ReplayFoot(ExperimentFooter[ReplayState]):
    """Steps that are in, then the figures, on a second line where one is too short."""

    STYLES = {**ExperimentFooter.STYLES, "left": "$faint"}
    STOP = "replay.stop"

    state: reactive[ReplayState] = reactive(EMPTY, layout=True)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        del container, viewport
        return 1 if self.state.running else max(len(self._lines(width)), 1)

    @override
    def figures(self, width: int) -> Text:
        return Text("\n".join(self._lines(width)), self.style_of("figures"))

    def _lines(self, width: int) -> list[str]:
        return pack_lines(figures(self.state.view, self.state.limits), width)

    @override
    def progress(self, width: int) -> Text:
        view = self.state.view
        total = view.total or len(self.state.draft.rows)
        spent, limits = spending_of(view), self.state.limits
        words = progress_line("Replaying step", view.done, total, spent, limits)
        if view.done == total and total:  # some steps are still open
            words = f"Adding samples · {spent_so_far(spent, limits)}"
        return self.bar(view.done, total, words)


def figures(view: ReplayView, limits: Limits) -> Iterator[str]:
    """Collateral, the models, lowest fidelity, calls, cost, digest: what there is of them."""
    counted = view.verdict.collateral
    if counted is not None and not view.others:
        yield f"fixed {counted.fixed}"
        yield f"broke {counted.broke}"
        yield f"changed {counted.changed}"
        yield f"same {counted.same}"
        if counted.unclear:
            yield f"unclear {counted.unclear}"
    if view.model:
        yield f"{format.one_line(view.model)}{_place(view)}"
    if view.verdict.weakest is not None:
        masked = f", {view.verdict.masked} masked" if view.verdict.masked else ""
        yield f"fidelity {view.verdict.weakest.value}{masked}"
    if view.done:
        yield spending_line(spending_of(view), limits)
    if view.digest is not None and not view.others:
        yield format.short_digest(view.digest)


def _place(view: ReplayView) -> str:
    """The server, and the model of the edited arm where that is another one."""
    server = f" at {format.one_line(view.server)}" if view.server else ""
    other = view.verdict.edited_model
    return f"{server}, edited arm {format.one_line(other)}" if other is not None else server


# --- dialogs: one change more, and the name of the edit


class Kind(NamedTuple):
    """A kind of change: what it does, the question for its text, and how it is made of it."""

    does: str
    question: str
    make: Callable[[str], Change]
    known: Sequence[str] = ()


def kinds(step: int) -> dict[str, Kind]:
    """The kinds to choose from at a step, by their name."""
    keep = "constraint text"
    here = partial(InjectConstraint, step=step)
    return {
        "constraint": Kind("added at the end of the system prompt", keep, InjectConstraint),
        f"constraint at step {step}": Kind("added there and in every later step", keep, here),
        "model": Kind("another model for the edited arm", "which model?", SetModel),
        "effort": Kind("reasoning effort of the model", "which effort?", SetEffort, EFFORTS),
        "parameter": Kind(
            "temperature, top_p, seed, a limit or another setting",
            "which setting? temperature = 0.2",
            SetParameter.from_words,
        ),
    }


async def ask_change(
    app: App[None], changes: tuple[Change, ...], also: tuple[Change, ...], step: int
) -> tuple[Change, ...] | None:
    """The changes with one more, or without one of `also`; None where nothing was chosen.

    Raises BadEdit for a change that means nothing.
    """
    known = kinds(step)
    leave = {f"without {at}": change for at, change in enumerate(also, 1)}
    options = [Option(name, kind.does) for name, kind in known.items()]
    for name, change in leave.items():
        options.append(Option(name, format.one_line(describe(change)), "leave out"))
    chosen = await app.push_screen_wait(AskBox("add a change", choices=options))
    if chosen is None:
        return None
    if chosen in leave:
        return tuple(change for change in changes if change is not leave[chosen])
    made = await _made(app, known[chosen])
    return None if made is None else (*_without_other(changes, made), made)


async def _made(app: App[None], kind: Kind) -> Change | None:
    """The change of that kind with the text a person gives it."""
    options = [Option(word, "") for word in kind.known]
    text = await app.push_screen_wait(AskBox(kind.question, choices=options))
    if text is None:
        return None
    made = kind.make(text)
    wrong = edit_problem(made)
    if wrong is not None:
        raise BadEdit(wrong.sentence, wrong.hint)
    return made


def _without_other(changes: tuple[Change, ...], made: Change) -> tuple[Change, ...]:
    """The changes that stay: one model, one effort and one value of a setting are enough."""
    if isinstance(made, SetParameter):
        return tuple(
            each for each in changes if not isinstance(each, SetParameter) or each.name != made.name
        )
    if not isinstance(made, (SetModel, SetEffort)):
        return changes
    return tuple(change for change in changes if type(change) is not type(made))


class EditNames:
    """The names of edits: those that are kept, and those a person gave since."""

    def __init__(self) -> None:
        self._given: dict[str, str] = {}

    def edit(self, draft: Draft, texts: Mapping[str, str]) -> Edit | None:
        """The edit as it stands, under the name it has or the next free one."""
        edit = edit_of(draft, texts, "")
        if edit is None:
            return None
        known = self._known(draft)
        return structs.replace(edit, name=known.names.get(edit.digest, known.free_name))

    def is_named(self, draft: Draft, edit: Edit) -> bool:
        return edit.digest in self._known(draft).names

    async def ask(self, app: App[None], edit: Edit) -> Edit | None:
        """The edit under the name a person gives it, None where they leave. From a worker."""
        name = await app.push_screen_wait(AskBox("name of the edit", answer=edit.name))
        if name is None:
            return None
        self._given[edit.digest] = name
        return structs.replace(edit, name=name)

    def _known(self, draft: Draft) -> Draft:
        """The draft with the names that were given since it was read."""
        return structs.replace(draft, names={**draft.names, **self._given})
