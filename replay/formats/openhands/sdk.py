"""Events of the OpenHands SDK: each names its kind, and an action keeps the call it was made of.

The system prompt and every message stand as the model read them; of the tools the file keeps
names and descriptions. What calls were made in one answer share its id.
"""

from __future__ import annotations

import json
from typing import Any

from replay.formats.fields import known, listed, obj, word
from replay.formats.openhands.happened import (
    Acted,
    Aside,
    Forgot,
    Happened,
    Heard,
    Prompted,
    Returned,
    called,
)
from replay.messages import content_text
from replay.trace import Json, Message, Tool

_BOOKKEEPING = {
    "ConversationStateUpdateEvent", "CondensationRequest", "LLMCompletionLogEvent", "TokenEvent",
    "StreamingDeltaEvent",
}  # fmt: skip


def is_event(raw: dict[str, Any]) -> bool:
    kind = raw.get("kind")
    return isinstance(kind, str) and "source" in raw and kind[:1].isupper()


def happened(raw: dict[str, Any], _index: int) -> Happened:
    """What the event comes to."""
    kind = raw.get("kind")
    if kind in _BOOKKEEPING:
        return None
    if kind == "SystemPromptEvent":
        return _prompted(raw)
    if kind == "MessageEvent":
        return _said(raw)
    if kind == "ActionEvent":
        return _acted(raw)
    if kind in {"ObservationEvent", "AgentErrorEvent", "UserRejectObservation"}:
        return _returned(raw)
    if kind == "Condensation":
        return _condensed(raw)
    if kind == "CondensationSummaryEvent":
        return Heard(message=_user(raw.get("summary")))
    return _aside(raw)


def _prompted(raw: dict[str, Any]) -> Prompted:
    blocks = [obj(raw.get("system_prompt")), obj(raw.get("dynamic_context"))]
    texts: list[Json] = [block for block in blocks if block.get("text")]
    content = texts if len(texts) > 1 else content_text(texts)
    given = raw.get("tools")
    tools = tuple(_tool(obj(each)) for each in given) if isinstance(given, list) else None
    return Prompted(
        message=Message(dialect="openai", body={"role": "system", "content": content}),
        tools=tools,
        schemas=all(each.schema is not None for each in tools or ()),
    )


def _tool(given: dict[str, Any]) -> Tool:
    function = obj(given.get("function")) or given
    schema = function.get("parameters") or given.get("inputSchema") or given.get("input_schema")
    return Tool(
        name=word(function.get("name"))
        or word(given.get("title"))
        or word(given.get("kind"))
        or "",
        description=word(function.get("description")),
        schema=schema,
        extra=known(annotations=given.get("annotations")),
    )


def _said(raw: dict[str, Any]) -> Happened:
    told = obj(raw.get("llm_message"))
    extended = listed(raw.get("extended_content"))
    content = told.get("content")
    if extended:
        content = [*(content if isinstance(content, list) else [_block(content)]), *extended]
    if raw.get("source") != "agent":
        return Heard(message=_user(content))
    body = {"role": "assistant", "content": content, **_reasoned(told)}
    if told.get("tool_calls"):
        body["tool_calls"] = told["tool_calls"]
    return Acted(
        message=Message(dialect="openai", body=body), answer_id=word(raw.get("llm_response_id"))
    )


def _block(words: Json) -> Json:
    return {"type": "text", "text": content_text(words)}


def _user(content: Json) -> Message:
    return Message(dialect="openai", body={"role": "user", "content": content})


def _reasoned(raw: dict[str, Any]) -> dict[str, Json]:
    blocks = map(obj, listed(raw.get("thinking_blocks")))
    told = word(raw.get("reasoning_content"))
    thought = told or "\n".join(text for b in blocks if (text := word(b.get("thinking"))))
    return known(reasoning_content=thought, thinking_blocks=raw.get("thinking_blocks"))


def _acted(raw: dict[str, Any]) -> Acted:
    given = obj(raw.get("tool_call"))
    function = obj(given.get("function")) or given
    arguments = function.get("arguments")
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments or obj(raw.get("action")), ensure_ascii=False)
    call_id = word(raw.get("tool_call_id")) or word(given.get("id"))
    name = word(function.get("name")) or word(raw.get("tool_name"))
    message = called(call_id, name, arguments, words=raw.get("thought"))
    return Acted(
        message=Message(dialect="openai", body={**message.body, **_reasoned(raw)}),
        answer_id=word(raw.get("llm_response_id")),
        call_id=call_id,
        recast=not given,
    )


def _returned(raw: dict[str, Any]) -> Returned:
    seen = obj(raw.get("observation"))
    content = seen.get("content", seen.get("output", seen.get("result")))
    error = raw.get("error")
    if raw.get("kind") == "UserRejectObservation":
        error = f"Action rejected: {word(raw.get('rejection_reason')) or 'no reason given'}"
    return Returned(
        content=error if not seen and error is not None else _worded(content, raw),
        name=word(raw.get("tool_name")),
        call_id=word(raw.get("tool_call_id")),
        cause=word(raw.get("action_id")),
        error=word(error) or _failure(seen),
    )


def _worded(content: Json, raw: dict[str, Any]) -> Json:
    extended = listed(raw.get("extended_content"))
    if not extended:
        return content
    return [*(content if isinstance(content, list) else [_block(content)]), *extended]


def _failure(seen: dict[str, Any]) -> str | None:
    code = seen.get("exit_code", obj(seen.get("metadata")).get("exit_code"))
    if isinstance(code, int) and not isinstance(code, bool) and code not in (0, -1):
        return f"exit code {code}"
    told = seen.get("is_error") or seen.get("error")
    if not told:
        return None
    return word(seen.get("error")) if isinstance(seen.get("error"), str) else "the tool failed"


def _condensed(raw: dict[str, Any]) -> Forgot:
    offset = raw.get("summary_offset")
    return Forgot(
        events=frozenset(str(each) for each in listed(raw.get("forgotten_event_ids"))),
        summary=word(raw.get("summary")),
        offset=offset if isinstance(offset, int) else None,
    )


def _aside(raw: dict[str, Any]) -> Aside:
    rest = {n: v for n, v in raw.items() if n not in {"id", "kind", "timestamp", "source"}}
    failed = word(raw.get("detail")) or word(raw.get("code"))
    kind = str(raw.get("kind"))
    error = (failed or kind) if "Error" in kind else None
    return Aside(name=kind, error=error, extra=rest)
