"""The OpenAI Agents SDK: its traces and spans, one a line, as its exporter sends them.

A span is written when it ends, so children stand before their parents; the line of the trace comes
first. Spans of responses carry a response's id and figures alone, unless a processor of the user's
own added what was asked and answered.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from replay.errors import BadTrace
from replay.formats.common import known, ns, obj, word
from replay.formats.genai import attributes
from replay.formats.genai.functions import has_text, present, tool
from replay.formats.genai.records import RawSpan, ended, readable
from replay.formats.genai.services import (
    Groups,
    Record,
    agent_of,
    made_of,
    records,
    spans,
    title_of,
    values,
)
from replay.formats.genai.usage import figures
from replay.formats.source import Head, Source, Tally
from replay.trace import Batch, Header, Json, Level

NAME = "openai-agents"
TITLE = "OpenAI Agents SDK (exported traces and spans)"
FILES = ".json, .jsonl"
FIDELITY: tuple[Level, ...] = (Level.EXACT, Level.REBUILT, Level.PARTIAL, Level.NONE)
LACKS = "the input of response spans, unless your own processor records it"
VERIFIED = "real files"

_TRACE, _SPAN = "trace", "trace.span"
_KIND = "traceloop.span.kind"
"""The attribute by which a span of another kind keeps its own word for it."""

_READ = {"object", "id", "trace_id", "parent_id", "started_at", "ended_at", "span_data", "error"}
_READ |= {"workflow_name", "group_id", "metadata", "span_metadata"}


def sniff(head: Head) -> bool:
    return head.starts(b"{", b"[") and head.has(
        rb'"object"\s*:\s*"trace(?:\.span)?"', rb'"(?:span_data|workflow_name)"\s*:'
    )


def read(source: Source, tally: Tally) -> Iterator[Batch]:
    """One trace a trace id. Raises BadTrace where there is no trace and no span."""
    groups = Groups()
    found = False
    for where, value in values(source, tally):
        for record in records(value, "data"):
            kind = record.get("object")
            trace = word(record.get("id" if kind == _TRACE else "trace_id"))
            if kind not in (_TRACE, _SPAN) or trace is None:
                tally.problem(where, "is neither a trace nor a span")
                continue
            groups.add(trace, record)
            found = True
            for name in record.keys() - _READ:
                tally.unknown[f"{kind} {name}"] += 1
    if not found:
        raise BadTrace(source.display, "", "contains neither a trace nor a span of the Agents SDK")
    for name, held in groups.taken():
        yield _batch(name, held, source.display, tally)


def _batch(name: str, held: list[Record], path: str, tally: Tally) -> Batch:
    about: Record = next((each for each in held if each.get("object") == _TRACE), {})
    raws: list[RawSpan] = []
    for record in held:
        if record.get("object") == _SPAN:
            tally.counts[f"type {_type(obj(record.get('span_data')))}"] += 1
            raws += made_of(record, f"span {record.get('id')}", _raw, tally)
    found = spans(raws, tally)
    metadata = obj(about.get("metadata"))
    header = Header(
        format=NAME,
        source_id=name,
        path=path,
        title=title_of(found, None, word(about.get("workflow_name"))),
        agent=agent_of(found) or word(about.get("workflow_name")),
        labels={
            **{key: text for key, value in metadata.items() if (text := word(value))},
            **known(session=word(about.get("group_id")), workflow=word(about.get("workflow_name"))),
        },
    )
    return Batch(header=header, spans=found, last=True)


def _type(data: dict[str, Any]) -> str:
    """The type of a span; the runner's own tasks and turns come as custom ones."""
    kind = word(data.get("type")) or "span"
    return word(obj(data.get("data")).get("sdk_span_type")) or kind if kind == "custom" else kind


def _raw(record: Record) -> RawSpan | None:
    name = word(record.get("id"))
    if name is None:
        return None
    data = obj(record.get("span_data"))
    start, end = ns(record.get("started_at")), ns(record.get("ended_at"))
    error = obj(record.get("error"))
    attributes = _attributes(data)
    if error.get("data"):
        attributes["error.data"] = error["data"]
    return RawSpan(
        trace=word(record.get("trace_id")) or "",
        id=name,
        parent=word(record.get("parent_id")),
        name=word(data.get("name")) or _type(data),
        start_ns=start,
        end_ns=ended(start, end),
        status="error" if error else "ok" if end is not None else "unset",
        message=word(error.get("message")),
        attributes=attributes,
    )


def _attributes(data: dict[str, Any]) -> dict[str, Json]:
    kind = _type(data)
    if kind == "agent":
        own = {n: v for n, v in data.items() if n not in ("type", "name")}
        return {attributes.OPERATION: "invoke_agent", **known(agent=own)}
    if kind in ("generation", "response"):
        return _model(data)
    if kind == "function":
        result = readable(data.get("output"))
        made = tool(word(data.get("name")), data.get("input"), result)
        return made | present(mcp=data.get("mcp_data"))
    own = {name: value for name, value in data.items() if name != "type" and value is not None}
    return {_KIND: kind, **own}


def _model(data: dict[str, Any]) -> dict[str, Json]:
    inputs = data.get("input")
    outputs: Json = data.get("response", data.get("output"))
    response = obj(outputs)
    found = {attributes.OPERATION: "chat", **has_text(inputs, outputs)}
    config = {
        name: value for name, value in obj(data.get("model_config")).items() if value is not None
    }
    if config:
        found["llm.invocation_parameters"] = config
    model = word(data.get("model")) or word(response.get("model"))
    found |= present(
        **{
            "gen_ai.request.model": model,
            "gen_ai.response.id": word(data.get("response_id")) or word(response.get("id")),
        }
    )
    return found | figures(data.get("usage") or response.get("usage"))
