"""What a locked replay came to, as the value its digest is taken over.

Only what follows from the trace, the edit, the rules and the stored answers stands in it: no
clock, no id of a provider, no cost, no order of completion. Two runs over the same answers give
the same bytes on any machine. It proves which evidence was seen; it says nothing about a model.
"""

from __future__ import annotations

from msgspec import Struct

from replay import canon
from replay.action import Action
from replay.compare import VERSION, Kind, PathChange
from replay.convert import API
from replay.trace import Level

FORMAT = "arc-replay/1"


class CoreAnswer(Struct, frozen=True, kw_only=True):
    """One answer: the key it is stored under, what it does, how that differs from the recording."""

    key: str
    action: Action
    same: bool | None
    kinds: tuple[Kind, ...] = ()
    changes: tuple[PathChange, ...] = ()


class CoreRow(Struct, frozen=True, kw_only=True):
    """One step. `refused` says why it was not asked; both arms are then empty."""

    step: int
    thread: str
    fidelity: Level
    recorded: Action
    control: tuple[CoreAnswer, ...] = ()
    edited: tuple[CoreAnswer, ...] = ()
    losses: tuple[str, ...] = ()
    refused: str | None = None


class Core(Struct, frozen=True, kw_only=True):
    """A whole replay. `edit` is the digest of the edit, None for the control arm alone."""

    trace: str
    edit: str | None
    model: str
    rows: tuple[CoreRow, ...]
    format: str = FORMAT
    api: str = API
    rules: int = VERSION

    @property
    def digest(self) -> str:
        return canon.digest("replay", self.encoded())

    def encoded(self) -> bytes:
        """The canonical bytes."""
        return canon.encode(self)
