"""What a span says in words of its service, under the names of the GenAI conventions.

Services and frameworks keep what a model or a tool was given and gave back as one value: a request
and a response of a client library, or the arguments and the result of a function, as JSON, or as
Python prints them. What the span's own attributes leave unsaid is read from there: messages, tools,
counts, stop reasons, ids of calls, errors that only a result tells of.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from replay.depth import from_text
from replay.formats.common import known, listed, obj, parse_repr, word
from replay.formats.genai import attributes
from replay.formats.genai.attributes import Kind, Known, known_of
from replay.formats.genai.functions import (
    arguments_of,
    has_text,
    present,
    result_of,
)
from replay.formats.genai.messages import has_messages
from replay.formats.genai.printed import is_message, response_in
from replay.formats.genai.records import RawSpan, readable, usd
from replay.formats.genai.usage import (
    figures,
    mlflow_counts,
    service_cost,
    service_counts,
    usage_of,
)
from replay.messages import content_text
from replay.trace import Json

INFERENCE = "gen_ai.client.inference.operation.details"
"""The event, or log record, that gives the contents of a call."""

_ASKED = ("gen_ai.prompt.", "llm.input_messages.", "llm.prompts.", "ai.prompt.messages")
_ANSWERED = ("gen_ai.completion.", "llm.output_messages.", "ai.response.")
_TOOLS = ("llm.tools.", "llm.request.functions.")
_LIMITLESS = ("Infinity", "inf", None)
"""What Langfuse writes for a setting that was not given."""


def in_conventions(raw: RawSpan) -> Known:
    """The span with what it says in other words. Its attributes may be replaced, and its status
    where only its result tells of an error."""
    raw.attributes = _decode(_with_details(raw))
    span = known_of(raw)
    if span.kind is Kind.MODEL:
        added = _of_model(span)
    elif span.kind is Kind.TOOL:
        added = _of_tool(span)
    else:
        added = {}
    if not added:
        return span
    raw.attributes = {**raw.attributes, **added}
    return known_of(raw)


def _with_details(raw: RawSpan) -> dict[str, Json]:
    """The attributes with those of the events that give the contents of the span's own call."""
    told = [event.attributes for event in raw.events if event.name == INFERENCE]
    given = raw.attributes
    for each in told:
        given = {**each, **given}
    return given


def _decode(given: dict[str, Json]) -> dict[str, Json]:
    """MLflow writes every attribute as JSON, texts too."""
    if "mlflow.spanType" not in given:
        return given
    return {name: _unquote(value) for name, value in given.items()}


def asks(raw: RawSpan) -> bool:
    """Does the span say what the model was asked?"""
    return _says(raw, attributes.INPUT, "gen_ai.prompt", _ASKED) or bool(
        has_messages(raw.events)[0]
    )


def answers(raw: RawSpan) -> bool:
    """Does it say what the model answered?"""
    found = _says(raw, attributes.OUTPUT, "gen_ai.completion", _ANSWERED)
    return found or has_messages(raw.events)[1] is not None


def _says(raw: RawSpan, name: str, older: str, stems: tuple[str, ...]) -> bool:
    given = raw.attributes
    if given.get(name) is not None or _is_messages(given.get(older)):
        return True
    return any(each.startswith(stems) for each in given)


def _is_messages(value: Json) -> bool:
    """LangSmith keeps a function's inputs and outputs, which are objects, under the older names."""
    return value is not None and not (isinstance(value, str) and value.lstrip().startswith("{"))


# --- models


def _of_model(span: Known) -> dict[str, Json]:
    raw, given = span.raw, span.raw.attributes
    asked = asks(raw) and not _has_hollow_messages(given, "llm.input")
    answered = answers(raw) and not _lacks_call_ids(given)
    answered = answered and not _has_hollow_messages(given, "llm.output")
    inputs = outputs = None
    if not asked or (_may_offer(span) and not _offers(span)):
        inputs = readable(_given(span))
    if not (answered and _counts(span) and span.of(attributes.STOP) is not None):
        outputs = readable(_gave(span))
    found = has_text(inputs, outputs)
    if asked:
        found.pop(attributes.INPUT, None)
        found.pop(attributes.SYSTEM, None)
    if answered:
        found.pop(attributes.OUTPUT, None)
    if _offers(span):
        found.pop("gen_ai.tool.definitions", None)
    found |= _settings(given) | _figures(span, outputs)
    return {name: value for name, value in found.items() if given.get(name) is None}


_SAID = re.compile(r"llm\.(?:in|out)put_messages\.(\d+)\.message\.(\w+)")


def _has_hollow_messages(given: dict[str, Any], side: str) -> bool:
    """Is there a message of which an instrumentation could say its role alone?"""
    fields: dict[str, set[str]] = {}
    for name in given:
        found = _SAID.match(name) if name.startswith(side) else None
        if found is not None:
            fields.setdefault(found[1], set()).add(found[2])
    return any(each == {"role"} for each in fields.values())


def _lacks_call_ids(given: dict[str, Any]) -> bool:
    made = [name for name in given if name.startswith("llm.output_messages.") and "call." in name]
    return bool(made) and not any(name.endswith("tool_call.id") for name in made)


def _given(span: Known) -> Json:
    """What the function was given; LangSmith says it under the name of an old attribute."""
    value = span.of(attributes.GIVEN)
    return span.raw.attributes.get("gen_ai.prompt") if value is None else value


