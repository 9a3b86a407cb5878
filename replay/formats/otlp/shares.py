"""A large file read by several processes, each of which puts together a share of its traces.

Whoever takes a share searches all lines for the traces they name, which costs a fiftieth of reading
them, and so knows which traces are in which share: as many bytes of traces that end one after the
other. He reads the lines from the first that names one of his own to the last. A line whose
problems and counts are told by one share alone is told by the one that it ends.

Only a file whose lines are exports of spans is shared, and where the search finds every trace: any
other is read as a whole, by whoever takes the first share.
"""

from __future__ import annotations

import re
import sys
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from replay.errors import BadTrace
from replay.formats.genai.records import Held
from replay.formats.otlp import batch_of, trace_of
from replay.formats.otlp.exports import by_line, in_order, logs_of, mentions, of_line
from replay.formats.source import MAX_LINE_BYTES, Source, Tally
from replay.trace import Batch

SHARE_BYTES = 8 * 1024 * 1024
"""The size of a share, about: a few for each of two processes in a file that is worth it, and not
so many that most traces lie on a border."""

_MOST_READ = 2
"""A file whose shares would have more lines to read than so many times its own is not shared: its
traces run beside each other all along."""

_LOGS = b'"resourceLogs"'
_ESCAPED_LETTER = re.compile(rb"\\u00[4-7]")
"""What keeps a file whole: log records, which may belong to no trace, and letters that are written
as escapes, for a field could be named so."""


class Range(NamedTuple):
    """The lines of a share: from a byte, which stands after so many lines, to the line `last`. It
    tells of those that follow the line `told`."""

    at: int
    after: int
    told: int
    last: int


class Shares:
    """The first `size` bytes of a file in so many shares; `whole` says that it cannot be shared."""

    def __init__(self, source: Source, size: int, many: int) -> None:
        self._source, self._size = source, size
        self._first: dict[str, tuple[int, int]] = {}
        """Where the first line begins that names a trace: at which byte, after how many lines."""
        self._last: dict[str, int] = {}
        self._past: dict[str, int] = {}
        """The byte after the last line that names it."""
        self._weights: dict[str, int] = {}
        self._own: list[list[str]] = [[] for _ in range(many)]
        """The traces of each share, in the order of their ends."""
        self._ranges: list[Range] = []
        self.whole = not self._search() or not self._deal()

    @classmethod
    def count(cls, source: Source, size: int) -> int:
        """Into how many shares the file is worth to be cut, 1 where it is not."""
        if size < 2 * SHARE_BYTES or source.alone is None or source.head.file is None:
            return 1
        return size // SHARE_BYTES if by_line(source) and not logs_of(source.path) else 1

    def read(self, share: int, tally: Tally) -> Iterator[Batch]:
        """The traces of one of them, those of one call that may belong to another among them."""
        lines = self._ranges[share]
        own = deque(self._own[share])
        names = frozenset(own)
        untold = Tally()
        held = Held()
        try:
            for number, _, line in self._lines(lines.at, lines.after):
                if number > lines.last:
                    return
                tally.place = 2 * number
                self._hold(line, number, names, held, tally if number > lines.told else untold)
                tally.place += 1
                while own and self._last[own[0]] <= number:
                    name = own.popleft()
                    batch = batch_of(name, *held.take(name), self._source.display, tally)
                    if batch is not None:
                        yield batch
        finally:
            held.close()

    def _hold(
        self, line: bytes, number: int, names: frozenset[str], held: Held, tally: Tally
    ) -> None:
        """What a line says of these traces."""
        try:
            for records, _, size in of_line(line, self._source, number, tally):
                for record in records:
                    trace = trace_of(record)
                    if trace is None:
                        tally.counts["records_of_no_trace"] += 1
                    elif trace in names:
                        held.add(trace, record, size // len(records))
        except BadTrace as error:
            tally.problem(error.where, error.why)

    def _lines(self, at: int = 0, after: int = 0) -> Iterator[tuple[int, int, bytes]]:
        """(number from 1, byte, bytes) of each line that is not blank, up to the size."""
        with self._source.open() as stream:
            stream.seek(at)
            while at < self._size:
                line = stream.readline(min(MAX_LINE_BYTES + 1, self._size - at))
                if not line:
                    return
                after += 1
                if not line.isspace():
                    yield after, at, line
                at += len(line)

    def _search(self) -> bool:
        """Find the traces of all lines; were they found for sure?"""
        for number, at, line in self._lines():
            if len(line) > MAX_LINE_BYTES or _LOGS in line or _ESCAPED_LETTER.search(line):
                return False
            for trace, weight in mentions(line):
                if trace is None:
                    return False
                self._first.setdefault(trace, (at, number - 1))
                self._last[trace], self._past[trace] = number, at + len(line)
                self._weights[trace] = self._weights.get(trace, 0) + weight
        return bool(self._last)

    def _deal(self) -> bool:
        """Say which traces and which lines are in which share; are few lines in several?"""
        total, dealt = sum(self._weights.values()), 0
        for trace, _ in reversed(in_order(self._last)):
            self._own[dealt * len(self._own) // total].append(trace)
            dealt += self._weights[trace]
        read = told = past = 0
        for traces in self._own:
            at, after = min([(past, told), *(self._first[trace] for trace in traces)])
            before = told
            if traces:
                told, past = self._last[traces[-1]], self._past[traces[-1]]
            if traces is self._own[-1]:
                told, past = sys.maxsize, self._size
            self._ranges.append(Range(at, after, before, told))
            read += past - at
        return read <= _MOST_READ * self._size
