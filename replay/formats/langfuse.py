"""Langfuse: a trace with its observations, pages of its API, and what its tables export.

The path of a file: values of JSON, JSON Lines or a table of text become rows of three sorts,
gathered by trace; an observation becomes a span; what is said of the trace itself makes the header,
and its scores are scores with their source.

Most observations are spans of OpenTelemetry, whose attributes stand in the metadata but for what
Langfuse has fields for: input, output, model and figures. Langfuse's own integrations count each
part of the input beside the others, so the parts add up to the total; what came through
OpenTelemetry keeps the cache within the input. The total tells which.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from enum import StrEnum
from itertools import count
from typing import Any, Literal, NamedTuple

from msgspec import structs

from replay.errors import BadTrace
from replay.formats.common import known, listed, ns, number, obj, word
from replay.formats.genai import attributes
from replay.formats.genai.functions import has_text, present, tool
from replay.formats.genai.records import RawSpan, ended, joined, parsed, readable, usd
from replay.formats.genai.services import (
    Groups,
    Record,
    agent_of,
    made_of,
    records,
    root_of,
    spans,
    title_of,
    values,
)
from replay.formats.genai.usage import service_cost, service_counts
from replay.formats.source import MAX_LINE_BYTES, Head, Source, Tally
from replay.pins import pins_of
from replay.trace import Batch, Header, Json, Level, Outcome, SourceScore, Status

NAME = "langfuse"
TITLE = "Langfuse (traces, observations, table exports in JSON and CSV)"
FILES = ".json, .jsonl, .csv"
FIDELITY: tuple[Level, ...] = (Level.EXACT, Level.REBUILT, Level.PARTIAL, Level.NONE)
LACKS = "often the tools; in table exports, whatever has no column"
VERIFIED = "real files"

_OBSERVATION = (rb'"traceId"\s*:', rb'"(?:parentObservationId|startTime)"\s*:', rb'"type"\s*:')
_TRACE = (rb'"observations"\s*:\s*\[', rb'"(?:htmlPath|sessionId|projectId|scores|totalCost)"\s*:')
_DOWNLOAD = (rb'^\W*\{\s*"trace"\s*:\s*\{\s*"id"\s*:', rb'"(?:projectId|timestamp)"\s*:')
_ROW = (rb'"bookmarked"\s*:', rb'"(?:sessionId|traceId)"\s*:', rb'"timestamp"\s*:')
_FORMS = (_OBSERVATION, _TRACE, _DOWNLOAD, _ROW)


def sniff(head: Head) -> bool:
    if head.starts(b"{", b"["):
        return b'"resourceSpans"' not in head.data and any(head.has(*form) for form in _FORMS)
    return is_table(head)


def read(source: Source, tally: Tally) -> Iterator[Batch]:
    """One trace a trace id. Raises BadTrace where there is no row of a trace."""
    groups = Groups()
    found = False
    for sort, trace, record in rows(source, tally):
        groups.add(trace, {"sort": sort, "row": record})
        found = True
    if not found:
        raise BadTrace(source.display, "", "contains neither a trace nor an observation with an id")
    for name, held in groups.taken():
        yield batch_of(name, held, source.display, tally)


def batch_of(name: str, held: list[Record], path: str, tally: Tally) -> Batch:
    """The trace of that name, of its rows in the API's words, each with its sort."""
    about = merged(each["row"] for each in held if each["sort"] == Sort.TRACE)
    observations = _in_order(
        _by_id(each["row"] for each in held if each["sort"] == Sort.OBSERVATION)
    )
    tally.counts["observations"] += len(observations)
    raws: list[RawSpan] = []
    for row in observations:
        tally.counts[f"type {word(row.get('type'))}"] += 1
        raws += made_of(row, f"observation {row.get('id')}", raw, tally)
    if not raws:
        raws = [of_trace(name, about)]
    found = spans(raws, tally)
    root = root_of(raws)
    given = readable(about.get("input"))
    given = (
        given
        if given is not None or root is None
        else root.attributes.get(attributes.GIVEN.names[0])
    )
    rows_ = [about, *observations]
    header = Header(
        format=NAME,
        source_id=name,
        path=path,
        title=title_of(found, given, _first(rows_, "name", "traceName")),
        variant=_prompt(observations),
        agent=agent_of(found),
        labels=_labels(rows_),
        reported_cost_usd=usd(about.get("totalCost")) or None,
    )
    scored = [each["row"] for each in held if each["sort"] == Sort.SCORE]
    ids = {each.id for each in raws}
    scored = _by_id(scored)
    scores = tuple(_score(row, ids) for row in scored)
    tally.counts["scores"] += len(scores)
    header = structs.replace(header, outcome=_outcome(name, scored))
    return Batch(header=header, spans=found, scores=scores, last=True)


