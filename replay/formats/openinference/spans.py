"""The spans of an export, each brought to one private shape, and the one batch of a trace from all
of its spans.

Attributes are flat dotted names, grown into the objects and lists they spell. The attributes of a
span are what OpenTelemetry's are, in OpenInference's words and others', so its spans are put
together by `replay.formats.genai`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from replay.formats.chat import user_label
from replay.formats.common import count, known, listed, ns, obj, word
from replay.formats.genai.builder import Builder
from replay.formats.genai.logs import annotation
from replay.formats.genai.reconcile import reconcile
from replay.formats.genai.records import Event, Raw, RawSpan, flat, parsed
from replay.formats.source import Tally
from replay.trace import AgentSpan, AnySpan, Batch, Header, Json, ModelCall, SourceScore, Status

_STATUS: dict[str, Status] = {"ok": "ok", "1": "ok", "error": "error", "2": "error"}
_DURATION = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:\.(\d+))?S)?)?$")
_LATEST = 2**63 - 1

_FIELDS = frozenset(
    "name span_name id trace_id span_id parent_id parent_span_id parentSpanId parentSpanContext "
    "context spanContext span_kind kind timestamp duration start_time end_time startTime endTime "
    "start_time_unix_nano end_time_unix_nano status status_code status_message attributes "
    "span_attributes events logs child_spans links trace_state flags service_name scope_name "
    "scope_version resource_attributes resource instrumentationScope instrumentationLibrary "
    "dropped_attributes_count dropped_events_count dropped_links_count ended annotations".split()
)
"""Of all exports."""


def raws(document: Json, tally: Tally) -> Iterator[Raw]:
    """Every span of a document, in its order; what is no span is a problem."""
    if isinstance(document, dict) and _is_nested(document):
        for value in document["spans"]:
            yield from _nested(value, tally)
        return
    for where, value in _members(document):
        made = _made(value) if isinstance(value, dict) else None
        if made is None:
            tally.problem(where, "is not a span with an id and a trace id")
        else:
            _note(value, tally)
            yield made


def _is_nested(document: dict[str, Any]) -> bool:
    """Are these the spans of a nested export, and not those that Phoenix lists?"""
    spans = document.get("spans")
    return isinstance(spans, list) and not any("context" in obj(span) for span in spans)


def _members(document: Json) -> Iterator[tuple[str, Json]]:
    """A span alone; the spans of a list, of `data`, or of several named lists; those of the traces
    in a list."""
    if isinstance(document, list):
        lists = {"": document}
    elif isinstance(document, dict) and {"context", "spanContext", "span_id"} & document.keys():
        lists = {"": [document]}
    else:
        lists = {name: value for name, value in obj(document).items() if isinstance(value, list)}
    for name, values in lists.items():
        for at, value in enumerate(values):
            below = value if isinstance(value, list) else obj(value).get("spans")
            if isinstance(below, list):
                yield from ((f"span {at}.{deep}", each) for deep, each in enumerate(below))
            else:
                yield f"{name} span {at}".strip(), value


def _made(span: dict[str, Any]) -> Raw | None:
    if isinstance(span.get("spanContext"), dict):
        return _from_sdk(span)
    if isinstance(span.get("context"), dict):
        return _from_phoenix(span)
    if "start_time_unix_nano" in span or isinstance(span.get("attributes"), list):
        return _from_otlp(span)
    return None


def _note(span: dict[str, Any], tally: Tally) -> None:
    tally.counts["spans"] += 1
    for name in span.keys() - _FIELDS:
        tally.unknown[f"span {name}"] += 1


# --- nested trees


def _nested(value: Json, tally: Tally) -> Iterator[Raw]:
    """A span and all below it; a span that says no parent hangs below the one it stands in."""
    waiting: list[tuple[Json, str | None]] = [(value, None)]
    while waiting:
        node, above = waiting.pop()
        span = obj(node)
        trace, name = word(span.get("trace_id")), word(span.get("span_id"))
        if trace is None or name is None:
            tally.problem(f"below span {above}", "is not a span with an id and a trace id")
            continue
        _note(span, tally)
        start = ns(span.get("timestamp"))
        attributes = flat(obj(span.get("span_attributes")))
        yield Raw(
            trace=trace,
            id=name,
            parent=word(span.get("parent_span_id")) or above,
            name=word(span.get("span_name")) or "",
            kind=word(attributes.get("openinference.span.kind")),
            start_ns=start,
            end_ns=_after(start, span.get("duration")),
            status=status_of(span.get("status_code")),
            message=word(span.get("status_message")),
            attributes=attributes,
            events=tuple(map(event, listed(span.get("events")))),
            logs=tuple(filter(None, map(obj, listed(span.get("logs"))))),
        )
        waiting.extend((each, name) for each in reversed(listed(span.get("child_spans"))))


def _after(start: int | None, duration: Json) -> int | None:
    """The end of a span: its start and an ISO 8601 duration of days, hours, minutes, seconds."""
    found = _DURATION.match(duration) if isinstance(duration, str) else None
    if start is None or found is None or not any(found.groups()):
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups()[:4])
    whole = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    end = start + whole * 1_000_000_000 + int((found[5] or "").ljust(9, "0")[:9])
    return end if end <= _LATEST else None


# --- flat lists


def _from_phoenix(span: dict[str, Any]) -> Raw | None:
    context = obj(span.get("context"))
    trace, name = word(context.get("trace_id")), word(context.get("span_id"))
    if trace is None or name is None:
        return None
    attributes = flat(obj(span.get("attributes")))
    return phoenix_span(
        span,
        trace=trace,
        name=name,
        attributes=attributes,
        events=span.get("events"),
        annotations=tuple(filter(None, map(obj, listed(span.get("annotations"))))),
    )


def phoenix_span(
    row: Mapping[str, Json],
    *,
    trace: str,
    name: str,
    attributes: dict[str, Json],
    events: Json,
    annotations: tuple[dict[str, Json], ...] = (),
    time: Callable[[Json], int | None] = ns,
) -> Raw:
    """A span as Phoenix names its fields, in JSON, in a table of columns and in its database."""
    return Raw(
        trace=trace,
        id=name,
        parent=word(row.get("parent_id")),
        name=word(row.get("name")) or "",
        kind=word(row.get("span_kind")) or word(attributes.get("openinference.span.kind")),
        start_ns=time(row.get("start_time")),
        end_ns=time(row.get("end_time")),
        status=status_of(row.get("status_code")),
        message=word(row.get("status_message")),
        attributes=attributes,
        events=tuple(map(event, listed(events))),
        annotations=annotations,
    )


def _from_otlp(span: dict[str, Any]) -> Raw | None:
    trace, name = word(span.get("trace_id")), word(span.get("span_id"))
    if trace is None or name is None:
        return None
    attributes = flat(_keyed(span.get("attributes")))
    status = obj(span.get("status"))
    return Raw(
        trace=trace,
        id=name,
        parent=word(span.get("parent_span_id")),
        name=word(span.get("name")) or "",
        kind=word(attributes.get("openinference.span.kind")),
        start_ns=_nanos(span.get("start_time_unix_nano")),
        end_ns=_nanos(span.get("end_time_unix_nano")),
        status=status_of(status.get("code")),
        message=word(status.get("message")),
        attributes=attributes,
        events=tuple(map(event, listed(span.get("events")))),
    )


def _from_sdk(span: dict[str, Any]) -> Raw | None:
    context, status = obj(span.get("spanContext")), obj(span.get("status"))
    above = obj(span.get("parentSpanContext"))
    trace, name = word(context.get("traceId")), word(context.get("spanId"))
    if trace is None or name is None:
        return None
    attributes = flat(obj(span.get("attributes")))
    return Raw(
        trace=trace,
        id=name,
        parent=word(span.get("parentSpanId")) or word(above.get("spanId")),
        name=word(span.get("name")) or "",
        kind=word(attributes.get("openinference.span.kind")),
        start_ns=_pair(span.get("startTime")),
        end_ns=_pair(span.get("endTime")),
        status=status_of(status.get("code")),
        message=word(status.get("message")),
        attributes=attributes,
        events=tuple(map(event, listed(span.get("events")))),
    )


def event(value: Json) -> dict[str, Json]:
    """An event as {name, time, attributes}, whatever the case of its names."""
    given = obj(value)
    attributes = given.get("attributes", given.get("Attributes"))
    return {
        "name": given.get("name", given.get("Name")),
        "time": given.get("timestamp", given.get("Timestamp", given.get("time"))),
        "attributes": _keyed(attributes) if isinstance(attributes, list) else obj(attributes),
    }


def _keyed(attributes: Json) -> dict[str, Json]:
    """OTLP's list of {key, value} as an object."""
    return {str(obj(each).get("key")): _any(obj(each).get("value")) for each in listed(attributes)}


