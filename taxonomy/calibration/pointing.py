"""What does a name or a place point at? Traces by what others call them, steps by where they stand.

Sources count their own spans and messages; here such a place becomes the number of a step
(`replay.steps` decides which span belongs to which).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property

from msgspec import Struct

from replay.canon import run_id
from replay.steps import nodes_of, plan
from replay.store.rows import TraceRow
from replay.trace import ModelCall, Trace

LEAST_PREFIX = 6
"""Characters of an id before it is taken for one."""


class At(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A place in a run: exactly one of a span id, a message of the source, a step."""

    span: str | None = None
    message: int | None = None
    step: int | None = None

    def __str__(self) -> str:
        known = {"span": self.span, "message": self.message, "step": self.step}
        return " ".join(f"{name} {value}" for name, value in known.items() if value is not None)


class Places:
    """Where the source's own span ids and messages stand among the steps of a trace."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._of = plan(nodes_of(trace.spans)).of

    def step(self, at: At) -> int | None:
        """The step of a place, None where the trace has no such place or no step before it."""
        if at.step is not None:
            return at.step if 0 <= at.step < len(self._trace.steps) else None
        if at.span is not None:
            return self._spans.get(at.span)
        return None if at.message is None else self._of_message(at.message)

    @cached_property
    def _spans(self) -> Mapping[str, int | None]:
        """Each span's step by its id there and here; one that no step precedes is in the first
        step below it."""
        found: dict[str, int | None] = {}
        for span in self._trace.spans:
            step = self._of[span.id]
            step = self._first_below(span.id) if step is None else step
            for name in (span.place.span, span.id):
                if name is not None:
                    found.setdefault(name, step)
        return found

    def _first_below(self, above: str) -> int | None:
        parents = {span.id: span.parent for span in self._trace.spans}
        for step in self._trace.steps:
            node: str | None = step.ask.id
            seen: set[str] = set()
            while node is not None and node not in seen:
                if node == above:
                    return step.index
                seen.add(node)
                node = parents.get(node)
        return None

    def _of_message(self, message: int) -> int | None:
        """The step whose call or result the message is, else the nearest that begins before it."""
        exact = [span for span in self._trace.spans if span.place.message == message]
        exact.sort(key=lambda span: not isinstance(span, ModelCall))
        if exact and self._of[exact[0].id] is not None:
            return self._of[exact[0].id]
        begun = [
            (step.ask.place.message, step.index)
            for step in self._trace.steps
            if step.ask.place.message is not None and step.ask.place.message <= message
        ]
        return max(begun)[1] if begun else None


class Names:
    """Traces by what a label may call them."""

    def __init__(self, known: Sequence[TraceRow]) -> None:
        self._rows = known
        self._by_file: dict[str, list[TraceRow]] = defaultdict(list)
        for row in known:
            self._by_file[_slashed(row.path or "").rpartition("/")[2]].append(row)

    def find(self, name: str) -> list[TraceRow]:
        """By id or the beginning of one, by the end of the path, by the source's own id of the
        recording or else of the run."""
        if len(name) >= LEAST_PREFIX:
            found = [row for row in self._rows if row.trace.startswith(name)]
            if found:
                return found
        path, mark, item = name.rpartition("#")
        return (
            self._at(name, None)
            or (self._at(path, item) if mark else [])
            or [row for row in self._rows if row.source_id == name]
            or [row for row in self._rows if row.preferred and row.run == run_id(name, None)]
        )

    def _at(self, path: str, item: str | None) -> list[TraceRow]:
        wanted = _slashed(path).removeprefix("./")
        return [
            row
            for row in self._by_file.get(wanted.rpartition("/")[2], ())
            if ("/" + _slashed(row.path or "")).endswith("/" + wanted.lstrip("/"))
            and (item is None or item in {row.item, row.source_id})
        ]


def _slashed(path: str) -> str:
    return path.replace("\\", "/")
