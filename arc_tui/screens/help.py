"""What the keys do here: made from the live bindings, so it cannot say anything else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import ActiveBinding, Binding
from textual.containers import Vertical
from textual.screen import ModalScreen

from arc_tui.widgets.rows import TextRows

MARKS = (
    ("✗  ✓  ·", "a run that failed, passed, or whose outcome is not known"),
    ("✓!", "passed, but something went wrong on the way"),
    ("◆", "a step that may be where the run broke"),
    ("┃", "a step where samples show that the arms differ, beyond chance"),
    ("╎", "a step after the edited agent left the road: it would not have been here"),
    ("×3", "three steps in a row that made the same call; space unfolds them"),
    ("█  ▒", "tagged by a person, suggested by a rule"),
    ("–", "not known; never guessed, never counted as zero"),
)


class HelpScreen(ModalScreen[None]):
    """The keys of the screen below, by where they work, and what the marks mean."""

    HELP = "help"

    BINDINGS = [
        Binding("escape,question_mark,q,f1", "leave", "close", id="help.leave",
                tooltip="Back to where you were"),
    ]  # fmt: skip

    def __init__(self, bindings: Iterable[ActiveBinding]) -> None:
        super().__init__()
        self._bindings_here = tuple(bindings)

    def compose(self) -> ComposeResult:
        with Vertical(id="help"):
            yield TextRows()

    def on_mount(self) -> None:
        self.query_one("#help").border_title = "keys here"
        self.query_one(TextRows).lines = tuple(self._lines())

    def _lines(self) -> Iterator[Text]:
        by_place: dict[str, dict[str, list[Binding]]] = {}
        for active in self._bindings_here:
            binding = active.binding
            if binding.id is not None:
                actions = by_place.setdefault(active.node.HELP or "everywhere", {})
                actions.setdefault(binding.action, []).append(binding)
        for place, actions in by_place.items():
            yield Text(place, "bold")
            for bindings in actions.values():
                yield self._line(bindings)
            yield Text()
        yield Text("marks", "bold")
        for mark, meaning in MARKS:
            yield Text(f"  {mark:<16}{meaning}")

    def _line(self, bindings: list[Binding]) -> Text:
        by_length = sorted(bindings, key=lambda binding: len(binding.key))
        keys = "  ".join(map(self.app.get_key_display, by_length))
        return Text.assemble((f"  {keys:<16}", "bold"), bindings[0].tooltip)

    def action_leave(self) -> None:
        self.dismiss()
