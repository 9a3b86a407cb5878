"""The four wires that the scripted model speaks: what a request says, and an answer to it.

Streams end as the services end them: a chat that did not ask for its usage gets none.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from tests import openai_api
from tests.captures.script import Turn
from tests.messages_api import content, stream
from tests.upstream import Reply

Body = dict[str, Any]


class Question(Struct, frozen=True, kw_only=True):
    """What a request says: its first user's words, how many results of tools it holds, and the
    names of the tools on offer; `fields` are those that DSPy asks for in a text."""

    model: str
    system: str | None
    task: str | None
    results: int
    offered: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()


class Answer(Struct, frozen=True, kw_only=True):
    """An answer and its word for why it ends, None where the wire has none."""

    reply: Reply
    stop: str | None
    prefix: str | None
    """What stands before the id of a call, None where calls have no id."""


# --- OpenAI chat


def chat_question(body: Body) -> Question:
    messages = body["messages"]
    if "[[ ## completed ## ]]" in str(messages[0]["content"]):
        return _prose_question(body)
    return Question(
        model=body["model"],
        system=_first(messages, "system", "developer"),
        task=_first(messages, "user"),
        results=sum(each["role"] == "tool" for each in messages),
        offered=tuple(each["function"]["name"] for each in body.get("tools") or ()),
    )


def _prose_question(body: Body) -> Question:
    """DSPy's: the last message names the fields that it wants, and holds what tools returned."""
    said = str(body["messages"][-1]["content"])
    wanted = said.rpartition("starting with the field")[2]
    return Question(
        model=body["model"],
        system=_first(body["messages"], "system"),
        task=_first(body["messages"], "user"),
        results=said.count("[[ ## observation_"),
        fields=tuple(re.findall(r"`\[\[ ## (?!completed)(\w+) ## \]\]`", wanted)),
    )


def chat(turn: Turn, body: Body, at: int) -> Answer:
    message: Body = {"role": "assistant", "content": turn.text, "refusal": None}
    called = turn.text is None
    if called:
        message["tool_calls"] = [
            {
                "id": f"call_{call.id}",
                "type": "function",
                "function": {"name": call.name, "arguments": json.dumps(call.arguments)},
            }
            for call in turn.calls
        ]
    why = "tool_calls" if called else "stop"
    usage = {
        "prompt_tokens": turn.input_tokens,
        "completion_tokens": turn.output_tokens,
        "total_tokens": turn.input_tokens + turn.output_tokens,
        "prompt_tokens_details": {"cached_tokens": turn.cache_read_tokens},
    }
    prefix = "call_" if called else None
    outer = {
        "id": f"chatcmpl-{at}",
        "object": "chat.completion",
        "created": 1,
        "model": body["model"],
    }
    if body.get("stream"):
        wanted = (body.get("stream_options") or {}).get("include_usage")
        pieces = openai_api.chunks(outer, message, why, usage if wanted else None)
        return Answer(reply=_streamed(pieces), stop=why, prefix=prefix)
    choice = {"index": 0, "message": message, "finish_reason": why, "logprobs": None}
    return Answer(
        reply=_whole({**outer, "choices": [choice], "usage": usage}), stop=why, prefix=prefix
    )


# --- OpenAI Responses


def responses_question(body: Body) -> Question:
    given = body["input"]
    items = given if isinstance(given, list) else [{"role": "user", "content": given}]
    return Question(
        model=body["model"],
        system=body.get("instructions") or _first(items, "system", "developer"),
        task=_first(items, "user"),
        results=sum(each.get("type") == "function_call_output" for each in items),
        offered=_names(body.get("tools")),
    )


def responses(turn: Turn, body: Body, at: int) -> Answer:
    output: list[Body] = [
        {
            "type": "function_call",
            "id": f"fc_{call.id}",
            "call_id": f"call_{call.id}",
            "name": call.name,
            "arguments": json.dumps(call.arguments),
            "status": "completed",
        }
        for call in turn.calls
    ]
    if turn.text is not None:
        said = {"type": "output_text", "text": turn.text, "annotations": [], "logprobs": []}
        output.append(
            {
                "type": "message",
                "id": f"msg_{at}",
                "role": "assistant",
                "status": "completed",
                "content": [said],
            }
        )
    whole = {
        "id": f"resp_{at}",
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "model": body["model"],
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": body.get("tools") or [],
        "error": None,
        "incomplete_details": None,
        "instructions": body.get("instructions"),
        "metadata": {},
        "usage": {
            "input_tokens": turn.input_tokens,
            "input_tokens_details": {"cached_tokens": turn.cache_read_tokens},
            "output_tokens": turn.output_tokens,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": turn.input_tokens + turn.output_tokens,
        },
    }
    reply = _streamed(openai_api.events(whole)) if body.get("stream") else _whole(whole)
    return Answer(reply=reply, stop=None, prefix="call_")