def _any(value: Json) -> Json:
    """OTLP's AnyValue in snake case: the one member that is not null."""
    for kind, held in obj(value).items():
        if held is None:
            continue
        if kind == "array_value":
            return [_any(each) for each in listed(obj(held).get("values"))]
        return _keyed(obj(held).get("values")) if kind == "kvlist_value" else held
    return None


def status_of(value: Json) -> Status:
    """A status by its word or its number, with or without the protocol's prefix."""
    return _STATUS.get(str(value).lower().removeprefix("status_code_"), "unset")


def _nanos(value: Json) -> int | None:
    if isinstance(value, str) and value.isdecimal() and len(value) < 20:
        value = int(value)
    known = isinstance(value, int) and not isinstance(value, bool) and 0 < value <= _LATEST
    return value if known else None


def _pair(value: Json) -> int | None:
    """[seconds, nanoseconds]."""
    parts = listed(value)
    if len(parts) != 2 or not all(type(part) is int for part in parts):
        return None
    return _nanos(parts[0] * 1_000_000_000 + parts[1])


_KIND = "openinference.span.kind"

FORMAT = "openinference"


_OPERATIONS = {
    "chat": "LLM", "generate_content": "LLM", "text_completion": "LLM", "execute_tool": "TOOL",
    "invoke_agent": "AGENT", "create_agent": "AGENT", "embeddings": "EMBEDDING",
    "retrieval": "RETRIEVER",
}  # fmt: skip


