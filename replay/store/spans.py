"""One span into its rows, and the digest that vouches for them.

The digest covers the redacted content of the span with its references as digests, so two databases
that hold the same span under the same key agree on it. A call that only its words show to have
failed has the status of an error, so that every reader sees one; what the source said of it stands
beside, and the digest speaks of that.
"""

from __future__ import annotations

import msgspec
from msgspec import structs

from replay import digests, prices, tool_errors
from replay.messages import text
from replay.redact.placeholders import masked_count
from replay.steps import kind_of
from replay.store.connection import Row
from replay.store.content import Content, Masks, Stored
from replay.trace import (
    AgentSpan,
    AnySpan,
    Json,
    ModelCall,
    OtherSpan,
    Retrieval,
    ToolCall,
    Usage,
)

BRIEF_WIDTH = 160
_LOOKED_AT = 2_000
"""Characters of a line that are looked at for secrets before it is cut: half a key is none."""

REFERENCES = ("system", "toolset", "context", "response", "observation")
"""Columns that hold row ids of content; in a digest they stand as the content's digest."""


def put(content: Content, seq: int, span: AnySpan) -> str:
    """Add one span, whose id must be new in the trace, to the rows; returns its digest."""
    call, refs = _call(content, span)
    row = _span(content.masks, span)
    named = {name: stored.digest if stored else None for name, stored in refs.items()}
    digest = span_digest(row, {**call, **named})
    own = {
        "seq": seq,
        **row,
        "brief": shown(
            brief(span) if _is_clean(span, refs) else _masked_brief(content.masks, span, call)
        ),
        "digest": digest,
    }
    number = content.rows.add("span", own)
    ids = {name: stored.id if stored else None for name, stored in refs.items()}
    if isinstance(span, ModelCall):
        masked = sum(stored.masked for stored in refs.values() if stored)
        content.rows.add("model_call", {"span": number, **ids, **call, "masked": masked})
    elif isinstance(span, ToolCall):
        content.rows.add("tool_call", {"span": number, **ids, **call})
    return digest


def span_digest(span: Row, call: Row) -> str:
    """Identity of a span from its own columns and its call's (references as digests).

    Left out: the parent, the costs (they follow from usage and a price table) and `masked`.
    """
    span = {**span, "status": span["source_status"] or span["status"]}
    own = [[name, span[name]] for name in _SPAN_COLUMNS]
    its = [[name, call[name]] for name in sorted(call) if name not in _DERIVED]
    return digests.digest("span", digests.pack([own, its]))


_SPAN_COLUMNS = (  # in the order of their names
    "detail", "end_ns", "error", "kind", "name", "parent", "place_line", "place_message",
    "place_span", "span_id", "start_ns", "status", "time_quality",
)  # fmt: skip
_DERIVED = frozenset({"span", "cost_usd", "cost_source", "prices", "masked"})


def brief(span: AnySpan) -> str:
    """What a row of a list says of the span, yet to be masked and then cut to a line (a key may go
    on in the next): the beginning of an answer, a call's plain values."""
    match span:
        case ModelCall():
            return _begin(text(span.response.message)) if span.response.message else ""
        case ToolCall():
            if not isinstance(span.arguments, dict):
                return _begin(span.arguments_raw or "")
            values = filter(None, map(_word, span.arguments.values()))
            return _begin(" ".join(values))
        case AgentSpan() | Retrieval() | OtherSpan():
            return ""


def _is_clean(span: AnySpan, refs: dict[str, Stored | None]) -> bool:
    """Was what the brief is the beginning of found to hold no secret?"""
    response = refs.get("response")
    return isinstance(span, ModelCall) and (response is None or not response.masked)


def _masked_brief(masks: Masks, span: AnySpan, call: Row) -> str:
    """The brief without secrets, also those that only the name of their argument tells."""
    if isinstance(span, ToolCall) and masked_count(call["arguments"] or ""):
        span = structs.replace(span, arguments=msgspec.json.decode(call["arguments"]))
    return masks.text(brief(span)) or ""


