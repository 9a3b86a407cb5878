"""What an event of an OpenHands run comes to, whichever generation wrote it.

Runtime events (before the SDK) are actions and the observations that answer them; SDK events
each name their kind, and an action keeps the call it was made of.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeAlias

from msgspec import Struct

from replay.formats import common
from replay.formats.chat import tool
from replay.formats.common import known, listed, obj, reasoning, word
from replay.messages import content_text
from replay.trace import Json, Message, Tool


class Prompted(Struct, frozen=True, kw_only=True, eq=False):
    """The system prompt, and the tools where they are told. `schemas`: with their parameters?"""

    message: Message
    tools: tuple[Tool, ...] | None
    schemas: bool = True


class Received(Struct, frozen=True, kw_only=True, eq=False):
    """Words to the agent that answer no call."""

    message: Message


class Acted(Struct, frozen=True, kw_only=True, eq=False):
    """The model's answer, or one call of it: events of one answer share its `answer_id`.

    `answer` is the provider's whole answer where it was kept. `recast` marks a call told from the
    action alone, in no words of the model's.
    """

    message: Message
    answer_id: str | None
    call_id: str | None = None
    answer: dict[str, Any] = {}
    recast: bool = False


class Returned(Struct, frozen=True, kw_only=True, eq=False):
    """A result. `cause` is the id of the event it answers, `call_id` that of the call; where both
    are unknown it answers the call before it."""

    content: Json
    name: str | None = None
    call_id: str | None = None
    cause: str | None = None
    error: str | None = None


class Forgot(Struct, frozen=True, kw_only=True, eq=False):
    """The context was condensed: these events left it, a summary took their place."""

    events: frozenset[str]
    summary: str | None = None
    offset: int | None = None


class Sent(Struct, frozen=True, kw_only=True, eq=False):
    """The agent sent another one; what follows is that one's until it returns."""

    agent: str
    task: str
    acted: Acted


class Back(Struct, frozen=True, kw_only=True, eq=False):
    """The agent that was sent returned; `result` is what its sender was told."""

    result: Returned


class Aside(Struct, frozen=True, kw_only=True, eq=False):
    """Something the model was not shown, or not in these words. `recalled`: did it change what
    the model was shown?"""

    name: str
    error: str | None = None
    extra: dict[str, Json] = {}
    recalled: bool = False


Happened: TypeAlias = Prompted | Received | Acted | Returned | Forgot | Sent | Back | Aside | None
"""None is the machinery's own bookkeeping."""


def called(call_id: Json, name: Json, arguments: Json, words: Json = None) -> Message:
    """An assistant message with one call."""
    function = {"name": name, "arguments": arguments}
    body = {
        "role": "assistant",
        "content": words or None,
        "tool_calls": [{"id": call_id, "type": "function", "function": function}],
    }
    return Message(dialect="openai", body=body)


_OWN = {
    "id", "timestamp", "source", "message", "cause", "action", "observation", "args", "extras",
    "tool_call_metadata", "llm_metrics", "success", "content", "timeout", "file_text",
    "response_id",
}  # fmt: skip
_SAID_BESIDE = {
    "thought", "is_confirmed", "confirmation_state", "action_risk", "security_risk", "keep_prompt",
    "kernel_init_code", "hidden", "blocking", "is_static", "is_input", "cwd", "wait_for_response",
    "images_urls", "image_urls", "file_urls", "translated_ipython_code", "impl_source",
}  # fmt: skip
"""What stands in an action and was not the model's to say."""

_BOOKKEEPING = {
    "agent_state_changed",
    "change_agent_state",
    "null",
    "server_ready",
    "loop_recovery",
}


_FILES = {"edit", "read", "write"}
"""Observations that tell a failure by their first word alone."""


def is_runtime_event(raw: dict[str, Any]) -> bool:
    return isinstance(raw.get("action"), str) or isinstance(raw.get("observation"), str)


def read_runtime_event(raw: dict[str, Any], index: int) -> Happened:
    """What the event comes to; `index` is its place among the events."""
    if isinstance(raw.get("observation"), str):
        return _observed(raw)
    kind = str(raw.get("action"))
    if kind in _BOOKKEEPING:
        return None
    special = _ACTIONS.get(kind)
    if special is not None:
        return special(raw, index)
    if raw.get("source") == "user":
        return Aside(name=kind, extra={"by": "user", **_arguments(raw)})
    return _acted(raw, index)


