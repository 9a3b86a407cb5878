"""What do changes make of the tools: as offered, as forced, and as called by name?"""

from __future__ import annotations

from typing import TypeAlias

from msgspec import structs

from replay.edit.changes import RemoveTool, RenameTool, ReplaceText, SetTool
from replay.edit.hints import ATTACH, meant
from replay.edit.prompt import replaced_once
from replay.errors import BadEdit
from replay.trace import Json, Message, Tool

ToolChange: TypeAlias = SetTool | RenameTool | RemoveTool | ReplaceText


# --- as offered


def edited_tools(
    change: ToolChange, tools: tuple[Tool, ...] | None, where: str
) -> tuple[Tool, ...]:
    """The tools after a change; the same object where it changes nothing."""
    if tools is None:
        raise BadEdit(f"{where}: the tools offered were not recorded", ATTACH)
    target = change.tool if isinstance(change, ReplaceText) else change.name
    names = [tool.name for tool in tools]
    if target not in names:
        raise BadEdit(f"{where}: no tool {target!r} is offered", meant(str(target), names))
    if isinstance(change, RemoveTool):
        return tuple(tool for tool in tools if tool.name != target)
    if isinstance(change, RenameTool) and change.new != target and change.new in names:
        raise BadEdit(f"{where}: a tool {change.new!r} is offered already", "take another name")
    edited = tuple(_edited(tool, change, where) if tool.name == target else tool for tool in tools)
    return tools if edited == tools else edited


def _edited(tool: Tool, change: SetTool | RenameTool | ReplaceText, where: str) -> Tool:
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
        edited["tool_calls"] = [_asked(entry, old, new) for entry in body["tool_calls"]]
    if isinstance(body.get("function_call"), dict):
        edited["function_call"] = _renamed(body["function_call"], "name", old, new)
    if body.get("role") in {"tool", "function"}:
        for key in ("name", "function"):
            edited = _renamed(edited, key, old, new)
    return edited


def _asked(entry: Json, old: str, new: str) -> Json:
    """A call as OpenAI lists it (its function an object) or as Inspect does (a name)."""
    if not isinstance(entry, dict):
        return entry
    if isinstance(entry.get("function"), dict):
        return {**entry, "function": _renamed(entry["function"], "name", old, new)}
    return _renamed(entry, "function" if entry.get("function") else "name", old, new)


def _renamed(held: dict[str, Json], key: str, old: str, new: str) -> dict[str, Json]:
    return {**held, key: new} if held.get(key) == old else held
