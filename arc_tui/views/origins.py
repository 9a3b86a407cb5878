"""Where the values of a step's calls came from: one row a value, found or found nowhere."""

from __future__ import annotations

from msgspec import Struct

from replay.store import Store, read
from replay.trace import Json
from taxonomy.evidence.provenance import Index, Origin
from taxonomy.evidence.reading import Reading, leaves


class ValueRow(Struct, frozen=True, kw_only=True):
    """A value of a call: the tool, the place in its arguments, and the first thing that held it.

    `origin` is None where no prompt, message or observation before the step did.
    """

    tool: str
    path: str
    value: Json
    origin: Origin | None


class OriginsView(Struct, frozen=True, eq=False, kw_only=True):
    """The values of one step, in the order of its calls."""

    trace: str
    step: int
    values: tuple[ValueRow, ...]


def build_origins(store: Store, trace: str, step: int) -> OriginsView:
    """The values of a step's calls with their origins. Raises NotFound for the trace."""
    loaded = read.load(store, trace)
    index = Index(Reading(loaded))
    acts = loaded.steps[step].acts if step < len(loaded.steps) else ()
    return OriginsView(
        trace=trace,
        step=step,
        values=tuple(
            ValueRow(tool=act.name, path=path, value=value, origin=index.origin(step, value))
            for act in acts
            for path, value in leaves(act.arguments)
            if value is not None and not isinstance(value, bool)
        ),
    )
