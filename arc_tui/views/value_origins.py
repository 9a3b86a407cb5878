"""Where did the values of a step's calls come from, and which goals does it serve?

Only the whole run can tell: it is read once and asked of step after step.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

from replay.store import read
from replay.store.handle import Store
from replay.trace import Json
from taxonomy.evidence.context_index import Index, Origin
from taxonomy.evidence.reading import Act, Reading, Turn, leaves
from taxonomy.evidence.value_origins import Value, to_ground, values
from taxonomy.goals import Goal, hindsight, newest


class RunOrigins:
    """A run, read to be asked what its steps rest on. Raises NotFound for the trace."""

    def __init__(self, store: Store, trace: str) -> None:
        loaded = read.load(store, trace)
        reading = Reading(loaded)
        self._turns = reading.turns
        self._index = Index(reading)
        self._goals = tuple(
            (seen, goal, hindsight(seen, loaded))
            for seen in newest(store)
            for goal in seen.goals.of(loaded.header)
        )

    def of_step(self, step: int) -> StepOrigins:
        """What a step rests on; nothing where there is no such step."""
        if not 0 <= step < len(self._turns):
            return StepOrigins(step=step)
        turn = self._turns[step]
        return StepOrigins(
            step=step,
            values=tuple(value_rows(self._index, turn)),
            goals=tuple(
                Served(
                    text=goal.text,
                    weight=goal.weight,
                    owner=goal.owner,
                    file=seen.name,
                    last=self._last(goal) == step,
                    hindsight=late,
                )
                for seen, goal, late in self._goals
                if goal.covers(turn)
            ),
        )

    def _last(self, goal: Goal) -> int | None:
        return max((turn.index for turn in self._turns if goal.covers(turn)), default=None)


def value_rows(index: Index, turn: Turn) -> Iterator[ValueRow]:
    """The values of a turn's calls, in their order; flags and nothings left out.

    What a program names and its own error misses follows the program as a value of its own.
    """
    grounded: dict[tuple[str, str], list[Value]] = {}
    for each in values(index, turn):
        grounded.setdefault((each.act.span.id, each.path), []).append(each)
    for act in turn.acts:
        wanting = {named.path for named in to_ground(act)}
        for path, value in leaves(act.span.arguments):
            if value is None or isinstance(value, bool):
                continue
            given = grounded.get((act.span.id, path), ())
            if any(each.value == value for each in given):
                yield from (_row(act, each.path, each.value, each.origin, "nowhere")
                            for each in given if each.value == value)  # fmt: skip
                continue
            unshown: Known = "unclear" if path in wanting and not given else "own"
            yield _row(act, path, value, index.origin(act.step, value), unshown)
            yield from (_row(act, path, each.value, each.origin, "nowhere") for each in given)


def _row(act: Act, path: str, value: Json, origin: Origin | None, unshown: Known) -> ValueRow:
    """`unshown` is what it means where there is no origin."""
    if origin is None:
        return ValueRow(tool=act.name, path=path, value=value, known=unshown)
    return ValueRow(
        tool=act.name,
        path=path,
        value=value,
        known="shown",
        place=origin.place,
        step=origin.step,
        how=origin.how,
        text=origin.text,
    )


Known = Literal["shown", "nowhere", "own", "unclear"]
"""A value was shown before its step; nothing had shown it; it is the model's own to choose; or it
should have been shown, in a run that is not known in full."""

NOWHERE = "not found in context"
_UNSHOWN = {"own": "chosen by the model", "unclear": "not found; the recording is incomplete"}


class ValueRow(Struct, frozen=True, kw_only=True):
    """A value of a call: the tool, the place in its arguments, and the first thing that held it.

    `place`, `text` and `how` say what held it, "" where nothing did; `step` where, None for a
    prompt and for what was said before the first step.
    """

    tool: str
    path: str
    value: Json
    known: Known
    place: str = ""
    step: int | None = None
    how: str = ""
    text: str = ""

    @property
    def where(self) -> str:
        """What is known of the origin in a few words."""
        if self.known != "shown":
            return _UNSHOWN.get(self.known, NOWHERE)
        step = f"step {self.step}, " if self.step is not None else ""
        perhaps = "possibly computed from " if self.how == "derived" else ""
        return f"{perhaps}{step}{self.place}"


class Served(Struct, frozen=True, kw_only=True):
    """A goal that covers a step. `last`: its last matching step, whose score is the goal's.

    `hindsight`: the goals were first seen after the run began, None where that is not known.
    """

    text: str
    weight: int
    owner: str | None
    file: str
    last: bool
    hindsight: bool | None


class StepOrigins(Struct, frozen=True, eq=False, kw_only=True):
    """The values of a step's calls, in their order, and the goals that cover it."""

    step: int
    values: tuple[ValueRow, ...] = ()
    goals: tuple[Served, ...] = ()
