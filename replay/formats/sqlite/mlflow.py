"""MLflow's tracking database: traces, their spans as JSON, tags, and what was said of them.

Spans stand in the database since MLflow 3; where a trace keeps them in a folder of artifacts,
only that is told, for a path in somebody's database is not followed.

A span of MLflow as a span of OpenTelemetry, in the words of its GenAI conventions.

Each attribute is a JSON text. What a model was asked and answered stands in the inputs and
outputs of its function, in the shape of whichever library was called (`spoken`).

What a model's function was called with and gave back, in the shapes that libraries have for it:
OpenAI's chat and responses, Anthropic's messages, LangChain's, a plain text.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import Struct

from replay.depth import from_text
from replay.errors import BadTrace
from replay.formats.chat import cut, user_label
from replay.formats.common import known, listed, number, obj, usd, word
from replay.formats.otlp import names
from replay.formats.otlp.held import Known, known_of
from replay.formats.otlp.messages import call_part, several
from replay.formats.otlp.records import Event, RawSpan, ended
from replay.formats.otlp.tree import Builder
from replay.formats.otlp.wire import hexadecimal, nanos
from replay.formats.source import Tally, decode
from replay.formats.sqlite.database import Database, Row
from replay.trace import AgentSpan, AnySpan, Batch, Header, Json, ModelCall, SourceScore, Status

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
    found: dict[str, Json] = {names.OPERATION: operation, **kept}
    if operation == "chat":
        found |= _figures(given)
        if names.INPUT not in given:
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
    usage = obj(given.get("mlflow.chat.tokenUsage"))
    return _present(
        {
            "gen_ai.request.model": word(given.get("mlflow.llm.model")),
            "gen_ai.provider.name": word(given.get("mlflow.llm.provider")),
            "gen_ai.usage.input_tokens": usage.get("input_tokens"),
            "gen_ai.usage.output_tokens": usage.get("output_tokens"),
            "gen_ai.usage.cache_read.input_tokens": usage.get("cache_read_input_tokens"),
            "gen_ai.usage.cache_write.input_tokens": usage.get("cache_creation_input_tokens"),
            "gen_ai.usage.cost": obj(given.get("mlflow.llm.cost")).get("total_cost"),
        }
    )


def _spans_named(given: dict[str, Json]) -> dict[str, Json]:
    """What was asked and answered, under the names of the conventions; what is not understood
    stays under MLflow's own."""
    request, response = request_of(given.get(INPUTS)), answered(given.get(OUTPUTS))
    found: dict[str, Json] = {}
    if request is not None:
        found |= known(**{names.SYSTEM: request.system}) | {names.INPUT: request.messages}
        found |= known(**{"llm.invocation_parameters": request.params})
        found |= _present({"gen_ai.request.model": request.model})
        if request.tools is not None and "mlflow.chat.tools" not in given:
            found["gen_ai.tool.definitions"] = request.tools
    if response is not None:
        found[names.OUTPUT] = [response.message]
        found |= _present(
            {
                "gen_ai.response.model": response.model,
                "gen_ai.response.id": response.id,
                "gen_ai.response.finish_reasons": [response.why] if response.why else None,
            }
        )
    return found


def _present(values: dict[str, Json]) -> dict[str, Json]:
    return {name: value for name, value in values.items() if value is not None}


Body = dict[str, Json]

_PARAMS = {
    "temperature", "top_p", "top_k", "max_tokens", "max_completion_tokens", "max_output_tokens",
    "stop", "stop_sequences", "seed", "frequency_penalty", "presence_penalty", "tool_choice",
    "response_format", "reasoning_effort", "reasoning", "thinking", "parallel_tool_calls", "n",
}  # fmt: skip
_ROLES = {"human": "user", "ai": "assistant", "AIMessageChunk": "assistant"}
"""LangChain's words for roles."""


class Request(Struct, frozen=True, kw_only=True):
    """`tools` is None where the call may have had some that are not told."""

    messages: list[Body]
    system: Json = None
    tools: list[Json] | None = None
    params: Body = {}
    model: str | None = None


class Response(Struct, frozen=True, kw_only=True):
    message: Body
    model: str | None = None
    id: str | None = None
    why: str | None = None


