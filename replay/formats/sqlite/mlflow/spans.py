"""A span of MLflow as a span of OpenTelemetry, in the words of its GenAI conventions.

Each attribute is a JSON text. What a model was asked and answered stands in the inputs and outputs
of its function, in the shape of whichever library was called (`spoken`).
"""

from __future__ import annotations

from typing import Any

import msgspec

from replay.depth import from_text
from replay.formats.fields import known, listed, obj, word
from replay.formats.otlp import names
from replay.formats.otlp.records import Event, Raw, ended
from replay.formats.otlp.wire import hexadecimal, nanos
from replay.formats.sqlite.mlflow.spoken import answered, asked
from replay.trace import Json, Status

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


def raw(span: dict[str, Any], trace: str) -> Raw | None:
    """A span of MLflow 3 (or 2, which named its fields otherwise), None where it has no id."""
    context = obj(span.get("context"))
    name = hexed(span.get("span_id", context.get("span_id")))
    if name is None:
        return None
    status = obj(span.get("status"))
    code = word(status.get("code", span.get("status_code"))) or ""
    start = _time(span.get("start_time_unix_nano", span.get("start_time")))
    end = _time(span.get("end_time_unix_nano", span.get("end_time")))
    return Raw(
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
            found |= _said(given)
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


def _said(given: dict[str, Json]) -> dict[str, Json]:
    """What was asked and answered, under the names of the conventions; what is not understood
    stays under MLflow's own."""
    request, response = asked(given.get(INPUTS)), answered(given.get(OUTPUTS))
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
