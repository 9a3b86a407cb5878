"""The tables that trace stores keep in ClickHouse, and how each spells what a span says.

A dialect is found by the columns that `system.columns` lists, never by the name of a product: what
lacks a column that is read here is not that dialect. Attributes are read by the names that
`replay.formats.genai.attributes` knows, in the same order, so that a run counted there and the same
run imported here agree.

Read from the schemas' own files, Apache-2.0: open-telemetry/opentelemetry-collector-contrib
`exporter/clickhouseexporter/internal/sqltemplates` (tables with maps as of commit 2bf6b9e1, with
JSON as of 39f94831); MIT: SigNoz/signoz-otel-collector
`cmd/signozschemamigrator/schema_migrator` (commit 1dca140e).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from msgspec import structs

from replay.fleet import langfuse
from replay.fleet.connection import Connection, identifier
from replay.fleet.dialect import (
    Attribute,
    Dialect,
    RunFact,
    Table,
    Tables,
    first_count,
    first_of,
    literal,
    literals,
    meaning,
)
from replay.fleet.spans import LATEST_NS, read_rows
from replay.fleet.stores import BadFleet, FleetStore
from replay.formats import otlp
from replay.formats.genai import attributes

_COLUMNS = """
SELECT table, name, type FROM system.columns
WHERE database = currentDatabase() ORDER BY table, position
"""


def find_dialect(connection: Connection, store: FleetStore) -> Dialect:
    """The dialect of a database, for the runs of a store's services, or of its project. Raises
    BadFleet, saying what was looked for, where there is none; FleetError where it cannot be
    asked."""
    tables: dict[str, dict[str, str]] = {}
    for table, name, type_ in connection.rows(_COLUMNS):
        tables.setdefault(table, {})[name] = type_
    found = _exporter(tables) or _signoz(tables)
    if found is not None and store.project is not None:
        raise BadFleet(
            f"{found.title} has no projects, and this store is asked for '{store.project}'",
            "Try: arc fleet add NAME URL, without --project",
        )
    if found is not None and store.langfuse is not None:
        raise BadFleet(
            f"{found.title} is no Langfuse, and this store is asked for version {store.langfuse}",
            "Try: arc fleet add NAME URL, without --langfuse",
        )
    found = found or langfuse.find(connection, tables, store.project, store.langfuse)
    if found is None:
        seen = ", ".join(sorted(tables)[:8]) or "none that this user may read"
        raise BadFleet(
            f"no known table of spans in database '{connection.address.database}'. Looked for:"
            f" {'; '.join((*LOOKED_FOR, *langfuse.looked_for(tables)))}. Tables there: {seen}",
            "Try: arc fleet add NAME URL, with its database in it",
        )
    return structs.replace(found, services=store.services)


# --- what attributes say, in any dialect that has them


def _kind(of: Attribute, span_name: str) -> str:
    """What `attributes.kind_of` tells, but for what events alone tell."""
    operation = of(attributes.OPERATION)
    mlflow = f"lower(trim(BOTH '\"' FROM {of('mlflow.spanType')}))"
    cases = [
        f"{operation} IN ({literals(attributes.OPERATIONS)}),"
        f" {meaning(operation, attributes.OPERATIONS)}",
        *(
            f"{of(name)} <> '', {meaning(f'lower({of(name)})', attributes.KIND_WORDS)}"
            for name in attributes.NAMING
        ),
        f"{operation} <> '', 'other'",
        f"{mlflow} <> '', {meaning(mlflow, attributes.KIND_WORDS)}",
    ]
    vercel = of("ai.operationId")
    cases += [
        f"{vercel} = 'ai.toolCall', 'tool'",
        f"endsWith({vercel}, '.doGenerate') OR endsWith({vercel}, '.doStream'), 'model'",
        f"position({vercel}, '.embed') > 0, 'other'",
        f"{vercel} <> '', 'agent'",
    ]
    cases += [f"{span_name} = {literal(n)}, '{k}'" for n, k in attributes.HAYSTACK.items()]
    asks = first_of(of, attributes.ASKED_MODEL.names[:3])
    cases += [
        f"endsWith({of('haystack.component.type')}, 'Generator'), 'model'",
        f"{of('gen_ai.tool.name')} <> '' OR {of('gen_ai.tool.call.id')} <> '', 'tool'",
        f"{of(attributes.OUTPUT)} <> '' OR {of('gen_ai.completion.0.role')} <> '', 'model'",
        f"{asks} <> '' AND {first_of(of, attributes.USAGE_OUT.names)} <> '', 'model'",
        f"{of('gen_ai.agent.name')} <> '', 'agent'",
    ]
    return f"multiIf({', '.join(cases)}, 'other')"


def _outcome(of: Attribute, resource: Attribute, labels: str) -> str:
    """What a root says: by `arc.outcome`, else by an evaluation, whose labels are the array
    `labels`."""
    said = f"lower(coalesce(nullIf({of(OUTCOME)}, ''), {resource(OUTCOME)}))"
    passed, failed = literals(attributes.PASSED), literals(attributes.FAILED)
    return (
        f"multiIf({said} IN ({failed}), 'failed', {said} IN ({passed}), 'passed',"
        f" hasAny({labels}, [{failed}]), 'failed', hasAny({labels}, [{passed}]), 'passed', '')"
    )


OUTCOME = attributes.OUTCOME.names[0]


def _variant(of: Attribute) -> str:
    name, version = (
        first_of(of, each.names) for each in (attributes.PROMPT, attributes.PROMPT_VERSION)
    )
    return f"if({version} = '', '', trim(concat({name}, ' ', {version})))"


def _tools_of_map(column: str, span_name: str) -> tuple[str, ...]:
    """What `_kind` needs to be 'tool', as far as indices of names and values decide it."""
    words, haystack = (
        literals(word for word, kind in each.items() if kind == "tool")
        for each in (attributes.OPERATIONS, attributes.HAYSTACK)
    )
    names = (*attributes.NAMING, "mlflow.spanType", "ai.operationId", "gen_ai.tool.name",
             "gen_ai.tool.call.id")  # fmt: skip
    keys = literals(names)
    return (
        f"hasAny(mapValues({column}), [{words}]) OR hasAny(mapKeys({column}), [{keys}])",
        f"{span_name} IN ({haystack})",
    )


def _tool(of: Attribute, span_name: str) -> str:
    bare = f"replaceRegexpOne({span_name}, '^execute_tool ', '')"
    return f"coalesce(nullIf({first_of(of, attributes.TOOL.names)}, ''), {bare})"


def _of_attributes(
    table: Table, of: Attribute, resource: Attribute, *, root: str, span_name: str, labels: str
) -> dict[str, Any]:
    """The fields of a dialect that attributes tell."""
    answered = first_of(of, attributes.ANSWERED_MODEL.names)
    asked = first_of(of, attributes.ASKED_MODEL.names)
    agent = first_of(of, attributes.AGENT.names)
    return {
        "kind": _kind(of, span_name),
        "tool": _tool(of, span_name),
        "model": f"coalesce(nullIf({answered}, ''), {asked})",
        "agent": f"coalesce(nullIf({agent}, ''), {span_name})",
        "input_tokens": first_count(of, attributes.USAGE_IN.names),
        "output_tokens": first_count(of, attributes.USAGE_OUT.names),
        "outcome": RunFact(table=table, value=_outcome(of, resource, labels), condition=root),
        "variant": _variant(of),
        "arguments": first_of(of, attributes.ARGUMENTS.names),
        "result": first_of(of, attributes.RESULT.names),
        "stop": first_of(of, attributes.STOP.names),
        "answer": of(attributes.OUTPUT),
        "offers": first_of(of, attributes.TOOLS.names),
        "labels": {
            name: RunFact(table=table, value=value)
            for name, value in {
                "session": first_of(of, attributes.SESSION.names),
                "service": resource("service.name"),
                "environment": first_of(
                    resource, ("deployment.environment.name", "deployment.environment")
                ),
            }.items()
        },
    }


# --- the table of OpenTelemetry's exporter

_EXPORTER = frozenset(
    "Timestamp TraceId SpanId ParentSpanId SpanName SpanKind ServiceName ResourceAttributes"
    " SpanAttributes Duration StatusCode StatusMessage Events.Name Events.Attributes".split()
)
_EXPORTED = (
    "TraceId", "SpanId", "ParentSpanId", "SpanName", "SpanKind",
    "toUnixTimestamp64Nano(Timestamp) AS start_ns", "Duration", "StatusCode", "StatusMessage",
)  # fmt: skip


def _exporter(tables: Tables) -> Dialect | None:
    """The table with maps, or with JSON; under whichever name it was given."""
    for table, columns in tables.items():
        if not columns.keys() >= _EXPORTER:
            continue
        type_ = columns["SpanAttributes"]
        if type_.startswith("Map("):
            return _exporter_table(
                table, tables, _of_map, "maps", "arrayMap(e -> toJSONString(e), {})"
            )
        if type_.startswith("JSON"):
            return _exporter_table(
                table, tables, _of_json, "JSON", "arrayMap(e -> toJSONString(e), {})"
            )
    return None


def _end(start: str, duration: str) -> str:
    """When a span ended; where that is later than a moment can be, when it began: its duration is
    nonsense, such as a negative one in an unsigned column, and the whole answer would be an error.
    """
    known = f"{duration} <= toUInt64({LATEST_NS} - toUnixTimestamp64Nano({start}))"
    return f"addNanoseconds({start}, if({known}, {duration}, 0))"


def _of_map(column: str) -> Attribute:
    return lambda name: f"{column}[{literal(name)}]"


def _of_json(column: str) -> Attribute:
    """A path of a column of JSON, whose names are nested by their dots; lists as their JSON."""

    def of(name: str) -> str:
        path = ".".join(identifier(part) for part in name.split("."))
        return f"ifNull(toString({column}.{path}), '')"

    return of


def _exporter_table(
    table: str,
    tables: Tables,
    attribute: Callable[[str], Attribute],
    form: str,
    events: str,
) -> Dialect:
    of, resource = attribute("SpanAttributes"), attribute("ResourceAttributes")
    lookup = f"{table}_trace_id_ts"
    label = attribute("a")("gen_ai.evaluation.score.label")
    old = attribute("a")("gen_ai.evaluation.label")
    labels = (
        "arrayMap((n, a) -> if(n IN ('gen_ai.evaluation.result', 'gen_ai.evaluation'),"
        f" lower(coalesce(nullIf({label}, ''), {old})), ''), Events.Name, Events.Attributes)"
    )
    root = "ParentSpanId = ''"
    texts = "mapValues(SpanAttributes)" if form == "maps" else "[toJSONString(SpanAttributes)]"
    json = ("[toJSONString(SpanAttributes)]", "toJSONString(ResourceAttributes)")
    told = (
        "Events.Name", "arrayMap(t -> toUnixTimestamp64Nano(t), Events.Timestamp)",
        events.format("Events.Attributes"),
    )  # fmt: skip
    spans = Table(rows=identifier(table), trace="TraceId", id="SpanId", start="Timestamp")
    return Dialect(
        title=f"OpenTelemetry exporter ({form})",
        format=otlp.NAME,
        table=spans,
        read=partial(read_rows, (*_EXPORTED, *json, *told)),
        end=_end("Timestamp", "Duration"),
        parent="ParentSpanId",
        span_name="SpanName",
        service="ServiceName",
        failed=f"(StatusCode IN ('Error', 'STATUS_CODE_ERROR') OR (StatusCode IN ('Unset',"
        f" 'STATUS_CODE_UNSET', '') AND {of('error.type')} <> ''))",
        message="StatusMessage",
        texts=texts,
        lookup=identifier(lookup)
        if tables.get(lookup, {}).keys() >= {"TraceId", "Start", "End"}
        else None,
        tools=_tools_of_map("SpanAttributes", "SpanName") if form == "maps" else ("1",),
        **_of_attributes(spans, of, resource, root=root, span_name="SpanName", labels=labels),
    )


# --- SigNoz

_SIGNOZ = frozenset(
    "ts_bucket_start timestamp trace_id span_id parent_span_id name kind_string duration_nano"
    " status_code_string status_message attributes_string attributes_number attributes_bool"
    " resources_string events".split()
)
_MAPS = ("attributes_string", "attributes_number", "attributes_bool")


def _signoz(tables: Tables) -> Dialect | None:
    """The table of spans of version 3, by the name that asks all shards where it is there."""
    found = [table for table, columns in tables.items() if columns.keys() >= _SIGNOZ]
    if not found:
        return None
    table = max(found, key=lambda name: name.startswith("distributed_"))
    event = "JSONExtractString(e, 'name')"
    label, old = (
        f"JSONExtractString(e, 'attributeMap', 'gen_ai.evaluation.{each}')"
        for each in ("score.label", "label")
    )
    labels = (
        f"arrayMap(e -> if({event} IN ('gen_ai.evaluation.result', 'gen_ai.evaluation'),"
        f" lower(coalesce(nullIf({label}, ''), {old})), ''), events)"
    )
    spans = Table(
        rows=identifier(table), trace="trace_id", id="span_id", start="timestamp",
        bucket="ts_bucket_start",
    )  # fmt: skip
    columns = (
        "toString(trace_id)", "span_id", "parent_span_id", "name", "kind_string",
        "toUnixTimestamp64Nano(timestamp) AS start_ns", "duration_nano", "status_code_string",
        "status_message", f"[{', '.join(f'toJSONString({each})' for each in _MAPS)}]",
        "toJSONString(resources_string)", f"arrayMap(e -> {event}, events)",
        "arrayMap(e -> JSONExtractUInt(e, 'timeUnixNano'), events)",
        "arrayMap(e -> JSONExtractRaw(e, 'attributeMap'), events)",
    )  # fmt: skip
    return Dialect(
        title="SigNoz",
        format=otlp.NAME,
        table=spans,
        read=partial(read_rows, columns),
        end=_end("timestamp", "duration_nano"),
        parent="parent_span_id",
        span_name="name",
        service="resources_string['service.name']",
        failed=f"(status_code_string = 'Error' OR (status_code_string IN ('Unset', '')"
        f" AND {_of_maps('error.type')} <> ''))",
        message="status_message",
        texts="mapValues(attributes_string)",
        **_of_attributes(
            spans, _of_maps, _of_map("resources_string"), root="parent_span_id = ''",
            span_name="name", labels=labels,
        ),
    )  # fmt: skip


def _of_maps(name: str) -> str:
    """An attribute, in whichever map its type has put it."""
    key = literal(name)
    cases = [f"mapContains({each}, {key}), toString({each}[{key}])" for each in _MAPS]
    return f"multiIf({', '.join(cases)}, '')"


LOOKED_FOR = (
    "OpenTelemetry's exporter (otel_traces: TraceId, SpanAttributes, Events.Name, …)",
    "SigNoz (signoz_index_v3: trace_id, attributes_string, events, …)",
)
