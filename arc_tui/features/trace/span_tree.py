"""The spans of a run as a tree: steps, their calls, sub-agents, repeats folded to one row; and
where in it a jump goes.

The one owner of the place in a trace: everything else follows the step its cursor shows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from rich.style import Style
from rich.text import Text
from textual import events
from textual.message import Message
from textual.reactive import reactive

from arc_tui.features.trace.search import filter_branches
from arc_tui.ui import format
from arc_tui.ui.bindings import bind
from arc_tui.ui.format import fit
from arc_tui.ui.keys import key_of
from arc_tui.ui.list import RowList
from arc_tui.ui.styles import FOUND
from arc_tui.views.trace import EMPTY_TRACE, TraceView
from arc_tui.views.tree import Branch, TreeRow, indent, path_to, visible
from taxonomy.classes import BY_CLASS

NUMBER = 5
MARKS = 6

BOOKMARK = "'"
"""After the number of a step with a bookmark; the key that goes back to it."""


class SpanTree(RowList):
    """The tree, one visible row a line."""

    HELP = "the tree of spans"
    STYLES = {
        "number": "$quiet",
        "guide": "$faint",
        "error": "$bad",
        "candidate": "bold $warning",
        "tag": "bold $secondary",
        "thread": "bold",
        "says": "$quiet",
        "found": FOUND,
        "count": "bold $primary",
        "bookmark": "bold $secondary",
    }

    BINDINGS = [
        bind("h", "fold", id="tree.fold", show=False,
             tooltip="Fold what is below the row, else go to the row that it belongs to"),
        bind("l", "unfold", id="tree.unfold", show=False,
             tooltip="Unfold what is below the row, else go to the first row below it"),
        bind("enter", "choose", id="tree.detail", label="detail",
             tooltip="Go to the detail of the step"),
    ]  # fmt: skip

    view: reactive[TraceView] = reactive(EMPTY_TRACE, repaint=False)
    found: reactive[frozenset[int]] = reactive(frozenset())
    bookmarks: reactive[frozenset[int]] = reactive(frozenset())
    filtered: reactive[frozenset[int] | None] = reactive(None, repaint=False)
    """The steps that are shown, with what they hang from; None shows all."""

    class StepShown(Message):
        """The cursor shows another step."""

        def __init__(self, step: int) -> None:
            super().__init__()
            self.step = step

        def can_replace(self, message: Message) -> bool:
            return isinstance(message, SpanTree.StepShown)

    class Chosen(Message):
        """The row under the cursor was chosen."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._tree: tuple[Branch, ...] = ()
        self._rows: list[TreeRow] = []
        self._places: dict[str, int] | None = None
        self._unfolded: set[str] = set()
        self._folded: set[str] = set()
        self._badges: dict[int, str] = {}
        self._step: int | None = None
        self._title = ""

    @property
    def row_count(self) -> int:
        return len(self._rows)

    @property
    def step(self) -> int:
        """The step the cursor shows; a row of no step belongs to the one above it."""
        return self._step or 0

    @property
    def spans_here(self) -> tuple[str, ...]:
        """The spans of the row under the cursor, its calls and those folded into it included."""
        if self.cursor >= len(self._rows):
            return ()
        here = self._rows[self.cursor].branch
        below = (each for each in here.below if each.role == "call" or here.role == "repeat")
        return (*here.spans, *(span for each in below for span in each.spans))

    def watch_view(self, old: TraceView, new: TraceView) -> None:
        self._badges = _badges(new)
        if old.tree is not new.tree:
            self._apply_filter()
            if old is not EMPTY_TRACE:  # a run that grew: the same row may be another step
                self._post_step()
        self.refresh()

    def watch_filtered(self) -> None:
        self._apply_filter()
        self._post_step()

    def _apply_filter(self) -> None:
        """The branches that are wanted. Where the one under the cursor is not among them, the
        cursor is on the next step that is."""
        here, tree = self.step, self.view.tree
        self._tree = tree if self.filtered is None else filter_branches(tree, self.filtered)
        back = key_of(self.screen, "trace.back")
        empty = bool(tree) and not self._tree
        self.nothing = f"No step matches. {back} clears the filter." if empty else ""
        self._list_rows()
        if self.filtered and here not in self.filtered:
            after = (step for step in sorted(self.filtered) if step > here)
            self.go_to(next(after, max(self.filtered)))

    def _list_rows(self) -> None:
        """The visible rows again, the cursor on the branch where it was."""
        here = self._rows[self.cursor].branch.id if self.cursor < len(self._rows) else ""
        self._rows = visible(self._tree, self._unfolded, self._folded)
        self._places = None
        self.rows_changed()
        if here:
            self.cursor = self._row_of.get(here, self.cursor)

    @property
    def _row_of(self) -> dict[str, int]:
        """The visible row of each branch and each span, made when it is asked for first."""
        if self._places is None:
            self._places = {
                name: index
                for index, row in enumerate(self._rows)
                for name in (row.branch.id, *row.branch.spans)
            }
        return self._places

    def watch_cursor(self, old: int, new: int) -> None:
        super().watch_cursor(old, new)
        self._post_step()

    def _post_step(self) -> None:
        step = next(
            (step for at in range(min(self.cursor, len(self._rows) - 1), -1, -1)
             if (step := self._rows[at].branch.step) is not None), None,
        )  # fmt: skip
        if step is not None and step != self._step:
            self._step = step
            self.post_message(self.StepShown(step))

    def entitle(self, *parts: str) -> None:
        """Say over the tree what of it is shown.

        A title that is set draws the whole tree anew, also where it is the same.
        """
        title = " · ".join(["spans", *filter(None, parts)])
        if title != self._title:
            self._title = title
            self.border_title = Text(title)

    def go_to(self, step: int) -> None:
        """Put the cursor on the row of a step, unfolding what hides it."""
        if not 0 <= step < len(self.view.steps):
            return
        span = self.view.steps[step].span
        if span not in self._row_of:
            for branch in path_to(self._tree, span)[:-1]:
                self._open(branch)
            self._list_rows()
        self.cursor = self._row_of.get(span, self.cursor)
        self._post_step()

    def go_to_sibling(self, direction: int) -> None:
        """To the next row that hangs from the same one, or to the one before."""
        if self.cursor >= len(self._rows):
            return
        depth = self._rows[self.cursor].depth
        rows = range(self.cursor + direction, -1 if direction < 0 else len(self._rows), direction)
        for index in rows:
            if self._rows[index].depth <= depth:
                if self._rows[index].depth == depth:
                    self.cursor = index
                return

    def draw(self, index: int, width: int) -> Text:
        row = self._rows[index]
        branch = row.branch
        marks = self._marks(branch)
        line = self._number(branch)
        line.append(indent(row, "│ "), self.style_of("guide"))
        line.append(_arrow(row), self.style_of("guide"))
        if branch.count > 1:
            line.append(f"×{branch.count} ", self.style_of("count"))
        room = width - line.cell_len - MARKS
        line.append(fit(format.one_line(branch.label), room), self._label_style(branch))
        return line.append_text(marks)

    def _number(self, branch: Branch) -> Text:
        numbered = branch.role in ("step", "repeat") and branch.step is not None
        found = bool(_steps(branch) & self.found)
        text = f"{branch.step:>{NUMBER - 1}} " if numbered else " " * NUMBER
        style = self.style_of("found" if found else "number")
        if not _steps(branch) & self.bookmarks:
            return Text.assemble((text, style))
        return Text.assemble((text[:-1], style), (BOOKMARK, self.style_of("bookmark")))

    def _label_style(self, branch: Branch) -> Style:
        if branch.status == "error":
            return self.style_of("error")
        if branch.role == "thread":
            return self.style_of("thread")
        says = branch.label.startswith("says")
        return self.style_of("says") if says else Style.null()

    def _marks(self, branch: Branch) -> Text:
        """What stands at the right end of a row: ✗ an error, ◆ a candidate, letters of tags."""
        steps = _steps(branch)
        line = Text(" ")
        line.append("✗" if branch.status == "error" else " ", self.style_of("error"))
        candidate = not steps.isdisjoint(self.view.marked)
        line.append("◆" if candidate else " ", self.style_of("candidate"))
        badge = "".join(self._badges.get(step, "") for step in sorted(steps))
        line.append(f"{badge:<{MARKS - 3}}"[: MARKS - 3], self.style_of("tag"))
        return line

    def _open(self, branch: Branch) -> None:
        self._folded.discard(branch.id)
        self._unfolded.add(branch.id)

    def action_fold(self) -> None:
        """Fold what is below the row; a row with nothing open below it goes to its parent."""
        if self.cursor >= len(self._rows):
            return
        row = self._rows[self.cursor]
        if row.open:
            self._toggle_fold(row)
        else:
            above = (i for i in range(self.cursor, -1, -1) if self._rows[i].depth < row.depth)
            self.cursor = next(above, self.cursor)

    def action_unfold(self) -> None:
        """Unfold what is below the row; where that is open already, go to the first of it."""
        if self.cursor >= len(self._rows):
            return
        row = self._rows[self.cursor]
        if row.open is False:
            self._toggle_fold(row)
        elif row.open:
            self.cursor += 1

    def _toggle_fold(self, row: TreeRow) -> None:
        if row.open:
            self._unfolded.discard(row.branch.id)
            self._folded.add(row.branch.id)
        else:
            self._open(row.branch)
        self._list_rows()
        self._post_step()

    def action_choose(self) -> None:
        self.post_message(self.Chosen())

    def on_click(self, event: events.Click) -> None:
        index = self.row_at(event.y - self.gutter.top)
        if index is None:
            return
        self.cursor = index
        arrow = NUMBER + len(indent(self._rows[index], "│ "))
        if self._rows[index].open is not None and event.x - self.gutter.left - arrow in (0, 1):
            self._toggle_fold(self._rows[index])
        elif event.chain == 2:
            self.action_choose()


