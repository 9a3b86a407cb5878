"""Events of the OpenHands runtime (before the SDK): actions, and the observations that answer them.

An action the model asked for carries the provider's whole answer; an observation names the event
that caused it. Older files have neither, nor ids: then an action is told as the call it comes to.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from replay.formats import litellm
from replay.formats.chat import tool
from replay.formats.fields import known, listed, obj, word
from replay.formats.openhands.happened import (
    Acted,
    Aside,
    Back,
    Forgot,
    Happened,
    Heard,
    Prompted,
    Returned,
    Sent,
    called,
)
from replay.trace import Json, Message

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


def is_event(raw: dict[str, Any]) -> bool:
    return isinstance(raw.get("action"), str) or isinstance(raw.get("observation"), str)


def happened(raw: dict[str, Any], index: int) -> Happened:
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


def _said(raw: dict[str, Any], index: int) -> Happened:
    """Words of the user or of the agent. The oldest files do not say whose: the first are the
    task."""
    source = raw.get("source")
    if source == "agent" or (source is None and index > 0):
        if obj(raw.get("tool_call_metadata")):
            return _acted(raw, index)
        body = {"role": "assistant", "content": _given(raw).get("content")}
        answer_id = word(raw.get("response_id"))
        return Acted(message=Message(dialect="openai", body=body), answer_id=answer_id)
    return Heard(message=_user(_given(raw)))


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
    message = obj(litellm.choice(answer).get("message"))
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
    "message": _said,
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
        return Heard(message=Message(dialect="openai", body=words))
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
