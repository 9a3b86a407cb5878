"""A run as a span, in the words of OpenTelemetry's GenAI conventions."""

from __future__ import annotations

from typing import Any

from replay.formats.fields import known, listed, obj, word
from replay.formats.normal import ns
from replay.formats.otlp import names
from replay.formats.otlp.records import Raw, ended
from replay.formats.services.figures import figures
from replay.formats.services.records import readable, usd
from replay.formats.services.spoken import present, said, tool
from replay.trace import Json, Status

_KIND = "traceloop.span.kind"
"""The attribute by which a run of another type keeps its own word for it."""

_NO_SETTING = {"tools", "messages", "model", "model_name", "_type", "functions"}


def extra(run: dict[str, Any]) -> dict[str, Any]:
    return obj(readable(run.get("extra")))


def raw(run: dict[str, Any]) -> Raw | None:
    """The span of a run, None where it has no id."""
    name = word(run.get("id"))
    if name is None:
        return None
    start, end = ns(run.get("start_time")), ns(run.get("end_time"))
    return Raw(
        trace=word(run.get("trace_id")) or "",
        id=name,
        parent=word(run.get("parent_run_id")),
        name=word(run.get("name")) or "",
        start_ns=start,
        end_ns=ended(start, end),
        status=_status(run, end),
        message=word(run.get("error")),
        attributes=_attributes(run),
    )


def _status(run: dict[str, Any], end: int | None) -> Status:
    if run.get("error") or run.get("status") == "error":
        return "error"
    return "ok" if end is not None else "unset"


def _attributes(run: dict[str, Any]) -> dict[str, Json]:
    kind = (word(run.get("run_type")) or "run").lower()
    inputs, outputs = readable(run.get("inputs")), readable(run.get("outputs"))
    metadata = obj(extra(run).get("metadata"))
    about = known(**{"langsmith.metadata": metadata, "langsmith.tags": run.get("tags")})
    if kind == "llm":
        return {names.OPERATION: "chat", **about, **_model(run, inputs, outputs, metadata)}
    if kind == "tool":
        return {**tool(word(run.get("name")), _arguments(inputs), outputs), **about}
    if kind == "retriever":
        found = {"gen_ai.retrieval.documents": obj(outputs).get("documents", outputs)}
        query = word(obj(inputs).get("query"))
        return {
            names.OPERATION: "retrieval",
            **about,
            **present(**found, **{"gen_ai.retrieval.query.text": query}),
        }
    return {_KIND: kind, **about, **present(**{"input.value": inputs, "output.value": outputs})}


def _arguments(inputs: Json) -> Json:
    """What a tool was called with: LangChain writes it into a text, as JSON or as Python does."""
    given = obj(inputs)
    return readable(given["input"]) if given.keys() == {"input"} else inputs


def _model(
    run: dict[str, Any], inputs: Json, outputs: Json, metadata: dict[str, Any]
) -> dict[str, Json]:
    asked = obj(extra(run).get("invocation_params"))
    found = said(inputs, outputs)
    settings = {name: value for name, value in asked.items() if name not in _NO_SETTING}
    settings = {name: value for name, value in settings.items() if value is not None}
    if settings:
        found["llm.invocation_parameters"] = settings
    if asked and not found.get("gen_ai.tool.definitions"):
        found["gen_ai.tool.definitions"] = listed(asked.get("tools"))
    model = word(asked.get("model")) or word(asked.get("model_name"))
    model = model or word(metadata.get("ls_model_name"))
    if model is not None:
        found["gen_ai.request.model"] = model
    found |= present(**{"gen_ai.provider.name": word(metadata.get("ls_provider"))})
    cost = usd(run.get("total_cost"))
    return found | _figures(run, outputs) | present(**{"gen_ai.usage.cost": cost})


def _figures(run: dict[str, Any], outputs: Json) -> dict[str, Json]:
    """The counts of the run; of an older one, what its answer says of them."""
    found = figures(run)
    if any(found.values()):
        return found
    given = obj(outputs)
    message: Json = given.get("message")
    if message is None:
        first: Json = given.get("generations")
        while isinstance(first, list) and first:
            first = first[0]
        message = obj(first).get("message")
    body = obj(obj(message).get("kwargs")) or obj(message)
    told = (given.get("usage_metadata"), body.get("usage_metadata"), given.get("usage"))
    used = next((each for each in told if obj(each)), None)
    return figures(used or obj(given.get("llm_output")).get("token_usage"))
