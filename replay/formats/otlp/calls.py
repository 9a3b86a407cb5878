"""A model span's request and response beside their messages: model, tools, settings, figures."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import structs

from replay.formats.chat import tool
from replay.formats.fields import known, listed, obj, word
from replay.formats.normal import anthropic_usage, count, recorded, stop, total_usage, usd
from replay.formats.openinference.attributes import grown, parsed
from replay.formats.otlp import names
from replay.formats.otlp.spans import Known
from replay.trace import (
    NO_SYSTEM,
    NO_TOOLS,
    Cost,
    Fidelity,
    Json,
    Level,
    Message,
    Request,
    Response,
    Tool,
    Usage,
)

NO_INPUT = "the input was not recorded"
CUT_OFF = "the recorded input is cut off"
DROPPED = "attributes of the span were dropped where it was recorded"


class Toolsets:
    """The tools offered, one value for all calls that were offered the same."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Tool, ...] | None] = {}

    def of(self, span: Known) -> tuple[Tool, ...] | None:
        """None where the span does not say."""
        given = span.of(names.TOOLS)
        if given is None:
            given = _counted(span.raw.attributes)
        if given is None:
            return None
        key = given if isinstance(given, str) else msgspec.json.encode(given).decode()
        if key not in self._known:
            declared = parsed(given)
            listed_ = declared if isinstance(declared, list) else None
            self._known[key] = None if listed_ is None else tuple(map(_tool, listed_))
        return self._known[key]


def _counted(attributes: dict[str, Json]) -> list[Json] | None:
    """Tools spread over attributes with numbers in their names, None for none."""
    stems = ("llm.tools.", "llm.request.functions.")
    found = {name: value for name, value in attributes.items() if name.startswith(stems)}
    if not found:
        return None
    tree = obj(grown(found).get("llm"))
    functions = [
        {**obj(each), **known(parameters=parsed(obj(each).get("parameters")))}
        for each in listed(obj(tree.get("request")).get("functions"))
    ]
    tools = [obj(obj(each).get("tool")).get("json_schema") for each in listed(tree.get("tools"))]
    return [*functions, *tools]


def _tool(declared: Json) -> Tool:
    body: Any = parsed(declared)
    if isinstance(body, dict) and "inputSchema" in body:
        body = {**body, "input_schema": body["inputSchema"]}
        del body["inputSchema"]
    return tool(body if isinstance(body, dict) else {"name": word(body) or ""})


def request(span: Known, tools: tuple[Tool, ...] | None) -> Request:
    """All but the messages."""
    params = span.given.params
    settings = span.raw.attributes.get("llm.invocation_parameters")
    if settings is not None:
        named = obj(parsed(settings)).items()
        own = {name: value for name, value in named if name not in ("tools", "messages")}
        params = {**own, **params}
    return Request(model=span.word(names.ASKED_MODEL), tools=tools, params=params)


def response(span: Known, message: Message | None, why: str | None) -> Response:
    """The answer; `why` is the stop reason its message came with, after the span's own."""
    given = parsed(span.of(names.STOP))
    if isinstance(given, list):
        given = given[0] if given else None
    said = word(given) or why
    return Response(
        message=message,
        id=span.word(names.RESPONSE),
        model=span.word(names.ANSWERED_MODEL),
        stop=stop(said.replace("-", "_")) if said else None,
        stop_raw=said,
    )


def usage(span: Known) -> Usage | None:
    """Tokens; the input counts the cache in, as the conventions say, but for Claude Code's own."""
    given = span.raw.attributes
    if "input_tokens" in given and "cache_creation_tokens" in given:
        own = {"cache_read_input_tokens": given.get("cache_read_tokens")}
        own["cache_creation_input_tokens"] = given["cache_creation_tokens"]
        return anthropic_usage({**given, **own})
    made = total_usage(
        count(span.of(names.USAGE_IN)),
        count(span.of(names.USAGE_OUT)),
        reasoning=count(span.of(names.REASONING)),
        read=count(span.of(names.CACHE_READ)),
        write=count(span.of(names.CACHE_WRITE)),
    )
    hourly = count(span.of(names.CACHE_WRITE_1H))
    if made is None or hourly is None or hourly > (made.cache_write_tokens or 0):
        return made
    return structs.replace(made, cache_write_1h_tokens=hourly)


def cost(span: Known) -> Cost | None:
    """What the source says the call cost."""
    return recorded(usd(span.of(names.COST)))


def fidelity(asked: Request, *, joined: bool, cut: bool, dropped: bool) -> Fidelity:
    """Exact where messages, system prompt and tools were recorded; `joined` where the messages of
    earlier calls had to be put before those recorded; none where the record is `cut` off or
    attributes were `dropped`, for any message may be among them."""
    if cut or dropped:
        return Fidelity(level=Level.NONE, reasons=(CUT_OFF if cut else DROPPED,))
    if asked.context is None:
        return Fidelity(level=Level.NONE, reasons=(NO_INPUT,))
    reasons = (NO_SYSTEM,) if asked.system is None else ()
    if asked.tools is None:
        reasons = (*reasons, NO_TOOLS)
    if reasons:
        return Fidelity(level=Level.PARTIAL, reasons=reasons)
    return Fidelity(level=Level.REBUILT if joined else Level.EXACT)


def rest(span: Known) -> dict[str, Json]:
    """Attributes and events that no field of ours holds."""
    found: dict[str, Json] = {"attributes": span.given.rest} if span.given.rest else {}
    events = [
        known(name=event.name, time_ns=event.time_ns, attributes=event.attributes)
        for event in span.raw.events
        if not event.name.startswith("gen_ai.")
    ]
    if events:
        found["events"] = events
    return found
