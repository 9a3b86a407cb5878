"""MLflow's tracking database: traces, their spans as JSON, tags, and what was said of them.

Spans stand in the database since MLflow 3; where a trace keeps them in a folder of artifacts, only
that is told, for a path in somebody's database is not followed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from replay.errors import BadTrace
from replay.formats.chat import cut, user_label
from replay.formats.fields import known, obj, word
from replay.formats.intake import Tally, decode
from replay.formats.normal import number, usd
from replay.formats.otlp.messages import several
from replay.formats.otlp.spans import Known, known_of
from replay.formats.otlp.tree import Builder
from replay.formats.sqlite.database import Database, Row
from replay.formats.sqlite.mlflow.spans import INPUTS, hexed, raw
from replay.trace import AgentSpan, AnySpan, Batch, Header, Json, ModelCall, SourceScore

TABLES = frozenset({"experiments", "trace_info", "trace_tags", "trace_request_metadata"})

NAME = "mlflow"

_TRACE = ("request_id", "experiment_id", "total_cost", "session_id", "trace_name")
_SAID = (
    "name", "assessment_type", "value", "error", "source_type", "span_id", "rationale", "valid",
)  # fmt: skip


def traces(database: Database, path: str, tally: Tally) -> Iterator[Batch]:
    """One trace a row of `trace_info`, in time order."""
    order = ("timestamp_ms", "request_id")
    for about in database.rows("trace_info", _TRACE, order=order):
        name = about["request_id"]
        if not isinstance(name, str):
            tally.problem("table trace_info", "a trace has no id")
            continue
        tags = _pairs(database, "trace_tags", name)
        found = _spans(database, name, path, tally)
        if found:
            yield _batch(name, about, tags, found, database, path, tally)
        else:
            where = tags.get("mlflow.artifactLocation") or "its artifacts"
            tally.problem(f"trace {name}", f"its spans are not in the database but at {where}")


def _spans(database: Database, trace: str, path: str, tally: Tally) -> list[Known]:
    """The spans of a trace, each once."""
    found: dict[str, Known] = {}
    for row in database.rows("spans", ["content", "span_id"], trace_id=trace):
        where = f"span {row.get('span_id')} of {trace}"
        made = raw(obj(_value(row.get("content"), path, where, tally)), trace)
        if made is None:
            tally.problem(where, "is no span with an id")
        else:
            found[made.id] = known_of(made)
    tally.counts["spans"] += len(found)
    return [*found.values()]


def _value(text: Json, path: str, where: str, tally: Tally) -> Json:
    """The value of a JSON text, None for none; a broken one is a problem."""
    if not isinstance(text, str):
        return None
    try:
        return decode(text.encode("utf-8", "replace"), path, where)
    except BadTrace as error:
        tally.problem(error.where, error.why)
        return None


def _pairs(database: Database, table: str, trace: str) -> dict[str, str]:
    """The keys and values of a table, of those that are texts."""
    rows = database.rows(table, ["key", "value"], request_id=trace)
    pairs = ((word(row.get("key")), word(row.get("value"))) for row in rows)
    return {key: value for key, value in pairs if key is not None and value is not None}


def _batch(
    name: str,
    about: Row,
    tags: dict[str, str],
    found: list[Known],
    database: Database,
    path: str,
    tally: Tally,
) -> Batch:
    tally.counts["traces"] += 1
    spans = Builder(found, tally).spans()
    tally.counts["model_calls"] += sum(isinstance(span, ModelCall) for span in spans)
    metadata = _pairs(database, "trace_request_metadata", name)
    said = [
        {**row, "value": _value(row.get("value"), path, f"assessment of {name}", tally)}
        for row in database.rows("assessments", _SAID, trace_id=name)
        if row.get("valid") != 0
    ]
    gold = {
        str(row.get("name")): row["value"]
        for row in said
        if row.get("assessment_type") == "expectation"
    }
    header = Header(
        format=NAME,
        source_id=name,
        path=path,
        title=_title(spans, found) or cut(_named(about, tags) or name),
        agent=next((span.name for span in spans if isinstance(span, AgentSpan)), None),
        labels=_labels(about, tags, metadata, database),
        reference={"expectations": gold} if gold else None,
        reported_cost_usd=_cost(about),
    )
    scores = tuple(_score(row) for row in said if row.get("assessment_type") != "expectation")
    return Batch(header=header, spans=spans, scores=scores, last=True)


def _labels(
    about: Row, tags: dict[str, str], metadata: dict[str, str], database: Database
) -> dict[str, str]:
    """The user's own tags, and what MLflow's tell runs apart by."""
    key = about.get("experiment_id")
    number = key if isinstance(key, int) else 0
    experiment = next(database.rows("experiments", ["name"], experiment_id=number), {})
    return {
        **{name: value for name, value in tags.items() if not name.startswith("mlflow.")},
        **known(
            session=word(about.get("session_id")) or metadata.get("mlflow.trace.session"),
            experiment=word(experiment.get("name")),
            run=metadata.get("mlflow.sourceRun"),
            model=metadata.get("mlflow.modelId"),
        ),
    }


def _named(about: Row, tags: dict[str, str]) -> str | None:
    return word(about.get("trace_name")) or tags.get("mlflow.traceName")


def _cost(about: Row) -> float | None:
    return usd(about.get("total_cost"))


def _score(row: dict[str, Any]) -> SourceScore:
    """An assessment: a number or a truth value scores, a text labels."""
    value = row["value"]
    shown = value if isinstance(value, str) else str(value).lower()
    return SourceScore(
        name=word(row.get("name")) or "assessment",
        by=word(row.get("source_type")) or "source",
        span=hexed(row.get("span_id")),
        value=number(value),
        label=shown if isinstance(value, (str, bool)) else None,
        explanation=word(row.get("rationale")) or word(row.get("error")),
    )


def _title(spans: tuple[AnySpan, ...], found: list[Known]) -> str | None:
    """The first line of what the root was given, else of what the first model call was told."""
    ids = {span.raw.id for span in found}
    for root in (span for span in found if span.raw.parent not in ids):
        given = root.raw.attributes.get(INPUTS)
        texts = [value for value in obj(given).values() if isinstance(value, str)]
        task = given if isinstance(given, (str, list)) else texts[0] if texts else None
        title = user_label(several(task)) if task else None
        if title is not None:
            return title
    for span in spans:
        if isinstance(span, ModelCall) and span.request.context is not None:
            return user_label([message.body for message in span.request.context.messages()])
    return None
