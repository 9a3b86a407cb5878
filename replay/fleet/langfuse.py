"""Langfuse's tables in ClickHouse: those of version 3, and the events of version 4.

Rows are replaced by later ones. A window is asked with FINAL, which merges versions in the order
that the table is sorted by and needs no memory for them; traces of a few ids with the latest of
their rows, which finds them by the index of ids that FINAL does not use. An observation whose type
or day was changed stands twice for FINAL, as it is sorted by them: a condition may be met by its
older version, counts and copies never are made of it.

Read from the schema's own files, MIT (outside `ee/`): langfuse/langfuse
`packages/shared/clickhouse/migrations` 0001 to 0042 (commit 62751446).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

import msgspec
from msgspec import Struct, structs

from replay.depth import from_text
from replay.fleet.connection import Connection
from replay.fleet.dialect import (
    Attribute,
    Began,
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
from replay.fleet.stores import BadFleet
from replay.formats import langfuse
from replay.formats.genai import attributes
from replay.formats.langfuse import OUTCOME_NAMES, Sort
from replay.formats.source import Tally
from replay.trace import FLEET, Batch, Json

_DAY_NS = 86_400_000_000_000


class _Form(Struct, frozen=True, kw_only=True):
    """A version's tables with the columns that are read of each; the first has the spans. `cut`
    says that it has only the beginning of each text."""

    version: int
    title: str
    columns: Mapping[str, frozenset[str]]
    cut: bool = False

    @property
    def spans(self) -> str:
        return next(iter(self.columns))

    def missing(self, tables: Tables) -> list[str]:
        """The columns that are not there."""
        return [
            f"{table}.{column}"
            for table, columns in self.columns.items()
            for column in sorted(columns - tables.get(table, {}).keys())
        ]


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_SCORES = _names(
    "id timestamp project_id trace_id observation_id name value source comment data_type"
    " string_value event_ts is_deleted"
)
_TRACES = _names(
    "id timestamp project_id name user_id session_id metadata release version tags input output"
    " event_ts is_deleted"
)
_OBSERVATIONS = _names(
    "id trace_id project_id type parent_observation_id start_time end_time name metadata level"
    " status_message input output provided_model_name model_parameters usage_details cost_details"
    " prompt_name prompt_version event_ts is_deleted"
)
_EVENTS = _names(
    "span_id trace_id project_id type parent_span_id start_time end_time name metadata_names"
    " metadata_values level status_message input output provided_model_name model_parameters"
    " usage_details cost_details prompt_name prompt_version environment version release tags"
    " trace_name user_id session_id service_name tool_definitions event_ts is_deleted"
)

_V3 = _Form(
    version=3,
    title="Langfuse v3",
    columns={"observations": _OBSERVATIONS, "traces": _TRACES, "scores": _SCORES},
)
_V4 = _Form(version=4, title="Langfuse v4", columns={"events_full": _EVENTS, "scores": _SCORES})
_V4_CUT = _Form(
    version=4,
    title="Langfuse v4 (events_core)",
    columns={"events_core": _EVENTS, "scores": _SCORES},
    cut=True,
)


def find(
    connection: Connection, tables: Tables, project: str | None, version: str | None
) -> Dialect | None:
    """The dialect of these tables, for one project: that of a version, or where none is named that
    of version 4 where it has rows, with a note where others do too; None where columns are missing.
    Raises BadFleet where there are several projects and none is named, no such project, or no such
    version; FleetError."""
    there = [form for form in (_V4, _V3, _V4_CUT) if not form.missing(tables)]
    found = [form for form in there if version in (None, str(form.version))]
    if not found:
        if there:
            raise BadFleet(
                f"there are no tables of Langfuse v{version} here, but those of {there[0].title}",
                "Try: arc fleet add NAME URL, without --langfuse",
            )
        return None
    whole = [form for form in found if not form.cut] or found
    filled = [form for form in whole if len(whole) > 1 and _has_rows(connection, form)]
    form = next(iter(filled), whole[-1])
    project = _project(connection, form, project)
    dialect = _v3(tables, project) if form is _V3 else _v4(form, project)
    notes = [BOTH.format(each.title, each.version) for each in filled[1:]]
    return structs.replace(dialect, notes=(*dialect.notes, *notes))


BOTH = "{} has runs here too, which are not asked. Try: arc fleet add NAME URL --langfuse {}"


def _has_rows(connection: Connection, form: _Form) -> bool:
    return bool(connection.rows(f"SELECT 1 FROM {form.spans} LIMIT 1"))


def looked_for(tables: Tables) -> Iterator[str]:
    """What makes tables those of Langfuse, and what is missing where some are there."""
    for form in (_V3, _V4):
        missing = form.missing(tables) if form.spans in tables else []
        columns = f"without {', '.join(missing[:5])}" if missing else "project_id, trace_id, …"
        yield f"{form.title} ({', '.join(form.columns)}: {columns})"


def _project(connection: Connection, form: _Form, named: str | None) -> str:
    """The project that is asked."""
    known = [
        str(project)
        for (project,) in connection.rows(
            f"SELECT DISTINCT project_id FROM {form.spans} ORDER BY project_id LIMIT 9"
            if named is None
            else f"SELECT project_id FROM {form.spans} WHERE project_id = {{project:String}}"
            " LIMIT 1",
            {"project": named or ""},
        )
    ]
    if named is not None and not known:
        raise BadFleet(
            f"{form.title} has no runs of a project '{named}'",
            "Try: arc fleet add NAME URL, without --project, which lists them where there are"
            " several",
        )
    if len(known) > 1:
        raise BadFleet(
            f"{form.title} has runs of several projects: {', '.join(known[:8])}"
            + (", …" if len(known) > 8 else ""),
            f"Try: arc fleet add NAME URL --project {known[0]}",
        )
    return known[0] if known else ""


# --- what rows say


def _table(
    name: str,
    project: str,
    *,
    trace: str = "trace_id",
    id: str = "id",
    start: str = "timestamp",
    early_ns: int = 0,
    condition: str = "",
) -> Table:
    of_project = f"WHERE project_id = {literal(project)}{condition}"
    return Table(
        rows=f"(SELECT * FROM {name} FINAL {of_project} AND NOT is_deleted)",
        versions=f"(SELECT * FROM {name} {of_project})",
        trace=trace,
        id=id,
        start=start,
        early_ns=early_ns,
    )


def _outcome(scores: Table) -> RunFact:
    """What `formats.langfuse` reads of an export: a score of the whole run that is named for how it
    ended, a yes or no or a label."""
    failed = literals(attributes.FAILED)
    bad = f"lower(name) IN ({failed})"
    label = "lower(ifNull(string_value, ''))"
    return RunFact(
        table=scores,
        condition=f"lower(name) IN ({literals(OUTCOME_NAMES)})"
        " AND ifNull(observation_id, '') IN ('', concat('t-', ifNull(trace_id, '')))",
        value=f"multiIf(data_type = 'BOOLEAN', multiIf(value = 1, if({bad}, 'failed', 'passed'),"
        f" value = 0, if({bad}, 'passed', 'failed'), ''), {label} IN ({failed}), 'failed',"
        f" {label} IN ({literals(attributes.PASSED)}), 'passed', '')",
    )


def _kind(of: Attribute) -> str:
    """What `formats.langfuse` takes a row for: by its type, but for plain spans that run an agent,
    and the outer spans of the JavaScript SDK."""
    called, vercel = of("traceloop.span.kind"), of("ai.operationId")
    runs = f"({of(attributes.OPERATION)} = 'invoke_agent' OR {of('agent_name')} <> '')"
    outer = (
        f"(countSubstrings({vercel}, '.') = 1 AND position({vercel}, '.embed') = 0"
        f" AND {vercel} <> 'ai.toolCall')"
    )
    return (
        f"multiIf(lower(type) = 'tool', 'tool',"
        f" {called} <> '', {meaning(f'lower({called})', attributes.KIND_WORDS)},"
        f" lower(type) IN ('span', '') AND {runs} AND {of('gen_ai.tool.name')} = '', 'agent',"
        f" lower(type) = 'generation' AND {outer}, 'agent',"
        f" {meaning('lower(type)', attributes.KIND_WORDS)})"
    )


def _tokens(of: Attribute, side: str, names: Sequence[str]) -> str:
    """What `genai.usage.service_counts` makes of the counts: the parts of a side stand beside it
    where they do not add up to the total without them; else what attributes say."""
    stems = (f"{side}_", "cache_") if side == "input" else (f"{side}_",)
    parts = " OR ".join(f"startsWith(k, '{stem}')" for stem in stems)
    beside = f"arraySum(mapValues(mapFilter((k, v) -> k <> '{side}' AND ({parts}), usage_details)))"
    within = (
        "mapContains(usage_details, 'total') AND"
        " usage_details['total'] = usage_details['input'] + usage_details['output']"
    )
    known = f"mapContains(usage_details, '{side}')"
    return (
        "if(mapContains(usage_details, 'input') OR mapContains(usage_details, 'output'),"
        f" toInt64(if({known}, usage_details['{side}'] + if({within}, 0, {beside}),"
        f" if({within}, NULL, nullIf({beside}, 0)))), {first_count(of, names)})"
    )


def _dialect(form: _Form, of: Attribute, **more: Any) -> Dialect:
    """The fields that rows of either version say in the same words."""
    answered = first_of(of, attributes.ANSWERED_MODEL.names[:1])
    verb, words = "splitByChar(' ', name)[1]", "countSubstrings(name, ' ')"
    bare = f"if({words} = 1, coalesce(nullIf(splitByChar(' ', name)[2], ''), {verb}), name)"
    prompt = "trim(concat(ifNull(prompt_name, ''), ' ', ifNull(toString(prompt_version), '')))"
    return Dialect(
        title=form.title,
        format=langfuse.NAME,
        end="greatest(ifNull(end_time, start_time), start_time)",
        span_name="name",
        failed=f"(level = 'ERROR' OR ((end_time IS NULL OR end_time < start_time)"
        f" AND {of('error.type')} <> ''))",
        message="ifNull(status_message, '')",
        kind=_kind(of),
        tool=bare,
        model=f"coalesce(nullIf({answered}, ''), ifNull(provided_model_name, ''))",
        agent=f"coalesce(nullIf({first_of(of, attributes.AGENT.names)}, ''), name)",
        input_tokens=_tokens(of, "input", attributes.USAGE_IN.names),
        output_tokens=_tokens(of, "output", attributes.USAGE_OUT.names),
        variant=prompt,
        texts="[ifNull(input, ''), ifNull(output, '')]",
        **more,
    )


def _v3(tables: Tables, project: str) -> Dialect:
    spans = _table("observations", project, start="start_time")
    traces = _table("traces", project, trace="id", early_ns=_DAY_NS)
    scores = _table("scores", project, early_ns=_DAY_NS)
    of_trace = {name: name for name in ("environment",) if name in tables["traces"]}
    labels = {
        "session": "session_id", "user": "user_id", "release": "release", "version": "version",
        "tags": "arrayStringConcat(tags, ', ')", **of_trace,
    }  # fmt: skip
    newer = {
        name: column
        for name, column in (
            ("environment", "environment"),
            ("toolDefinitions", "tool_definitions"),
        )
        if column in tables["observations"]
    }
    reads = (
        _Read(Sort.TRACE, traces, {**_ABOUT, **of_trace}),
        _Read(Sort.OBSERVATION, spans, {**_OBSERVATION, **newer}),
        _Read(Sort.SCORE, scores, _SCORE),
    )
    return _dialect(
        _V3,
        lambda name: f"JSONExtract(metadata['attributes'], {literal(name)}, 'String')",
        table=spans,
        read=partial(_read, reads),
        parent="ifNull(parent_observation_id, '')",
        service="JSONExtractString(metadata['resourceAttributes'], 'service.name')",
        outcome=_outcome(scores),
        labels={
            name: RunFact(table=traces, value=f"ifNull({value}, '')")
            for name, value in labels.items()
        },
    )


_TRACE_ROW = "span_id = concat('t-', trace_id)"
"""Is a row of version 4 the one that stands for a trace of version 3?"""


def _v4(form: _Form, project: str) -> Dialect:
    name = form.spans
    of_events = partial(_table, name, project, id="span_id", start="start_time")
    events, spans = of_events(), of_events(condition=f" AND NOT ({_TRACE_ROW})")
    scores = _table("scores", project, early_ns=_DAY_NS)
    labels = {
        "session": "session_id", "user": "user_id", "environment": "environment",
        "release": "release", "version": "version", "tags": "arrayStringConcat(tags, ', ')",
    }  # fmt: skip
    reads = (_Read(Sort.OBSERVATION, events, _EVENT), _Read(Sort.SCORE, scores, _SCORE))
    return _dialect(
        form,
        _of_names,
        table=spans,
        read=_refuse if form.cut else partial(_read, reads),
        parent="if(parent_span_id = concat('t-', trace_id), '', parent_span_id)",
        service="service_name",
        outcome=_outcome(scores),
        labels={
            name: RunFact(table=events, value=value, condition="parent_span_id = ''")
            for name, value in labels.items()
        },
        notes=(CUT,) if form.cut else (),
    )


def _of_names(name: str) -> str:
    """An attribute: under its own name, as version 4 writes it, or in the object that was copied
    from version 3."""
    own, whole = (
        f"metadata_values[indexOf(metadata_names, {literal(each)})]"
        for each in (f"attributes.{name}", "attributes")
    )
    return f"coalesce(nullIf({own}, ''), JSONExtract({whole}, {literal(name)}, 'String'))"


CUT = "texts and attributes are cut to 200 characters in events_core; events_full cannot be read"


def _refuse(
    connection: Connection, dialect: Dialect, traces: Sequence[Began], tally: Tally
) -> Iterator[Batch]:
    del dialect, traces, tally
    raise BadFleet(
        f"{connection.name}: {CUT}, so a copy would not be the run",
        "Try: a user with SELECT on events_full",
    )


# --- copies


class _Read(Struct, frozen=True):
    """Rows of one sort, and their fields under the names of Langfuse's API, as SQL."""

    sort: Sort
    table: Table
    fields: Mapping[str, str]


