"""What did the user change? An edit is data: a named list of changes, never an edited prompt.

A change says what it does to any request it meets, so one edit can be tried on every step of a
trace and on other traces. A target that is not there is an error naming the step; the one thing
that is not an error is a message the conversation has not reached yet, or no longer holds.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from typing import TypeAlias

import msgspec
from msgspec import Struct, structs

from replay import canon, messages
from replay.errors import BadEdit
from replay.trace import Context, Json, Message, Request, Tool, extend

ATTACH = "add what the source did not record with `arc attach`, then edit that"


class SetSystem(Struct, frozen=True, tag_field="kind", tag="set_system"):
    """The whole system prompt becomes `text`."""

    text: str


class ReplaceText(Struct, frozen=True, tag_field="kind", tag="replace_text"):
    """In the system prompt, `anchor` becomes `text`; it must stand there exactly once."""

    anchor: str
    text: str


class SetTool(
    Struct, frozen=True, tag_field="kind", tag="set_tool", rename={"name": "target"},
    omit_defaults=True,
):  # fmt: skip
    """The tool `name` (`target` in a file) gets another description, another schema, or both."""

    name: str
    description: str | None = None
    schema: dict[str, Json] | None = None


class SetMessage(
    Struct, frozen=True, tag_field="kind", tag="set_message", rename={"index": "target"}
):
    """What message `index` (`target` in a file) says becomes `text`; its calls stay.

    The index counts the conversation from 0, the system prompt not included. The message meant is
    the one that stands there when the conversation first has it; a later context in which another
    one stands (a compaction) is left as it is.
    """

    index: int
    text: str


Change: TypeAlias = SetSystem | ReplaceText | SetTool | SetMessage


class Edit(Struct, frozen=True, kw_only=True):
    """Changes made together. `thread` limits them to one thread, None to that of step 0."""

    name: str
    changes: tuple[Change, ...]
    thread: str | None = None

    @property
    def digest(self) -> str:
        """Identity of what is changed; the name is not part of it."""
        return canon.digest(
            "edit", canon.encode(msgspec.to_builtins(self.changes)), self.thread or ""
        )

    @property
    def touches_system(self) -> bool:
        return any(isinstance(change, (SetSystem, ReplaceText)) for change in self.changes)


def meant(word: str, known: Iterable[str]) -> str:
    """The hint for a word that is none of the known ones."""
    names = list(known)
    near = difflib.get_close_matches(word, names, n=1)
    return f"did you mean {near[0]!r}?" if near else f"known: {', '.join(names)}"


# --- applying


def apply(edit: Edit, request: Request, where: str = "the request") -> Request:
    """The request with the changes made; the same object where they change nothing.

    Raises BadEdit naming `where` when a target is not there.
    """
    return Editor(edit).request(request, where)


class Editor:
    """Applies one edit to many requests; what they share stays shared."""

    def __init__(self, edit: Edit) -> None:
        self.edit = edit
        # Memos hold the objects they know, so that an id is never another object's.
        self._systems: dict[tuple[int, int], tuple[Message | None, Message | None]] = {}
        self._toolsets: dict[tuple[int, int], tuple[tuple[Tool, ...], tuple[Tool, ...]]] = {}
        self._nodes: dict[tuple[int, int], tuple[Context, Context]] = {}
        self._meant: dict[int, Message] = {}

    @property
    def missed(self) -> tuple[int, ...]:
        """Indexes of messages that no request so far had."""
        wanted = enumerate(self.edit.changes)
        return tuple(
            change.index
            for at, change in wanted
            if isinstance(change, SetMessage) and at not in self._meant
        )

    def request(self, request: Request, where: str) -> Request:
        """As `apply`."""
        for at, change in enumerate(self.edit.changes):
            match change:
                case SetSystem() | ReplaceText():
                    system = self._system(at, change, request.system, where)
                    if system is not request.system:
                        request = structs.replace(request, system=system)
                case SetTool():
                    tools = self._tools(at, change, request.tools, where)
                    if tools is not request.tools:
                        request = structs.replace(request, tools=tools)
                case SetMessage():
                    context = self._context(at, change, request.context, where)
                    if context is not request.context:
                        request = structs.replace(request, context=context)
        return request

    def _system(
        self, at: int, change: SetSystem | ReplaceText, system: Message | None, where: str
    ) -> Message | None:
        key = (at, id(system))
        if key not in self._systems:
            self._systems[key] = (system, _edited_system(change, system, where))
        return self._systems[key][1]

    def _tools(
        self, at: int, change: SetTool, tools: tuple[Tool, ...] | None, where: str
    ) -> tuple[Tool, ...]:
        if tools is None:
            raise BadEdit(f"{where}: the tools offered were not recorded", ATTACH)
        key = (at, id(tools))
        if key not in self._toolsets:
            self._toolsets[key] = (tools, _edited_tools(change, tools, where))
        return self._toolsets[key][1]

    def _context(
        self, at: int, change: SetMessage, context: Context | None, where: str
    ) -> Context | None:
        """The chain with the message replaced; nodes after it are built once for all steps."""
        if context is None or context.depth <= change.index:
            return context
        fresh: list[Context] = []
        node = context
        while node.depth > change.index + 1 and (at, id(node)) not in self._nodes:
            fresh.append(node)
            assert node.parent is not None
            node = node.parent
        if (at, id(node)) not in self._nodes:
            self._nodes[at, id(node)] = (node, self._replaced(at, change, node, where))
        built = self._nodes[at, id(node)][1]
        for old in reversed(fresh):
            grown = old if built is old.parent else extend(built, (old.message,))
            assert grown is not None
            built = grown
            self._nodes[at, id(old)] = (old, built)
        return built

    def _replaced(self, at: int, change: SetMessage, node: Context, where: str) -> Context:
        """The node of the message that is meant with its new text; any other node as it is."""
        if self._meant.setdefault(at, node.message) != node.message:
            return node
        message = _said(node.message, change, where)
        if message is node.message:
            return node
        replaced = extend(node.parent, (message,))
        assert replaced is not None
        return replaced


def _edited_system(
    change: SetSystem | ReplaceText, system: Message | None, where: str
) -> Message | None:
    """A message with the new text; the same object where the text does not change."""
    text = messages.text(system) if system is not None else ""
    if isinstance(change, SetSystem):
        # Text editors end a file with a line break; how the recorded prompt ends is kept.
        ending = text[len(text.rstrip("\n")) :]
        edited = change.text.rstrip("\n") + ending if text else change.text
    else:
        if system is None:
            raise BadEdit(f"{where}: there is no system prompt to edit", ATTACH)
        edited = _replaced_once(text, change, where)
    if edited == text:
        return system
    body = {"role": "system"} if system is None else system.body
    dialect = "anthropic" if system is None else system.dialect
    return Message(dialect=dialect, body={**body, "content": edited})


def _replaced_once(text: str, change: ReplaceText, where: str) -> str:
    times = text.count(change.anchor)
    if times == 1:
        return text.replace(change.anchor, change.text)
    shown = change.anchor if len(change.anchor) <= 60 else change.anchor[:59] + "…"
    if times:
        raise BadEdit(
            f"{where}: the anchor {shown!r} stands in the system prompt {times} times",
            "quote more of the text around it",
        )
    raise BadEdit(
        f"{where}: the anchor {shown!r} is not in the system prompt",
        "copy it from the prompt, with its line breaks",
    )


def _edited_tools(change: SetTool, tools: tuple[Tool, ...], where: str) -> tuple[Tool, ...]:
    if change.name not in {tool.name for tool in tools}:
        names = [tool.name for tool in tools]
        raise BadEdit(f"{where}: no tool {change.name!r} is offered", meant(change.name, names))
    edited = tuple(_described(tool, change) if tool.name == change.name else tool for tool in tools)
    return tools if edited == tools else edited


def _described(tool: Tool, change: SetTool) -> Tool:
    given = {"description": change.description, "schema": change.schema}
    return structs.replace(tool, **{name: new for name, new in given.items() if new is not None})


def _said(message: Message, change: SetMessage, where: str) -> Message:
    """The message saying the new text, its calls and media kept; itself where nothing changes."""
    if messages.results(message):
        raise BadEdit(
            f"{where}: message {change.index} carries a tool result, not something said",
            "an observation cannot be edited this way",
        )
    if messages.text(message) == change.text:
        return message
    content = message.body.get("content")
    others = [] if not isinstance(content, list) else [b for b in content if not _is_text(b)]
    said: Json = [{"type": "text", "text": change.text}, *others] if others else change.text
    return Message(dialect=message.dialect, body={**message.body, "content": said})


def _is_text(block: Json) -> bool:
    return isinstance(block, str) or (isinstance(block, dict) and "text" in block)


# --- showing


def diff(edit: Edit, request: Request) -> list[str]:
    """A unified diff of what the edit changes in a request, one line an entry, no line ends.

    Raises BadEdit as `apply`.
    """
    edited = apply(edit, request)
    lines: list[str] = []
    before, after = dict(_parts(request, edit)), dict(_parts(edited, edit))
    for part, text in after.items():
        lines.extend(
            difflib.unified_diff(
                before.get(part, "").splitlines(), text.splitlines(), part, part, lineterm=""
            )
        )
    return lines


def _parts(request: Request, edit: Edit) -> Iterator[tuple[str, str]]:
    """The texts an edit can change, by what they are called."""
    yield "system", messages.text(request.system) if request.system is not None else ""
    for tool in request.tools or ():
        schema = msgspec.json.format(msgspec.json.encode(tool.schema), indent=2).decode()
        yield f"tool {tool.name}", f"{tool.description or ''}\n{schema}"
    said = request.context.messages() if request.context is not None else []
    for change in edit.changes:
        if isinstance(change, SetMessage) and change.index < len(said):
            yield f"message {change.index}", messages.text(said[change.index])
