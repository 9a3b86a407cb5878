"""Phoenix's tables of spans: in parquet, and in its own database.

In parquet (`get_spans_dataframe()`, `TraceDataset.save()`) a span is a row, an attribute a column.
What pandas made of a table is undone here: fields that a span does not have are nulls, counts are
floats, a message list is a list of structs whose field names hold dots. Needs duckdb (the extra
`parquet`), which is imported when such a file is read.

The database has projects, traces, spans whose attributes are one nested JSON text, and what people
and evaluators said of spans and traces. What Phoenix computes of a trace (its costs, by its own
price list) is kept as the source's total, beside the costs that the spans themselves report.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from importlib import import_module
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import structs

from replay.errors import BadTrace
from replay.files import private_folder
from replay.formats.common import known, ns, obj, word
from replay.formats.database import Database, Row, quoted
from replay.formats.genai.logs import annotation
from replay.formats.genai.records import Raw, flat
from replay.formats.openinference.spans import phoenix_span, trace_batch
from replay.formats.source import (
    Head,
    Source,
    Tally,
    decode,
    decoded_text,
    most_unpacked,
    plain_file,
)
from replay.trace import Batch, Json, SourceScore

MAGIC = b"PAR1"

_TRACE, _SPAN = "context.trace_id", "context.span_id"
_ATTRIBUTES = "attributes."
_INDEX = "__index_level_"
_FIELDS = {
    "name", "span_kind", "parent_id", "start_time", "end_time", "status_code", "status_message",
    "events", _TRACE, _SPAN,
}  # fmt: skip
MAX_FOOTER_BYTES = 16 * 1024 * 1024
MAX_COLUMNS = 4_000
"""The time that duckdb takes over a table grows by the square of its columns."""
_FREE_ROWS = 100_000
_END_BYTES = 1024 * 1024
_END = struct.Struct("<I4s")
_AT_ONCE = 64
"""Rows taken over at a time."""

_PLAIN = {"BOOLEAN", "BIGINT", "DOUBLE", "FLOAT", "INTEGER", "SMALLINT", "TINYINT", "VARCHAR"}


def looks_like(head: Head) -> bool:
    """The names of the columns stand at the end of the file."""
    return _TRACE.encode() in (head.data if head.file is None else _end(head.file))


def _end(file: Path) -> bytes:
    with file.open("rb") as opened:
        opened.seek(max(0, file.stat().st_size - _END_BYTES))
        return opened.read()


def _footer_bytes(file: Path, size: int) -> int:
    """As the file says in its last eight bytes; 0 where they are not the end of a table."""
    with file.open("rb") as opened:
        opened.seek(max(0, size - _END.size))
        end = opened.read()
    length, magic = _END.unpack(end) if len(end) == _END.size else (0, b"")
    return length if magic == MAGIC else 0


def raws(source: Source, tally: Tally) -> Iterator[Raw]:
    """The spans, trace after trace. Raises BadTrace where the file is no such table."""
    duckdb = _duckdb(source)
    with plain_file(source, MAGIC) as path, private_folder() as spill:
        size = path.stat().st_size
        if _footer_bytes(path, size) > MAX_FOOTER_BYTES:
            why = f"is not a table of spans: its footer is larger than {MAX_FOOTER_BYTES >> 20} MiB"
            raise BadTrace(source.display, "", why)
        room = {"temp_directory": str(spill), "max_temp_directory_size": f"{most_unpacked(size)}B"}
        connection = duckdb.connect(":memory:", config=_CONFIG | room)
        try:
            for row in _rows(connection, path, source, tally):
                made = _raw(row, source.display)
                if made is None:
                    tally.problem("a row", "has no span id or no trace id")
                else:
                    tally.counts["spans"] += 1
                    yield made
        except duckdb.Error as error:
            why = (str(error).splitlines() or ["unknown error"])[0]
            raise BadTrace(source.display, "", f"cannot be read as parquet: {why}") from error
        finally:
            connection.close()


_CONFIG = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "memory_limit": "256MB",
    "threads": "1",
}
"""Nothing is fetched from elsewhere; a table larger than the limit is sorted on disk."""


def _duckdb(source: Source) -> Any:
    try:
        return import_module("duckdb")
    except ImportError:
        raise BadTrace(
            source.display, "", "is a parquet file, and duckdb is not installed",
            "Try: pip install 'arc-tui[parquet]'",
        ) from None  # fmt: skip


def _rows(connection: Any, path: Path, source: Source, tally: Tally) -> Iterator[dict[str, Json]]:
    """The rows by trace and start, each without its nulls."""
    pattern = "".join(f"[{c}]" if c in "*?[" else c for c in str(path))
    _shut(connection, path, pattern)
    _bound(connection, pattern, path.stat().st_size, source)
    table = connection.read_parquet(pattern)
    if not {_TRACE, _SPAN} <= set(table.columns):
        why = f"is not a table of spans: it has no columns {_TRACE} and {_SPAN}"
        raise BadTrace(source.display, "", why)
    columns = [*_columns(table, tally)]
    order = [quoted(name) for name in (_TRACE, "start_time") if name in table.columns]
    asked = table.project(", ".join(each.expression for each in columns)).order(", ".join(order))
    result = connection.execute(asked.sql_query())
    while rows := result.fetchmany(_AT_ONCE):
        for row in rows:
            values = ((each, each.value(held)) for each, held in zip(columns, row, strict=True))
            yield {each.name: value for each, value in values if value is not None}


def _shut(connection: Any, path: Path, pattern: str) -> None:
    """No other file can be read, and nobody can change that."""
    connection.execute("SET allowed_paths = [?, ?]", [str(path), pattern])
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def _bound(connection: Any, pattern: str, size: int, source: Source) -> None:
    """Raise BadTrace where the file says that it has more columns than can be taken over, or many
    more rows than bytes: the ids of spans differ, and cannot be packed to less."""
    schema = connection.table_function("parquet_schema", [pattern])
    ((columns,),) = schema.aggregate("count(*)").fetchall()
    if columns > MAX_COLUMNS:
        why = f"is not a table of spans: it has more than {MAX_COLUMNS} columns"
        raise BadTrace(source.display, "", why)
    footer = connection.table_function("parquet_file_metadata", [pattern])
    ((rows,),) = footer.aggregate("sum(num_rows)").fetchall()
    if rows is not None and rows > max(size, _FREE_ROWS):
        why = f"has more rows than the file has room for: {rows} in {size} bytes"
        raise BadTrace(source.display, "", why)


class _Column(NamedTuple):
    """A column and how it is asked for; one that is `nested` comes as JSON."""

    name: str
    expression: str
    nested: bool

    def value(self, held: Json) -> Json:
        if self.nested and isinstance(held, str):
            return decode(held.encode(), self.name, "")
        return None if isinstance(held, float) and not math.isfinite(held) else held


def _columns(table: Any, tally: Tally) -> Iterator[_Column]:
    """The columns that tell of spans, in types that Python has: times as nanoseconds."""
    for name, kind in zip(table.columns, map(str, table.types), strict=True):
        if name not in _FIELDS and not name.startswith(_ATTRIBUTES):
            if not name.startswith(_INDEX):
                tally.unknown[f"column {name}"] += 1
            continue
        column = quoted(name)
        nested = kind.endswith("]") or kind.startswith(("STRUCT", "MAP", "UNION"))
        if kind.startswith("TIMESTAMP"):
            made = f"epoch_ns({column})"
        elif nested or kind not in _PLAIN:
            made = f"CAST({f'to_json({column})' if nested else column} AS VARCHAR)"
        else:
            made = column
        yield _Column(name, f"{made} AS {column}", nested)


def _raw(row: dict[str, Json], path: str) -> Raw | None:
    trace, name = word(row.get(_TRACE)), word(row.get(_SPAN))
    if trace is None or name is None:
        return None
    columns = row.items()
    attributes = flat({n.removeprefix(_ATTRIBUTES): v for n, v in columns if n not in _FIELDS})
    events = row.get("events")
    if isinstance(events, str):
        events = decode(events.encode(), path, f"span {name}")
    return phoenix_span(
        row, trace=trace, name=name, attributes=attributes, events=events, time=_time
    )


def _time(value: Json) -> int | None:
    """Nanoseconds, or a text of a time."""
    return value if isinstance(value, int) else ns(value)


TABLES = frozenset({"projects", "traces", "spans", "span_annotations"})

_SPAN_COLUMNS = (
    "id", "trace_rowid", "span_id", "parent_id", "name", "span_kind", "start_time", "end_time",
    "attributes", "events", "status_code", "status_message",
)  # fmt: skip
_SAID = ("name", "label", "score", "explanation", "annotator_kind")


def traces(database: Database, path: str, tally: Tally) -> Iterator[Batch]:
    """One trace a trace id, in the order Phoenix met them."""
    said = next(database.rows("span_annotations", ["id"]), None) is not None
    spans = database.rows("spans", _SPAN_COLUMNS, order=("trace_rowid", "id"))
    for key, group in groupby(spans, key=lambda row: row["trace_rowid"]):
        about = (
            next(database.rows("traces", _TRACE_COLUMNS, id=key), {}) if type(key) is int else {}
        )
        name = word(about.get("trace_id"))
        if name is None:
            tally.problem(f"trace {key}", "its spans are in the database, the trace is not")
            continue
        rows: dict[str, int] = {}
        raws = [
            raw for row in group if (raw := _phoenix_raw(name, row, rows, path, tally)) is not None
        ]
        if raws:
            tally.counts["spans"] += len(raws)
            batch = trace_batch(name, raws, path, tally)
            yield _with(batch, key, about, rows if said else {}, database)


_TRACE_COLUMNS = ("id", "trace_id", "project_rowid", "project_session_rowid")


def _phoenix_raw(trace: str, row: Row, rows: dict[str, int], path: str, tally: Tally) -> Raw | None:
    """A span, its row's number added to `rows`."""
    name = word(row.get("span_id"))
    if name is None:
        tally.problem(f"row {row.get('id')} of spans", "has no span id")
        return None
    if type(row.get("id")) is int:
        rows[name] = row["id"]

    def column(title: str) -> Json:
        where = f"span {row.get('span_id')} {title}"
        return decoded_text(row.get(title), path, where, tally)

    attributes = flat(obj(column("attributes")))
    return phoenix_span(row, trace=trace, name=name, attributes=attributes, events=column("events"))


