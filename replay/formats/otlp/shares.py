"""A large file read by several processes, each of which puts together a share of its traces.

All lines are searched for the traces they name, each part of the file by another process, which
costs a fiftieth of reading them. That says which traces are in which share: as many bytes of traces
that end one after the other. Whoever takes a share reads the lines from the first that names one of
its traces to the last. A line whose problems and counts are told by one share alone is told by the
one that it ends.

Only a file whose lines are exports of spans is shared, and where the search finds every trace: any
other is read as a whole.
"""

from __future__ import annotations

import re
import sys
from collections import deque
from collections.abc import Iterator, Sequence
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


class Named(NamedTuple):
    """Where lines name a trace: the byte and the number of lines before the first, the number of
    the last and the byte after it. `weight` is about how many bytes say something of it."""

    at: int
    after: int
    last: int
    past: int
    weight: int


class Found(NamedTuple):
    """The traces that a part of a file names, in the order of their first lines, which are counted
    from its own first one; and how many lines it has."""

    traces: dict[str, Named]
    lines: int


class Share(NamedTuple):
    """The lines of a share: from a byte, which stands after so many lines, to the line `last`. It
    tells of those that follow the line `told`. `own` are its traces and their last lines, in the
    order of these."""

    at: int
    after: int
    told: int
    last: int
    own: tuple[tuple[str, int], ...]

    def read(self, source: Source, size: int, tally: Tally) -> Iterator[Batch]:
        """Its traces out of the first `size` bytes, those of one call that may belong to another
        among them."""
        own = deque(self.own)
        names = frozenset(name for name, _ in own)
        untold = Tally()
        held = Held()
        try:
            for number, _, line in _lines(source, self.at, size, self.after):
                if number > self.last:
                    return
                if line.isspace():
                    continue
                tally.place = 2 * number
                _hold(line, source, number, names, held, tally if number > self.told else untold)
                tally.place += 1
                while own and own[0][1] <= number:
                    name, _ = own.popleft()
                    batch = batch_of(name, *held.take(name), source.display, tally)
                    if batch is not None:
                        yield batch
        finally:
            held.close()


def count(source: Source, size: int) -> int:
    """Into how many shares the file is worth to be cut, 1 where it is not."""
    if size < 2 * SHARE_BYTES or source.alone is None or source.head.file is None:
        return 1
    return size // SHARE_BYTES if by_line(source) and not logs_of(source.path) else 1


def search(source: Source, size: int, part: int, of: int) -> Found | None:
    """The traces in one of so many parts of the first `size` bytes of a file, None where it cannot
    be shared. A line is of the part that it begins in."""
    at, end = (size * each // of for each in (part, part + 1))
    if at:
        with source.open() as stream:
            stream.seek(at - 1)
            at += len(stream.readline(MAX_LINE_BYTES + 2)) - 1
    found = dict[str, Named]()
    lines = 0
    for number, begin, line in _lines(source, at, size):
        if begin >= end:
            break
        lines = number
        if len(line) > MAX_LINE_BYTES or _LOGS in line or _ESCAPED_LETTER.search(line):
            return None
        for trace, weight in mentions(line):
            if trace is None:
                return None
            here = Named(begin, number - 1, number, begin + len(line), weight)
            found[trace] = _both(found[trace], here) if trace in found else here
    return Found(found, lines)


def _both(one: Named, later: Named) -> Named:
    return Named(one.at, one.after, later.last, later.past, one.weight + later.weight)


def cut(parts: Sequence[Found | None], size: int, many: int) -> list[Share]:
    """A file in so many shares by what was found in its parts; none where it cannot be shared, or
    where too many lines would be in several."""
    found = dict[str, Named]()
    before = 0
    for part in parts:
        if part is None:
            return []
        for trace, own in part.traces.items():
            here = own._replace(after=own.after + before, last=own.last + before)
            found[trace] = _both(found[trace], here) if trace in found else here
        before += part.lines
    dealt, total = 0, sum(each.weight for each in found.values())
    groups: list[list[str]] = [[] for _ in range(many)]
    for trace, _ in reversed(in_order({trace: each.last for trace, each in found.items()})):
        groups[dealt * len(groups) // total].append(trace)
        dealt += found[trace].weight
    shares: list[Share] = []
    read = told = past = 0
    for traces in groups if found else ():
        at, after = min([(past, told), *(found[trace][:2] for trace in traces)])
        since = told
        if traces:
            told, past = found[traces[-1]].last, found[traces[-1]].past
        if traces is groups[-1]:
            told, past = sys.maxsize, size
        lasts = tuple((trace, found[trace].last) for trace in traces)
        shares.append(Share(at, after, since, told, lasts))
        read += past - at
    return shares if read <= _MOST_READ * size else []


def _hold(
    line: bytes, source: Source, number: int, names: frozenset[str], held: Held, tally: Tally
) -> None:
    """What a line says of these traces."""
    try:
        for records, _, size in of_line(line, source, number, tally):
            for record in records:
                trace = trace_of(record)
                if trace is None:
                    tally.counts["records_of_no_trace"] += 1
                elif trace in names:
                    held.add(trace, record, size // len(records))
    except BadTrace as error:
        tally.problem(error.where, error.why)


def _lines(source: Source, at: int, size: int, after: int = 0) -> Iterator[tuple[int, int, bytes]]:
    """(number, byte, bytes) of each line from a byte on, which stands after so many lines, up to
    the size."""
    with source.open() as stream:
        stream.seek(at)
        while at < size:
            line = stream.readline(min(MAX_LINE_BYTES + 1, size - at))
            if not line:
                return
            after += 1
            yield after, at, line
            at += len(line)
