"""What a person made or paid for, out of a database into a portable file.

All of it that cannot be made again by importing the trace files and letting the rules run:
judgements, edits, supplements, answers of models, replays, stubs, notes. Recordings come along
where no file of theirs is known to be there, as of those of `arc record`; all or none of them where
that is wanted.
Texts are masked as they are in the database.

An export is one JSON object a line, told apart by its `record`. The first line is `arc-export` with
a version, the last one `end` with how many records of each kind came before it. Between them `key`
is what equal secrets were masked with, `run` names a recording that others refer to, and
`recording` holds one of its lines in arc's own format (`arc/1`). Any other is a row of a table: its
fields are the columns, JSON stands in it as JSON.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, TypeVar

import msgspec
from msgspec import Meta, Raw, Struct, structs

from replay import digests
from replay.care.scrub.run import OWN_SETTINGS
from replay.depth import may_be_deep
from replay.edit.changes import Edit
from replay.errors import BadTrace, StoreUnusable
from replay.formats import arc
from replay.formats.source import decode
from replay.free.result import FreeCore
from replay.locked.run import Core
from replay.store import read
from replay.store.backup import already_there, part_of, put_in_place
from replay.store.connection import dicts
from replay.store.handle import Store
from replay.store.trouble import describe
from replay.trace import Tool

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
                f"{target}: cannot be written: {error.strerror}", "Try: another path"
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
        found = store.db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        self._tables = {name for (name,) in found}
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
        if kind.TABLE not in self._tables:  # a database of an earlier arc
            return
        decoder = msgspec.json.Decoder(kind)
        has = {name for (name,) in self._store.db.execute(
            "SELECT name FROM pragma_table_info(?)", (kind.TABLE,)
        )}  # fmt: skip
        names = [name for name in kind.columns() if name in has]
        columns = ", ".join(f'"{name}"' for name in names)
        found = self._store.db.execute(
            f"SELECT {columns} FROM {kind.TABLE} WHERE {kind.WHERE} ORDER BY rowid"
        )
        for values in found:
            data = self._encode(kind.of(dict(zip(names, values, strict=True))))
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
        except (msgspec.DecodeError, KeyError):  # damaged: `arc db verify` names it
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


# --- its lines

VERSION = 1

L = TypeVar("L")

Whole = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Flag = Annotated[int, Meta(ge=0, le=1)]
Number = Annotated[float, Meta(ge=-1e300, le=1e300)]


class Line(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="record"):
    """A line of an export."""

    @classmethod
    def kind(cls) -> str:
        """The word by which the line is told from others."""
        return str(cls.__struct_config__.tag)


class Head(Line, frozen=True, kw_only=True, tag="arc-export"):
    version: int


class Key(Line, frozen=True, kw_only=True, tag="key"):
    """The key of the placeholders of secrets, in hexadecimal digits."""

    value: Annotated[str, Meta(pattern="^([0-9a-f]{2})+$")]


class Run(Line, frozen=True, kw_only=True, tag="run"):
    """A recording: `trace` names it, `content` is the digest over all of its spans."""

    trace: str
    run: str
    format: str
    source_id: str
    item: str | None
    content: str
    title: str | None
    task: str | None
    masked: Count
    imported_ns: Count


class Recording(Line, frozen=True, kw_only=True, tag="recording"):
    """One line of a recording in `arc/1`."""

    trace: str
    line: Raw


class End(Line, frozen=True, kw_only=True, tag="end"):
    records: dict[str, int]


def decoded(decoder: msgspec.json.Decoder[L], data: bytes) -> L:
    """A line as it is written. Raises msgspec.DecodeError, UnicodeDecodeError, or BadTrace where it
    is nested too deeply."""
    if may_be_deep(data):
        decode(data, "", "")
    return decoder.decode(data)


class Row(Line, frozen=True, kw_only=True):
    """A row of `TABLE`, of which those are exported for which `WHERE` holds.

    Two rows are the same that have the same in the columns `SAME`. `RUN` is the column that names a
    recording, and `MOVES` whether the row may be put beside another one with the same content.
    `JSON` says what the columns hold that are JSON; those in `NULL` may hold nothing.
    `REFERS` is the column that holds the digest of another row, which stands before this one. A row
    is left out where the statement `AGAINST` finds one that contradicts it, and `AFTER` is
    carried out when it was added.
    """

    TABLE: ClassVar[str]
    SAME: ClassVar[tuple[str, ...]]
    WHERE: ClassVar[str] = "1"
    RUN: ClassVar[str | None] = None
    REFERS: ClassVar[str | None] = None
    MOVES: ClassVar[bool] = True
    JSON: ClassVar[dict[str, Any]] = {}
    NULL: ClassVar[frozenset[str]] = frozenset()
    AGAINST: ClassVar[str | None] = None
    AFTER: ClassVar[str | None] = None

    @classmethod
    def columns(cls) -> tuple[str, ...]:
        return tuple(field.encode_name for field in structs.fields(cls))

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Row:
        """The line of a row, by its columns; one that is not given has its default."""
        names = {field.encode_name: field.name for field in structs.fields(cls)}
        return cls(
            **{
                names[column]: _raw(value) if column in cls.JSON else value
                for column, value in values.items()
            }
        )

    def values(self) -> dict[str, Any]:
        """The values of the row by their columns."""
        return {
            field.encode_name: _text(value, null=field.encode_name in self.NULL)
            if isinstance(value := getattr(self, field.name), Raw)
            else value
            for field in structs.fields(self)
        }

    def wrong(self) -> str | None:
        """What does not hold together in the row, None where all does.

        Raises msgspec.DecodeError where JSON in it is not what it should be.
        """
        for field in structs.fields(self):
            if field.encode_name in self.JSON:
                _json(getattr(self, field.name), self.JSON[field.encode_name])
        return None


def _raw(value: str | None) -> Raw:
    return Raw(b"null" if value is None else value.encode().replace(b"\n", b" "))


def _text(value: Raw, *, null: bool) -> str | None:
    data = bytes(value)
    return None if null and data == b"null" else data.decode()


def _json(value: Raw, kind: Any) -> Any:
    return msgspec.json.decode(value, type=kind)


_OTHERWISE = "content does not match its digest"


# --- the rows of each table


class EditRow(Row, frozen=True, kw_only=True, tag="edit"):
    TABLE = "edit"
    SAME = ("digest",)
    JSON = {"body": Edit}

    digest: str
    name: str
    body: Raw
    added_ns: Count

    def wrong(self) -> str | None:
        edit: Edit = _json(self.body, Edit)
        return None if (edit.digest, edit.name) == (self.digest, self.name) else _OTHERWISE


class SupplementRow(Row, frozen=True, kw_only=True, tag="supplement"):
    """A system prompt or tools that were given with `arc attach`."""

    TABLE = "supplement"
    SAME = ("digest",)
    JSON = {"tools": tuple[Tool, ...] | None}
    NULL = frozenset({"tools"})

    digest: str
    name: str
    system: str | None
    tools: Raw
    sketched: Flag
    added_ns: Count

    def wrong(self) -> str | None:
        tools = _text(self.tools, null=True)
        digest = digests.digest("supplement", self.system or "", tools or "")
        return super().wrong() or (None if digest == self.digest else _OTHERWISE)


class AttachedRow(Row, frozen=True, kw_only=True, tag="attached"):
    """Which supplement stands beside which recording."""

    TABLE = "trace_supplement"
    SAME = ("trace_key",)
    RUN = "trace_key"
    REFERS = "supplement"

    trace_key: str
    supplement: str


class AnswerRow(Row, frozen=True, kw_only=True, tag="answer"):
    """What a model replied."""

    TABLE = "answer"
    SAME = ("server", "key")
    JSON = {"body": dict[str, Any]}

    server: str
    key: str
    model: str
    sample: Count
    body: Raw
    source: str
    cost_usd: Number | None
    prices: str | None
    added_ns: Count


class BatchRow(Row, frozen=True, kw_only=True, tag="batch"):
    """A batch that was sent, or was about to be."""

    TABLE = "batch"
    SAME = ("server", "id")
    JSON = {"asks": dict[str, tuple[str, int]]}

    server: str
    id: str
    model: str
    asks: Raw
    fetched: Flag
    sent_ns: Count


class StubRow(Row, frozen=True, kw_only=True, tag="stub"):
    TABLE = "stub"
    SAME = ("trace_key", "tool", "arguments")
    RUN = "trace_key"
    JSON = {"arguments": Any}

    trace_key: str
    tool: str
    arguments: Raw
    result: str
    is_error: Flag
    source: str
    added_ns: Count


class ReplayRow(Row, frozen=True, kw_only=True, tag="replay"):
    """What a replay came to. Its digest holds the recording by name, so it stays with that name."""

    TABLE = "replay"
    SAME = ("digest", "trace_key")
    RUN = "trace_key"
    REFERS = "edit"
    MOVES = False
    JSON = {"core": Any}

    digest: str
    trace_key: str
    edit: str | None
    model: str
    core: Raw
    ran_ns: Count
    kind_: Literal["locked", "free"] = msgspec.field(name="kind")
    sample_range: Count

    def wrong(self) -> str | None:
        free = self.kind_ == "free"
        core: Core | FreeCore = _json(self.core, FreeCore if free else Core)
        digest = digests.digest("free" if free else "replay", bytes(self.core).decode())
        named = (core.trace, core.edit) == (self.trace_key, self.edit)
        return None if digest == self.digest and named else _OTHERWISE


class NoteRow(Row, frozen=True, kw_only=True, tag="note"):
    """A value that is remembered under a name: held-out tasks, goals, verdicts, results of
    bisections and edit tests."""

    TABLE = "setting"
    SAME = ("name",)
    WHERE = f"name NOT IN ({', '.join(map(repr, OWN_SETTINGS))})"
    JSON = {"value": Any}

    name: str
    value: Raw

    def wrong(self) -> str | None:
        return super().wrong() or ("name reserved by arc" if self.name in OWN_SETTINGS else None)


ROWS: tuple[type[Row], ...] = (
    EditRow,
    SupplementRow,
    AttachedRow,
    AnswerRow,
    BatchRow,
    StubRow,
    ReplayRow,
    NoteRow,
)
"""In the order they are written: what others refer to comes first."""