def kind_of(raw: Raw) -> str:
    """The span's kind in OpenInference's words, NONE where nothing tells."""
    if raw.kind is not None:
        return raw.kind.upper()
    given = _OPERATIONS.get(str(raw.attributes.get("gen_ai.operation.name")))
    if given is not None:
        return given
    operation = word(raw.attributes.get("ai.operationId")) or ""
    if operation == "ai.toolCall":
        return "TOOL"
    if ".embed" in operation:
        return "EMBEDDING"
    if operation.endswith((".doGenerate", ".doStream")):
        return "LLM"
    return "AGENT" if operation else "NONE"


def trace_batch(name: str, found: list[Raw], path: str, tally: Tally) -> Batch:
    """The one batch of a trace, from all its spans; `path` is where they were read."""
    tally.counts["traces"] += 1
    spans = Builder(reconcile(map(_span, _once(found, tally))), tally).spans()
    row = _row(found)
    agent = next((span.name for span in spans if isinstance(span, AgentSpan)), None)
    header = Header(
        format=FORMAT,
        source_id=name,
        path=path,
        title=_title(spans, found),
        task=word(row.get("instance_id")),
        agent=_named(found, "agent.name") or agent,
        labels=known(session=_named(found, "session.id")),
        reference=row or None,
    )
    return Batch(header=header, spans=spans, scores=tuple(_scores(found)), last=True)


def _once(found: list[Raw], tally: Tally) -> list[Raw]:
    """The spans, each id once; they are counted by kind."""
    by_id: dict[str, Raw] = {}
    for raw in found:
        kind = kind_of(raw)
        tally.counts[f"kind {kind}"] += 1
        tally.counts["errors"] += raw.status == "error"
        if kind == "LLM":
            for part in ("prompt", "completion"):
                tokens = count(raw.attributes.get(f"llm.token_count.{part}"))
                tally.counts[f"{part}_tokens"] += tokens or 0
        if by_id.setdefault(raw.id, raw) is not raw:
            tally.problem(f"span {raw.id}", "occurs twice in the file; read once")
    return list(by_id.values())


def _span(raw: Raw) -> RawSpan:
    """A span as OpenTelemetry has it, its kind an attribute; a table has its columns in an order of
    its own, so attributes go by their names."""
    kind = {_KIND: raw.kind} if raw.kind is not None else {}
    return RawSpan(
        trace=raw.trace,
        id=raw.id,
        parent=raw.parent,
        name=raw.name,
        start_ns=raw.start_ns,
        end_ns=raw.end_ns,
        status=raw.status,
        message=raw.message,
        attributes=dict(sorted({**raw.attributes, **kind}.items())),
        events=[
            Event(word(each.get("name")) or "", obj(each.get("attributes")), ns(each.get("time")))
            for each in raw.events
        ],
    )


def _named(found: list[Raw], attribute: str) -> str | None:
    """The first span's word for it that has one."""
    words = (word(raw.attributes.get(attribute)) for raw in found)
    return next((each for each in words if each is not None), None)


def _row(found: list[Raw]) -> dict[str, Json]:
    """The data set's row that the run was started with, gold answers in it, where it was logged."""
    for raw in found:
        for log in raw.logs:
            row = obj(obj(obj(log.get("body")).get("function.arguments")).get("item"))
            if row:
                return row
    return {}


def _title(spans: tuple[AnySpan, ...], found: list[Raw]) -> str | None:
    """The first line of what the user asked: the run's own task, else the first message."""
    for raw in found:
        given = parsed(raw.attributes.get("input.value"))
        task = word(obj(given).get("task")) or word(given if raw.parent is None else None)
        if task:
            return user_label([{"role": "user", "content": task}])
    for span in spans:
        if isinstance(span, ModelCall) and span.request.context is not None:
            return user_label([message.body for message in span.request.context.messages()])
    return None


def _scores(found: list[Raw]) -> Iterator[SourceScore]:
    """Annotations and evaluations that stand on spans."""
    for raw in found:
        for several, one in (("annotations", "annotation"), ("evaluations", "evaluation")):
            for entry in listed(raw.tree.get(several)):
                yield annotation(obj(obj(entry).get(one)), raw.id, one)
        for given in raw.annotations:
            yield annotation({**given, **obj(given.get("result"))}, raw.id)