def _by_id(rows_: Any) -> list[Record]:
    """Rows of one id as one: a download has each observation with its texts and without."""
    several: dict[str, list[Record]] = {}
    for at, row in enumerate(rows_):
        several.setdefault(word(row.get("id")) or f"\0{at}", []).append(row)
    return [merged(each) for each in several.values()]


def _in_order(observations: list[Record]) -> list[Record]:
    """By start, what stands above before what hangs below it, then by id: times go to the
    millisecond, and neither exports nor tables have an order of their own."""
    parents = {word(row.get("id")): word(row.get("parentObservationId")) for row in observations}
    depths: dict[str | None, int] = {}
    for at in parents:
        path: list[str | None] = []
        while at in parents and at not in depths:
            depths[at] = 0  # until it is known; what hangs below itself ends here
            path.append(at)
            at = parents[at]
        depths |= dict(zip(reversed(path), count(depths.get(at, -1) + 1), strict=False))

    def key(row: Record) -> tuple[int, int, str]:
        name = word(row.get("id"))
        return ns(row.get("startTime")) or -1, depths[name], name or ""

    return sorted(observations, key=key)


def _first(rows_: list[Record], *fields: str) -> str | None:
    words = (word(row.get(field)) for row in rows_ for field in fields)
    return next((each for each in words if each is not None), None)


def _prompt(observations: list[Record]) -> str | None:
    """The version of the prompt that the calls were made with."""
    for row in observations:
        name, version = word(row.get("promptName")), word(row.get("promptVersion"))
        if name or version:
            return " ".join(filter(None, (name, version)))
    return None


def _labels(rows_: list[Record]) -> dict[str, str]:
    return pins_of(obj(readable(rows_[0].get("metadata")))) | known(
        session=_first(rows_, "sessionId"),
        user=_first(rows_, "userId"),
        environment=_first(rows_, "environment"),
        release=_first(rows_[:1], "release"),
        version=_first(rows_[:1], "version"),
        tags=joined(readable(rows_[0].get("tags"))),
    )


def _score(row: Record, ids: set[str]) -> SourceScore:
    """A score: of an observation of the trace, else of the whole run; a category is a label."""
    kind, value = row.get("dataType"), row.get("value")
    on: Json = row.get("observationId")
    return SourceScore(
        name=word(row.get("name")) or "score",
        by=word(row.get("source")) or "source",
        span=on if isinstance(on, str) and on in ids else None,
        value=None if kind == "CATEGORICAL" else number(value),
        label=_label(row),
        explanation=word(row.get("comment")),
    )


def _label(row: Record) -> str | None:
    value = row.get("value")
    return word(row.get("stringValue")) or word(value if isinstance(value, str) else None)


OUTCOME_NAMES = ("outcome", *attributes.PASSED, *attributes.FAILED)
"""What a score is called that says how a run ended, in lower case."""