def request_of(inputs: Json) -> Request | None:
    """The request in a function's inputs, None where none is recognised."""
    given = obj(inputs)
    raw = given.get("messages", given.get("input", given.get("prompt"))) if given else inputs
    messages = _messages(raw)
    if not messages:
        return None
    model = word(given.get("model"))
    tools = given.get("tools")
    if not isinstance(tools, list):
        tools = [] if model is not None else None  # a call of a library tells all it was given
    return Request(
        messages=messages,
        system=given.get("system", given.get("instructions")),
        tools=tools,
        params={n: v for n, v in given.items() if n in _PARAMS and v is not None} if model else {},
        model=model,
    )


def answered(outputs: Json) -> Response | None:
    """The answer in a function's outputs, None where none is recognised."""
    if isinstance(outputs, list) and len(outputs) == 1:
        outputs = outputs[0]
    given = obj(outputs)
    message, why = _answer(outputs, given)
    if message is None:
        return None
    return Response(
        message=message,
        model=word(given.get("model")),
        id=word(given.get("id")),
        why=why or word(given.get("stop_reason")),
    )


def _answer(outputs: Json, given: dict[str, Any]) -> tuple[Body | None, str | None]:
    if isinstance(outputs, str):
        return {"role": "assistant", "content": outputs}, None
    choice = obj(next(iter(listed(given.get("choices"))), None))
    if choice:
        found = obj(choice.get("message")) or {"content": choice.get("text")}
        return {"role": "assistant", **found}, word(choice.get("finish_reason"))
    if isinstance(given.get("output"), list):
        made = _of_items(given["output"])
        return (made[-1] if made and made[-1]["role"] == "assistant" else None), None
    generations = listed(next(iter(listed(given.get("generations"))), None))
    if generations:
        first = obj(generations[0])
        return _message(obj(first.get("message"))) or _text(first.get("text")), None
    if isinstance(given.get("messages"), list):
        return _message(obj(next(iter(reversed(given["messages"])), None))), None
    return _message(given), None


def _text(text: Json) -> Body | None:
    return {"role": "assistant", "content": text} if isinstance(text, str) else None


def _messages(value: Json) -> list[Body]:
    """Chat messages of a text, of a list, of a list of lists (LangChain asks in batches), of the
    items of OpenAI's responses."""
    if isinstance(value, str):
        return [{"role": "user", "content": value}]
    entries = listed(value)
    if len(entries) == 1 and isinstance(entries[0], list):
        entries = entries[0]
    if any(obj(each).get("type") in ("function_call", "function_call_output") for each in entries):
        return _of_items(entries)
    return [body for each in entries if (body := _message(obj(each))) is not None]


def _message(entry: dict[str, Any]) -> Body | None:
    """A message as chat clients have it, None where it has no role."""
    inner = obj(entry.get("kwargs")) or obj(entry.get("data"))
    entry = {**entry, **inner} if inner else entry
    kind = word(entry.get("role")) or word(entry.get("type"))
    role = _ROLES.get(kind or "", kind)
    if role not in ("system", "developer", "user", "assistant", "tool", "function"):
        return None
    calls = [
        each
        if "function" in each
        else call_part(each.get("id"), each.get("name"), each.get("args", each.get("arguments")))
        for each in map(obj, listed(entry.get("tool_calls")))
    ]
    return {
        "role": role,
        "content": entry.get("content"),
        **known(
            name=word(entry.get("name")),
            tool_call_id=word(entry.get("tool_call_id")),
            tool_calls=calls,
        ),
    }


def _of_items(items: list[Json]) -> list[Body]:
    """Messages of OpenAI's responses: what the model did between two other items is one answer."""
    found: list[Body] = []
    for item in map(obj, items):
        kind = item.get("type")
        if kind == "function_call_output":
            shown = {"tool_call_id": word(item.get("call_id")), "content": item.get("output")}
            found.append({"role": "tool", **shown})
        elif kind == "function_call" or item.get("role") == "assistant":
            if not found or found[-1]["role"] != "assistant":
                found.append({"role": "assistant", "content": None})
            last = found[-1]
            if kind == "function_call":
                made = call_part(item.get("call_id"), item.get("name"), item.get("arguments"))
                last["tool_calls"] = [*listed(last.get("tool_calls")), made]
            else:
                last["content"] = item.get("content")
        elif kind != "reasoning" and (body := _message({"type": "", **item})) is not None:
            found.append(body)
    return found
