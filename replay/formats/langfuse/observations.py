"""An observation as a span, in the words of OpenTelemetry's GenAI conventions.

Most observations are spans of OpenTelemetry, whose attributes stand in the metadata but for what
Langfuse has fields for: input, output, model and figures. Those are read here.
"""

from __future__ import annotations

from typing import Any

from replay.formats.fields import known, listed, obj, word
from replay.formats.langfuse.usage import cost, usage
from replay.formats.normal import ns
from replay.formats.openinference.attributes import parsed
from replay.formats.otlp import names
from replay.formats.otlp.records import Raw, ended
from replay.formats.services.records import readable
from replay.formats.services.spoken import present, said, tool
from replay.trace import Json, Status

KIND = "langfuse.observation.type"
INPUT, OUTPUT = "input.value", "output.value"

_OWN = {
    names.OPERATION, names.INPUT, names.OUTPUT, KIND, INPUT, OUTPUT, "openinference.span.kind",
    "ai.prompt.messages", "ai.prompt", "gen_ai.prompt", "gen_ai.completion", "ai.response.text",
}  # fmt: skip
"""Attributes that a field of the observation says better."""

_PARAMS = {
    "temperature", "top_p", "top_k", "max_tokens", "max_completion_tokens", "max_output_tokens",
    "stop", "stop_sequences", "seed", "frequency_penalty", "presence_penalty", "tool_choice",
    "response_format", "reasoning_effort", "n",
}  # fmt: skip


def raw(row: dict[str, Any]) -> Raw | None:
    """The span of an observation, None where it has no id."""
    name = word(row.get("id"))
    if name is None:
        return None
    start, end = ns(row.get("startTime")), ended(ns(row.get("startTime")), ns(row.get("endTime")))
    return Raw(
        trace=word(row.get("traceId")) or "",
        id=name,
        parent=word(row.get("parentObservationId")),
        name=word(row.get("name")) or "",
        start_ns=start,
        end_ns=end,
        status=_status(row, end),
        message=word(row.get("statusMessage")),
        attributes=_attributes(row),
    )


def of_trace(name: str, about: dict[str, Any]) -> Raw:
    """A trace that was exported without its observations, as the one span it is known by."""
    start = ns(about.get("timestamp"))
    given = {INPUT: readable(about.get("input")), OUTPUT: readable(about.get("output"))}
    return Raw(
        trace=name,
        id=name,
        name=word(about.get("name")) or "",
        start_ns=start,
        attributes={KIND: "agent", **present(**given)},
    )


def _status(row: dict[str, Any], end: int | None) -> Status:
    if row.get("level") == "ERROR":
        return "error"
    return "ok" if end is not None else "unset"


def _attributes(row: dict[str, Any]) -> dict[str, Json]:
    metadata = obj(readable(row.get("metadata")))
    recorded = {
        name: _number(value)
        for name, value in obj(metadata.get("attributes")).items()
        if name not in _OWN and value is not None
    }
    kind = _kind(row, recorded, obj(metadata.get("attributes")).get(names.OPERATION))
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
    found = said(inputs, outputs)
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
    if names.INPUT not in found:
        found |= present(**{"langfuse.observation.input": inputs})
    if names.OUTPUT not in found:
        found |= present(**{"langfuse.observation.output": outputs})
    return found | usage(row) | present(**{"gen_ai.usage.cost": cost(row)})


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
    return tool((word(row.get("name")) or "").rpartition(" ")[2], inputs, outputs)
