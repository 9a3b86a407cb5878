"""A `model` event of an Inspect log as a model call: request, answer, usage, cost, times."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Raw

from replay.formats.fields import Times, known, listed, obj, word
from replay.formats.inspect.attachments import Attachments
from replay.formats.inspect.contexts import NO_INPUT, Asked
from replay.formats.inspect.opened import ModelEvent
from replay.formats.inspect.record import Parts, parts
from replay.formats.inspect.tree import Node
from replay.formats.normal import count, recorded, seconds_ns, stop, total_usage, usd
from replay.trace import (
    NO_TOOLS,
    Cost,
    Fidelity,
    Json,
    Level,
    Message,
    ModelCall,
    Request,
    Response,
    Tool,
    Usage,
)

_REPEATED = {
    "model", "messages", "contents", "input", "inputs", "prompt", "system", "instructions",
    "system_instruction", "tools", "tool_choice", "extra_headers",
}  # fmt: skip
"""Keys of a provider's request that repeat what the event says, in that provider's dialect (their
messages may stand in a pool of their own). What remains are parameters Inspect filled in."""


class Models:
    """The model calls of one sample. What the log repeats in every call is made once."""

    def __init__(self, texts: Attachments) -> None:
        self._texts = texts
        self._tools: tuple[Raw | None, tuple[Tool, ...] | None] = (None, None)
        self._config: tuple[Raw | None, dict[str, Any]] = (None, {})
        self._choice: tuple[Raw | None, Json] = (None, None)

    def call(self, node: Node, parent: str, asked: Asked, event: ModelEvent) -> ModelCall:
        """The model call of a `model` event; `asked` is its context."""
        output, sent = obj(event.output), parts(event.call) or {}
        choices = [obj(choice) for choice in listed(output.get("choices"))]
        usage = obj(output.get("usage"))
        error = word(event.error) or word(output.get("error"))
        tools = self._offered(event.tools)
        config = self._configured(event.config)
        start, end, quality = _times(node, event, output)
        return ModelCall(
            id=node.id,
            name="chat",
            parent=parent,
            start_ns=start,
            end_ns=end,
            time_quality=quality,
            status=node.status(error),
            error=error,
            place=node.place,
            extra=self._extra(event, output, sent, config, choices[1:]),
            request=Request(
                model=word(event.model),
                system=asked.system,
                tools=tools,
                params=self._params(config, event.tool_choice),
                context=asked.context,
            ),
            response=self._response(output, sent, choices[0] if choices else {}),
            usage=read_usage(usage),
            cost=_cost(event, usage),
            fidelity=_fidelity(asked, tools),
            agent=word(event.role),
        )

    def _offered(self, declared: Raw) -> tuple[Tool, ...] | None:
        """The tools of a model event, None where it does not say."""
        if self._tools[0] != declared:
            self._tools = (declared, offered(self._texts.read(declared)))
        return self._tools[1]

    def _configured(self, config: Raw) -> dict[str, Any]:
        if self._config[0] != config:
            said = obj(self._texts.read(config))
            self._config = (config, {n: value for n, value in said.items() if value is not None})
        return self._config[1]

    def _params(self, config: dict[str, Any], choice: Raw) -> dict[str, Json]:
        if self._choice[0] != choice:
            self._choice = (choice, self._texts.read(choice))
        chosen = self._choice[1]
        return config if chosen is None else {**config, "tool_choice": chosen}

    def _extra(
        self,
        event: ModelEvent,
        output: dict[str, Any],
        sent: Parts,
        config: Mapping[str, Json],
        other_choices: list[dict[str, Any]],
    ) -> dict[str, Json]:
        said = {
            "cache": event.cache,
            "retries": event.retries,
            "attempt": event.attempt,
            "generate": event.call_id,
            "pending": event.pending,
            "working_time": event.working_time,
            "requested_model": event.requested_model,
            "traceback": event.traceback,
            "sent": self._filled_in(sent, config) or None,
            "fallback": output.get("fallback"),
            "other_choices": other_choices or None,
            "metadata": event.metadata,
        }
        return known(**{name: value for name, value in said.items() if value is not None})

    def _filled_in(self, sent: Parts, config: Mapping[str, Json]) -> dict[str, Json]:
        """What the provider was sent beside what the event says."""
        request = parts(sent.get("request"))
        if not request:
            return {}
        found = {n: self._texts.read(raw) for n, raw in request.items() if n not in _REPEATED}
        return {
            name: value
            for name, value in found.items()
            if value is not None and value != config.get(name)
        }

    def _response(self, output: dict[str, Any], sent: Parts, choice: dict[str, Any]) -> Response:
        body = choice.get("message")
        raw = word(choice.get("stop_reason"))
        return Response(
            message=Message(dialect="inspect", body=body) if isinstance(body, dict) else None,
            id=word(output.get("response_id")) or self._response_id(sent),
            model=word(output.get("model")),
            stop=stop(raw),
            stop_raw=raw,
        )

    def _response_id(self, sent: Parts) -> str | None:
        raw = (parts(sent.get("response")) or {}).get("id")
        return word(self._texts.read(raw)) if raw is not None else None


def _times(node: Node, event: ModelEvent, output: dict[str, Any]) -> Times:
    """Older logs tell a call's duration; the oldest stamp it only when it is done."""
    found = node.times
    if found.start_ns is None or found.end_ns is not None or node.pending:
        return found
    took = seconds_ns(output.get("time"))
    took = seconds_ns(event.working_time) if took is None else took
    if took is not None and (found.start_ns + took).bit_length() < 64:
        return Times(found.start_ns, found.start_ns + took, "derived")
    return found if event.working_start is not None else Times(None, found.start_ns)


def _fidelity(asked: Asked, tools: tuple[Tool, ...] | None) -> Fidelity:
    """Inspect records the request it makes: exact, unless a part of it is not in the log."""
    if not asked.flaws and tools is not None:
        return _EXACT
    if NO_INPUT in asked.flaws:
        return Fidelity(level=Level.NONE, reasons=asked.flaws)
    reasons = asked.flaws if tools is not None else (*asked.flaws, NO_TOOLS)
    return Fidelity(level=Level.PARTIAL, reasons=reasons)


_EXACT = Fidelity(level=Level.EXACT)


def offered(declared: Json) -> tuple[Tool, ...] | None:
    """The tools of a list, None for anything else."""
    if not isinstance(declared, list):
        return None
    return tuple(_tool(each) for each in declared if isinstance(each, dict))


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


def _cost(event: ModelEvent, usage: dict[str, Any]) -> Cost | None:
    """What the log says it cost; an answer out of Inspect's own cache cost nothing."""
    amount = usd(usage.get("total_cost"))
    return recorded(0.0 if amount is None and event.cache == "read" else amount)