_OBSERVATION = {
    "id": "id", "traceId": "trace_id", "type": "type", "startTime": "start_time",
    "parentObservationId": "parent_observation_id", "endTime": "end_time", "name": "name",
    "metadata": "metadata", "level": "level", "statusMessage": "status_message", "input": "input",
    "output": "output", "model": "provided_model_name", "modelParameters": "model_parameters",
    "usageDetails": "usage_details",
    "costDetails": "mapApply((k, v) -> (k, toFloat64(v)), cost_details)",
    "promptName": "prompt_name", "promptVersion": "prompt_version",
}  # fmt: skip
_OF_RUN = {
    "userId": "user_id", "sessionId": "session_id", "tags": "tags", "release": "release",
    "version": "version",
}  # fmt: skip
_ABOUT = {
    "id": "id", "timestamp": "timestamp", "name": "name", "metadata": "metadata",
    "input": "input", "output": "output", **_OF_RUN,
}  # fmt: skip
_EVENT = {
    **_OBSERVATION, **_OF_RUN, "id": "span_id", "parentObservationId": "parent_span_id",
    "metadata": "mapFromArrays(arrayReverse(metadata_names), arrayReverse(metadata_values))",
    "input": "nullIf(input, '')", "output": "nullIf(output, '')",
    "toolDefinitions": "tool_definitions", "environment": "environment", "traceName": "trace_name",
}  # fmt: skip
_SCORE = {
    "id": "id", "traceId": "trace_id", "observationId": "observation_id", "name": "name",
    "value": "value", "source": "source", "comment": "comment", "dataType": "data_type",
    "stringValue": "string_value", "timestamp": "timestamp",
}  # fmt: skip
_TIMES = ("startTime", "endTime", "timestamp")

