"""What the keys do here: made from the live bindings, so it cannot say anything else.

What the keys are about: which of them stand together in the help. Pure.

A screen has thirty keys; a person looks for one by what they want. The table goes by what a key
does, which is the same word on every screen; what is not in it stands under `REST`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import ActiveBinding, Binding
from textual.containers import Vertical
from textual.getters import query_one
from textual.screen import ModalScreen, Screen

from arc_tui.ui.bindings import bind
from arc_tui.ui.dialogs import PromptLine
from arc_tui.ui.format import wrap
from arc_tui.ui.keys import key_of, write_keys
from arc_tui.ui.list import TextRows

MARKS = (
    ("✗  ✓  ·", "a run that failed, passed, or whose outcome is not known"),
    ("✓!", "passed, but something went wrong on the way"),
    ("◆", "a step that may be where the run broke"),
    ("▲", "in a lane, a step that is an outlier: its latency or cost is off the scale"),
    ("'", "a bookmarked step; ‹trace.marked:apostrophe› goes to it"),
    ("┃", "a step where samples show that the arms differ, beyond chance"),
    ("╎", "a step after divergence, not counted"),
    ("×3", "three steps in a row that made the same call; ‹tree.unfold:l› unfolds them"),
    ("█  ▒", "a tag of a person, a suggested tag of a rule"),
    ("–", "not known; never guessed, never counted as zero"),
)

KEYS = 16
"""Cells of the keys before what they do."""


class Entry(NamedTuple):
    """Keys, or a mark, and what is said of them; a heading where there are none."""

    keys: str
    words: str

    def searched_text(self, place: str) -> str:
        """What is looked through."""
        return f"{place} {self.keys} {self.words}".lower()

    def lines(self, width: int) -> Iterator[Text]:
        """All of it, on as many lines as it takes."""
        if not self.keys:
            yield Text(f" {self.words}", "italic")
            return
        left = f"  {self.keys:<{KEYS}}"
        for start, end in wrap(self.words, width - len(left)):
            yield Text.assemble((left, "bold"), self.words[start:end])
            left = " " * len(left)


class HelpScreen(ModalScreen[None]):
    """The keys of the screen below, by where they work and what they are about, and what the marks
    mean; words find some of them."""

    CSS_PATH = "screen.tcss"
    HELP = "help"

    BINDINGS = [
        bind("/", "find", id="help.find", label="find",
             tooltip="Show only the keys whose description contains these words"),
        bind("esc", "leave", id="help.leave", label="close", tooltip="Back to where you were"),
        bind("?", "leave", id="help.close", show=False, tooltip="Back to where you were"),
        bind("f1", "leave", id="help.close_anywhere", show=False, tooltip="Back to where you were"),
    ]  # fmt: skip

    rows = query_one(TextRows)
    prompt = query_one(PromptLine)

    def __init__(self, bindings: Iterable[ActiveBinding]) -> None:
        super().__init__()
        self._bindings_here = tuple(bindings)
        self._words = ""

    def compose(self) -> ComposeResult:
        with Vertical(id="help"):
            yield TextRows()
            yield PromptLine("find ", "words of what a key does")

    def on_mount(self) -> None:
        box = self.query_one("#help")
        box.border_title = "keys here"
        self.rows.focus()
        find, leave = key_of(self, "help.find"), key_of(self, "help.leave")
        box.border_subtitle = Text(f"{find} find   {leave} close")

    def on_resize(self) -> None:
        self.call_after_refresh(self._show)

    def on_prompt_line_changed(self, event: PromptLine.Changed) -> None:
        self._words = event.words
        self._show()

    def on_prompt_line_closed(self, event: PromptLine.Closed) -> None:
        self._words = event.words
        self._show()
        self.rows.focus()

    def _show(self) -> None:
        self.rows.nothing = f"No key matches {self._words!r}."
        self.rows.lines = tuple(self._lines(self._words.lower().split()))

    def _lines(self, words: list[str]) -> Iterator[Text]:
        """A section under its heading, as far as its entries say all the words, in any letters."""
        for place, entries in self._sections():
            kept = [
                entry
                for entry in entries
                if not words
                or (entry.keys and all(each in entry.searched_text(place) for each in words))
            ]
            if kept:
                yield Text(place, "bold")
                for entry in kept:
                    yield from entry.lines(self.rows.row_width)
                yield Text()

    def _sections(self) -> Iterator[tuple[str, list[Entry]]]:
        by_place: dict[str, dict[str, list[Binding]]] = {}
        for active in self._bindings_here:
            binding = active.binding
            if binding.id is not None:
                actions = by_place.setdefault(active.node.HELP or "everywhere", {})
                actions.setdefault(binding.action, []).append(binding)
        own = {each.node.HELP for each in self._bindings_here if isinstance(each.node, Screen)}
        for place in sorted(by_place, key=lambda place: place not in own):
            actions = by_place[place]
            yield place, list(self._of_place(actions))
        yield "marks", [Entry(mark, write_keys(self, meaning)) for mark, meaning in MARKS]

    def _of_place(self, actions: dict[str, list[Binding]]) -> Iterator[Entry]:
        for subject, of in group_by_subject(list(actions.items())):
            if subject:
                yield Entry("", subject)
            yield from map(self._entry, of)

    def _entry(self, bindings: list[Binding]) -> Entry:
        keys = dict.fromkeys(map(self.app.get_key_display, bindings))
        return Entry("  ".join(keys), bindings[0].tooltip)

    async def action_find(self) -> None:
        await self.prompt.open()

    def action_leave(self) -> None:
        self.dismiss()


SUBJECTS: dict[str, frozenset[str]] = {
    "go": frozenset(
        "step candidate error found move column page first last turn tab pane look jump peer"
        " sibling mark marked return follow back leave cancel open open_row choose hunk"
        " divergence".split()
    ),
    "view": frozenset(
        "find filter failed sort view_menu keys zoom fold unfold fold_here unfold_here diff signs"
        " refresh origins everywhere".split()
    ),
    "other screens": frozenset(
        "failures matrix calibration money cost compare other here list settings command_palette"
        " help tour audit environments gate golden source".split()
    ),
    "tag": frozenset("tag undo repeat clear queue walk turn_blind pick accept fault note".split()),
    "experiment": frozenset(
        "edit replay bisect bisect_steps probes free try run run_chosen stop samples model stored"
        " change attach stub expect detector judge fact confirm stale forget from_here"
        " max_samples words summary take controls editor whole keep labels".split()
    ),
    "copy": frozenset("copy copy_part view".split()),
}
"""Actions by what they are about, in the order of the help."""

REST = "more"

FEW = 7
"""A place with no more than so many keys needs no headings."""

T = TypeVar("T")


def subject(action: str) -> str:
    """What an action, as a binding names it, is about."""
    name = action.partition("(")[0].rpartition(".")[2]
    return next((words for words, actions in SUBJECTS.items() if name in actions), REST)


def group_by_subject(actions: Sequence[tuple[str, T]]) -> list[tuple[str, list[T]]]:
    """What belongs to each action, under the heading of its subject; "" where few need none."""
    if len(actions) <= FEW:
        return [("", [each for _, each in actions])]
    found: dict[str, list[T]] = {words: [] for words in (*SUBJECTS, REST)}
    for action, each in actions:
        found[subject(action)].append(each)
    return [(words, of) for words, of in found.items() if of]
