"""What the search for a step goes by, chosen in dialogs: the oracle, the fix, the fact, the model.

Actions of the steps screen. Each ends in a wish; what asking for it would come to is seen to
there.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

from textual.message import Message

from arc_tui.experiments.request import MOST_SAMPLES
from arc_tui.features.bisect_steps.plan import BisectStepsRequest, OracleName
from arc_tui.features.bisect_steps.text import ORACLES
from arc_tui.ui import format
from arc_tui.ui.dialogs import AskBox, Option, answered
from arc_tui.ui.screen import ArcScreen
from replay.edit.changes import Edit, describe
from replay.errors import BadEdit
from replay.models.choose import DEMO
from replay.predicate import predicate
from replay.store.edits import KeptEdit, edit_named, listed

NAMES: tuple[OracleName, ...] = get_args(OracleName)

MADE = "made from what was found"
"""Answers the question for a fix where the user's own is not wanted."""

GOLD = "gold"

ENDS = (
    "Held against each run that goes on with the fix. Such a run comes to it or not; whether it"
    " would have passed is another question."
)
IS = "It is held against what the model says. STEP:PATH takes it from a result of the recording."


class StepsWishing(ArcScreen):
    """Turns answers to questions into a wish."""

    class EditsListed(Message):
        """The kept edits were read."""

        def __init__(self, kept: tuple[KeptEdit, ...]) -> None:
            super().__init__()
            self.kept = kept

    class FixFound(Message):
        """The edit that was named."""

        def __init__(self, fix: Edit) -> None:
            super().__init__()
            self.fix = fix

    def __init__(self, path: Path, trace: str) -> None:
        super().__init__(path)
        self.request = BisectStepsRequest(trace=trace)

    def wish(self, **changes: Any) -> None:
        """To want something else than was."""
        raise NotImplementedError

    # --- the oracle

    def action_oracle(self) -> None:
        choices = [Option(name, ORACLES.get(name, "")) for name in NAMES]
        self.app.push_screen(AskBox("who says so?", choices=choices), self._go_by)

    def action_turn(self, direction: int) -> None:
        at = (NAMES.index(self.request.oracle) + direction) % len(NAMES)
        self.wish(oracle=NAMES[at])

    def _go_by(self, name: str | None) -> None:
        if name is not None:
            self.wish(oracle=name)

    # --- the fix

    def action_choose(self) -> None:
        self.ask(lambda store: tuple(listed(store)), self.EditsListed, group="edits")

    def on_steps_wishing_edits_listed(self, event: EditsListed) -> None:
        own = Option(MADE, f"what {self.key_of('steps.validate')} tries by itself")
        made = [] if self.request.oracle == "savable" else [own]
        hint = "or a file: a system prompt (.md, .txt) or changes (.toml)"
        box = AskBox("which fix?", hint=hint, choices=[*made, *map(_option, event.kept)])
        self.app.push_screen(box, self._take)

    def _take(self, word: str | None) -> None:
        if word == MADE:
            self.wish(fix=None)
        elif word is not None:
            self.ask(lambda store: edit_named(store, word), self.FixFound, group="edits")

    def on_steps_wishing_fix_found(self, event: FixFound) -> None:
        self.wish(fix=event.fix)

    # --- what is asked, and how often

    def action_fact(self) -> None:
        self.run_worker(self._ask_fact(), group="question", exclusive=True, exit_on_error=False)

    async def _ask_fact(self) -> None:
        box = AskBox(
            "which fact?", hint="as total_cents of order_id 1047", answer=self.request.ask or ""
        )
        about = await self.app.push_screen_wait(box)
        if about is None:
            return
        hint = "as 8150, or 0:total_cents"
        box = AskBox("what is it really?", IS, hint=hint, answer=self.request.world or "")
        world = await self.app.push_screen_wait(box)
        if world is not None:
            self.wish(oracle="belief", ask=about, world=world)

    def action_expect(self) -> None:
        self.run_worker(self._ask_end(), group="question", exclusive=True, exit_on_error=False)

    async def _ask_end(self) -> None:
        said = await answered(
            self.app,
            "what does a saved run do?",
            _expectation,
            ENDS,
            hint="as tool=refund_order, args.amount=12900",
            answer=self.request.expect or "",
        )
        if said is not None:
            self.wish(oracle="savable", expect=said)

    def action_samples(self) -> None:
        self.run_worker(self._ask_samples(), group="question", exclusive=True, exit_on_error=False)

    async def _ask_samples(self) -> None:
        words = f"{format.count(self.request.samples, 'answer')} of each arm of a test now"
        title, hint = "how many samples?", "a number, as 8"
        samples = await answered(self.app, title, _samples, words, hint=hint)
        if samples is not None:
            self.wish(samples=samples)

    def action_stale(self) -> None:
        self.wish(allow_stale=not self.request.allow_stale)

    def action_model(self) -> None:
        choices = [Option(DEMO, "rule-based, on this machine, free")]
        box = AskBox("which model?", hint="or another model's name", choices=choices)
        self.app.push_screen(box, lambda name: self.wish(model=name) if name else None)

    def action_judge(self) -> None:
        choices = [Option(DEMO, "by rule, on this machine, free")]
        hint = "or a model's name, of another family than the agent's"
        box = AskBox("who judges?", hint=hint, choices=choices)
        self.app.push_screen(box, lambda name: self.wish(judge=name) if name else None)


def _expectation(said: str) -> str:
    """Raises BadPredicate."""
    return said if said == GOLD else predicate(said).text


def _samples(said: str) -> int:
    if said.isdecimal() and 1 <= int(said) <= MOST_SAMPLES:
        return int(said)
    raise BadEdit(f"{said!r} is no number from 1 to {MOST_SAMPLES}")


def _option(kept: KeptEdit) -> Option:
    """A kept edit by its digest, which no other has, shown by its name."""
    words = f"{'; '.join(map(describe, kept.changes))} · {kept.short}"
    return Option(kept.digest, format.one_line(words), format.cut(format.one_line(kept.name), 40))
