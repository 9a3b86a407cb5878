"""What a step rests on that only the whole run can tell, as it is shown.

Its values with their origins, and the goals it serves; `origins` finds them.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from replay.trace import Json

Known = Literal["shown", "nowhere", "own", "unclear"]
"""A value was shown before its step; nothing had shown it; it is the model's own to choose; or it
should have been shown, in a run that is not known in full."""

NOWHERE = "no message or observation contains it"
_UNSHOWN = {"own": "the model's own to choose", "unclear": "not found in what is known of the run"}


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
        perhaps = "perhaps worked out of " if self.how == "derived" else ""
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


class Grounds(Struct, frozen=True, eq=False, kw_only=True):
    """The values of a step's calls, in their order, and the goals that cover it."""

    step: int
    values: tuple[ValueRow, ...] = ()
    goals: tuple[Served, ...] = ()
