"""What a locked replay came to, as the value its digest is taken over.

Only what follows from the trace, the edit, the rules, the samples and the stored answers stands in
it: no clock, no id of a provider, no cost, no order of completion, no schedule. Two runs over the
same answers give the same bytes on any machine. It proves which evidence was seen; it says nothing
about a model.
"""

from __future__ import annotations

from collections.abc import Collection

from msgspec import Struct

from replay import convert, digests
from replay.action import Action
from replay.compare import actions
from replay.compare.actions import DifferenceKind, PathChange
from replay.compare.rules import PathRule, Rules
from replay.convert import API
from replay.edit.changes import Edit
from replay.locked.row import Models, Sampling
from replay.locked.tally import Reply, StepResult
from replay.trace import Level, Trace

FORMAT = "arc-replay/2"


class CoreAnswer(Struct, frozen=True, kw_only=True):
    """One answer: the key it is stored under, what it does, how that differs from the recording."""

    key: str
    action: Action
    same: bool | None
    kinds: tuple[DifferenceKind, ...] = ()
    changes: tuple[PathChange, ...] = ()


class CoreRow(Struct, frozen=True, kw_only=True):
    """One step. `refused` says why it was not asked, `edited_refused` why only the edit was not."""

    step: int
    thread: str
    fidelity: Level
    recorded: Action
    control: tuple[CoreAnswer, ...] = ()
    edited: tuple[CoreAnswer, ...] = ()
    losses: tuple[str, ...] = ()
    refused: str | None = None
    edited_refused: str | None = None


class Core(Struct, frozen=True, kw_only=True):
    """A whole replay, and all that is needed to run it again.

    `edit` is the digest of the edit, None for the control arm alone; a `server` is "" for the
    official API and for models of this machine; `steps` None stands for all of them. How many
    samples a step got stands in its row: what decided that is no part of the evidence.
    """

    trace: str
    edit: str | None
    model: str
    rows: tuple[CoreRow, ...]
    edited_model: str | None = None
    server: str = ""
    edited_server: str = ""
    levels: tuple[int, ...] = (1,)
    range: int = 0
    steps: tuple[int, ...] | None = None
    paths: tuple[PathRule, ...] = ()
    format: str = FORMAT
    api: str = API
    convert: int = convert.VERSION
    rules: int = actions.VERSION

    @property
    def digest(self) -> str:
        return digests.digest("replay", self.encoded())

    def encoded(self) -> bytes:
        """The canonical bytes."""
        return digests.encode(self)


def core(
    trace: Trace,
    edit: Edit | None,
    models: Models,
    results: Collection[StepResult],
    *,
    sampling: Sampling,
    steps: Collection[int] | None,
    rules: Rules,
) -> Core:
    """What the replay came to, in the order of its steps."""
    other = models.edited.name
    return Core(
        trace=trace.id,
        edit=edit.digest if edit is not None else None,
        model=models.control.name,
        edited_model=other if other != models.control.name else None,
        server=models.control.server,
        edited_server=models.edited.server,
        levels=sampling.levels,
        range=sampling.range,
        steps=None if steps is None else tuple(sorted(steps)),
        paths=rules.paths,
        rows=tuple(_row(row) for row in sorted(results, key=lambda row: row.step)),
    )


def _row(row: StepResult) -> CoreRow:
    return CoreRow(
        step=row.step,
        thread=row.thread,
        fidelity=row.fidelity.level,
        recorded=row.recorded,
        control=tuple(map(_answer, row.control)),
        edited=tuple(map(_answer, row.edited)),
        losses=row.losses,
        refused=row.refused,
        edited_refused=row.edited_refused,
    )


def _answer(reply: Reply) -> CoreAnswer:
    return CoreAnswer(
        key=reply.key,
        action=reply.action,
        same=reply.against.same,
        kinds=reply.against.kinds,
        changes=reply.against.changes,
    )
