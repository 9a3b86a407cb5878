"""What is wanted of the probes of a step, said in dialogs: by whom, how often, in which words.

Actions of the probe screen. Another wish is another estimate, so the probes are listed anew.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec import structs
from textual.message import Message
from textual.reactive import reactive

from arc_tui import format
from arc_tui.jobs.probe.plan import Wanted
from arc_tui.jobs.probe.probing import offered
from arc_tui.screens.base import ArcScreen
from arc_tui.screens.question import answered
from arc_tui.views.probing.stage import EMPTY, ProbeStage
from arc_tui.views.probing.view import ProbesView
from arc_tui.widgets.ask_box import AskBox, Option
from replay.errors import BadEdit
from replay.models.choose import DEMO

MOST_SAMPLES = 100


class Wishing(ArcScreen):
    """Turns answers to questions into what is wanted."""

    class Listed(Message):
        """The probes of the step were found."""

        def __init__(self, listed: ProbesView) -> None:
            super().__init__()
            self.listed = listed

    stage: reactive[ProbeStage] = reactive(EMPTY, repaint=False)

    def __init__(self, path: Path, wanted: Wanted) -> None:
        super().__init__(path)
        self.wanted = wanted

    def move(self, **changes: Any) -> None:
        """The stage with some of it changed."""
        self.stage = structs.replace(self.stage, **changes)

    def wish(self, **changes: Any) -> None:
        """Want something else, and see what it would ask."""
        self.wanted = wanted = structs.replace(self.wanted, **changes)
        self.move(wanted=wanted, at="loading", view=None, trouble=None)
        self.list_again()

    def list_again(self) -> None:
        """See what is wanted would ask now."""
        wanted = self.wanted
        self.ask(lambda store: offered(store, wanted), self.Listed, group="listed")

    def on_wishing_listed(self, event: Listed) -> None:
        """The first that fits is looked at, unless another one is."""
        first = next(iter((*event.listed.ready, *event.listed.offers)), None)
        chosen = self.stage.chosen or (first.name if first is not None else "")
        at = "ready" if self.stage.at == "loading" else self.stage.at
        self.move(at=at, listed=event.listed, chosen=chosen)

    def action_words(self) -> None:
        self.run_worker(self._words(), group="words", exclusive=True, exit_on_error=False)

    async def _words(self) -> None:
        title = "what would have been right?"
        words = "One sentence that the agent is told before it acts; it is all that changes."
        said = await answered(
            self.app, title, str, words, answer=self.wanted.constraint or self._constraint
        )
        if said is not None:
            self.move(chosen="constraint")
            self.wish(constraint=said)

    @property
    def _constraint(self) -> str:
        """What the probe would say by itself, to start from."""
        found = self.stage.offered("constraint")
        return format.one_line(found.text) if found is not None else ""

    def action_summary(self) -> None:
        self.wish(ask_summary=not self.wanted.ask_summary)

    def action_samples(self) -> None:
        self.run_worker(self._samples(), group="samples", exclusive=True, exit_on_error=False)

    async def _samples(self) -> None:
        words = f"{format.count(self.wanted.samples, 'sample')} now; of few none can be told"
        title, hint = "how many samples of each arm?", "a number, as 8"
        count = await answered(self.app, title, _count, words, hint=hint)
        if count is not None:
            self.wish(samples=count)

    def action_model(self) -> None:
        choices = [Option(DEMO, "rule-based, on this machine, free")]
        box = AskBox("which model?", hint="or another model's name", choices=choices)
        self.app.push_screen(box, lambda name: self.wish(model=name) if name else None)


def _count(said: str) -> int:
    """A number of samples. Raises BadEdit for anything else."""
    if said.isdecimal() and 1 <= int(said) <= MOST_SAMPLES:
        return int(said)
    raise BadEdit(f"{said!r} is no number from 1 to {MOST_SAMPLES}")