Record = dict[str, Any]


def _read(
    reads: Sequence[_Read],
    connection: Connection,
    dialect: Dialect,
    traces: Sequence[Began],
    tally: Tally,
) -> Iterator[Batch]:
    """Whole traces by the reader of exports, which is given what the API would answer."""
    values = {"ids": [trace for trace, _ in traces], "least": min(start for _, start in traces)}
    held: dict[str, list[Record]] = {trace: [] for trace, _ in traces}
    for each in reads:
        columns = ", ".join(
            f"toUnixTimestamp64Nano({sql})" if name in _TIMES else sql
            for name, sql in each.fields.items()
        )
        sql = (
            f"SELECT {each.table.trace}, {columns}"
            f" FROM {each.table.of_traces('{ids:Array(String)}', '{least:Int64}')}"
            f" ORDER BY {each.table.start}, {each.table.id}"
        )
        for block in connection.blocks(sql, values):
            for trace, *row in block:
                record = _record(dict(zip(each.fields, row, strict=True)))
                held[str(trace)].append({"sort": each.sort, "row": record})
    for trace, found in held.items():
        rows = found if dialect.title == _V3.title else _with_trace(trace, found)
        if any(each["sort"] == Sort.OBSERVATION for each in rows):
            yield langfuse.batch_of(trace, rows, f"{FLEET}{connection.name}", tally)


