"""MLflow's traces, as JSON (one a file or one a line) and in its tracking database.

A span is one of OpenTelemetry in the words of its GenAI conventions. Each attribute is a JSON text;
what a model was asked and answered stands in the inputs and outputs of its function, in the shape
of whichever library was called (`genai.functions`). A trace that is read from both is one trace.

Spans stand in the database since MLflow 3 (`traces`, for `replay.formats.sqlite`); where a trace
keeps them in a folder of artifacts, only that is told, for a path in somebody's database is not
followed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import structs

from replay.depth import from_text
from replay.errors import BadTrace
from replay.formats.chat import cut, user_label
from replay.formats.common import known, listed, number, obj, word
from replay.formats.database import Database, Row
from replay.formats.genai import attributes
from replay.formats.genai.attributes import Known
from replay.formats.genai.builder import Builder
from replay.formats.genai.functions import chat_answer, chat_request, present, under_names
from replay.formats.genai.messages import several
from replay.formats.genai.reconcile import reconcile
from replay.formats.genai.records import Event, RawSpan, ended, hexadecimal, nanos, readable, usd
from replay.formats.genai.services import (
    agent_of,
    made_of,
    records,
    root_of,
    spans,
    title_of,
    values,
)
from replay.formats.genai.usage import mlflow_counts
from replay.formats.source import Head, Source, Tally, decoded_text
from replay.trace import (
    AgentSpan,
    AnySpan,
    Batch,
    Header,
    Json,
    Level,
    ModelCall,
    SourceScore,
    Status,
)

NAME = "mlflow"
TITLE = "MLflow (traces as JSON or JSON Lines)"
FILES = ".json, .jsonl"
FIDELITY: tuple[Level, ...] = (Level.EXACT, Level.REBUILT, Level.PARTIAL, Level.NONE)
LACKS = "whatever the instrumentation leaves out: often the tools"
VERIFIED = "real files"

_INFO = (rb'"info"\s*:\s*\{', rb'"(?:trace_id|request_id)"\s*:', rb'"(?:mlflow\.[\w.]+|spans)"\s*:')


def sniff(head: Head) -> bool:
    return head.starts(b"{", b"[") and head.has(*_INFO)


def read(source: Source, tally: Tally) -> Iterator[Batch]:
    """One trace a record. Raises BadTrace where there is none."""
    found: set[str] = set()
    for where, value in values(source, tally):
        for record in records(value, "traces"):
            info, data = obj(record.get("info")), obj(readable(record.get("data")))
            name = word(info.get("trace_id")) or word(info.get("request_id"))
            if name is None or not isinstance(data.get("spans"), list):
                tally.problem(where, "is not a trace with an id and spans")
            elif name in found:
                tally.problem(where, f"trace {name} occurs twice in the file; read once")
            else:
                found.add(name)
                yield _batch(name, info, data["spans"], source.display, tally)
    if not found:
        raise BadTrace(source.display, "", "contains no trace with an id and spans")


def _batch(name: str, info: dict[str, Any], given: list[Json], path: str, tally: Tally) -> Batch:
    raws: list[RawSpan] = []
    for each in given:
        where = f"span {obj(each).get('name')}"
        raws += made_of(obj(each), where, lambda span: raw(span, name), tally)
    found = spans(raws, tally)
    tags = _words(info.get("tags"))
    metadata = _words(info.get("trace_metadata") or info.get("request_metadata"))
    said = [obj(each) for each in listed(info.get("assessments"))]
    gold = {_name(each): _value(each) for each in said if "expectation" in each}
    root = root_of(raws)
    header = Header(
        format=NAME,
        source_id=name,
        path=path,
        title=title_of(
            found,
            root.attributes.get(INPUTS) if root is not None else None,
            tags.get("mlflow.traceName") or name,
        ),
        agent=agent_of(found),
        labels={
            **{key: value for key, value in tags.items() if not key.startswith("mlflow.")},
            **known(
                session=metadata.get("mlflow.trace.session"),
                user=metadata.get("mlflow.trace.user"),
                run=metadata.get("mlflow.sourceRun"),
                model=metadata.get("mlflow.modelId"),
            ),
        },
        reference={"expectations": gold} if gold else None,
        reported_cost_usd=usd(obj(readable(metadata.get("mlflow.trace.cost"))).get("total_cost")),
    )
    scores = tuple(_score(each) for each in said if "expectation" not in each)
    tally.counts["assessments"] += len(said)
    return Batch(header=header, spans=found, scores=scores, last=True)


def _words(given: Json) -> dict[str, str]:
    """Keys and values, of an object or of a list of pairs as older versions wrote them."""
    pairs = [(obj(each).get("key"), obj(each).get("value")) for each in listed(given)]
    items = [*obj(given).items(), *pairs]
    return {key: text for key, value in items if isinstance(key, str) and (text := word(value))}


def _name(said: dict[str, Any]) -> str:
    return word(said.get("assessment_name")) or word(said.get("name")) or "assessment"


def _value(said: dict[str, Any]) -> Json:
    held = obj(said.get("feedback")) or obj(said.get("expectation"))
    inner = held.get("value", obj(held.get("serialized_value")).get("value"))
    return readable(inner) if "serialized_value" in held else inner


def _score(said: dict[str, Any]) -> SourceScore:
    """An assessment: a number or a truth value scores, a text labels."""
    value = _value(said)
    source, error = obj(said.get("source")), obj(obj(said.get("feedback")).get("error"))
    shown = str(value).lower() if isinstance(value, bool) else value
    return SourceScore(
        name=_name(said),
        by=word(source.get("source_type")) or "source",
        span=hexed(said.get("span_id")),
        value=number(value),
        label=shown if isinstance(shown, str) else None,
        explanation=word(said.get("rationale")) or word(error.get("error_message")),
    )


TABLES = frozenset({"experiments", "trace_info", "trace_tags", "trace_request_metadata"})

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
            yield _stored_batch(name, about, tags, found, database, path, tally)
        else:
            where = tags.get("mlflow.artifactLocation") or "its artifacts"
            tally.problem(f"trace {name}", f"its spans are not in the database but at {where}")


def _spans(database: Database, trace: str, path: str, tally: Tally) -> list[Known]:
    """The spans of a trace, each once."""
    found: dict[str, RawSpan] = {}
    for row in database.rows("spans", ["content", "span_id"], trace_id=trace):
        where = f"span {row.get('span_id')} of {trace}"
        made = raw(obj(decoded_text(row.get("content"), path, where, tally)), trace)
        if made is None:
            tally.problem(where, "is not a span with an id")
        else:
            found[made.id] = made
    tally.counts["spans"] += len(found)
    return reconcile(found.values())


def _pairs(database: Database, table: str, trace: str) -> dict[str, str]:
    """The keys and values of a table, of those that are texts."""
    rows = database.rows(table, ["key", "value"], request_id=trace)
    pairs = ((word(row.get("key")), word(row.get("value"))) for row in rows)
    return {key: value for key, value in pairs if key is not None and value is not None}


def _stored_batch(
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
        {**row, "value": decoded_text(row.get("value"), path, f"assessment of {name}", tally)}
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
    scores = tuple(
        _stored_score(row) for row in said if row.get("assessment_type") != "expectation"
    )
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


def _stored_score(row: dict[str, Any]) -> SourceScore:
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


INPUTS, OUTPUTS = "mlflow.spanInputs", "mlflow.spanOutputs"
_KIND = "mlflow.spanType"

_OPERATIONS = {
    "CHAT_MODEL": "chat", "LLM": "chat", "TOOL": "execute_tool", "AGENT": "invoke_agent",
    "RETRIEVER": "retrieval",
}  # fmt: skip
_STATUS: dict[str, Status] = {"OK": "ok", "ERROR": "error"}
_NOISE = {
    "mlflow.traceRequestId", "mlflow.experimentId", "mlflow.spanFunctionName",
    "mlflow.spanLogLevel", "mlflow.message.format", "mlflow.spanStartTimeNs",
    "mlflow.chat.tokenUsage", "mlflow.llm.cost", "mlflow.llm.model", "mlflow.llm.provider", _KIND,
}  # fmt: skip
"""Attributes that something else of the span says too."""


def raw(span: dict[str, Any], trace: str) -> RawSpan | None:
    """A span of MLflow 3 (or 2, which named its fields otherwise), None where it has no id."""
    context = obj(span.get("context"))
    name = hexed(span.get("span_id", context.get("span_id")))
    if name is None:
        return None
    status = obj(span.get("status"))
    code = word(status.get("code", span.get("status_code"))) or ""
    start = _time(span.get("start_time_unix_nano", span.get("start_time")))
    end = _time(span.get("end_time_unix_nano", span.get("end_time")))
    return RawSpan(
        trace=trace,
        id=name,
        parent=hexed(span.get("parent_span_id", span.get("parent_id"))),
        name=word(span.get("name")) or "",
        start_ns=start,
        end_ns=ended(start, end),
        status=_STATUS.get(code.removeprefix("STATUS_CODE_"), "unset"),
        message=word(status.get("message", span.get("status_message"))),
        attributes=_attributes(obj(span.get("attributes"))),
        events=[_event(obj(each)) for each in listed(span.get("events"))],
    )


def hexed(name: Json) -> str | None:
    """An id in hex digits, whichever way a version wrote it: base64, hex, or hex after `0x`."""
    return hexadecimal(name.removeprefix("0x")) if isinstance(name, str) else None


def _time(value: Json) -> int | None:
    return nanos(value) if isinstance(value, (int, str)) and not isinstance(value, bool) else None


def _event(event: dict[str, Any]) -> Event:
    at = _time(event.get("time_unix_nano", event.get("timestamp")))
    return Event(word(event.get("name")) or "", obj(event.get("attributes")), at)


def _attributes(encoded: dict[str, Any]) -> dict[str, Json]:
    given = {name: _decoded(value) for name, value in encoded.items()}
    kept = {n: v for n, v in given.items() if n not in _NOISE and v is not None}
    kind = word(given.get(_KIND))
    if kind is None or kind == "UNKNOWN":
        return kept
    operation = _OPERATIONS.get(kind, kind.lower())
    found: dict[str, Json] = {attributes.OPERATION: operation, **kept}
    if operation == "chat":
        found |= _figures(given)
        if attributes.INPUT not in given:
            found |= _spans_named(given)
    return found


def _decoded(value: Json) -> Json:
    """The value of a JSON text; a text that is none is itself."""
    if not isinstance(value, str):
        return value
    try:
        return from_text(value)
    except msgspec.DecodeError:
        return value


def _figures(given: dict[str, Json]) -> dict[str, Json]:
    return mlflow_counts(given.get("mlflow.chat.tokenUsage")) | present(
        **{
            "gen_ai.request.model": word(given.get("mlflow.llm.model")),
            "gen_ai.provider.name": word(given.get("mlflow.llm.provider")),
            "gen_ai.usage.cost": obj(given.get("mlflow.llm.cost")).get("total_cost"),
        }
    )


def _spans_named(given: dict[str, Json]) -> dict[str, Json]:
    """What was asked and answered, under the names of the conventions; what is not understood
    stays under MLflow's own."""
    request, response = chat_request(given.get(INPUTS)), chat_answer(given.get(OUTPUTS))
    if request is not None and "mlflow.chat.tools" in given:
        request = structs.replace(request, tools=None)
    return under_names(request, response)
