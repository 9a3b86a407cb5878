"""Where did the values of a step's calls come from, and which goals does it serve?

A run is read once and asked of step after step.
"""

from __future__ import annotations

from collections.abc import Iterator

from arc_tui.views.trace.grounds import Grounds, Known, Served, ValueRow
from replay.store import Store, read
from replay.trace import Json
from taxonomy.evidence.identifiers import to_ground
from taxonomy.evidence.provenance import Index, Origin, Value, values
from taxonomy.evidence.reading import Act, Reading, Turn, leaves
from taxonomy.goals import Goal, hindsight, newest


class Ground:
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

    def under(self, step: int) -> Grounds:
        """What a step rests on; nothing where there is no such step."""
        if not 0 <= step < len(self._turns):
            return Grounds(step=step)
        turn = self._turns[step]
        return Grounds(
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
