"""What does an edit change, as a diff that a person reads?"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Iterator

import msgspec
from msgspec import Struct

from replay import messages
from replay.edit.changes import Edit, RemoveTool, RenameTool
from replay.edit.editor import Editor
from replay.edit.places import Place
from replay.trace import Json, Message, Request, Tool, Trace


class Part(Struct, frozen=True):
    """A part of a request that an edit may change: its texts before and after."""

    name: str
    before: str
    after: str

    def lines(self) -> Iterator[str]:
        return difflib.unified_diff(
            self.before.splitlines(), self.after.splitlines(), self.name, self.name, lineterm=""
        )


def diff(edit: Edit, request: Request, trace: Trace | None = None) -> list[str]:
    """A unified diff of what the edit changes in a request, one line an entry, no line ends.

    `trace` is the one the request is of, needed where a change names a step. Raises BadEdit as
    `Editor`.
    """
    parts = _parts(Editor(edit, trace), request, "the request", set())
    return [line for part in parts for line in part.lines()]


def diff_trace(edit: Edit, trace: Trace, steps: Collection[int] | None = None) -> list[str]:
    """The same of a whole trace, or of some of its steps: each part once, where it first changes.

    Raises BadEdit naming the step.
    """
    editor = Editor(edit, trace)
    thread = edit.thread or (trace.steps[0].thread if trace.steps else None)
    shown: set[str] = set()
    lines: list[str] = []
    seen: set[int] = set()
    for step in trace.steps:
        if step.thread != thread or (steps is not None and step.index not in steps):
            continue
        parts = _parts(editor, step.ask.request, f"step {step.index}", seen)
        new = [part for part in parts if part.before != part.after and part.name not in shown]
        lines.extend(line for part in new for line in part.lines())
        shown.update(part.name for part in new)
    return lines


def _parts(editor: Editor, request: Request, where: str, seen: set[int]) -> Iterator[Part]:
    """The parts of a request, in the order a model reads them; nodes in `seen` are passed over."""
    edited = editor.request(request, where)
    yield Part("model", request.model or "", edited.model or "")
    yield Part("settings", *_settings(request.params, edited.params))
    yield Part("system", _text(request.system), _text(edited.system))
    yield from _tool_parts(editor.edit, request.tools or (), edited.tools or ())
    yield from _conversation_parts(editor, request, where, seen)


def _text(message: Message | None) -> str:
    return messages.text(message) if message is not None else ""


def _settings(before: dict[str, Json], after: dict[str, Json]) -> tuple[str, str]:
    """The settings that differ, one a line."""
    names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    return _setting_lines(before, names), _setting_lines(after, names)


def _setting_lines(params: dict[str, Json], names: Iterable[str]) -> str:
    given = [name for name in names if name in params]
    return "\n".join(f"{name}: {msgspec.json.encode(params[name]).decode()}" for name in given)


def _tool_parts(edit: Edit, before: Iterable[Tool], after: Iterable[Tool]) -> Iterator[Part]:
    """A part a recorded tool; of one that has another name, the names too; "" for none."""
    offered = {tool.name: tool for tool in after}
    for tool in before:
        name = _name_after(edit, tool.name)
        now = offered.get(name) if name is not None else None
        named = now is not None and now.name != tool.name
        told = _tool_text(now, named) if now is not None else ""
        yield Part(f"tool {tool.name}", _tool_text(tool, named), told)


def _name_after(edit: Edit, name: str) -> str | None:
    """What a recorded tool is called in the end, None where it is removed."""
    for change in edit.changes:
        if isinstance(change, RemoveTool) and change.name == name:
            return None
        if isinstance(change, RenameTool) and change.name == name:
            name = change.new
    return name


def _tool_text(tool: Tool, named: bool) -> str:
    schema = msgspec.json.format(msgspec.json.encode(tool.schema), indent=2).decode()
    told = f"{tool.description or ''}\n{schema}"
    return f"{tool.name}\n{told}" if named else told


def _conversation_parts(
    editor: Editor, request: Request, where: str, seen: set[int]
) -> Iterator[Part]:
    fresh: list[Place] = []
    before: Place | None = None
    for place in editor.history.places(request.context, where, editor.step_of(request)):
        if id(place.node) in seen:
            before = place
            break
        seen.add(id(place.node))
        fresh.append(place)
    for place in reversed(fresh):
        if before is not None:
            yield from _inserted(before, before.held)
        yield from _place_parts(place)
        before = place


def _place_parts(place: Place) -> Iterator[Part]:
    for message in place.ahead:
        yield Part(f"{message.role} message inserted at the start", "", messages.text(message))
    if place.own is not place.node.message:
        kind = "result in message" if messages.results(place.own) else "message"
        yield Part(
            f"{kind} {place.node.depth - 1}", _phrase(place.node.message), _phrase(place.own)
        )
    if place.summary is not None:
        aim = place.summary
        gone = place.node.messages()[aim.lead : aim.cut]
        before = "\n".join(f"{each.role}: {messages.text(each)}" for each in gone)
        yield Part(f"conversation before message {aim.cut}", before, aim.change.text)
    yield from _inserted(place, place.behind)


def _phrase(message: Message) -> str:
    """What the message says, and which results in it are errors."""
    errors = [f"(error) {each.text}" for each in messages.results(message) if each.is_error]
    return "\n".join([messages.text(message), *errors])


def _inserted(place: Place, said: Iterable[Message]) -> Iterator[Part]:
    for message in said:
        name = f"{message.role} message inserted after message {place.node.depth - 1}"
        yield Part(name, "", messages.text(message))
