"""OTLP as exporters write it: values with their types beside them, spans, records, requests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from replay.formats import load, otlp, sniff
from replay.formats.source import Source, Tally
from replay.trace import Batch

Value = dict[str, Any]

TRACE = "0af7651916cd43dd8448eb211c80319c"
SECOND = 1_795_226_616_000_000_000


def read(path: Path) -> tuple[list[Batch], Tally]:
    tally = Tally()
    source = Source(path)
    assert sniff(source) is otlp
    return list(load(source, tally)), tally


def written(path: Path, *requests: Value) -> list[Batch]:
    """The traces of a file with one request a line."""
    path.write_text("".join(json.dumps(request) + "\n" for request in requests))
    return read(path)[0]


def typed(value: Any) -> Value:
    match value:
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
        case list():
            return {"arrayValue": {"values": [typed(each) for each in value]}}
        case dict():
            return {"kvlistValue": {"values": pairs(value)}}
        case _:
            return {"stringValue": value}


def pairs(attributes: Value) -> list[Value]:
    return [{"key": name, "value": typed(value)} for name, value in attributes.items()]


def hexed(name: str, digits: int = 16) -> str:
    """An id that shows the name it is given for: names of ids have to be hex digits."""
    return name.encode().hex().rjust(digits, "0")[-digits:]


def span(
    name: str, at: int, parent: str | None = None, attributes: Value | None = None, **more: Any
) -> Value:
    """A span of a second that begins at a second; its id follows from its name."""
    above = {"parentSpanId": hexed(parent)} if parent is not None else {}
    return {
        "traceId": TRACE,
        "spanId": hexed(name),
        **above,
        "name": name,
        "kind": 3,
        "startTimeUnixNano": str(SECOND + at * 10**9),
        "endTimeUnixNano": str(SECOND + (at + 1) * 10**9),
        "attributes": pairs(attributes or {}),
        "status": {},
        **more,
    }


def event(name: str, attributes: Value) -> Value:
    return {"timeUnixNano": str(SECOND), "name": name, "attributes": pairs(attributes)}


def record(name: str, attributes: Value, span: str | None = None, **more: Any) -> Value:
    """A log record that is an event, written in a span."""
    where = {"traceId": TRACE, "spanId": hexed(span)} if span is not None else {}
    return {
        "timeUnixNano": str(SECOND + 10**9),
        "eventName": name,
        **where,
        "attributes": pairs(attributes),
        **more,
    }


def spans(*found: Value, service: str = "shop") -> Value:
    resource = {"attributes": pairs({"service.name": service})}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": list(found)}]}]}


def logs(*found: Value) -> Value:
    return {"resourceLogs": [{"scopeLogs": [{"logRecords": list(found)}]}]}


# --- one small run, in the newest words


def said(role: str, *parts: Value) -> Value:
    return {"role": role, "parts": list(parts)}


def text(content: str) -> Value:
    return {"type": "text", "content": content}


def asks_for(call: str, name: str, **arguments: Any) -> Value:
    return {"type": "tool_call", "id": call, "name": name, "arguments": arguments}


def came_back(call: str, response: Any) -> Value:
    return {"type": "tool_call_response", "id": call, "response": response}


USER = said("user", text("Where is order 7?"))
ASKS = said("assistant", asks_for("a", "get_order", id=7))
TOLD = said("tool", came_back("a", "shipped"))
ANSWER = said("assistant", text("Shipped."))
TOOLS = [{"type": "function", "name": "get_order", "parameters": {"type": "object"}}]


def chat(given: list[Value], answer: Value, **more: Any) -> Value:
    """The attributes of a model call."""
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "m-1",
        "gen_ai.input.messages": json.dumps(given),
        "gen_ai.output.messages": json.dumps([answer]),
        "gen_ai.system_instructions": json.dumps([text("Be brief.")]),
        "gen_ai.tool.definitions": json.dumps(TOOLS),
        **more,
    }


AGENT = span("agent", 0, None, {
    "gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "support",
    "gen_ai.conversation.id": "conv-1",
})  # fmt: skip
FIRST = span("ask", 1, "agent", chat([USER], ASKS, **{
    "gen_ai.response.model": "m-1-2026", "gen_ai.response.id": "r-1",
    "gen_ai.response.finish_reasons": ["tool_call"], "gen_ai.request.max_tokens": 9,
    "gen_ai.usage.input_tokens": 100, "gen_ai.usage.output_tokens": 20,
    "gen_ai.usage.cache_read.input_tokens": 90, "gen_ai.usage.cost": 0.5,
}))  # fmt: skip
RUN = span("run", 2, "agent", {
    "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "get_order",
    "gen_ai.tool.call.id": "a", "gen_ai.tool.call.result": "shipped",
})  # fmt: skip
LAST = span("say", 3, "agent", chat([USER, ASKS, TOLD], ANSWER))