def _gave(span: Known) -> Json:
    value = span.of(attributes.GAVE)
    return span.raw.attributes.get("gen_ai.completion") if value is None else value


def _offers(span: Known) -> bool:
    """Does the span say which tools the model was offered?"""
    said = span.of(attributes.TOOLS) is not None
    return said or any(name.startswith(_TOOLS) for name in span.raw.attributes)


def _may_offer(span: Known) -> bool:
    """Is there a word of tools in what the function was given? Reading it costs."""
    value = _given(span)
    return '"tools"' in value if isinstance(value, str) else "tools" in obj(value)


def _counts(span: Known) -> bool:
    """Are the tokens known, those from a cache too?"""
    wanted = (attributes.USAGE_IN, attributes.USAGE_OUT, attributes.CACHE_READ)
    return all(span.of(each) is not None for each in wanted)


def _settings(given: dict[str, Any]) -> dict[str, Json]:
    """The settings of a request as Langfuse has them."""
    settings = obj(readable(given.get("langfuse.observation.model.parameters")))
    kept = {name: value for name, value in settings.items() if value not in _LIMITLESS}
    return known(**{"llm.invocation_parameters": kept})


def _figures(span: Known, outputs: Json) -> dict[str, Json]:
    """Counts and cost, of a service's own attributes, else of the response. The response's are
    taken beside the span's own only where both count the same input."""
    given = span.raw.attributes
    told = _service_counts(given)
    response = _parse_raw(outputs)
    if told is None and not _counts(span):
        told = max(usage_of(outputs), usage_of(response), key=len)
    total = span.of(attributes.USAGE_IN)
    same = told is not None and total in (None, told.get("gen_ai.usage.input_tokens"))
    cost = usd(obj(readable(given.get("mlflow.llm.cost"))).get("total_cost"))
    costs = given.get("langfuse.observation.cost_details")
    cost = cost or (service_cost({"costDetails": costs}) if costs is not None else None)
    why = _why(response) if span.of(attributes.STOP) is None else None
    return {
        **(told if told is not None and same else {}),
        **present(**{"gen_ai.usage.cost": cost or None}),
        **present(**{"gen_ai.response.finish_reasons": [why] if why else None}),
    }


def _service_counts(given: dict[str, Any]) -> dict[str, Json] | None:
    """Counts in a service's own attributes."""
    details = obj(readable(given.get("langfuse.observation.usage_details")))
    told = next(
        (c for each in (details, given.get(_LANGSMITH)) if (c := figures(readable(each)))), None
    )
    told = told or mlflow_counts(given.get("mlflow.chat.tokenUsage"))
    return told or (service_counts({"usageDetails": details}) if details else None) or None


_LANGSMITH = "langsmith.metadata.usage_metadata"


def _parse_raw(outputs: Json) -> Json:
    """The response that a framework keeps as Python prints it."""
    given = obj(outputs)
    replies = listed(given.get("replies"))
    if replies and is_message(replies[0]):
        return response_in(replies[0])
    text = given.get("raw")
    return parse_repr(text) if isinstance(text, str) else text


def _why(response: Json) -> str | None:
    choice = obj(next(iter(listed(obj(response).get("choices"))), None))
    return word(choice.get("finish_reason"))


# --- tools


def _of_tool(span: Known) -> dict[str, Json]:
    """Arguments out of what wraps them; of a result the id of its call, and whether it is an
    error."""
    given, told = _argument(span), _result(span)
    gave = readable(told)
    result, call_id, failed = result_of(gave)
    found: dict[str, Json] = {}
    unwrapped = arguments_of(readable(given))
    if unwrapped is not None or span.of(attributes.ARGUMENTS) is None:
        found |= present(**{attributes.ARGUMENTS.names[0]: unwrapped or given})
    result = result if result is not gave else _unquote(told)
    if result is not told or span.of(attributes.RESULT) is None:
        found |= present(**{attributes.RESULT.names[0]: result})
    noted = span.raw.attributes.get("haystack.tool.error", span.raw.attributes.get(_TOOL_STATUS))
    failed = failed or noted in (True, "error")
    if call_id is not None and span.of(attributes.CALL) is None:
        found[attributes.CALL.names[0]] = call_id
    if failed and span.raw.status != "error":
        span.raw.status = "error"
        span.raw.message = span.raw.message or content_text(result) or None
    return found


_TOOL_STATUS = "gen_ai.tool.status"


def _argument(span: Known) -> Json:
    value = span.of(attributes.ARGUMENTS)
    value = span.raw.attributes.get("gen_ai.prompt") if value is None else value
    return _in_event(span.raw, "gen_ai.tool.message", "content") if value is None else value


def _result(span: Known) -> Json:
    value = span.of(attributes.RESULT)
    value = span.raw.attributes.get("gen_ai.completion") if value is None else value
    return _in_event(span.raw, "gen_ai.choice", "message") if value is None else value


def _unquote(value: Json) -> Json:
    """The text that a text of JSON holds: a function's result is encoded whatever it is."""
    if not isinstance(value, str) or value[:1] != '"':
        return value
    try:
        return from_text(value)
    except msgspec.DecodeError:
        return value


def _in_event(raw: RawSpan, name: str, field: str) -> Json:
    """What an event of a tool's span says in a field; None where there is none."""
    return next((each.attributes.get(field) for each in raw.events if each.name == name), None)