def _outcome(trace: str, scored: list[Record]) -> Outcome:
    """What scores of the whole run say that are named for how it ended: a yes or no, or a label; a
    single "failed" outweighs the others. Version 4 has the trace as a span of its own."""
    found: list[Outcome] = []
    for row in scored:
        status = _status_of(row)
        if status and (word(row.get("observationId")) or "") in ("", f"t-{trace}"):
            said = _label(row) or number(row.get("value"))
            found.append(Outcome(status=status, value=said, by=word(row.get("name"))))
    return min(found, key=lambda each: each.status != "failed", default=Outcome())


def _status_of(row: Record) -> Literal["passed", "failed"] | None:
    name = (word(row.get("name")) or "").lower()
    if name not in OUTCOME_NAMES:
        return None
    if row.get("dataType") != "BOOLEAN":
        return attributes.ended_as(_label(row))
    value = number(row.get("value"))
    if value not in (0, 1):
        return None
    return "passed" if (value == 1) == (name not in attributes.FAILED) else "failed"


# --- the rows of an export

_COLUMNS = ({"traceId", "startTime"}, {"trace_id", "start_time", "parent_observation_id"})
_TRACES = ({"id", "timestamp", "sessionId", "bookmarked"}, {"id", "timestamp", "sessionId", "tags"})
_NOTHING: tuple[Any, ...] = (None, "", {}, [], "{}", "[]", "null")


class Sort(StrEnum):
    TRACE = "trace"
    OBSERVATION = "observation"
    SCORE = "score"


class Row(NamedTuple):
    sort: Sort
    trace: str
    record: dict[str, Any]


def rows(source: Source, tally: Tally) -> Iterator[Row]:
    """Every row that says which trace it belongs to."""
    if is_table(source.head):
        for number, record in _table(source):
            yield from _of(record, f"line {number}", tally)
        return
    for where, value in values(source, tally):
        for record in records(value, "data"):
            yield from _of(record, where, tally)


def is_table(head: Head) -> bool:
    """Is the first line the names of the columns of an exported table?"""
    first = head.data.removeprefix(b"\xef\xbb\xbf").split(b"\n", 1)[0]
    if b"," not in first or len(first) > 8192:
        return False
    names = {name.strip(' "\r') for name in first.decode("utf-8", "replace").split(",")}
    return any(columns <= names for columns in (*_COLUMNS, *_TRACES))