def shown(said: str) -> str:
    """A brief, masked by now, as it is kept."""
    return _cut(said, BRIEF_WIDTH)


def _word(value: Json) -> str:
    """A value in a line: a text or number, or a list of such; anything else is left out."""
    if isinstance(value, list):
        return " ".join(map(_word, value))
    return str(value) if isinstance(value, (str, int, float)) else ""


def _begin(said: str) -> str:
    return said.lstrip()[:_LOOKED_AT]


def _cut(said: str, width: int) -> str:
    line = next((line.strip() for line in said.splitlines() if line.strip()), "")
    return line if len(line) <= width else line[: width - 1] + "…"


def _span(masks: Masks, span: AnySpan) -> Row:
    found = _status(span)
    return {
        "span_id": span.id,
        "parent": span.parent,
        "kind": kind_of(span),
        "name": masks.text(span.name),
        "start_ns": span.start_ns,
        "end_ns": span.end_ns,
        "time_quality": span.time_quality,
        **found,
        "said_error": masks.text(found["said_error"]),
        "error": masks.text(span.error),
        "place_span": span.place.span,
        "place_message": span.place.message,
        "place_line": span.place.line,
        "detail": masks.json(_detail(span)),
    }


def _status(span: AnySpan) -> Row:
    """The status of a span, by its words where the source does not say that it failed: so that
    every query, sum and screen sees an error.

    `source_status` is what the source said then, `said_error` the words; both None where its own
    status stands.
    """
    if span.status != "error" and tool_errors.is_error(span):
        words = tool_errors.result_text(span)
        return {"status": "error", "source_status": span.status, "said_error": words}
    return {"status": span.status, "source_status": None, "said_error": None}


def _detail(span: AnySpan) -> dict[str, Json]:
    """What has no column of its own."""
    match span:
        case Retrieval():
            own: dict[str, Json] = {"query": span.query, "documents": span.documents}
        case OtherSpan():
            own = {"operation": span.operation}
        case AgentSpan() | ModelCall() | ToolCall():
            own = {}
    known = {name: value for name, value in own.items() if value not in (None, "")}
    return {**known, "extra": span.extra} if span.extra else known


def _call(content: Content, span: AnySpan) -> tuple[Row, dict[str, Stored | None]]:
    if isinstance(span, ModelCall):
        return _model_call(content.masks, span), {
            "system": content.message(span.request.system),
            "toolset": content.toolset(span.request.tools),
            "context": content.context(span.request.context),
            "response": content.message(span.response.message),
        }
    if isinstance(span, ToolCall):
        seen = span.observation
        observed = content.message(seen.message) if seen is not None else None
        return _tool_call(content.masks, span), {"observation": observed}
    return {}, {}


def _model_call(masks: Masks, span: ModelCall) -> Row:
    request, response, usage = span.request, span.response, span.usage or Usage()
    cost = span.cost or prices.price(span.usage, response.model, request.model, at_ns=span.start_ns)
    return {
        "model": request.model,
        "params": masks.json(request.params),
        "response_id": response.id,
        "response_model": response.model,
        "stop": response.stop,
        "stop_raw": response.stop_raw,
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
        "cache_read_tokens": usage.cache_read_tokens,
        "cache_write_tokens": usage.cache_write_tokens,
        "cache_write_1h_tokens": usage.cache_write_1h_tokens,
        "cost_usd": cost.usd if cost else None,
        "cost_source": cost.source if cost else None,
        "prices": cost.prices if cost else None,
        "fidelity": span.fidelity.level.value,
        "fidelity_reasons": masks.json(list(span.fidelity.reasons)),
        "agent": span.agent,
    }


def _tool_call(masks: Masks, span: ToolCall) -> Row:
    # Arguments that are empty are known to be empty: they are stored, unlike other empty values.
    known = "{}" if span.arguments == {} else masks.json(span.arguments)
    return {
        "call_id": span.call_id,
        "asked_by": span.asked_by,
        "arguments": known,
        "arguments_raw": masks.text(span.arguments_raw),
        "observation_block": span.observation.block if span.observation else None,
        "effect": span.effect,
    }