def _given(raw: dict[str, Any]) -> dict[str, Any]:
    """An action's arguments: under `args`, or flat beside it in the oldest files."""
    if isinstance(raw.get("args"), dict):
        return obj(raw["args"])
    if isinstance(raw.get("extras"), dict):
        return obj(raw["extras"])
    return {name: value for name, value in raw.items() if name not in _OWN or name == "content"}


def _arguments(raw: dict[str, Any]) -> dict[str, Json]:
    return {name: value for name, value in _given(raw).items() if name not in _SAID_BESIDE}


def _system(raw: dict[str, Any], _index: int) -> Happened:
    given = _given(raw)
    body = {"role": "system", "content": given.get("content")}
    tools = given.get("tools")
    return Prompted(
        message=Message(dialect="openai", body=body),
        tools=tuple(map(tool, tools)) if isinstance(tools, list) else None,
    )


def _text_of(raw: dict[str, Any], index: int) -> Happened:
    """Words of the user or of the agent. The oldest files do not say whose: the first are the
    task."""
    source = raw.get("source")
    if source == "agent" or (source is None and index > 0):
        if obj(raw.get("tool_call_metadata")):
            return _acted(raw, index)
        body = {"role": "assistant", "content": _given(raw).get("content")}
        answer_id = word(raw.get("response_id"))
        return Acted(message=Message(dialect="openai", body=body), answer_id=answer_id)
    return Received(message=_user(_given(raw)))


def _user(given: dict[str, Any]) -> Message:
    images = [
        {"type": "image_url", "image_url": {"url": url}}
        for name in ("image_urls", "images_urls")
        for url in listed(given.get(name))
    ]
    words = given.get("content")
    content = [{"type": "text", "text": words}, *images] if images else words
    return Message(dialect="openai", body={"role": "user", "content": content})


def _acted(raw: dict[str, Any], index: int) -> Acted:
    about = obj(raw.get("tool_call_metadata"))
    answer = obj(about.get("model_response"))
    message = obj(common.choice(answer).get("message"))
    call_id = word(about.get("tool_call_id"))
    if message:
        own = Message(dialect="openai", body={**message, "role": "assistant"})
        return Acted(message=own, answer_id=word(answer.get("id")), call_id=call_id, answer=answer)
    name = word(about.get("function_name")) or word(raw.get("action"))
    call_id = call_id or f"call_{word(raw.get('id')) or index}"
    arguments = json.dumps(_arguments(raw), ensure_ascii=False)
    thought = _given(raw).get("thought")
    return Acted(
        message=called(call_id, name, arguments, words=thought),
        answer_id=word(answer.get("id")) or word(raw.get("response_id")),
        call_id=call_id,
        recast=True,
    )


def _condensed(raw: dict[str, Any], _index: int) -> Happened:
    given = _given(raw)
    ids = {str(each) for each in listed(given.get("forgotten_event_ids"))}
    first, last = given.get("forgotten_events_start_id"), given.get("forgotten_events_end_id")
    if isinstance(first, int) and isinstance(last, int) and 0 <= last - first < 1_000_000:
        ids.update(map(str, range(first, last + 1)))
    offset = given.get("summary_offset")
    return Forgot(
        events=frozenset(ids),
        summary=word(given.get("summary")),
        offset=offset if isinstance(offset, int) else None,
    )


def _sent(raw: dict[str, Any], index: int) -> Happened:
    given = _given(raw)
    inputs = obj(given.get("inputs"))
    task = word(inputs.get("task")) or json.dumps(inputs, ensure_ascii=False)
    return Sent(agent=word(given.get("agent")) or "agent", task=task, acted=_acted(raw, index))


def _inward(_raw: dict[str, Any], _index: int) -> Happened:
    """Asked of the machinery, not of the model; what came of it is told where it comes."""
    return None


_ACTIONS: dict[str, Callable[[dict[str, Any], int], Happened]] = {
    "system": _system,
    "message": _text_of,
    "condensation": _condensed,
    "condensation_request": _inward,
    "delegate": _sent,
    "recall": _inward,
}