def merged(records_: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Several accounts of one thing as one: what one of them leaves empty another may tell."""
    found: dict[str, Any] = {}
    for record in records_:
        for name, value in record.items():
            if name not in found or found[name] in _NOTHING:
                found[name] = value
    return found


def _of(record: dict[str, Any], where: str, tally: Tally) -> Iterator[Row]:
    about = obj(record.get("trace"))
    if about:
        yield from _trace(
            {**about, "observations": listed(about.get("observations"))}, where, tally
        )
        for sort, name in ((Sort.OBSERVATION, "observations"), (Sort.SCORE, "scores")):
            yield from _below(record, word(about.get("id")), sort, name)
        return
    trace = word(record.get("traceId"))
    if trace is not None and ("startTime" in record or "type" in record):
        yield Row(Sort.OBSERVATION, trace, record)
    elif trace is not None and "name" in record and "value" in record:
        yield Row(Sort.SCORE, trace, record)
    elif "timestamp" in record or "observations" in record:
        yield from _trace(record, where, tally)
    else:
        tally.problem(where, "is not a trace, an observation or a score")


def _trace(record: dict[str, Any], where: str, tally: Tally) -> Iterator[Row]:
    name = word(record.get("id"))
    if name is None:
        tally.problem(where, "is a trace without an id")
        return
    yield Row(Sort.TRACE, name, {n: v for n, v in record.items() if n != "observations"})
    yield from _below(record, name, Sort.OBSERVATION, "observations")
    yield from _below(record, name, Sort.SCORE, "scores")


def _below(record: dict[str, Any], trace: str | None, sort: Sort, name: str) -> Iterator[Row]:
    """What a trace has in a list of its own; a list of ids alone tells nothing."""
    for each in listed(readable(record.get(name))):
        found = word(obj(each).get("traceId")) or trace
        if obj(each) and found is not None:
            yield Row(sort, found, each)


def _table(source: Source) -> Iterator[tuple[int, dict[str, Any]]]:
    """The rows of a table of text, empty cells left out; cells hold the JSON of their values."""
    csv.field_size_limit(MAX_LINE_BYTES)
    with source.open() as stream:
        text = io.TextIOWrapper(stream, "utf-8-sig", "replace", newline="")
        reader = csv.DictReader(text, restkey="")
        try:
            for row in reader:
                row.pop("", None)
                yield reader.line_num, {_camel(n): v for n, v in row.items() if v}
        except (csv.Error, OSError, EOFError, ValueError) as error:
            where = f"line {reader.line_num}"
            raise BadTrace(source.display, where, f"is not a row of the table: {error}") from error


def _camel(name: str) -> str:
    """A column's name as the API writes it."""
    first, *rest = name.split("_")
    return first + "".join(each.title() for each in rest)


# --- an observation as a span

KIND = "langfuse.observation.type"
INPUT, OUTPUT = "input.value", "output.value"

_OWN = {
    attributes.OPERATION, attributes.INPUT, attributes.OUTPUT, KIND, INPUT, OUTPUT,
    "openinference.span.kind",
    "ai.prompt.messages", "ai.prompt", "gen_ai.prompt", "gen_ai.completion", "ai.response.text",
}  # fmt: skip
"""Attributes that a field of the observation says better."""

_PARAMS = {
    "temperature", "top_p", "top_k", "max_tokens", "max_completion_tokens", "max_output_tokens",
    "stop", "stop_sequences", "seed", "frequency_penalty", "presence_penalty", "tool_choice",
    "response_format", "reasoning_effort", "n",
}  # fmt: skip


def raw(row: dict[str, Any]) -> RawSpan | None:
    """The span of an observation, None where it has no id."""
    name = word(row.get("id"))
    if name is None:
        return None
    start, end = ns(row.get("startTime")), ended(ns(row.get("startTime")), ns(row.get("endTime")))
    return RawSpan(
        trace=word(row.get("traceId")) or "",
        id=name,
        parent=word(row.get("parentObservationId")),
        name=word(row.get("name")) or "",
        start_ns=start,
        end_ns=end,
        status=_span_status(row, end),
        message=word(row.get("statusMessage")),
        attributes=_attributes(row),
    )


def of_trace(name: str, about: dict[str, Any]) -> RawSpan:
    """A trace that was exported without its observations, as the one span it is known by."""
    start = ns(about.get("timestamp"))
    given = {INPUT: readable(about.get("input")), OUTPUT: readable(about.get("output"))}
    return RawSpan(
        trace=name,
        id=name,
        name=word(about.get("name")) or "",
        start_ns=start,
        attributes={KIND: "agent", **present(**given)},
    )


def _span_status(row: dict[str, Any], end: int | None) -> Status:
    if row.get("level") == "ERROR":
        return "error"
    return "ok" if end is not None else "unset"


def _attributes(row: dict[str, Any]) -> dict[str, Json]:
    metadata = _metadata(row)
    recorded = {
        name: _number(value)
        for name, value in obj(metadata.get("attributes")).items()
        if name not in _OWN and value is not None
    }
    kind = _kind(row, recorded, obj(metadata.get("attributes")).get(attributes.OPERATION))
    inputs, outputs = readable(row.get("input")), readable(row.get("output"))
    found: dict[str, Json] = {**recorded, KIND: kind}
    found |= present(
        **{
            "langfuse.level": word(row.get("level")) if row.get("level") == "WARNING" else None,
            "langfuse.observation.prompt.name": word(row.get("promptName")),
            "langfuse.observation.prompt.version": word(row.get("promptVersion")),
        }
    )
    own = {name: value for name, value in metadata.items() if name not in _SERVICE}
    found |= known(**{"langfuse.metadata": own})
    if kind == "generation":
        return found | _generation(row, metadata, inputs, outputs)
    if kind == "tool":
        return found | _tool(row, inputs, outputs)
    return found | present(**{INPUT: inputs, OUTPUT: outputs})


_SERVICE = ("attributes", "resourceAttributes", "scope")


def _metadata(row: dict[str, Any]) -> dict[str, Any]:
    """The metadata; version 4 has each value of an object under a name with dots."""
    found: dict[str, Any] = {}
    for name, value in obj(readable(row.get("metadata"))).items():
        part, _, rest = name.partition(".")
        if rest and part in _SERVICE and isinstance(found.setdefault(part, {}), dict):
            found[part] = {**found[part], rest: value}
        else:
            found[name] = value
    return found


def _number(value: Json) -> Json:
    """Numbers among attributes are kept as texts."""
    return int(value) if isinstance(value, str) and value.isdecimal() and len(value) < 16 else value


def _kind(row: dict[str, Any], recorded: dict[str, Json], operation: Json) -> str:
    """The type. A plain span that runs an agent is one, and so is the outer span of the JavaScript
    SDK, which repeats a model call."""
    kind = (word(row.get("type")) or "span").lower()
    if kind == "span":
        runs = operation == "invoke_agent" or word(recorded.get("agent_name")) is not None
        return "agent" if runs and not word(recorded.get("gen_ai.tool.name")) else kind
    called = word(recorded.get("ai.operationId"))
    outer = called is not None and called.count(".") == 1 and ".embed" not in called
    return "agent" if kind == "generation" and outer and called != "ai.toolCall" else kind


def _generation(
    row: dict[str, Any], metadata: dict[str, Any], inputs: Json, outputs: Json
) -> dict[str, Json]:
    found = has_text(inputs, outputs)
    params = obj(readable(row.get("modelParameters")))
    settings = {name: readable(value) for name, value in params.items() if name in _PARAMS}
    settings = {name: value for name, value in settings.items() if value is not None}
    if settings:
        found["llm.invocation_parameters"] = settings
    tools = _tools(row, metadata)
    if tools and not found.get("gen_ai.tool.definitions"):
        found["gen_ai.tool.definitions"] = tools
    model = word(row.get("model")) or word(row.get("providedModelName"))
    found |= present(**{"gen_ai.request.model": found.get("gen_ai.request.model") or model})
    found |= present(**{"gen_ai.response.model": found.get("gen_ai.response.model") or model})
    if attributes.INPUT not in found:
        found |= present(**{"langfuse.observation.input": inputs})
    if attributes.OUTPUT not in found:
        found |= present(**{"langfuse.observation.output": outputs})
    return found | service_counts(row) | present(**{"gen_ai.usage.cost": service_cost(row)})


def _tools(row: dict[str, Any], metadata: dict[str, Any]) -> list[Json]:
    """The tools offered: in a field of newer exports, by name; in the metadata, or in what
    Pydantic's agents write among the attributes."""
    by_name = obj(readable(row.get("toolDefinitions")))
    if by_name:
        return [{"name": name, **obj(readable(each))} for name, each in by_name.items()]
    asked = obj(parsed(obj(metadata.get("attributes")).get("model_request_parameters")))
    functions = [obj(each) for each in listed(asked.get("function_tools"))]
    return [
        known(
            name=each.get("name"),
            description=each.get("description"),
            parameters=each.get("parameters_json_schema"),
        )
        for each in functions
    ]


def _tool(row: dict[str, Any], inputs: Json, outputs: Json) -> dict[str, Json]:
    """A tool's span is named after it, with a word for what it does before it, or none."""
    name = word(row.get("name")) or ""
    does, _, tool_name = name.partition(" ")
    return tool(name if " " in tool_name else tool_name or does, inputs, outputs)
