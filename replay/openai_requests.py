"""A recorded request as a body of OpenAI's two APIs, Chat Completions and Responses.

A conversation that was recorded in OpenAI's shape (or Inspect's, which is that shape in other
words) goes out message by message as it was recorded: roles, `content: null`, ids, names. One of
another shape, or one that OpenAI would refuse (a call without its result, a result without its
call, an empty message), is made into turns of the Messages API first (`replay.turns`), where what
is missing is found and listed, and from there into OpenAI's words.

Items of the Responses API are made from chat messages (`openai_items`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from replay import digests, messages
from replay.messages import REASONING_ITEMS
from replay.openai_items import Receiver, items, reasoning_sent
from replay.providers import WireName, bare, is_openais, sends_reasoning, wire_of
from replay.trace import Context, Json, Message
from replay.turns import (
    MEDIA,
    OPENING,
    RENAMED,
    SPEAKER,
    THINKING,
    Conversation,
    Conversations,
    Turn,
    turn_after,
)

Body = dict[str, Any]

ERROR_FLAG = "error flag of a result not sent"
RESULT_MEDIA = "media of a result sent as the user's"
TRANSLATED = "translated from another API"

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_SYSTEM = {"system", "developer"}
_THOUGHTS = ("reasoning_content", "reasoning", "reasoning_details")
"""Where servers other than OpenAI's keep what a model thought, and want it back."""
_KEYS = {
    "system": {"role", "content", "name"},
    "user": {"role", "content", "name"},
    "assistant": {"role", "content", "name", "tool_calls", "refusal", "audio"},
    "tool": {"role", "content", "tool_call_id"},
}
_UNSEEN = {"id", "object", "status", "annotations", "is_error", "error", "timestamp", "source"}
_UNSEEN |= {"model", "metadata", "cache_control", "index", "function"}
"""Fields of a recorded message that no model sees: not sent, and no loss."""
_NAMED = {"tool": {"name"}}
"""The name of the tool that was called is known by the call."""
_PARTS = {"text", "image_url", "input_audio", "file", "refusal"}


def short(name: str) -> str:
    """A tool's name as OpenAI takes it; distinct for distinct names."""
    if _NAME.fullmatch(name):
        return name
    mark = digests.digest("tool name", name).partition(":")[2][:8]
    return f"{re.sub('[^a-zA-Z0-9_-]', '_', name)[:55]}_{mark}"


LONGEST_ID = 40
"""Characters of a call's id that Chat Completions takes; ids mean nothing to a model."""


def short_id(id: str) -> str:
    """A call's id as OpenAI takes it; distinct for distinct ids."""
    return id if len(id) <= LONGEST_ID else f"call_{digests.digest('call id', id)[-32:]}"


class _Native(Struct, frozen=True, eq=False, kw_only=True):
    """A conversation after a node, sent as recorded. `open` are the ids of calls without a result
    yet, `used` all ids of calls."""

    turn: Turn | None = None
    open: frozenset[str] = frozenset()
    used: frozenset[str] = frozenset()
    lost: tuple[str, ...] = ()
    aliases: Mapping[str, str] = {}
    foreign: bool = True


class _Read(NamedTuple):
    """A message in OpenAI's shape, what was lost on the way, and the names that were changed."""

    body: Body
    lost: tuple[str, ...] = ()
    aliases: Mapping[str, str] = {}


class _Translated(Struct, frozen=True, eq=False, kw_only=True):
    """A conversation after one of its turns, as it is sent. `renamed` has the names of tools by
    those that are sent."""

    turn: Turn | None = None
    lost: tuple[str, ...] = ()
    renamed: Mapping[str, str] = {}


class Talk(Struct, frozen=True, eq=False, kw_only=True):
    """A conversation as it is sent; `translated` where it was not recorded in OpenAI's shape."""

    conversation: Conversation
    translated: bool


