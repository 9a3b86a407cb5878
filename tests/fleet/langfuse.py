"""Traces as Langfuse's API answers them, and the rows that its servers keep of them in ClickHouse:
the tables of version 3, and the events of version 4, as it writes them itself or copies them from
version 3."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from tests.fleet import exporter

Json = dict[str, Any]
PROJECT = "p-1"

_REPLACED = "ENGINE = ReplacingMergeTree(event_ts, is_deleted)"
_MAP = "Map(LowCardinality(String), String)"
_USAGE = (
    "usage_details Map(LowCardinality(String), UInt64),"
    " cost_details Map(LowCardinality(String), Decimal(18, 12))"
)


def tables_v3(database: str) -> Iterator[str]:
    """The statements that make the tables of version 3."""
    yield (
        f"CREATE TABLE {database}.traces (id String, timestamp DateTime64(3), name String,"
        f" user_id Nullable(String), metadata {_MAP}, release Nullable(String),"
        " version Nullable(String), project_id String, environment LowCardinality(String) DEFAULT"
        " 'default', tags Array(String), input Nullable(String), output Nullable(String),"
        " session_id Nullable(String), event_ts DateTime64(3), is_deleted UInt8,"
        f" INDEX i id TYPE bloom_filter(0.001) GRANULARITY 1) {_REPLACED}"
        " PARTITION BY toYYYYMM(timestamp) PRIMARY KEY (project_id, toDate(timestamp))"
        " ORDER BY (project_id, toDate(timestamp), id)"
    )
    yield (
        f"CREATE TABLE {database}.observations (id String, trace_id String, project_id String,"
        " environment LowCardinality(String) DEFAULT 'default', type LowCardinality(String),"
        " parent_observation_id Nullable(String), start_time DateTime64(3),"
        f" end_time Nullable(DateTime64(3)), name String, metadata {_MAP},"
        " level LowCardinality(String), status_message Nullable(String), version Nullable(String),"
        " input Nullable(String), output Nullable(String), provided_model_name Nullable(String),"
        f" model_parameters Nullable(String), {_USAGE}, prompt_name Nullable(String),"
        " prompt_version Nullable(UInt16), tool_definitions Map(String, String) DEFAULT map(),"
        " event_ts DateTime64(3), is_deleted UInt8,"
        f" INDEX i trace_id TYPE bloom_filter() GRANULARITY 1) {_REPLACED}"
        " PARTITION BY toYYYYMM(start_time) PRIMARY KEY (project_id, type, toDate(start_time))"
        " ORDER BY (project_id, type, toDate(start_time), id)"
    )
    yield from _scores(database)


def _scores(database: str) -> Iterator[str]:
    yield (
        f"CREATE TABLE {database}.scores (id String, timestamp DateTime64(3), project_id String,"
        " trace_id Nullable(String), observation_id Nullable(String), name String, value Float64,"
        " source String, comment Nullable(String), data_type String,"
        " string_value Nullable(String), event_ts DateTime64(3), is_deleted UInt8)"
        f" {_REPLACED} PARTITION BY toYYYYMM(timestamp)"
        " PRIMARY KEY (project_id, toDate(timestamp), name)"
        " ORDER BY (project_id, toDate(timestamp), name, id)"
    )


def tables_v4(database: str, *, cut: bool = False) -> Iterator[str]:
    """The same of version 4; `cut` for the table with the beginnings of texts."""
    yield (
        f"CREATE TABLE {database}.{'events_core' if cut else 'events_full'} (project_id String,"
        " trace_id String, span_id String, parent_span_id String, start_time DateTime64(6),"
        " end_time Nullable(DateTime64(6)), name String, type LowCardinality(String),"
        " environment LowCardinality(String) DEFAULT 'default', version String, release String,"
        " trace_name String, user_id String, session_id String, tags Array(String),"
        " level LowCardinality(String), status_message String, prompt_name String,"
        " prompt_version Nullable(UInt16), provided_model_name String, model_parameters String,"
        f" {_USAGE}, tool_definitions Map(String, String), input String, output String,"
        " metadata_names Array(String), metadata_values Array(String), service_name String,"
        " event_ts DateTime64(6), is_deleted UInt8,"
        f" INDEX i trace_id TYPE bloom_filter(0.01) GRANULARITY 1) {_REPLACED}"
        " PARTITION BY toYYYYMM(start_time)"
        " PRIMARY KEY (project_id, toStartOfMinute(start_time), xxHash32(trace_id)) ORDER BY"
        " (project_id, toStartOfMinute(start_time), xxHash32(trace_id), span_id, start_time)"
    )
    yield from _scores(database)


# --- the made-up agent, as the API would answer


def exports(file: Path) -> Iterator[Json]:
    """The runs of a file of OTLP as traces of Langfuse, times to the millisecond; a page of the web
    server too, of which no model was asked."""
    traces: dict[str, list[Json]] = {}
    for row in exporter.rows(file, json=True):
        traces.setdefault(row["TraceId"], []).append(row)
    for number, (trace, rows) in enumerate(traces.items()):
        root = rows[0]
        yield {
            "id": trace, "projectId": PROJECT, "name": root["SpanName"],
            "timestamp": _iso(root["Timestamp"]), "sessionId": f"s{number % 7}",
            "userId": None, "tags": ["shop"], "release": None, "version": f"v{number % 2}",
            "environment": root["ResourceAttributes"]["deployment.environment.name"],
            "input": None, "output": None, "metadata": {}, "htmlPath": f"/t/{trace}",
            "observations": [_observation(row, number) for row in rows],
            "scores": list(_scores_of(root, rows)),
        }  # fmt: skip


def _iso(decimal: str, more_ns: int = 0) -> str:
    seconds, _, rest = decimal.partition(".")
    ns = int(seconds) * 10**9 + int(rest) + more_ns
    moment = datetime.fromtimestamp(ns // 10**9, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{ns % 10**9 // 10**6:03}Z"


_TYPES = {"chat": "GENERATION", "execute_tool": "TOOL", "invoke_agent": "AGENT"}


def _observation(row: Json, number: int) -> Json:
    given: Json = dict(row["SpanAttributes"])
    inputs, outputs = (
        next((given.pop(name) for name in names if name in given), None)
        for names in (
            ("gen_ai.input.messages", "gen_ai.tool.call.arguments"),
            ("gen_ai.output.messages", "gen_ai.tool.call.result"),
        )
    )
    used = {
        side: given.pop(f"gen_ai.usage.{side}_tokens")
        for side in ("input", "output")
        if f"gen_ai.usage.{side}_tokens" in given
    }
    asks = given.get("gen_ai.operation.name") == "chat"
    erred = row["StatusCode"] == "Error"
    return {
        "id": _id(row, "SpanId"), "traceId": row["TraceId"], "projectId": PROJECT,
        "parentObservationId": _id(row, "ParentSpanId"),
        "type": _TYPES.get(given.get("gen_ai.operation.name", ""), "SPAN"),
        "startTime": _iso(row["Timestamp"]), "endTime": _iso(row["Timestamp"], row["Duration"]),
        "name": row["SpanName"], "level": "ERROR" if erred else "DEFAULT",
        "statusMessage": row["StatusMessage"] or None, "environment": "default",
        "input": inputs, "output": outputs, "model": given.pop("gen_ai.response.model", None),
        "modelParameters": {"temperature": 0.5} if asks else {},
        "usageDetails": {**used, "total": sum(used.values())} if used else {},
        "costDetails": {"input": 0.0012, "total": 0.0027} if used else {},
        "promptName": "support" if asks and number % 3 else None,
        "promptVersion": number % 3 or None if asks else None,
        "metadata": {"attributes": {k: _text(v) for k, v in given.items()},
                     "resourceAttributes": row["ResourceAttributes"], "scope": {"name": "agent"}},
    }  # fmt: skip


def _id(row: Json, column: str) -> str | None:
    """The id of a span, which Langfuse has once in a project, not in a trace."""
    return f"{row['TraceId']}-{row[column]}" if row[column] else None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _scores_of(root: Json, rows: list[Json]) -> Iterator[Json]:
    """How a run ended as a yes or no, or as a label, with a contradiction where it failed; and what
    tells of no end: a number, and a score of a span."""
    said = root["SpanAttributes"].pop("arc.outcome", None)
    if said is not None:
        yield _score(rows, "Success", said == "passed", "True" if said == "passed" else "False")
    for event in root["Events.Attributes"]:
        label = event["gen_ai.evaluation.score.label"]
        yield _score(rows, "outcome", 0, label)
        if label == "fail":
            yield _score(rows, "passed", 1, "True")
    if len(rows) > 1:
        yield _score(rows, "quality", 0.25, None)
        yield {**_score(rows, "failed", 1, "True"), "observationId": _id(rows[1], "SpanId")}


def _score(rows: list[Json], name: str, value: float, label: str | None) -> Json:
    trace = rows[0]["TraceId"]
    yes_or_no = label in ("True", "False")
    return {
        "id": f"{trace}-{name}", "traceId": trace, "name": name, "value": float(value),
        "timestamp": _iso(rows[0]["Timestamp"], 10**9), "observationId": None, "source": "API",
        "comment": None, "stringValue": label,
        "dataType": "BOOLEAN" if yes_or_no else "NUMERIC" if label is None else "CATEGORICAL",
    }  # fmt: skip


# --- rows


def trace_of(document: Json) -> Json:
    """A trace as the API answers it, of an answer or of a download."""
    if "trace" not in document:
        return document
    above = {name: document.get(name) or [] for name in ("observations", "scores")}
    about = document["trace"]
    return {**about, **{n: above[n] or about.get(n) or [] for n in above}}


def rows_v3(traces: Iterable[Json], **more: Any) -> dict[str, list[Json]]:
    """The rows of each table; `more` are values of columns that each has."""
    found: dict[str, list[Json]] = {"traces": [], "observations": [], "scores": []}
    for trace in traces:
        found["traces"].append({
            "id": trace["id"], "timestamp": _moment(trace["timestamp"]), "name": trace["name"],
            "user_id": trace.get("userId"), "metadata": _values(trace.get("metadata")),
            "release": trace.get("release"), "version": trace.get("version"),
            "environment": trace.get("environment") or "default",
            "tags": trace.get("tags") or [], "input": _stored(trace.get("input")),
            "output": _stored(trace.get("output")), "session_id": trace.get("sessionId"),
            **_kept(**more),
        })  # fmt: skip
        found["observations"] += [_row_v3(row, **more) for row in trace["observations"]]
        found["scores"] += [_score_row(trace, row, **more) for row in trace["scores"]]
    return found


def _kept(**more: Any) -> Json:
    return {"project_id": PROJECT, "event_ts": "2026-11-22 10:00:00.000", "is_deleted": 0, **more}


def _row_v3(row: Json, **more: Any) -> Json:
    return {
        "id": row["id"], "trace_id": row["traceId"], **_shared(row),
        "parent_observation_id": row["parentObservationId"],
        "metadata": _values(row.get("metadata")), "status_message": row.get("statusMessage"),
        "input": _stored(row.get("input")), "output": _stored(row.get("output")),
        "provided_model_name": row.get("model"),
        "model_parameters": _stored(row.get("modelParameters")),
        "prompt_name": row.get("promptName"), **_kept(**more),
    }  # fmt: skip


def _shared(row: Json) -> Json:
    cost, used = row.get("costDetails"), row.get("usageDetails")
    if cost is None:  # of a server before there were details
        cost = {"total": row["calculatedTotalCost"]}
        used = {"input": row["inputUsage"], "output": row["outputUsage"]}
    costs = {name: f"{each:.12f}" for name, each in cost.items()}
    return {
        "type": row["type"], "start_time": _moment(row["startTime"]), "name": row["name"],
        "end_time": _moment(row["endTime"]) if row["endTime"] else None,
        "level": row["level"], "environment": row.get("environment") or "default",
        "usage_details": used or {}, "cost_details": costs,
        "prompt_version": row.get("promptVersion"),
        "tool_definitions": {
            name: _text(each) for name, each in (row.get("toolDefinitions") or {}).items()
        },
    }  # fmt: skip


def _score_row(trace: Json, row: Json, **more: Any) -> Json:
    return {
        "id": row["id"], "trace_id": trace["id"], "observation_id": row.get("observationId"),
        "timestamp": _moment(row.get("timestamp") or trace["timestamp"]), "name": row["name"],
        "value": row["value"], "source": row["source"], "comment": row.get("comment"),
        "data_type": row["dataType"], "string_value": row.get("stringValue"), **_kept(**more),
    }  # fmt: skip


def rows_v4(traces: Iterable[Json], *, copied: bool = False, **more: Any) -> dict[str, list[Json]]:
    """The same for version 4: as it writes them itself, each value of the metadata under a name
    with dots; or `copied` from version 3, where a row stands for the trace."""
    found: dict[str, list[Json]] = {"events_full": [], "scores": []}
    for trace in traces:
        about = {
            "trace_name": trace["name"], "user_id": trace.get("userId") or "",
            "session_id": trace.get("sessionId") or "", "tags": trace.get("tags") or [],
            "release": trace.get("release") or "", "version": trace.get("version") or "",
        }  # fmt: skip
        if copied:
            whole = {
                **trace, "type": "SPAN", "startTime": trace["timestamp"], "endTime": None,
                "level": "DEFAULT", "parentObservationId": None, "costDetails": {},
            }  # fmt: skip
            root = _row_v4(trace, whole, about, f"t-{trace['id']}", "", copied, **more)
            found["events_full"].append(root)
        else:
            about["environment"] = trace.get("environment") or "default"
        for row in trace["observations"]:
            parent = row["parentObservationId"] or (f"t-{trace['id']}" if copied else "")
            found["events_full"].append(
                _row_v4(trace, row, about, row["id"], parent, copied, **more)
            )
        found["scores"] += [_score_row(trace, row, **more) for row in trace["scores"]]
    return found


def _row_v4(
    trace: Json, row: Json, about: Json, id: str, parent: str, copied: bool, **more: Any
) -> Json:
    metadata = _values(row.get("metadata")) if copied else dict(_flat(_object(row.get("metadata"))))
    resource = _object(row.get("metadata")).get("resourceAttributes") or {}
    return {
        "trace_id": trace["id"], "span_id": id, "parent_span_id": parent, **_shared(row), **about,
        "status_message": row.get("statusMessage") or "", "input": _stored(row.get("input")) or "",
        "output": _stored(row.get("output")) or "", "provided_model_name": row.get("model") or "",
        "model_parameters": _stored(row.get("modelParameters")) or "",
        "prompt_name": row.get("promptName") or "", "metadata_names": [*metadata],
        "metadata_values": [*metadata.values()], "service_name": resource.get("service.name", ""),
        **_kept(**more),
    }  # fmt: skip


def _moment(iso: str) -> str:
    return iso.replace("T", " ").removesuffix("Z")


def _stored(value: Any) -> str | None:
    """A text as it is, anything else as its JSON."""
    return value if value is None or isinstance(value, str) else json.dumps(value)


def _object(value: Any) -> Json:
    found = msgspec.json.decode(value) if isinstance(value, str) else value
    return found or {}


def _values(metadata: Any) -> dict[str, str]:
    return {name: _text(value) for name, value in _object(metadata).items()}


def _flat(value: Json, before: str = "") -> Iterator[tuple[str, str]]:
    for name, each in value.items():
        if isinstance(each, dict):
            yield from _flat(each, f"{before}{name}.")
        else:
            yield f"{before}{name}", "" if each is None else _text(each)
