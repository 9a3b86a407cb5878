"""What do changes make of the system prompt, of one message, and of the tools?

A unified diff is applied to the letter or refused with a sentence. Tools change as offered, as
forced, and as called by name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise
from typing import TypeAlias

from msgspec import Struct, structs

from replay import messages
from replay.edit.changes import (
    ATTACH_SYSTEM,
    ATTACH_TOOLS,
    InjectConstraint,
    PatchSystem,
    RemoveTool,
    RenameTool,
    ReplaceText,
    SetMessage,
    SetObservation,
    SetParameter,
    SetSystem,
    SetTool,
    meant,
)
from replay.errors import BadEdit
from replay.messages import calls, results
from replay.trace import Json, Message, Tool

PromptChange: TypeAlias = SetSystem | PatchSystem | ReplaceText | InjectConstraint


def edited_system(change: PromptChange, system: Message | None, where: str) -> Message | None:
    """A message with the new text; the same object where the text does not change."""
    text = messages.text(system) if system is not None else ""
    if system is None and isinstance(change, (PatchSystem, ReplaceText)):
        raise BadEdit(f"{where}: no system prompt to edit", ATTACH_SYSTEM)
    edited = _edited(change, text, where)
    if edited == text:
        return system
    body = {"role": "system"} if system is None else system.body
    dialect = "anthropic" if system is None else system.dialect
    return Message(dialect=dialect, body={**body, "content": edited})


def _edited(change: PromptChange, text: str, where: str) -> str:
    # Text editors end a file with a line break; how the recorded prompt ends is kept.
    bare = text.rstrip("\n")
    ending = text[len(bare) :]
    match change:
        case SetSystem():
            return change.text.rstrip("\n") + ending if text else change.text
        case PatchSystem():
            return patched(text, change.text, where)
        case ReplaceText():
            return replaced_once(text, change, "the system prompt", where)
        case InjectConstraint():
            return f"{bare}\n\n{change.text.rstrip()}{ending}" if bare else change.text


def replaced_once(text: str, change: ReplaceText, place: str, where: str) -> str:
    """The text with the anchor replaced. Raises BadEdit where it is not there exactly once."""
    times = text.count(change.anchor)
    if times == 1:
        return text.replace(change.anchor, change.text)
    raise anchor_astray(change, times, place, where)


def anchor_astray(change: ReplaceText, times: int, place: str, where: str) -> BadEdit:
    """The error for an anchor that stands in a place never, or several times."""
    shown = change.anchor if len(change.anchor) <= 60 else change.anchor[:59] + "…"
    if times:
        return BadEdit(
            f"{where}: anchor {shown!r} found {times} times in {place}",
            "Try: quote more of the text around it",
        )
    return BadEdit(
        f"{where}: anchor {shown!r} not found in {place}",
        "Try: copy it from the text, with its line breaks",
    )


_HEAD = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")
_PREAMBLE = ("diff ", "index ", "--- ", "+++ ")
_NO_LINE_END = "\\"


class Hunk(Struct, frozen=True):
    """Lines that stand together, and what stands in their place afterwards."""

    before: tuple[str, ...]
    after: tuple[str, ...]


def patched(text: str, patch: str, where: str) -> str:
    """The text with every hunk of the patch applied.

    Raises BadEdit naming `where` and the hunk, counted from 1.
    """
    lines, ending = _lines(text)
    placed = [
        (_place(lines, hunk, f"{where}: hunk {number} of the patch"), hunk)
        for number, hunk in enumerate(hunks(patch, where), 1)
    ]
    for number, ((at, hunk), (after, _)) in enumerate(pairwise(placed), 2):
        if after < at + len(hunk.before):
            raise BadEdit(f"{where}: hunk {number} of the patch overlaps hunk {number - 1}")
    for at, hunk in reversed(placed):
        lines[at : at + len(hunk.before)] = hunk.after
    return "\n".join(lines) + ending


def hunks(patch: str, where: str) -> list[Hunk]:
    """The hunks of a unified diff. Raises BadEdit where it is none."""
    rest = patch.split("\n")
    if rest[-1] == "":
        rest.pop()
    while rest and rest[0].startswith(_PREAMBLE):
        rest.pop(0)
    found: list[Hunk] = []
    while rest:
        found.append(_hunk(rest, f"{where}: hunk {len(found) + 1} of the patch"))
    if not found:
        raise BadEdit(f"{where}: no hunk in the patch", "Try: diff -u OLD NEW")
    return found


def _hunk(rest: list[str], where: str) -> Hunk:
    """The first hunk of the lines, which are taken away."""
    head = _HEAD.match(rest[0])
    if head is None:
        raise BadEdit(
            f"{where}: {rest[0][:60]!r} is not a hunk of a unified diff",
            "a hunk starts with `@@ -LINE,COUNT +LINE,COUNT @@`; a patch changes one text",
        )
    rest.pop(0)
    counts = tuple(1 if count is None else int(count) for count in head.groups())
    before: list[str] = []
    after: list[str] = []
    while rest and (len(before), len(after)) != counts:
        mark, line = rest[0][:1], rest[0][1:]
        if mark == "@" or mark not in {"", " ", "-", "+", _NO_LINE_END}:
            break
        rest.pop(0)
        if mark in {"", " ", "-"}:  # editors strip the blank of an empty line
            before.append(line)
        if mark in {"", " ", "+"}:
            after.append(line)
    if (len(before), len(after)) != counts:
        raise BadEdit(
            f"{where}: {len(before)} old and {len(after)} new lines, but its header gives"
            f" {counts[0]} and {counts[1]}"
        )
    while rest and rest[0].startswith(_NO_LINE_END):
        rest.pop(0)
    return Hunk(tuple(before), tuple(after))


def _lines(text: str) -> tuple[list[str], str]:
    """The lines of a text, and how it ends: with a line break or without."""
    ending = "\n" if text.endswith("\n") else ""
    whole = text.removesuffix("\n")
    return (whole.split("\n") if text else []), ending


def _place(lines: list[str], hunk: Hunk, where: str) -> int:
    """The index of the first line that the hunk replaces."""
    if not hunk.before:
        if not lines:
            return 0
        raise BadEdit(f"{where}: no context lines", "Try: diff -U3")
    size = len(hunk.before)
    places = [
        at for at in range(len(lines) - size + 1) if tuple(lines[at : at + size]) == hunk.before
    ]
    if len(places) == 1:
        return places[0]
    shown = next((line for line in hunk.before if line.strip()), "")[:60]
    if places:
        raise BadEdit(
            f"{where}: lines from {shown!r} on found {len(places)} times in the text",
            "Try: diff -U9, for more context lines",
        )
    raise BadEdit(
        f"{where}: lines from {shown!r} on not found in the text",
        "Try: make the patch from the recorded text",
    )


USE_OBSERVATION = "Try: set_observation, to change a tool result"


def edited_text(role: str, text: str) -> Message:
    """A new message."""
    return Message(dialect="anthropic", body={"role": role, "content": text})


def edited_answer(message: Message, change: SetMessage, where: str) -> Message:
    """The message saying the new text, its calls and media kept; itself where nothing changes."""
    if results(message):
        raise BadEdit(
            f"{where}: message {change.index} is a tool result, not text",
            USE_OBSERVATION,
        )
    if messages.text(message) == change.text:
        return message
    content = message.body.get("content")
    others = [] if not isinstance(content, list) else [b for b in content if not _is_text(b)]
    text: Json = [{"type": "text", "text": change.text}, *others] if others else change.text
    return Message(dialect=message.dialect, body={**message.body, "content": text})


def replaced(message: Message, change: ReplaceText, where: str) -> Message:
    """The message with the anchor replaced in the one text block that has it."""
    content = message.body.get("content")
    whole = message.dialect != "anthropic" and bool(results(message))
    blocks = content if isinstance(content, list) else [content]
    texts = ["" if whole else _text_of(block) for block in blocks]
    times = sum(text.count(change.anchor) for text in texts)
    if times != 1:
        error = anchor_astray(change, times, f"the text of {change.target}", where)
        raise BadEdit(error.message, USE_OBSERVATION) if results(message) else error
    edited = [
        _with_text(block, text.replace(change.anchor, change.text))
        if change.anchor in text
        else block
        for block, text in zip(blocks, texts, strict=True)
    ]
    body = {**message.body, "content": edited if isinstance(content, list) else edited[0]}
    return message if body == message.body else Message(dialect=message.dialect, body=body)


def _is_text(block: Json) -> bool:
    return isinstance(block, str) or (isinstance(block, dict) and "text" in block)


def _text_of(block: Json) -> str:
    text = block.get("text") if isinstance(block, dict) else block
    return text if isinstance(text, str) else ""


def _with_text(block: Json, text: str) -> Json:
    return {**block, "text": text} if isinstance(block, dict) else text


# --- observations


def observed(message: Message, block: int | None, change: SetObservation) -> Message:
    """The message with another result in it: in that block, or in the whole of it for None."""
    body = message.body
    if block is None:
        edited = _resulting(body, change)
    else:
        content = list(body["content"])
        content[block] = _resulting(content[block], change)
        edited = {**body, "content": content}
    return message if edited == body else Message(dialect=message.dialect, body=edited)


def _resulting(held: dict[str, Json], change: SetObservation) -> dict[str, Json]:
    """A result, block or message, that says the text and is an error or none."""
    if messages.content_text(held.get("content")) != change.text:
        held = {**held, "content": change.text}
    if change.is_error is None or change.is_error == bool(
        held.get("error") or held.get("is_error")
    ):
        return held
    kept = {name: value for name, value in held.items() if name not in {"error", "is_error"}}
    return {**kept, "is_error": True} if change.is_error else kept


# --- calls and their results


def open_calls(said: Iterable[Message]) -> list[int]:
    """How many calls wait for their result after each message of a conversation."""
    waiting: list[str | None] = []
    counts: list[int] = []
    for message in said:
        for result in results(message) if message.role not in {"assistant", "system"} else ():
            answered = [at for at, call in enumerate(waiting) if call == result.call_id]
            if answered:
                waiting.pop(answered[-1])
            elif result.call_id is None and waiting:
                waiting.pop(0)
        if message.role == "assistant":
            waiting.extend(call.id for call in calls(message))
        counts.append(len(waiting))
    return counts


ToolChange: TypeAlias = SetTool | RenameTool | RemoveTool | ReplaceText


# --- as offered


def edited_tools(
    change: ToolChange, tools: tuple[Tool, ...] | None, where: str
) -> tuple[Tool, ...]:
    """The tools after a change; the same object where it changes nothing."""
    if tools is None:
        raise BadEdit(f"{where}: tool definitions not recorded", ATTACH_TOOLS)
    target = change.tool if isinstance(change, ReplaceText) else change.name
    names = [tool.name for tool in tools]
    if target not in names:
        raise BadEdit(f"{where}: unknown tool {target!r}", meant(str(target), names))
    if isinstance(change, RemoveTool):
        return tuple(tool for tool in tools if tool.name != target)
    if isinstance(change, RenameTool) and change.new != target and change.new in names:
        raise BadEdit(f"{where}: tool {change.new!r} already exists", "Try: another name")
    edited = tuple(
        _toolset_edited(tool, change, where) if tool.name == target else tool for tool in tools
    )
    return tools if edited == tools else edited


def _toolset_edited(tool: Tool, change: SetTool | RenameTool | ReplaceText, where: str) -> Tool:
    match change:
        case RenameTool():
            return structs.replace(tool, name=change.new)
        case ReplaceText():
            place = f"the description of {tool.name}"
            return structs.replace(
                tool, description=replaced_once(tool.description or "", change, place, where)
            )
        case SetTool():
            given = {"description": change.description, "schema": change.schema}
            told = {name: new for name, new in given.items() if new is not None}
            return structs.replace(tool, **told)


# --- as forced


def edited_choice(change: RenameTool | RemoveTool, params: dict[str, Json]) -> dict[str, Json]:
    """The settings with their `tool_choice` under the new name, or without it."""
    choice = params.get("tool_choice")
    if not isinstance(choice, dict):
        return params
    inner = choice.get("function")
    held = inner if isinstance(inner, dict) else choice
    if held.get("name") != change.name:
        return params
    if isinstance(change, RemoveTool):
        return {name: value for name, value in params.items() if name != "tool_choice"}
    renamed = {**held, "name": change.new}
    return {**params, "tool_choice": {**choice, "function": renamed} if held is inner else renamed}


_SAME = (
    {"max_tokens", "max_completion_tokens", "max_output_tokens"},
    {"stop", "stop_sequences", "stop_seqs"},
)
"""The words of several APIs for one setting."""


def edit_parameter(change: SetParameter, params: dict[str, Json]) -> dict[str, Json]:
    """The settings with the new value in the place of every word for it."""
    words = next((names for names in _SAME if change.name in names), {change.name})
    others = {name: value for name, value in params.items() if name not in words}
    return others if change.value is None else {**others, change.name: change.value}


# --- as called


def renamed_calls(message: Message, old: str, new: str) -> Message:
    """The message with its calls of a tool, and what names their results, under the new name."""
    body = message.body
    edited = _anthropic(body, old, new) if message.dialect == "anthropic" else _chat(body, old, new)
    return message if edited == body else Message(dialect=message.dialect, body=edited)


def _anthropic(body: dict[str, Json], old: str, new: str) -> dict[str, Json]:
    content = body.get("content")
    if not isinstance(content, list):
        return body
    return {**body, "content": [_called(block, old, new) for block in content]}


def _called(block: Json, old: str, new: str) -> Json:
    if isinstance(block, dict) and block.get("type") == "tool_use":
        return _renamed(block, "name", old, new)
    return block


def _chat(body: dict[str, Json], old: str, new: str) -> dict[str, Json]:
    edited = dict(body)
    if isinstance(body.get("tool_calls"), list):
        edited["tool_calls"] = [_called_name(entry, old, new) for entry in body["tool_calls"]]
    if isinstance(body.get("function_call"), dict):
        edited["function_call"] = _renamed(body["function_call"], "name", old, new)
    if body.get("role") in {"tool", "function"}:
        for key in ("name", "function"):
            edited = _renamed(edited, key, old, new)
    return edited


def _called_name(entry: Json, old: str, new: str) -> Json:
    """A call as OpenAI lists it (its function an object) or as Inspect does (a name)."""
    if not isinstance(entry, dict):
        return entry
    if isinstance(entry.get("function"), dict):
        return {**entry, "function": _renamed(entry["function"], "name", old, new)}
    return _renamed(entry, "function" if entry.get("function") else "name", old, new)


def _renamed(held: dict[str, Json], key: str, old: str, new: str) -> dict[str, Json]:
    return {**held, key: new} if held.get(key) == old else held
