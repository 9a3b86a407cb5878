"""An export into a database: what is not there is added, what is there stays as it is.

The whole file is looked through before anything is written, and written in one transaction. A row
whose recording is not in the database is kept all the same: it counts as soon as that is imported.
"""

from __future__ import annotations

import functools
import operator
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct

from replay.care.export import ROWS, VERSION, End, Head, Key, Line, Recording, Row, Run, decoded
from replay.errors import ArcError, BadTrace
from replay.formats import arc
from replay.formats.source import BytesSource, Source, Tally
from replay.store.handle import Store
from replay.store.write import Writer


class BadExport(ArcError):
    """A file that is no export, or not all of one; the message names the line."""


Came: TypeAlias = Literal["added", "same", "left"]


class Merged(Struct, frozen=True, kw_only=True):
    """What became of an export, how many records of each kind.

    `added` are new; `same` were there already; `left` out, because the database says otherwise.
    `waiting` are those of `added` and `same` whose recording is not there, `missing` names those
    recordings; `changed` names those that are there with other content. `other_key`: the masked
    recordings of the export were masked with another key than this database masks with.
    """

    added: dict[str, int]
    same: dict[str, int]
    left: dict[str, int]
    waiting: dict[str, int]
    missing: tuple[str, ...]
    changed: tuple[str, ...]
    other_key: bool

    @property
    def complete(self) -> bool:
        """Is all of it in the database, and found there by what it refers to?"""
        return not self.left and not self.other_key


def merge(store: Store, source: Source, rows: Sequence[type[Row]] = ()) -> Merged:
    """Put an export into a database; `rows` are the kinds beside the engine's own.

    Raises BadExport where the file is none, is cut off or holds what no export does, and then
    nothing is written; BadTrace where it cannot be read.
    """
    lines = _Lines(source, (*ROWS, *rows))
    check = _Check(source.display)
    for number, line in lines:
        check.line(number, line)
    check.end()
    differs = check.key is not None and _take_key(store, check.key) != check.key
    into = _Into(store, source.display, Writer(store) if check.recordings else None)
    with store.writing():
        for _, line in lines:
            into.put(line)
        into.finish_recording()
    return into.merged(differs=differs)


def _take_key(store: Store, key: str) -> str:
    """The key that secrets are masked with in a database: this one, unless it has one already."""
    with store.writing() as db:
        db.execute("INSERT OR IGNORE INTO setting (name, value) VALUES ('redact_key', ?)", (key,))
        found = db.execute("SELECT value FROM setting WHERE name = 'redact_key'").fetchone()
    return str(found[0])


class _Lines:
    """The lines of an export, with their numbers."""

    def __init__(self, source: Source, rows: Sequence[type[Row]]) -> None:
        self._source = source
        known: Any = functools.reduce(operator.or_, (Head, Key, Run, Recording, End, *rows))
        self._decoder: msgspec.json.Decoder[Line] = msgspec.json.Decoder(known)

    def __iter__(self) -> Iterator[tuple[int, Line]]:
        for number, data in self._source.lines():
            try:
                yield number, decoded(self._decoder, data)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                raise self._bad(number, data, str(error)) from error
            except BadTrace as error:
                raise self._bad(number, data, error.why) from error

    def _bad(self, number: int, data: bytes, why: str) -> BadExport:
        if number == 1 and Head.kind().encode() not in data:
            return _no_export(self._source.display)
        return _bad(self._source.display, number, why)


def _no_export(display: str) -> BadExport:
    return BadExport(f"{display}: not an arc export", "Try: arc db export FILE, to write one")


def _bad(display: str, number: int, why: str) -> BadExport:
    return BadExport(f"{display}: line {number}: {why}", "Nothing was imported")


class _Check:
    """Is an export whole, and is each of its lines what it should be?"""

    def __init__(self, display: str) -> None:
        self._display = display
        self._records: Counter[str] = Counter()
        self._digests: set[str] = set()
        self._last = 0
        self._ended = False
        self.key: str | None = None
        self.recordings = False

    def line(self, number: int, line: Line) -> None:
        """Raises BadExport where the line is wrong."""
        if isinstance(line, Head) != (self._last == 0):
            raise _no_export(self._display)
        why = self._wrong(line)
        if why is not None:
            raise _bad(self._display, number, why)
        self._last = number
        self._records[line.kind()] += 1
        self.key = line.value if isinstance(line, Key) else self.key
        self.recordings = self.recordings or isinstance(line, Recording)

    def end(self) -> None:
        """Raises BadExport where there is no last line."""
        if not self._last:
            raise _no_export(self._display)
        if not self._ended:
            raise _bad(self._display, self._last, "truncated: no end marker")

    def _wrong(self, line: Line) -> str | None:
        if self._ended:
            return "follows the end marker"
        if isinstance(line, Head) and line.version != VERSION:
            return (
                f"export version {line.version} is not supported: this arc reads version {VERSION}"
            )
        if isinstance(line, End):
            self._ended = True
            return self._miscounted(line)
        return self._wrong_row(line) if isinstance(line, Row) else None

    def _miscounted(self, end: End) -> str | None:
        found = {kind: many for kind, many in self._records.items() if kind != Head.kind()}
        for kind in sorted(found.keys() | end.records.keys()):
            known, counted = found.get(kind, 0), end.records.get(kind, 0)
            if known != counted:
                return f"end marker counts {counted} of {kind}, file has {known}"
        return None

    def _wrong_row(self, row: Row) -> str | None:
        try:
            wrong = row.wrong()
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            wrong = str(error)
        if wrong is not None:
            return f"{row.kind()}: {wrong}"
        values = row.values()
        self._digests.add(values.get("digest", ""))
        named = values.get(row.REFERS or "")
        if named is not None and named not in self._digests:
            return f"{row.kind()}: its {row.REFERS} is missing before it"
        return None