def _with(batch: Batch, key: int, about: Row, rows: dict[str, int], database: Database) -> Batch:
    """The batch with what other tables say of it, and of the spans in those rows."""
    project = _name(database, "projects", "name", about.get("project_rowid"))
    session = _name(database, "project_sessions", "session_id", about.get("project_session_rowid"))
    header = structs.replace(
        batch.header,
        labels=known(session=session) | batch.header.labels | known(project=project),
        reported_cost_usd=_cost(database, key),
    )
    scores = (*batch.scores, *_scores(key, rows, database))
    return structs.replace(batch, header=header, scores=scores)


def _name(database: Database, table: str, column: str, key: Json) -> str | None:
    if type(key) is not int:
        return None
    return word(next(database.rows(table, [column], id=key), {}).get(column))


def _cost(database: Database, trace: int) -> float | None:
    """The sum of the costs of its spans, None where none is known."""
    found = [
        row["total_cost"]
        for row in database.rows("span_costs", ["total_cost"], trace_rowid=trace)
        if type(row.get("total_cost")) is float and 0 <= row["total_cost"] < 1e9
    ]
    return sum(found) if found else None


def _scores(trace: int, rows: dict[str, int], database: Database) -> Iterator[SourceScore]:
    for said in database.rows("trace_annotations", _SAID, order=["id"], trace_rowid=trace):
        yield annotation(said, None)
    for span, key in rows.items():
        for said in database.rows("span_annotations", _SAID, order=["id"], span_rowid=key):
            yield annotation(said, span)