class Talks:
    """Converts contexts for one model; every node once, however many requests share it."""

    def __init__(self, name: str) -> None:
        self._wire = wire_of(name)
        self._to = Receiver(bare(name), sends_reasoning(name))
        self._turned = Conversations()
        # Memos hold the objects they know, so that an id is never another object's.
        self._native: dict[tuple[int, int], tuple[Any, Any, _Native | None]] = {}
        self._heads: dict[str, _Translated] = {"": _Translated()}
        self._made: dict[tuple[int, int], tuple[Turn, _Translated]] = {}

    def of(self, system: Message | None, context: Context | None) -> Talk:
        """The context as it can be sent, with the system message at its head."""
        native = self._node(system, context)
        if native is not None and native.turn is not None and not native.open:
            found = Conversation(
                turn=native.turn,
                calls=len(native.used),
                lost=native.lost,
                aliases=native.aliases,
            )
            return Talk(conversation=found, translated=native.foreign)
        return Talk(conversation=self._translate(system, context), translated=True)

    # --- as recorded

    def _node(self, system: Message | None, context: Context | None) -> _Native | None:
        """The state after a node, None where it cannot be sent as recorded."""
        fresh: list[Context] = []
        node = context
        while node is not None and (id(system), id(node)) not in self._native:
            fresh.append(node)
            node = node.parent
        known = self._native[id(system), id(node)] if node is not None else None
        state = known[2] if known is not None else self._start(system)
        for each in reversed(fresh):
            state = self._after(state, each.message) if state is not None else None
            self._native[id(system), id(each)] = system, each, state
        return state

    def _start(self, system: Message | None) -> _Native | None:
        if system is None or not messages.text(system).strip():
            return _Native()
        if self._wire == "responses":  # it is sent as `instructions`
            return _Native(foreign=system.dialect == "anthropic")
        return self._after(_Native(), system)

    def _after(self, state: _Native, message: Message) -> _Native | None:
        read = _as_recorded(message, self._to)
        if read is None:
            return None
        body, open_, used = read.body, state.open, state.used
        if body["role"] == "tool":
            if body["tool_call_id"] not in open_:
                return None
            open_ = open_ - {body["tool_call_id"]}
        elif open_:
            return None
        ids = [each["id"] for each in body.get("tool_calls", ())]
        if len(set(ids)) < len(ids) or used.intersection(ids):
            return None
        turn = state.turn
        for each in [body] if self._wire == "chat" else items(body):
            turn = turn_after(turn, each)
        return _Native(
            turn=turn,
            open=open_.union(ids),
            used=used.union(ids),
            lost=tuple(dict.fromkeys((*state.lost, *read.lost))),
            aliases={**state.aliases, **read.aliases} if read.aliases else state.aliases,
            foreign=state.foreign and message.dialect == "anthropic",
        )

    # --- translated

    def _translate(self, system: Message | None, context: Context | None) -> Conversation:
        talk = self._turned.of(context)
        head: list[str] = [messages.text(system)] if system is not None else []
        text = "\n\n".join(each for each in (*head, *talk.lead) if each.strip())
        made = self._after_turn(self._head(text if self._wire == "chat" else ""), talk.turn)
        aliases = dict(talk.aliases)
        for sent, name in made.renamed.items():
            aliases[sent] = aliases.pop(name, name)
        refused = talk.turn is None or (
            talk.turn.before is None and talk.turn.body["content"] == OPENING
        )
        return msgspec.structs.replace(
            talk,
            turn=None if refused else made.turn,
            lead=talk.lead if self._wire == "responses" else (),
            lost=tuple(dict.fromkeys((*talk.lost, *made.lost))),
            aliases=aliases,
        )

    def _head(self, text: str) -> _Translated:
        """What a chat begins with."""
        if text not in self._heads:
            turn = turn_after(None, {"role": "system", "content": text})
            self._heads[text] = _Translated(turn=turn)
        return self._heads[text]

    def _after_turn(self, head: _Translated, last: Turn | None) -> _Translated:
        """What comes of a conversation up to a turn of it, after a head."""
        fresh: list[Turn] = []
        node = last
        while node is not None and (id(head), id(node)) not in self._made:
            fresh.append(node)
            node = node.before
        made = self._made[id(head), id(node)][1] if node is not None else head
        for each in reversed(fresh):
            turn, lost, renamed = made.turn, [*made.lost], dict(made.renamed)
            for body in _chat(each.body, lost, renamed):
                for item in [body] if self._wire == "chat" else items(body):
                    turn = turn_after(turn, item)
            made = _Translated(turn=turn, lost=tuple(dict.fromkeys(lost)), renamed=renamed)
            self._made[id(head), id(each)] = each, made
        return made


def _as_recorded(message: Message, to: Receiver) -> _Read | None:
    """A message in OpenAI's shape, None where it has none that OpenAI takes."""
    body = message.body
    if message.dialect == "anthropic":
        said = body.get("content")
        if (
            isinstance(said, str)
            and said.strip()
            and message.role in {"user", "assistant", "system"}
        ):
            return _Read({"role": message.role, "content": said})
        return None
    if message.dialect == "inspect":
        found = _inspect(message)
        if found is None:
            return None
        body, lost = found
        return _message_body(body, to, lost)
    return _message_body(body, to, ())


