"""Bare chat lists: `[{"role", "content", …}]`, alone or under a name such as `messages`, several to
a document, or one to a JSON line; and chats written one message to a line.

What a model saw at an assistant message is everything before it. Where roles are the names of
speakers and nobody is the assistant, it is a group chat: every message is a step, a terminal's too,
because labels and published figures count messages. What a speaker of a group was shown is not
recorded; it is taken to be everything said before. Nothing else is recorded of either: no times, no
tokens, and mostly no tools; where an object beside the messages says `model` or `tools`, they are
taken.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from msgspec import Struct, structs

from replay.errors import BadTrace
from replay.formats.common import derived_id, word
from replay.formats.dialogue import Thread, Turn
from replay.formats.source import Head, Source, Tally, decoded
from replay.messages import calls, text
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
    extend,
)

NAME = "chat"
TITLE = "OpenAI-style message lists and group chats"
FILES = ".json, .jsonl"
FIDELITY = (Level.REBUILT, Level.PARTIAL)
LACKS = "usually the tools; in a group chat, what each speaker was shown"
VERIFIED = "real files"

_SYSTEM = {"system", "developer"}
_ROLES = {*_SYSTEM, "user", "assistant", "tool", "function"}
_PEOPLE = {"human", "user", "user_proxy"}
TITLE_WIDTH = 80

NO_VIEW = "what each speaker of the group was shown is not recorded"

_KNOWN_ROLE = rb'"role"\s*:\s*"(system|user|assistant|developer|tool)"'
_FIRST_MESSAGE = re.compile(rb'(?:\A[\s\xef\xbb\xbf]*|"messages"\s*:\s*)(?:\[\s*)+(?=\{)')
_LONG_MESSAGE = re.compile(
    rb'\A[\s\xef\xbb\xbf\[]*\[\s*\{\s*"content"\s*:\s*"(?:[^"\\]|\\.)*\Z', re.S
)


def sniff(head: Head) -> bool:
    """A role that every chat has, or a list or lines that begin with messages, whoever speaks; a
    first message longer than the head may name its role after its text."""
    if not head.starts(b"[", b"{"):
        return False
    if head.has(_KNOWN_ROLE, rb'"content"\s*:') or _LONG_MESSAGE.match(head.data):
        return True
    lists = islice(_FIRST_MESSAGE.finditer(head.data), 2)  # the document's own, its `messages`
    if any(_begins_with_message(head.data[each.end() :]) for each in lists):
        return True
    lines = head.lines()[:2]
    return len(lines) == 2 and all(map(_begins_with_message, lines))


def _begins_with_message(data: bytes) -> bool:
    try:
        first, _ = json.JSONDecoder().raw_decode(data.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return False
    return _is_message(first) and "content" in first


def _is_message(value: Json) -> bool:
    return isinstance(value, dict) and isinstance(value.get("role"), str)


def read(source: Source, tally: Tally) -> Iterator[Batch]:
    """One trace a chat. Raises BadTrace where no list of messages is found."""
    found = 0
    for index, chat in enumerate(_chats(source, tally)):
        messages = _messages(chat)
        if messages is None:
            tally.problem(f"item {index}", "is not a list of messages")
            continue
        found += 1
        tally.counts["traces"] += 1
        tally.counts["messages"] += len(messages)
        beside = chat if isinstance(chat, dict) else {}
        source_id = str(beside.get("id") or derived_id(*messages))
        where = f"item {index}"
        spans = (
            group_spans(messages, root=source_id, tally=tally)
            if _is_group(messages)
            else chat_spans(
                messages, root=source_id, tally=tally, where=where, request=_request(beside)
            )
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
        raise BadTrace(source.display, "", "contains no list of messages with roles")


def _chats(source: Source, tally: Tally) -> Iterator[Json]:
    """The chats of the file: the document itself, the documents in it, or one a line."""
    try:
        document = source.document()
    except BadTrace:
        lines = source.head.lines()
        first = decoded(lines[0]) if len(lines) > 1 else None
        if _is_message(first):
            yield [*source.values(tally)]
        elif _messages(first) is not None:
            yield from source.values(tally)
        else:
            raise
        return
    if isinstance(document, list) and any(_messages(entry) is not None for entry in document):
        yield from document
    elif isinstance(document, dict) and _messages(document) is None:
        yield from _named(document) or [document]
    else:
        yield document


def _named(document: dict[str, Json]) -> list[Json]:
    """The chats of a document that has them under names of its own."""
    named = {name: value for name, value in document.items() if _messages(value) is not None}
    about = {name: value for name, value in document.items() if name not in named}
    if len(named) > 1:  # what stands beside several is of none of them
        about = {}
    return [
        {**about, **value} if isinstance(value, dict) else {**about, "messages": value}
        for value in named.values()
    ]


def _messages(chat: Json) -> list[Json] | None:
    found = chat.get("messages") if isinstance(chat, dict) else chat
    if not isinstance(found, list) or not found:
        return None
    return found if all(isinstance(each, dict) and "role" in each for each in found) else None


def _is_group(messages: list[Json]) -> bool:
    """Do the roles name speakers, none of whom is the assistant?"""
    roles = {str(each.get("role")) for each in messages if isinstance(each, dict)}
    return "assistant" not in roles and not roles <= _ROLES


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
        if isinstance(body, dict) and str(body.get("role")) in _PEOPLE:
            return title_line(text(Message(dialect=dialect_of(body), body=body)))
    return None


def title_line(words: str | None) -> str | None:
    """The first line of a text as a title, None where there is none."""
    lines = words.strip().splitlines() if words else []
    return cut(lines[0]) if lines else None


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
            thread.add_message(message, place=place)
            continue
        asked = calls(message)
        tally.counts["tool_calls"] += len(asked)
        thread.add_model_call(
            message,
            Turn(
                id=derived_id(root, index),
                place=place,
                response=Response(model=request.model),
            ),
        )
    return (agent, *thread.spans())


class _GroupMessage(Struct, frozen=True, kw_only=True):
    """One message of a group: who said it, and where it stands."""

    index: int
    speaker: str
    body: dict[str, Any]


def group_spans(
    messages: list[Json],
    *,
    root: str,
    tally: Tally,
    question: str | None = None,
    prompts: Mapping[str, Json] | None = None,
) -> tuple[AnySpan, ...]:
    """The spans of a group chat: a root agent, and a model call a message, its speaker the agent.

    `question` is what the group was asked where no message asks it, `prompts` the system prompt of
    each speaker where it is known.
    """
    said = [*_group_messages(messages, tally)]
    systems = {
        speaker: Message(dialect="openai", body={"role": "system", "content": prompt})
        for speaker, prompt in (prompts or {}).items()
        if isinstance(prompt, str)
    }
    thread = Thread(parent=root, request=Request(), fidelity=_in_group(None), tally=tally)
    if question is not None and not (said and said[0].speaker.lower() in _PEOPLE):
        asked = Message(dialect="openai", body={"role": "user", "content": question})
        thread.context = extend(None, (asked,))
    for each in said:
        system = systems.get(each.speaker)
        thread.request = structs.replace(thread.request, system=system)
        thread.fidelity = _in_group(system)
        turn = Turn(
            id=derived_id(root, each.index),
            name=each.speaker,
            place=Place(message=each.index),
            agent=each.speaker,
        )
        thread.add_model_call(Message(dialect="openai", body=each.body), turn)
    tally.counts["steps"] += len(said)
    return AgentSpan(id=root, name="group chat", time_quality="none"), *thread.spans()


def _group_messages(messages: list[Json], tally: Tally) -> Iterator[_GroupMessage]:
    for index, body in enumerate(messages):
        if not isinstance(body, dict):
            tally.problem(f"message {index}", "is not an object")
            continue
        speaker = word(body.get("name")) or word(body.get("role")) or "unknown speaker"
        yield _GroupMessage(index=index, speaker=speaker, body=body)


def _in_group(system: Message | None) -> Fidelity:
    reasons = (NO_VIEW, NO_TOOLS) if system is not None else (NO_VIEW, NO_SYSTEM, NO_TOOLS)
    return Fidelity(level=Level.PARTIAL, reasons=reasons)


def _fidelity(request: Request) -> Fidelity:
    reasons = []
    if request.system is None:
        reasons.append(NO_SYSTEM)
    if request.tools is None:
        reasons.append(NO_TOOLS)
    level = Level.PARTIAL if reasons else Level.REBUILT
    return Fidelity(level=level, reasons=tuple(reasons))