def _arrow(row: TreeRow) -> str:
    return "  " if row.open is None else "▾ " if row.open else "▸ "


def _steps(branch: Branch) -> frozenset[int]:
    """The steps a row stands for, those folded into it included; none for calls and threads."""
    if branch.role == "repeat":
        return frozenset(each.step for each in branch.below if each.step is not None)
    return frozenset({branch.step} if branch.role == "step" and branch.step is not None else ())


def _badges(view: TraceView) -> dict[int, str]:
    """The letters of the tags on each step."""
    found: dict[int, str] = {}
    for tag in view.tags:
        letter = BY_CLASS[tag.failure].key
        if letter not in found.get(tag.step, ""):
            found[tag.step] = found.get(tag.step, "") + letter
    return found


# --- where a jump goes

REMEMBERED = 100
"""Jumps that can be taken back."""


class Jumps:
    """The steps that jumps started from, the latest last."""

    def __init__(self) -> None:
        self._left: list[int] = []

    @property
    def can_return(self) -> bool:
        return bool(self._left)

    def leave(self, step: int) -> None:
        """A jump goes away from a step."""
        self._left = [*self._left[1 - REMEMBERED :], step]

    def take_back(self) -> int | None:
        """The step that the last jump started from, which is forgotten; None after the first."""
        return self._left.pop() if self._left else None


