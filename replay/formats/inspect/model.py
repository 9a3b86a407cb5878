"""A `model` event of an Inspect log as a model call: request, answer, usage, cost, times."""

from __future__ import annotations

from typing import Any

from replay.formats.fields import (
    Times,
    known,
    listed,
    obj,
    place_of,
    status_of,
    times,
    word,
)
from replay.formats.inspect.attachments import Attachments
from replay.formats.inspect.contexts import NO_INPUT, Asked
from replay.formats.inspect.tree import Node
from replay.formats.normal import count, seconds_ns, stop, total_usage
from replay.trace import (
    NO_TOOLS,
    Cost,
    Fidelity,
    Json,
    Level,
    ModelCall,
    Request,
    Response,
    Tool,
    Usage,
)

_KNOWN = {
    "model", "messages", "contents", "input", "prompt", "system", "instructions",
    "system_instruction", "tools", "tool_choice", "extra_headers",
}  # fmt: skip
"""Keys of a provider's request that repeat what the event says, in that provider's dialect (their
messages may stand in a pool of their own). What remains are parameters Inspect filled in."""


def _model_times(event: dict[str, Any]) -> Times:
    """Older logs tell a call's duration; the oldest stamp it only when it is done."""
    found = times(event)
    if found.start_ns is None or found.end_ns is not None or event.get("pending"):
        return found
    took = seconds_ns(obj(event.get("output")).get("time"))
    took = seconds_ns(event.get("working_time")) if took is None else took
    if took is not None and (found.start_ns + took).bit_length() < 64:
        return Times(found.start_ns, found.start_ns + took, "derived")
    return found if "working_start" in event else Times(None, found.start_ns)


def model_call(
    node: Node, parent: str, asked: Asked, tools: tuple[Tool, ...] | None, texts: Attachments
) -> ModelCall:
    """The model call of a `model` event: `asked` is its context, `tools` what it was offered."""
    event = node.event
    output, call = obj(event.get("output")), obj(event.get("call"))
    choices = [obj(choice) for choice in listed(output.get("choices"))]
    usage = obj(output.get("usage"))
    error = word(event.get("error")) or word(output.get("error"))
    at = _model_times(event)
    return ModelCall(
        id=node.id,
        name="chat",
        parent=parent,
        start_ns=at.start_ns,
        end_ns=at.end_ns,
        time_quality=at.quality,
        status=status_of(event, error),
        error=error,
        place=place_of(event),
        extra=_model_extra(event, call, choices, texts),
        request=Request(
            model=word(event.get("model")),
            system=asked.system,
            tools=tools,
            params=_params(event, texts),
            context=asked.context,
        ),
        response=_response(output, call, choices[0] if choices else {}, texts),
        usage=read_usage(usage),
        cost=_cost(event, usage),
        fidelity=_fidelity(asked, tools),
        agent=word(event.get("role")),
    )


def _fidelity(asked: Asked, tools: tuple[Tool, ...] | None) -> Fidelity:
    """Inspect records the request it makes: exact, unless a part of it is not in the log."""
    if NO_INPUT in asked.flaws:
        return Fidelity(level=Level.NONE, reasons=asked.flaws)
    reasons = asked.flaws if tools is not None else (*asked.flaws, NO_TOOLS)
    return Fidelity(level=Level.PARTIAL if reasons else Level.EXACT, reasons=reasons)


def _params(event: dict[str, Any], texts: Attachments) -> dict[str, Json]:
    choice = event.get("tool_choice")
    config = {name: value for name, value in obj(event.get("config")).items() if value is not None}
    params = config if choice is None else {**config, "tool_choice": choice}
    return obj(texts.resolve(params))


def offered(declared: Json, texts: Attachments) -> tuple[Tool, ...] | None:
    """The tools of a model event, None where it does not say."""
    if not isinstance(declared, list):
        return None
    return tuple(_tool(obj(texts.resolve(each))) for each in declared if isinstance(each, dict))


def _tool(declared: dict[str, Any]) -> Tool:
    names = {"name", "description", "parameters"}
    return Tool(
        name=word(declared.get("name")) or "",
        description=word(declared.get("description")),
        schema=declared.get("parameters"),
        extra={
            name: value
            for name, value in declared.items()
            if name not in names and value is not None
        },
    )


def _response(
    output: dict[str, Any], call: dict[str, Any], choice: dict[str, Any], texts: Attachments
) -> Response:
    body = choice.get("message")
    raw = word(choice.get("stop_reason"))
    return Response(
        message=texts.message(body)[0] if isinstance(body, dict) else None,
        id=word(obj(call.get("response")).get("id")),
        model=word(output.get("model")),
        stop=stop(raw),
        stop_raw=raw,
    )


def _model_extra(
    event: dict[str, Any], call: dict[str, Any], choices: list[dict[str, Any]], texts: Attachments
) -> dict[str, Json]:
    config = obj(event.get("config"))
    sent = {
        name: value
        for name, value in obj(call.get("request")).items()
        if name not in _KNOWN and value is not None and value != config.get(name)
    }
    return known(
        cache=event.get("cache"),
        retries=event.get("retries"),
        attempt=event.get("attempt"),
        generate=event.get("call_id"),
        pending=event.get("pending"),
        working_time=event.get("working_time"),
        sent=texts.resolve(sent),
        other_choices=texts.resolve(choices[1:]),
        metadata=texts.resolve(event.get("metadata")),
    )


def read_usage(usage: dict[str, Any]) -> Usage | None:
    """Inspect's figures as ours, the input with its cache.

    `input_tokens` leaves the cache out, but some older providers wrote the total there: the
    record tells, for then `total_tokens` is input and output without the cache.
    """
    given, out = count(usage.get("input_tokens")), count(usage.get("output_tokens"))
    read = count(usage.get("input_tokens_cache_read"))
    write = count(usage.get("input_tokens_cache_write"))
    total, cached = given, (read or 0) + (write or 0)
    if given is not None and out is not None:
        inclusive = cached <= given and count(usage.get("total_tokens")) == given + out
        total = given if inclusive else given + cached
    elif given is not None:
        total = given + cached
    reasoning = count(usage.get("reasoning_tokens"))
    return total_usage(total, out, reasoning=reasoning, read=read, write=write)


def _cost(event: dict[str, Any], usage: dict[str, Any]) -> Cost | None:
    """What the log says it cost; an answer out of Inspect's own cache cost nothing."""
    usd = usage.get("total_cost")
    if isinstance(usd, (int, float)) and not isinstance(usd, bool) and usd >= 0:
        return Cost(usd=float(usd), source="recorded")
    return Cost(usd=0.0, source="recorded") if event.get("cache") == "read" else None
