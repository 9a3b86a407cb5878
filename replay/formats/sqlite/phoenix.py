"""Phoenix's own database: projects, traces, spans whose attributes are one nested JSON text, and
what people and evaluators said of spans and traces.

What Phoenix computes of a trace (its costs, by its own price list) is kept as the source's total,
beside the costs that the spans themselves report.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from msgspec import structs

from replay.errors import BadTrace
from replay.formats import openinference
from replay.formats.common import known, obj, word
from replay.formats.openinference.exports import Raw, flat, phoenix_span
from replay.formats.source import Tally, decode
from replay.formats.sqlite.database import Database, Row
from replay.trace import Batch, Json, SourceScore

TABLES = frozenset({"projects", "traces", "spans", "span_annotations"})

_SPAN = (
    "id", "trace_rowid", "span_id", "parent_id", "name", "span_kind", "start_time", "end_time",
    "attributes", "events", "status_code", "status_message",
)  # fmt: skip
_SAID = ("name", "label", "score", "explanation", "annotator_kind")


def traces(database: Database, path: str, tally: Tally) -> Iterator[Batch]:
    """One trace a trace id, in the order Phoenix met them."""
    said = next(database.rows("span_annotations", ["id"]), None) is not None
    spans = database.rows("spans", _SPAN, order=("trace_rowid", "id"))
    for key, group in groupby(spans, key=lambda row: row["trace_rowid"]):
        about = next(database.rows("traces", _TRACE, id=key), {}) if type(key) is int else {}
        name = word(about.get("trace_id"))
        if name is None:
            tally.problem(f"trace {key}", "its spans stand in the database, and not the trace")
            continue
        rows: dict[str, int] = {}
        raws = [raw for row in group if (raw := _raw(name, row, rows, path, tally)) is not None]
        if raws:
            tally.counts["spans"] += len(raws)
            batch = openinference.trace(name, raws, path, tally)
            yield _with(batch, key, about, rows if said else {}, database)


_TRACE = ("id", "trace_id", "project_rowid", "project_session_rowid")


def _raw(trace: str, row: Row, rows: dict[str, int], path: str, tally: Tally) -> Raw | None:
    """A span, its row's number added to `rows`."""
    name = word(row.get("span_id"))
    if name is None:
        tally.problem(f"row {row.get('id')} of spans", "has no span id")
        return None
    if type(row.get("id")) is int:
        rows[name] = row["id"]
    attributes = flat(obj(_json(row, "attributes", path, tally)))
    return phoenix_span(
        row, trace=trace, name=name, attributes=attributes, events=_json(row, "events", path, tally)
    )


def _json(row: Row, column: str, path: str, tally: Tally) -> Json:
    """The value of a JSON text; a broken one is a problem of its span."""
    text = row.get(column)
    if not isinstance(text, str):
        return None
    try:
        return decode(text.encode("utf-8", "replace"), path, f"span {row.get('span_id')} {column}")
    except BadTrace as error:
        tally.problem(error.where, error.why)
        return None


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
        yield openinference.score(said, None)
    for span, key in rows.items():
        for said in database.rows("span_annotations", _SAID, order=["id"], span_rowid=key):
            yield openinference.score(said, span)
