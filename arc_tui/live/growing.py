"""Which traces are under way, what is known of each, and when is one over?

Spans come children first and in pieces, and what a span means may depend on one that comes later,
so the records of a trace are kept until it is over, and it is put together from all of them each
time some arrive. A trace is over when its root has ended and nothing of it was heard for a while,
when nothing was heard for long, or when too much is held and it has been silent the longest. A
record that comes after that begins it anew: what was written of it stays.

Times are seconds of a clock that the caller reads.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from msgspec import Struct

from replay.formats import otlp
from replay.formats.otlp.held import Record
from replay.formats.otlp.records import Log, Raw

QUIET_S = 30.0
"""Exporters hand spans on every few seconds; what comes later than this after the root is late."""

SILENT_S = 15 * 60.0
"""After this long without a root the agent is taken to have died, or its root to be elsewhere."""

BUDGET_BYTES = 256 * 1024 * 1024


class Piece(Struct, array_like=True):
    """The records of one trace in one export."""

    spans: list[Raw]
    logs: list[Log]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Piece).decode


class Growing(Struct, eq=False):
    """A trace under way. `pieces` are encoded: putting a trace together may change its records."""

    name: str
    heard_s: float
    pieces: list[bytes] = []
    size: int = 0
    rooted: bool = False
    waiting: bool = False
    """Something arrived since it was last handed out."""

    def is_over(self, now_s: float) -> bool:
        return now_s - self.heard_s >= (QUIET_S if self.rooted else SILENT_S)


class Grown(Struct, frozen=True, eq=False):
    """All that is known of a trace at a moment; `over`: no more of it is expected."""

    name: str
    pieces: tuple[bytes, ...]
    over: bool = False

    def records(self) -> tuple[list[Raw], list[Log]]:
        """Its spans and log records, made anew for every caller."""
        spans: list[Raw] = []
        logs: list[Log] = []
        for piece in map(_decode, self.pieces):
            spans += piece.spans
            logs += piece.logs
        return spans, logs


class Traces:
    """The traces under way, by name."""

    def __init__(self, budget_bytes: int = BUDGET_BYTES) -> None:
        self._budget = budget_bytes
        self._found: dict[str, Growing] = {}

    def add(self, records: Iterable[Record], now_s: float) -> None:
        """Keep what an export holds; a record that belongs to no trace is left out."""
        pieces: dict[str, Piece] = {}
        for record in records:
            name = otlp.trace_of(record)
            if name is None:
                continue
            piece = pieces.setdefault(name, Piece([], []))
            if isinstance(record, Raw):
                piece.spans.append(record)
            else:
                piece.logs.append(record)
        for name, piece in pieces.items():
            self._keep(name, piece, now_s)

    def _keep(self, name: str, piece: Piece, now_s: float) -> None:
        growing = self._found.get(name)
        if growing is None:
            growing = self._found[name] = Growing(name, now_s)
        data = _encode(piece)
        growing.pieces.append(data)
        growing.size += len(data)
        growing.heard_s = now_s
        growing.rooted = growing.rooted or any(_is_root(span) for span in piece.spans)
        growing.waiting = True

    def arrived(self) -> list[Grown]:
        """The traces of which something arrived since this was last asked."""
        found = [each for each in self._found.values() if each.waiting]
        for each in found:
            each.waiting = False
        return [Grown(each.name, tuple(each.pieces)) for each in found]

    def take_back(self, found: Iterable[Grown], now_s: float) -> None:
        """What was handed out and could not be written is handed out again."""
        for each in found:
            growing = self._found.get(each.name)
            if growing is None:  # it is over: it was let go, and nothing of it was heard since
                size = sum(map(len, each.pieces))
                growing = Growing(each.name, now_s, list(each.pieces), size, rooted=each.over)
                self._found[each.name] = growing
            growing.waiting = True

    def over(self, now_s: float) -> list[Grown]:
        """The traces that are over, which are then no longer held."""
        ended = [each for each in self._found.values() if each.is_over(now_s)]
        held = sum(each.size for each in self._found.values()) - sum(each.size for each in ended)
        for each in sorted(self._found.values(), key=lambda growing: growing.heard_s):
            if held <= self._budget:
                break
            if each not in ended:
                ended.append(each)
                held -= each.size
        return self._let_go(ended)

    def all_over(self) -> list[Grown]:
        """Every trace that is held, at the end of listening."""
        return self._let_go(list(self._found.values()))

    def _let_go(self, ended: list[Growing]) -> list[Grown]:
        for each in ended:
            del self._found[each.name]
        return [Grown(each.name, tuple(each.pieces), over=True) for each in ended]


def _is_root(span: Raw) -> bool:
    """A span is exported when it ends, so that one without a parent says that the trace has."""
    return span.parent is None and span.end_ns is not None