def _message_body(body: Body, to: Receiver, lost: tuple[str, ...]) -> _Read | None:
    """The fields of a recorded message that are sent; None where OpenAI would refuse it."""
    role = body.get("role")
    keys = _KEYS.get("system" if role in _SYSTEM else str(role))
    if keys is None or body.get("function_call"):
        return None
    made: Body = {}
    losses, aliases = [*lost], {}
    for name, value in body.items():
        if name in keys:
            if value is not None or name == "content":
                made[name] = value
        elif name in _THOUGHTS and role == "assistant":
            if value and not is_openais(to.model):
                made[name] = value
            elif value and not body.get(REASONING_ITEMS):
                losses.append(THINKING)
        elif name == REASONING_ITEMS:
            continue  # placed when the rest is known
        elif value not in (None, [], {}) and name not in _UNSEEN | _NAMED.get(str(role), set()):
            losses.append(f"`{name}` of a message not sent")
    if not made.get("tool_calls"):
        made.pop("tool_calls", None)
    if isinstance(made.get("tool_call_id"), str):
        made["tool_call_id"] = short_id(made["tool_call_id"])
    if "content" not in made:
        made["content"] = None
    if not _is_content(made):
        return None
    calls = []
    for call in made.get("tool_calls", ()):
        read = _call(call)
        if read is None:
            return None
        name = read["function"]["name"]
        sent = short(name)
        if sent != name:
            aliases[sent] = name
            losses.append(RENAMED)
            read = {**read, "function": {**read["function"], "name": sent}}
        calls.append(read)
    if calls:
        made["tool_calls"] = calls
    if isinstance(made.get("name"), str) and not _NAME.fullmatch(made["name"]):
        del made["name"]
        losses.append(SPEAKER)
    thoughts = reasoning_sent(body.get(REASONING_ITEMS) or (), made, to, losses)
    made |= {REASONING_ITEMS: thoughts} if thoughts else {}
    return _Read(made, tuple(dict.fromkeys(losses)), aliases)


def _is_content(made: Body) -> bool:
    """Does OpenAI take the content of such a message?"""
    content, role = made["content"], made["role"]
    if role == "tool" and not (isinstance(made.get("tool_call_id"), str) and made["tool_call_id"]):
        return False
    if content is None or content == "" or content == []:
        if role == "tool":
            return isinstance(content, str)
        acts = bool(made.get("tool_calls") or made.get("refusal"))
        return role == "assistant" and acts
    if isinstance(content, str):
        return True
    if not isinstance(content, list):
        return False
    allowed = _PARTS if role == "user" else {"text", "refusal"} if role == "assistant" else {"text"}
    return all(isinstance(part, dict) and _is_part(part, allowed) for part in content)


def _is_part(part: Body, allowed: set[str]) -> bool:
    kind = part.get("type")
    return isinstance(kind, str) and kind in allowed and (kind != "text" or bool(part.get("text")))


def _call(call: Json) -> Body | None:
    """A call as OpenAI takes it."""
    if not isinstance(call, dict) or not isinstance(call.get("id"), str) or not call["id"]:
        return None
    function = call.get("function")
    if not isinstance(function, dict) or call.get("type") not in {None, "function"}:
        return None
    name, arguments = function.get("name"), function.get("arguments")
    if not isinstance(name, str) or not name or not isinstance(arguments, str):
        return None
    return {
        "id": short_id(call["id"]),
        "type": "function",
        "function": {"name": name, "arguments": arguments},
    }


def _inspect(message: Message) -> tuple[Body, tuple[str, ...]] | None:
    """One of Inspect's messages in OpenAI's words, and what those have no room for."""
    body, lost = message.body, []
    content = body.get("content")
    if isinstance(content, list):
        parts: list[Json] = []
        for block in content:
            kind = block.get("type") if isinstance(block, dict) else None
            if kind == "reasoning":
                lost.append(THINKING)
            elif kind == "text":
                parts += [{"type": "text", "text": block["text"]}] if block.get("text") else []
            elif kind == "image" and isinstance(block.get("image"), str):
                parts.append({"type": "image_url", "image_url": {"url": block["image"]}})
            else:
                return None
        texts = [part.get("text") for part in parts]
        content = texts[0] if len(texts) == 1 and texts[0] else parts or None
    made: Body = {"role": message.role, "content": content}
    if message.role == "tool":
        made["tool_call_id"] = body.get("tool_call_id")
        (result,) = messages.results(message)
        made["content"] = result.text if content is None or isinstance(content, str) else content
    calls = messages.calls(message) if message.role == "assistant" else ()
    if calls:
        if any(call.raw is not None or call.id is None for call in calls):
            return None
        made["tool_calls"] = [
            call_body(str(call.id), call.name, call.arguments or {}) for call in calls
        ]
        made["content"] = content or None
    return made, tuple(lost)


def call_body(id: str, name: str, arguments: Json) -> Body:
    """A call in a chat message."""
    raw = arguments.get("_raw") if isinstance(arguments, dict) and len(arguments) == 1 else None
    text = raw if isinstance(raw, str) else digests.pack(arguments).decode()
    return {"id": id, "type": "function", "function": {"name": name, "arguments": text}}