class _Into:
    """A database that an export goes into, within one transaction."""

    def __init__(self, store: Store, display: str, writer: Writer | None) -> None:
        self._db, self._display, self._writer = store.db, display, writer
        self._runs: dict[str, Run] = {}
        self._lines: list[Recording] = []
        self._places: dict[str, str | None] = {}
        self._came: defaultdict[Came, Counter[str]] = defaultdict(Counter)
        self._waiting: Counter[str] = Counter()
        self._changed: set[str] = set()

    def put(self, line: Line) -> None:
        if isinstance(line, Recording):
            if self._lines and self._lines[0].trace != line.trace:
                self.finish_recording()
            self._lines.append(line)
            return
        self.finish_recording()
        if isinstance(line, Run):
            self._runs[line.trace] = line
        elif isinstance(line, Row):
            self._put_row(line)

    def merged(self, *, differs: bool) -> Merged:
        return Merged(
            added=dict(self._came["added"]),
            same=dict(self._came["same"]),
            left=dict(self._came["left"]),
            waiting=dict(self._waiting),
            missing=tuple(sorted(key for key, place in self._places.items() if place is None)),
            changed=tuple(sorted(self._changed)),
            other_key=differs and any(run.masked for run in self._runs.values()),
        )

    # --- recordings

    def finish_recording(self) -> None:
        """Write the recording whose lines were put, unless it is there."""
        if not self._lines or self._writer is None:
            return
        trace, lines = self._lines[0].trace, self._lines
        self._lines = []
        source = BytesSource(
            b"\n".join(bytes(each.line) for each in lines), f"{self._display}: run {trace}"
        )
        run = self._runs.get(trace)
        if run is None:
            raise BadExport(f"{source.display}: unknown record", "Nothing was imported")
        here = self._content(trace)
        if here is not None:
            self._came["same" if here == run.content else "left"][Recording.kind()] += 1
            return
        for batch in arc.read(source, Tally()):
            self._writer.restore(batch, trace, run.run, run.imported_ns)
            self._came["added"][Recording.kind()] += 1

    def _content(self, trace: str) -> str | None:
        found = self._db.execute(
            "SELECT content FROM trace WHERE key = ? AND complete", (trace,)
        ).fetchone()
        return None if found is None else str(found[0])

    # --- rows

    def _put_row(self, row: Row) -> None:
        values = row.values()
        waits = False
        if row.RUN is not None:
            trace = values[row.RUN]
            place = self._place(trace)
            waits = place is None or (place != trace and not row.MOVES)
            values[row.RUN] = trace if waits else place
        came = self._insert(row, values)
        self._came[came][row.kind()] += 1
        if waits and came != "left":
            self._waiting[row.kind()] += 1

    def _place(self, trace: str) -> str | None:
        """The recording of that name, else the one that has its content; None for neither."""
        if trace not in self._places:
            here, run = self._content(trace), self._runs.get(trace)
            if here is None:
                self._places[trace] = self._twin(run.content) if run is not None else None
            else:
                self._places[trace] = trace
                if run is not None and run.content != here:
                    self._changed.add(trace)
        return self._places[trace]

    def _twin(self, content: str) -> str | None:
        found = self._db.execute(
            "SELECT key FROM trace WHERE content = ? AND complete LIMIT 2", (content,)
        ).fetchall()
        return str(found[0][0]) if len(found) == 1 else None

    def _insert(self, row: Row, values: dict[str, Any]) -> Came:
        names = ", ".join(f'"{name}"' for name in values)
        same = " AND ".join(f'"{name}" = :{name}' for name in row.SAME)
        found = self._db.execute(f"SELECT {names} FROM {row.TABLE} WHERE {same}", values).fetchone()
        if found is not None:
            there = dict(zip(values, found, strict=True))
            alike = all(
                there[name] == value for name, value in values.items() if not name.endswith("_ns")
            )
            return "same" if alike else "left"
        if row.AGAINST is not None and self._db.execute(row.AGAINST, values).fetchone():
            return "left"
        marks = ", ".join(f":{name}" for name in values)
        self._db.execute(f"INSERT INTO {row.TABLE} ({names}) VALUES ({marks})", values)
        if row.AFTER is not None:
            self._db.execute(row.AFTER, values)
        return "added"