def _observed(raw: dict[str, Any]) -> Happened:
    kind = str(raw.get("observation"))
    extras = obj(raw.get("extras"))
    if kind in _BOOKKEEPING:
        return None
    if kind == "recall":
        facts = known(**{n: value for n, value in extras.items() if n != "recall_type"})
        return Aside(name="recall", extra=facts, recalled=bool(facts))
    about = obj(raw.get("tool_call_metadata"))
    answered = Returned(
        content=raw.get("content"),
        name=word(about.get("function_name")),
        call_id=word(about.get("tool_call_id")),
        cause=word(raw.get("cause")),
        error=_failure(raw, kind, extras),
    )
    if kind == "delegate":
        return Back(result=answered)
    if kind == "error" and not about and answered.cause is None:
        words = {"role": "user", "content": raw.get("content")}
        return Received(message=Message(dialect="openai", body=words))
    return answered


def _failure(raw: dict[str, Any], kind: str, extras: dict[str, Any]) -> str | None:
    """Why the action failed: an error, a refusal, or a command's exit code."""
    words = word(raw.get("content")) or kind
    if kind in {"error", "user_rejected"} or (kind in _FILES and words.startswith("ERROR:")):
        return words
    code = obj(extras.get("metadata")).get("exit_code", extras.get("exit_code"))
    code = raw.get("exit_code", code)
    failed = isinstance(code, int) and not isinstance(code, bool) and code not in (0, -1)
    return f"exit code {code}" if failed else None


_SDK_BOOKKEEPING = {
    "ConversationStateUpdateEvent", "CondensationRequest", "LLMCompletionLogEvent", "TokenEvent",
    "StreamingDeltaEvent",
}  # fmt: skip


def is_sdk_event(raw: dict[str, Any]) -> bool:
    kind = raw.get("kind")
    return isinstance(kind, str) and "source" in raw and kind[:1].isupper()


def read_sdk_event(raw: dict[str, Any], _index: int) -> Happened:
    """What the event comes to."""
    kind = raw.get("kind")
    if kind in _SDK_BOOKKEEPING:
        return None
    if kind == "SystemPromptEvent":
        return _prompted(raw)
    if kind == "MessageEvent":
        return _message_text(raw)
    if kind == "ActionEvent":
        return _sdk_acted(raw)
    if kind in {"ObservationEvent", "AgentErrorEvent", "UserRejectObservation"}:
        return _returned(raw)
    if kind == "Condensation":
        return _sdk_condensed(raw)
    if kind == "CondensationSummaryEvent":
        return Received(message=_sdk_user(raw.get("summary")))
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


def _message_text(raw: dict[str, Any]) -> Happened:
    told = obj(raw.get("llm_message"))
    extended = listed(raw.get("extended_content"))
    content = told.get("content")
    if extended:
        content = [*(content if isinstance(content, list) else [_block(content)]), *extended]
    if raw.get("source") != "agent":
        return Received(message=_sdk_user(content))
    body = {"role": "assistant", "content": content, **_reasoned(told)}
    if told.get("tool_calls"):
        body["tool_calls"] = told["tool_calls"]
    return Acted(
        message=Message(dialect="openai", body=body), answer_id=word(raw.get("llm_response_id"))
    )


def _block(words: Json) -> Json:
    return {"type": "text", "text": content_text(words)}


def _sdk_user(content: Json) -> Message:
    return Message(dialect="openai", body={"role": "user", "content": content})


def _reasoned(raw: dict[str, Any]) -> dict[str, Json]:
    return known(reasoning_content=reasoning(raw), thinking_blocks=raw.get("thinking_blocks"))


def _sdk_acted(raw: dict[str, Any]) -> Acted:
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
        error=word(error) or _sdk_failure(seen),
    )


def _worded(content: Json, raw: dict[str, Any]) -> Json:
    extended = listed(raw.get("extended_content"))
    if not extended:
        return content
    return [*(content if isinstance(content, list) else [_block(content)]), *extended]


def _sdk_failure(seen: dict[str, Any]) -> str | None:
    code = seen.get("exit_code", obj(seen.get("metadata")).get("exit_code"))
    if isinstance(code, int) and not isinstance(code, bool) and code not in (0, -1):
        return f"exit code {code}"
    told = seen.get("is_error") or seen.get("error")
    if not told:
        return None
    return word(seen.get("error")) if isinstance(seen.get("error"), str) else "the tool failed"


def _sdk_condensed(raw: dict[str, Any]) -> Forgot:
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
