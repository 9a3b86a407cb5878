"""Bare chat lists: `[{"role", "content", …}]`, alone, under `messages`, or one to a JSON line.

What a model saw at an assistant message is everything before it. Nothing else is recorded: no
times, no tokens, and mostly no tools; where an object beside the messages says `model` or `tools`,
they are taken.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import structs

from replay.errors import BadTrace
from replay.formats.dialogue import Thread, Turn
from replay.formats.intake import Head, Source, Tally, decode
from replay.formats.normal import derived_id
from replay.messages import calls
from replay.messages import text as shown
from replay.trace import (
    NO_SYSTEM,
    NO_TOOLS,
    AgentSpan,
    AnySpan,
    Batch,
    Dialect,
    Fidelity,
    Header,
    Json,
    Level,
    Message,
    Place,
    Request,
    Response,
    Tool,
)

NAME = "chat"
TITLE = "chat lists, OpenAI-style"
FILES = ".json, .jsonl"
FIDELITY = (Level.REBUILT, Level.PARTIAL)
LACKS = "what does not stand in the list or beside it: mostly the tools"

_SYSTEM = {"system", "developer"}
TITLE_WIDTH = 80


def sniff(head: Head) -> bool:
    return head.starts(b"[", b"{") and head.has(
        rb'"role"\s*:\s*"(system|user|assistant|developer|tool)"', rb'"content"\s*:'
    )


def read(source: Source, tally: Tally) -> Iterator[Batch]:
    """One trace a chat. Raises BadTrace where no list of messages is found."""
    found = 0
    for index, chat in enumerate(_chats(source, tally)):
        messages = _messages(chat)
        if messages is None:
            tally.problem(f"item {index}", "is no list of messages")
            continue
        found += 1
        tally.counts["traces"] += 1
        tally.counts["messages"] += len(messages)
        beside = chat if isinstance(chat, dict) else {}
        source_id = str(beside.get("id") or derived_id(*messages))
        spans = chat_spans(
            messages, root=source_id, tally=tally, where=f"item {index}", request=_request(beside)
        )
        header = Header(
            format=NAME,
            source_id=source_id,
            item=str(index) if index else None,
            path=source.display,
            title=user_label(messages),
        )
        yield Batch(header=header, spans=spans, last=True)
    if not found:
        raise BadTrace(source.display, "", "holds no list of messages with roles")


def _chats(source: Source, tally: Tally) -> Iterator[Json]:
    """The chats of the file: the document itself, the documents in it, or one a line."""
    try:
        document = source.document()
    except BadTrace:
        if not _by_line(source):
            raise
        for number, line in source.lines():
            try:
                yield decode(line, source.display, f"line {number}")
            except BadTrace as error:
                tally.problem(error.where, error.why)
        return
    if isinstance(document, list) and any(_messages(entry) is not None for entry in document):
        yield from document
    else:
        yield document


def _by_line(source: Source) -> bool:
    """Is the first line a chat of its own, with more below it?"""
    lines = source.head.lines()
    try:
        return len(lines) > 1 and _messages(decode(lines[0], source.display, "line 1")) is not None
    except BadTrace:
        return False


def _messages(chat: Json) -> list[Json] | None:
    found = chat.get("messages") if isinstance(chat, dict) else chat
    if not isinstance(found, list) or not found:
        return None
    return found if all(isinstance(each, dict) and "role" in each for each in found) else None


def _request(beside: dict[str, Any]) -> Request:
    tools = beside.get("tools")
    model = beside.get("model")
    return Request(
        model=str(model) if model else None,
        tools=tuple(map(tool, tools)) if isinstance(tools, list) else None,
    )


def tool(declared: Json) -> Tool:
    """A tool as OpenAI (`{"type": "function", "function": …}`) or Anthropic declares it."""
    outer = declared if isinstance(declared, dict) else {"name": str(declared)}
    inner = outer.get("function")
    body = inner if isinstance(inner, dict) else outer
    known = {"name", "description", "parameters", "input_schema"}
    extra = {name: value for name, value in body.items() if name not in known}
    extra.update({n: v for n, v in outer.items() if n != "function" and body is not outer})
    description = body.get("description")
    return Tool(
        name=str(body.get("name", "")),
        description=None if description is None else str(description),
        schema=body.get("parameters", body.get("input_schema")),
        extra={} if extra == {"type": "function"} else extra,
    )


def user_label(messages: list[Json]) -> str | None:
    """A title for a chat without one: the first line its user wrote."""
    for body in messages:
        if isinstance(body, dict) and body.get("role") == "user":
            lines = shown(Message(dialect=dialect_of(body), body=body)).strip().splitlines()
            return cut(lines[0]) if lines else None
    return None


def cut(text: str) -> str:
    """A title's width, the cut marked."""
    return text if len(text) <= TITLE_WIDTH else text[: TITLE_WIDTH - 1] + "…"


def dialect_of(body: dict[str, Any]) -> Dialect:
    """Anthropic where the content holds its blocks, OpenAI otherwise."""
    content = body.get("content")
    blocks = content if isinstance(content, list) else ()
    kinds = {str(block.get("type")) for block in blocks if isinstance(block, dict)}
    return "anthropic" if kinds & {"tool_use", "tool_result", "thinking"} else "openai"


def chat_spans(
    messages: list[Json],
    *,
    root: str,
    tally: Tally,
    where: str,
    request: Request | None = None,
    error: Json = None,
    name: str = "chat",
) -> tuple[AnySpan, ...]:
    """The spans of a chat: a root agent, a model call an assistant message, its tool calls.

    `error` is a failure of the run as a whole, kept on the root.
    """
    request = request or Request()
    agent = AgentSpan(
        id=root,
        name=name,
        time_quality="none",
        status="error" if error else "unset",
        error=str(error) if error else None,
    )
    start = 0
    first = messages[0] if messages else None
    if isinstance(first, dict) and str(first.get("role")) in _SYSTEM:
        system = Message(dialect=dialect_of(first), body=first)
        request, start = structs.replace(request, system=system), 1
    thread = Thread(parent=root, request=request, fidelity=_fidelity(request), tally=tally)
    for index, body in enumerate(messages[start:], start):
        if not isinstance(body, dict):
            tally.problem(f"{where} message {index}", "is not an object")
            continue
        message = Message(dialect=dialect_of(body), body=body)
        place = Place(message=index)
        if message.role != "assistant":
            thread.heard(message, place=place)
            continue
        asked = calls(message)
        tally.counts["tool_calls"] += len(asked)
        thread.said(
            message,
            Turn(
                id=derived_id(root, index),
                place=place,
                response=Response(model=request.model),
            ),
        )
    return (agent, *thread.spans())


def _fidelity(request: Request) -> Fidelity:
    reasons = []
    if request.system is None:
        reasons.append(NO_SYSTEM)
    if request.tools is None:
        reasons.append(NO_TOOLS)
    level = Level.PARTIAL if reasons else Level.REBUILT
    return Fidelity(level=level, reasons=tuple(reasons))