# --- a conversation that goes on


def grow(
    talk: Conversation,
    wire: WireName,
    model: str,
    answer: Iterable[Body],
    results: Iterable[Json],
) -> Conversation:
    """The conversation after an answer, in blocks of the Messages API, and what its calls got: one
    result a call, in their order."""
    said: Body = {"role": "assistant", "content": None}
    thoughts: list[str] = []
    items_: list[Body] = []
    texts: list[str] = []
    calls: list[Body] = []
    for block in answer:
        if block["type"] == "text" and str(block.get("text", "")).strip():
            texts.append(block["text"])
        elif block["type"] == "thinking":
            thoughts.append(str(block.get("thinking") or ""))
            if block.get("item"):
                items_.append({"before": bool(texts) + len(calls), "item": block["item"]})
        elif block["type"] == "tool_use":
            name = f"call_arc_{talk.calls + len(calls)}"
            calls.append(call_body(name, block["name"], block["input"]))
    said["content"] = "\n".join(texts) or None
    if calls:
        said["tool_calls"] = calls
    if items_:
        said[REASONING_ITEMS] = items_
    if thoughts and wire == "chat" and not is_openais(model):
        said["reasoning_content"] = "\n".join(thoughts)
    turn = talk.turn
    told = [
        {"role": "tool", "tool_call_id": call["id"], "content": _result_text(result)}
        for call, result in zip(calls, results, strict=True)
    ]
    for body in (said, *told):
        for each in [body] if wire == "chat" else items(body):
            turn = turn_after(turn, each)
    return msgspec.structs.replace(talk, turn=turn, calls=talk.calls + len(calls))


def _result_text(result: Json) -> str:
    return result if isinstance(result, str) else messages.content_text(result)


# --- turns of the Messages API as chat messages


def _chat(turn: Body, lost: list[str], renamed: dict[str, str]) -> Iterator[Body]:
    content = turn["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    if turn["role"] == "assistant":
        yield _answer(blocks, lost, renamed)
        return
    if turn["role"] == "system":
        yield {"role": "system", "content": _text(blocks)}
        return
    media: list[Body] = []
    for block in blocks:
        if block["type"] == "tool_result":
            given = block.get("content")
            inner = given if isinstance(given, list) else [{"type": "text", "text": given or ""}]
            if block.get("is_error"):
                lost.append(ERROR_FLAG)
            shown = [part for each in inner if (part := _part(each, lost))]
            held = [part for part in shown if part["type"] != "text"]
            if held:
                lost.append(RESULT_MEDIA)
                media += held
            text = "\n".join(part["text"] for part in shown if part["type"] == "text")
            yield {"role": "tool", "tool_call_id": block["tool_use_id"], "content": text}
    said = [part for each in blocks if each["type"] != "tool_result"
            if (part := _part(each, lost))]  # fmt: skip
    if media or said:
        yield {"role": "user", "content": _simplest([*media, *said])}


def _answer(blocks: Iterable[Body], lost: list[str], renamed: dict[str, str]) -> Body:
    texts: list[str] = []
    calls: list[Body] = []
    for block in blocks:
        if block["type"] == "tool_use":
            name = short(block["name"])
            if name != block["name"]:
                renamed[name] = block["name"]
                lost.append(RENAMED)
            calls.append(call_body(block["id"], name, block["input"]))
        elif part := _part(block, lost):
            texts.append(part["text"] if part["type"] == "text" else "[media not sent]")
            lost.extend([MEDIA] if part["type"] != "text" else [])
    made: Body = {"role": "assistant", "content": "\n".join(texts) or None}
    return {**made, "tool_calls": calls} if calls else made


def _text(blocks: Iterable[Body]) -> str:
    return "\n".join(str(block.get("text", "")) for block in blocks)


def _part(block: Body, lost: list[str]) -> Body | None:
    """A block of a turn as a part of a chat message."""
    kind, source = block["type"], block.get("source")
    if kind == "text":
        return {"type": "text", "text": block["text"]}
    if kind in {"image", "document"} and isinstance(source, dict):
        if source.get("type") == "text":
            return {"type": "text", "text": str(source.get("data") or "")}
        if isinstance(source.get("data"), str):
            url = f"data:{source.get('media_type')};base64,{source['data']}"
            if kind == "image":
                return {"type": "image_url", "image_url": {"url": url}}
            return {"type": "file", "file": {"filename": "document.pdf", "file_data": url}}
        lost.append(MEDIA)
        return {"type": "text", "text": f"[{kind} not sent]"}
    return {"type": "text", "text": digests.pack(block).decode()}


def _simplest(parts: list[Body]) -> Json:
    alone = len(parts) == 1 and parts[0]["type"] == "text"
    return parts[0]["text"] if alone else parts