def next_of(
    steps: Iterable[int], here: int, direction: int, *, round_the_end: bool = True
) -> int | None:
    """The nearest of these steps after (1) or before (-1) one, or the first from the other end."""
    known = sorted(steps) if direction > 0 else sorted(steps, reverse=True)
    ahead = next((step for step in known if (step - here) * direction > 0), None)
    return known[0] if ahead is None and round_the_end and known else ahead


def nearest(tree: SpanTree, steps: Collection[int], direction: int) -> int | None:
    """The next of these steps, of those shown as far as there are any, round the end."""
    return next_of(_only_shown(tree, steps), tree.step, direction)


def next_step(tree: SpanTree, direction: int) -> int | None:
    """One step on, or back, of those that are shown."""
    if tree.filtered is None:
        return tree.step + direction
    return next_of(tree.filtered, tree.step, direction, round_the_end=False)


def needs_rest(tree: SpanTree, key: str) -> bool:
    """Would a key, by the id of its binding, do something else if there were not only the
    beginning of the run?"""
    down = {"row.next": 1, "tree.unfold": 1, "row.page_down": max(tree.page_rows - 1, 1)}
    match key:
        case "row.last" if tree.has_focus:
            return True
        case "row.next" | "row.page_down" | "tree.unfold" if tree.has_focus:
            return tree.cursor + down[key] >= tree.row_count
        case "trace.step_next":
            step = next_step(tree, 1)
            return step is None or step >= len(tree.view.steps)
        case "trace.step_before" | "trace.mark" | "tree.fold" | "tree.detail":
            return False
        case _:
            return not key.startswith(("row.", "trace.tab_"))


def next_candidate(tree: SpanTree, direction: int) -> int:
    """In their order, the likeliest first, round the end; from any other step to that one."""
    marked, here = _only_shown(tree, tree.view.marked), tree.step
    place = marked.index(here) + direction if here in marked else 0
    return marked[place % len(marked)]


def _only_shown(tree: SpanTree, steps: Collection[int]) -> list[int]:
    """Those of the steps that are shown, all where none is; their order stays."""
    shown = tree.filtered
    return [step for step in steps if shown is None or step in shown] or [*steps]


def next_peer(tree: SpanTree, direction: int) -> tuple[int | None, str]:
    """The next step with the tool of the row under the cursor, from one without a tool the next
    without; or None, and why there is none."""
    tools = tools_here(tree)
    peers = steps_with(tree.view, tools)
    if peers <= {tree.step}:
        what = f"calls {' or '.join(sorted(tools))}" if tools else "is without a tool call"
        return None, f"No other step {what}."
    return nearest(tree, peers, direction), ""


def tools_here(tree: SpanTree) -> frozenset[str]:
    """The tools of the row under the cursor, else those of its step."""
    row, called = frozenset(tree.spans_here), tree.view.called
    return frozenset(name for span, _, name in called if span in row) or frozenset(
        name for _, step, name in called if step == tree.step
    )


def steps_with(view: TraceView, tools: Collection[str]) -> set[int]:
    """The steps that call one of these tools; with no tools, the steps that call none."""
    if tools:
        return {step for _, step, name in view.called if name in tools}
    return {row.step for row in view.steps if not row.calls}


def step_number(typed: str, here: int, steps: int) -> int | None:
    """The step that is typed: `12`, or `+5` and `-5` from here; this one where nothing is typed,
    None where it is no step of a run of so many."""
    typed = typed.strip()
    if not typed:
        return here
    if not (typed[1:] if typed[0] in "+-" else typed).isdecimal() or len(typed) > 9:
        return None
    step = here + int(typed) if typed[0] in "+-" else int(typed)
    return step if 0 <= step < steps else None


def number_hint(steps: int) -> str:
    """What can be typed for a step of a run of so many."""
    return f"a step from 0 to {steps - 1}, or relative: +5, -5" if steps else "no steps"