def _record(row: Record) -> Record:
    """A row with times as texts, and values of metadata as what their JSON says."""
    for name in _TIMES:
        if row.get(name) is not None:
            row[name] = _moment(row[name])
    if "metadata" in row:
        row["metadata"] = {name: _value(value) for name, value in row["metadata"].items()}
    return row


def _moment(ns: int) -> str:
    seconds, rest = divmod(ns, 1_000_000_000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:09}Z"


def _value(text: str) -> Json:
    try:
        return from_text(text)
    except msgspec.DecodeError:
        return text


def _with_trace(trace: str, held: list[Record]) -> list[Record]:
    """The rows of a trace of version 4 with one for the trace itself: the one that stands for it,
    else what its spans say of it, and its root of what it was given and gave."""
    of_trace = f"t-{trace}"
    rows = [each["row"] for each in held if each["sort"] == Sort.OBSERVATION]
    own = [row for row in rows if row["id"] == of_trace]
    spans = [row for row in rows if row["id"] != of_trace]
    for row in spans:
        if row["parentObservationId"] == of_trace:
            row["parentObservationId"] = ""
    first = sorted(own or spans, key=lambda row: row["parentObservationId"] != "")
    about: Record = langfuse.merged(
        {name: row[name] for name in (*_OF_RUN, "environment", "traceName")} for row in first
    )
    root: Record = next((row for row in first if not row["parentObservationId"]), {})
    about |= {name: root.get(name) for name in ("metadata", "input", "output")}
    about |= {"id": trace, "name": about.get("traceName") or root.get("name")}
    about["timestamp"] = min((row["startTime"] for row in first), default=None)
    scores = [each for each in held if each["sort"] == Sort.SCORE]
    made = [{"sort": Sort.OBSERVATION, "row": row} for row in spans]
    return [{"sort": Sort.TRACE, "row": about}, *made, *scores]
