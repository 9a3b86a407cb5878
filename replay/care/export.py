"""What a person made or paid for, out of a database into a portable file.

All of it that cannot be made again by importing the trace files and letting the rules run:
judgements, edits, supplements, answers of models, replays, stubs, notes. Recordings come along
where no file of theirs is known to be there, as of those of `arc record`; all or none of them where
that is wanted.
The lines are those of `export_lines`; texts are masked as they are in the database.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec
from msgspec import Raw, Struct

from replay.care.export_lines import (
    ROWS,
    VERSION,
    End,
    Head,
    Key,
    Line,
    Recording,
    Row,
    Run,
    decoded,
)
from replay.errors import BadTrace, StoreUnusable
from replay.formats import arc
from replay.store import read
from replay.store.backup import already_there, part_of, put_in_place
from replay.store.connection import dicts
from replay.store.handle import Store
from replay.store.trouble import describe

Runs: TypeAlias = Literal["missing", "all", "none"]


class Exported(Struct, frozen=True, kw_only=True):
    """A finished export: how many `records` of each kind it has, and how many recordings are in it
    as a whole. `unreadable` ones of the database are damaged, and not in it."""

    path: str
    bytes: int
    records: dict[str, int]
    recordings: int
    unreadable: dict[str, int]


def export(
    store: Store, target: Path, rows: Sequence[type[Row]] = (), *, runs: Runs = "missing"
) -> Exported:
    """Write an export to `target`, with mode 0600; `rows` are those beside the engine's own.

    `runs` says which recordings come along; `missing` are those whose file is not known to be
    there. Raises StoreUnusable where something is at the target or it cannot be written.
    """
    if os.path.lexists(target):
        raise already_there(target)
    lines = _Lines(store, (*ROWS, *rows))
    with part_of(target) as part:
        try:
            with part.open("wb") as file, describe(store.path), store.reading():
                for line in lines.all(runs=runs):
                    file.write(line + b"\n")
            size = put_in_place(part, target)
        except OSError as error:
            raise StoreUnusable(
                f"{target}: cannot be written: {error.strerror}", "name a place that can be"
            ) from error
    return Exported(
        path=str(target),
        bytes=size,
        records=dict(lines.records),
        recordings=lines.recordings,
        unreadable=dict(lines.unreadable),
    )


class _Lines:
    """The lines of an export, counted as they are made."""

    def __init__(self, store: Store, rows: Sequence[type[Row]]) -> None:
        self._store, self._rows = store, rows
        self._encode = msgspec.json.Encoder().encode
        self.records: Counter[str] = Counter()
        self.unreadable: Counter[str] = Counter()
        self.recordings = 0

    def all(self, *, runs: Runs) -> Iterator[bytes]:
        yield self._encode(Head(version=VERSION))
        for (value,) in self._store.db.execute(
            "SELECT value FROM setting WHERE name = 'redact_key'"
        ).fetchall():
            yield self._counted(Key(value=value))
        yield from self._runs(runs=runs)
        for kind in self._rows:
            yield from self._table(kind)
        yield self._encode(End(records=dict(self.records)))

    def _counted(self, line: Line) -> bytes:
        self.records[line.kind()] += 1
        return self._encode(line)

    def _table(self, kind: type[Row]) -> Iterator[bytes]:
        decoder = msgspec.json.Decoder(kind)
        columns = ", ".join(f'"{name}"' for name in kind.columns())
        found = self._store.db.execute(
            f"SELECT {columns} FROM {kind.TABLE} WHERE {kind.WHERE} ORDER BY rowid"
        )
        for values in found:
            data = self._encode(kind.of(values))
            if _holds(decoder, data):
                self.records[kind.kind()] += 1
                yield data
            else:
                self.unreadable[kind.kind()] += 1

    def _runs(self, *, runs: Runs) -> Iterator[bytes]:
        wanted = self._referred()
        heads = self._store.db.execute(
            "SELECT key AS trace, run, format, source_id, item, content, title, task, masked,"
            " imported_ns, path FROM trace WHERE complete ORDER BY id"
        )
        for head in list(dicts(heads)):
            path = head.pop("path")
            gone = path is None or not Path(path).exists()
            whole = runs == "all" or (runs == "missing" and gone)
            if whole or head["trace"] in wanted:
                yield self._counted(Run(**{**head, "masked": head["masked"] or 0}))
            if whole:
                yield from self._recording(head["trace"])

    def _recording(self, trace: str) -> Iterator[bytes]:
        try:
            lines = list(arc.write([read.recorded(self._store, trace)]))
        except (msgspec.DecodeError, KeyError):  # damaged: `arc verify` names it
            self.unreadable[Recording.kind()] += 1
            return
        self.recordings += 1
        for line in lines:
            yield self._counted(Recording(trace=trace, line=Raw(line.rstrip(b"\n"))))

    def _referred(self) -> Collection[str]:
        """The recordings that a row refers to."""
        named: set[str] = set()
        for kind in self._rows:
            if kind.RUN is not None:
                found = self._store.db.execute(
                    f"SELECT DISTINCT {kind.RUN} FROM {kind.TABLE} WHERE {kind.WHERE}"
                )
                named.update(each[0] for each in found)
        return named


def _holds(decoder: msgspec.json.Decoder[Row], data: bytes) -> bool:
    """Can the line of a row be read back?"""
    try:
        return decoded(decoder, data).wrong() is None
    except (msgspec.DecodeError, UnicodeDecodeError, BadTrace):
        return False