# --- Anthropic Messages


def messages_question(body: Body) -> Question:
    blocks = [
        block
        for message in body["messages"]
        for block in (message["content"] if isinstance(message["content"], list) else ())
    ]
    return Question(
        model=body["model"],
        system=_text(body.get("system")),
        task=_first(body["messages"], "user"),
        results=sum(block.get("type") == "tool_result" for block in blocks),
        offered=_names(body.get("tools")),
    )


def messages(turn: Turn, body: Body, at: int) -> Answer:
    blocks = [
        {**content.tool_use(call.name, **call.arguments), "id": f"toolu_{call.id}"}
        for call in turn.calls
    ]
    if turn.text is not None:
        blocks.append(content.text(turn.text))
    usage = {
        "input_tokens": turn.input_tokens - turn.cache_read_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": turn.cache_read_tokens,
        "output_tokens": turn.output_tokens,
    }
    whole = {**content.message(*blocks, model=body["model"]), "id": f"msg_{at}", "usage": usage}
    if body.get("stream"):
        begun = {**whole, "usage": {**usage, "output_tokens": 1}}  # what is counted comes last
        reply = _streamed(map(stream.encoded, stream.events(begun, usage)))
    else:
        reply = _whole(whole)
    return Answer(reply=reply, stop=whole["stop_reason"], prefix="toolu_")


# --- Gemini


def gemini_question(body: Body, model: str) -> Question:
    contents = body["contents"]
    system = body.get("systemInstruction") or {}
    users = [each for each in contents if each.get("role", "user") == "user"]
    parts = [part for each in contents for part in each["parts"]]
    return Question(
        model=model,
        system=_text(system.get("parts")),
        task=_text(users[0]["parts"]) if users else None,
        results=sum("functionResponse" in part for part in parts),
        offered=_names(
            function
            for tool in body.get("tools") or ()
            for function in tool.get("functionDeclarations") or ()
        ),
    )


def gemini(turn: Turn, model: str, at: int, *, streamed: bool) -> Answer:
    parts: list[Body] = [
        {"functionCall": {"name": call.name, "args": call.arguments}} for call in turn.calls
    ]
    if turn.text is not None:
        parts.append({"text": turn.text})
    whole = {
        "candidates": [
            {"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}
        ],
        "usageMetadata": {
            "promptTokenCount": turn.input_tokens,
            "cachedContentTokenCount": turn.cache_read_tokens,
            "candidatesTokenCount": turn.output_tokens,
            "totalTokenCount": turn.input_tokens + turn.output_tokens,
        },
        "modelVersion": model,
        "responseId": f"gemini-{at}",
    }
    reply = (
        _streamed([b"data: " + json.dumps(whole).encode() + b"\r\n\r\n"])
        if streamed
        else _whole(whole)
    )
    return Answer(reply=reply, stop="STOP", prefix=None)


# --- pieces


def _whole(body: Body) -> Reply:
    return Reply(pieces=[json.dumps(body).encode()])


def _streamed(pieces: Iterable[bytes]) -> Reply:
    return Reply(pieces=list(pieces), headers=openai_api.EVENTS, chunked=True)


def _first(messages: Iterable[Body], *roles: str) -> str | None:
    """What the first message of one of these roles says."""
    return next((_text(each["content"]) for each in messages if each.get("role") in roles), None)


def _names(tools: Iterable[Body] | None) -> tuple[str, ...]:
    return tuple(each["name"] for each in tools or () if "name" in each)


def _text(given: Any) -> str | None:
    """The text of a message's content: a text, or a list of parts."""
    if isinstance(given, list):
        return "".join(part.get("text") or "" for part in given if isinstance(part, dict)) or None
    return given if isinstance(given, str) else None
