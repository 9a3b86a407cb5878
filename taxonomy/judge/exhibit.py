"""What does a judge see of a run in each mode? Pieces of text, bounded, without the outcome.

`step`: the sub-goal and the step's own output. `window`: besides, what the step rests on (what was
just said to it, the results just before, where its values came from), what its calls returned,
and the next action. `run`: everything the run said and saw, in order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import NamedTuple

from msgspec import Struct

from replay import messages
from replay.trace import SourceScore, Trace
from taxonomy.evidence.provenance import Index, values
from taxonomy.evidence.reading import Act, Reading, Turn
from taxonomy.goals import Goal
from taxonomy.judge.blind import Blind
from taxonomy.judge.fence import named
from taxonomy.judge.sheet import LONGEST, Exhibit, Sheet

LONGEST_RUN = 400_000
"""Characters of a whole run that are shown at once: about a hundred thousand tokens."""

_SHORTEST = 250
_DERIVED = "Take the next useful step towards what was asked last:\n"


class SubGoal(Struct, frozen=True, kw_only=True):
    """What a step was for: a person's goals, or, `derived`, what the user had asked last."""

    text: str
    derived: bool


class Exhibits:
    """What may be shown of one trace."""

    def __init__(
        self, trace: Trace, goals: Sequence[Goal] = (), scores: Sequence[SourceScore] = ()
    ) -> None:
        self.reading = Reading(trace)
        self.goals = tuple(goals)
        self._trace = trace
        self._scores = scores
        self._index: Index | None = None
        self._asked = _asked(self.reading)

    def sub_goal(self, turn: Turn) -> SubGoal | None:
        """What a step was for; None where no goal covers it and no user had said anything."""
        covering = [goal.text for goal in self.goals if goal.covers(turn)]
        if covering:
            return SubGoal(text="\n".join(covering), derived=False)
        asked = self._asked.get(turn.index)
        return SubGoal(text=_DERIVED + asked, derived=True) if asked else None

    def of_step(self, turn: Turn, goal: SubGoal) -> Exhibit:
        """Mode `step`: the sub-goal and the output, nothing else."""
        sheet = self._sheet()
        sheet.harness("sub-goal", goal.text)
        sheet.output(turn)
        return sheet.exhibit()

    def of_window(self, turn: Turn, goal: SubGoal | None) -> Exhibit:
        """Mode `window`: the step, what it rests on, what came back, the next action."""
        sheet = self._sheet()
        if goal is not None:
            sheet.harness("sub-goal", goal.text)
        sheet.offers(turn)
        for heard in (*turn.heard, *turn.overheard):
            sheet.harness(f"seen before: {named(heard.role)} message", heard.text)
        around = self._around(turn)
        rests_on = {act.span.id: act for act in (around.before.acts if around.before else ())}
        for label, text in dict.fromkeys(self._origins(turn, rests_on)):
            sheet.harness(f"seen before: {label}", text)
        for act in rests_on.values():
            sheet.result(act, "seen before: ")
        for observer in around.shown_before:
            sheet.printed(observer, "seen before: ")
        sheet.output(turn)
        for act in turn.acts:
            sheet.result(act)
        for observer in around.shown_after:
            sheet.printed(observer)
        if around.after is not None:
            sheet.output(around.after, "next action: ")
        elif turn is self.reading.main[-1]:
            sheet.harness("next action", "(none: this is the run's last step)")
        else:
            sheet.harness("next action", "(none: nothing follows in this thread)")
        return sheet.exhibit()

    def of_run(self) -> Exhibit | None:
        """Mode `run`: all of it, texts cut as short as it needs; None where it stays too long."""
        longest = LONGEST
        while longest >= _SHORTEST:
            found = self._whole(longest)
            if sum(len(piece.text) for piece in found.pieces) <= LONGEST_RUN:
                return found
            longest //= 2
        return None

    def _whole(self, longest: int) -> Exhibit:
        sheet = self._sheet(longest)
        turns = self.reading.turns
        if self.goals:
            sheet.harness("goals", "\n".join(f"- {goal.text}" for goal in self.goals))
        systems: set[int] = set()
        for turn in turns:
            system = turn.ask.request.system
            if system is not None and id(system) not in systems:
                systems.add(id(system))
                sheet.harness(f"system prompt from step {turn.index}", messages.text(system))
            for heard in turn.heard:
                sheet.harness(f"before step {turn.index}: {named(heard.role)} message", heard.text)
            if turn.observer:
                sheet.printed(turn)
            else:
                sheet.output(turn)
            for act in turn.acts:
                sheet.result(act)
        return sheet.exhibit()

    def _sheet(self, longest: int = LONGEST) -> Sheet:
        return Sheet(Blind(self._trace, self._scores), longest)

    def _around(self, turn: Turn) -> _Around:
        thread = self.reading.threads[turn.thread]
        at = next(place for place, each in enumerate(thread) if each is turn)
        earlier = list(takewhile(_observes, reversed(thread[:at])))
        later = list(takewhile(_observes, thread[at + 1 :]))
        before, after = at - 1 - len(earlier), at + 1 + len(later)
        return _Around(
            before=thread[before] if before >= 0 else None,
            shown_before=tuple(reversed(earlier)),
            shown_after=tuple(later),
            after=thread[after] if after < len(thread) else None,
        )

    def _origins(self, turn: Turn, rests_on: dict[str, Act]) -> Iterator[tuple[str, str]]:
        """Where the values of its calls had stood. Calls join `rests_on`; prompts are excerpts."""
        if self._index is None:
            self._index = Index(self.reading)
        acts = {act.span.id: act for act in self.reading.acts}
        for value in values(self._index, turn):
            origin = value.origin
            if origin is None:
                continue
            act = acts.get(origin.span or "")
            if act is not None:
                rests_on.setdefault(act.span.id, act)
            else:
                yield f"{origin.place}, where {named(value.path)} stands", origin.text


class _Around(NamedTuple):
    """The steps before and after one in its thread, and what a terminal printed in between."""

    before: Turn | None
    shown_before: tuple[Turn, ...]
    shown_after: tuple[Turn, ...]
    after: Turn | None


def _observes(turn: Turn) -> bool:
    return turn.observer


def _asked(reading: Reading) -> dict[int, str]:
    """What the user had said last before each step, in its thread."""
    found: dict[int, str] = {}
    for turns in reading.threads.values():
        last = ""
        for turn in turns:
            last = next((h.text for h in reversed(turn.heard) if h.role == "user"), last)
            if last:
                found[turn.index] = last
    return found
