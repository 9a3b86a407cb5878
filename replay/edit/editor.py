"""What does an edit make of a request: of one, or of every request of a trace? And as a diff?

Every node of the recorded chain is edited once. Several edits can be made as one.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

import msgspec
from msgspec import Struct, structs

from replay import messages
from replay.edit.changes import (
    Change,
    Edit,
    InjectConstraint,
    InsertMessage,
    PatchSystem,
    RemoveTool,
    RenameTool,
    ReplaceText,
    SetEffort,
    SetMessage,
    SetObservation,
    SetParameter,
    SetSystem,
    SetTool,
    SummariseBefore,
    describe,
    wanted,
)
from replay.edit.places import (
    Made,
    Place,
    ResolvedChange,
    aims,
    edit_problem,
    goes_on_from,
    make,
    names_step,
    parted,
    same,
    wedged,
)
from replay.edit.texts import (
    edit_parameter,
    edited_choice,
    edited_system,
    edited_text,
    edited_tools,
)
from replay.errors import BadEdit
from replay.messages import calls
from replay.trace import Context, Json, Message, Request, Tool, Trace, extend


def apply(edit: Edit, request: Request, where: str = "the request") -> Request:
    """The request with the changes made; the same object where they change nothing.

    Raises BadEdit naming `where` when a target is not there, and for a change that names a step:
    an `Editor` with the trace finds it.
    """
    return Editor(edit).request(request, where)


class Editor:
    """Applies one edit to many requests, in the order of their steps; what they share stays shared.

    `trace` is the one they are of; a change that names a step needs it. Raises BadEdit for a
    change that means nothing, and where the trace has no such step, call, or place to cut.
    """

    def __init__(self, edit: Edit, trace: Trace | None = None) -> None:
        for change in edit.changes:
            wrong = edit_problem(change)
            if wrong is not None:
                raise BadEdit(f"{describe(change)}: {wrong.sentence}", wrong.hint)
        self.edit = edit
        self.history = History(edit, trace)
        self._steps = {id(each.ask.request): each.index for each in trace.steps} if trace else {}
        # Kept, so that an id is never another request's; the memos hold the objects they know.
        self._trace = trace
        self._systems: dict[int, tuple[Message | None, Message | None]] = {}
        self._toolsets: dict[int, tuple[tuple[Tool, ...] | None, tuple[Tool, ...] | None]] = {}

    @property
    def unmet(self) -> tuple[str, ...]:
        """What changes asked for and no request so far had: `has message 3`."""
        return tuple(
            wanted(change)
            for at, change in enumerate(self.edit.changes)
            if touches(change) and not isinstance(change, RenameTool) and at not in self.history.met
        )

    def request(self, request: Request, where: str, step: int | None = None) -> Request:
        """The request with the changes made; the same object where they change nothing.

        `step` is the one it was asked at; it need not be given for a request of the trace.
        Raises BadEdit naming `where` when a target is not there.
        """
        edited: dict[str, Any] = {
            "system": self._system(request.system, where),
            "tools": self._tools(request.tools, where),
            "context": self.history.edited(request.context, where, self.step_of(request, step)),
            "params": self._params(request.params),
        }
        if self.edit.model is not None:
            edited["model"] = self.edit.model
        new = {name: each for name, each in edited.items() if _differs(each, request, name)}
        if "tools" in new and not new["tools"]:
            _refuse_calls(request.context, where)
        return structs.replace(request, **new) if new else request

    def step_of(self, request: Request, step: int | None = None) -> int | None:
        """The step a request of the trace was asked at, unless it is known already."""
        return self._steps.get(id(request)) if step is None else step

    def _system(self, system: Message | None, where: str) -> Message | None:
        if id(system) not in self._systems:
            edited = system
            for change in self.edit.changes:
                match change:
                    case (
                        SetSystem()
                        | PatchSystem()
                        | ReplaceText(target="system")
                        | InjectConstraint(step=None)
                    ):
                        edited = edited_system(change, edited, where)
                    case _:
                        pass
            self._systems[id(system)] = (system, edited)
        return self._systems[id(system)][1]

    def _tools(self, tools: tuple[Tool, ...] | None, where: str) -> tuple[Tool, ...] | None:
        if id(tools) not in self._toolsets:
            edited = tools
            for change in self.edit.changes:
                match change:
                    case SetTool() | RenameTool() | RemoveTool():
                        edited = edited_tools(change, edited, where)
                    case ReplaceText() if change.tool is not None:
                        edited = edited_tools(change, edited, where)
                    case _:
                        pass
            self._toolsets[id(tools)] = (tools, edited)
        return self._toolsets[id(tools)][1]

    def _params(self, params: dict[str, Json]) -> dict[str, Json]:
        for change in self.edit.changes:
            match change:
                case RenameTool() | RemoveTool():
                    params = edited_choice(change, params)
                case SetEffort(effort=effort):
                    held = params.get("output_config")
                    config = held if isinstance(held, dict) else {}
                    params = {**params, "output_config": {**config, "effort": effort}}
                case SetParameter():
                    params = edit_parameter(change, params)
                case _:
                    pass
        return params


def _differs(edited: Json, request: Request, name: str) -> bool:
    """Values of our own making may equal the recorded ones; chains are shared where they do."""
    recorded = getattr(request, name)
    return edited is not recorded if name == "context" else edited != recorded


def _refuse_calls(context: Context | None, where: str) -> None:
    """A conversation with calls cannot be sent where no tool is offered."""
    if context is not None and any(map(calls, context.messages())):
        raise BadEdit(
            f"{where}: the edit removes all tools, but the conversation calls some",
            "Try: keep one tool, or replay only steps before the first call",
        )


class History:
    """Edits the contexts of one trace. `met` are the changes that found what they mean.

    `trace` is needed where a change names a step. Raises BadEdit where the step is not there.
    """

    def __init__(self, edit: Edit, trace: Trace | None) -> None:
        self.met: set[int] = set()
        self._changes = [(at, each) for at, each in enumerate(edit.changes) if touches(each)]
        self._aims = aims(edit, trace)
        self._meant: dict[int, Message] = {}
        # The memo holds the node it knows, so that its id is never another node's.
        self._places: dict[tuple[int, frozenset[int]], Place] = {}

    def edited(self, context: Context | None, where: str, step: int | None) -> Context | None:
        """The context with the changes made; the same object where they change nothing.

        `step` is whose context it is, None where that is not known. Raises BadEdit naming `where`.
        """
        if context is None or not self._changes:
            return context
        return self._place(context, self._withheld(context, step), where).ending

    def places(self, context: Context | None, where: str, step: int | None) -> Iterator[Place]:
        """What became of each node, the last one first. Raises as `edited`."""
        if context is None or not self._changes:
            return
        withheld = self._withheld(context, step)
        place: Place | None = self._place(context, withheld, where)
        while place is not None:
            yield place
            place = self._known(place.node.parent, withheld)

    def _withheld(self, context: Context, step: int | None) -> frozenset[int]:
        """Changes that must not touch this step though its context has what they mean.

        Two steps may have one context, the same request sent twice: only the later one is meant.
        """
        if step is None:
            return frozenset()
        return frozenset(
            at
            for at, aim in self._aims.items()
            if step < aim.first
            and context.depth >= aim.depth
            and goes_on_from(context, aim.context)
        )

    def _known(self, node: Context | None, withheld: frozenset[int]) -> Place | None:
        return self._places.get((id(node), withheld)) if node is not None else None

    def _place(self, context: Context, withheld: frozenset[int], where: str) -> Place:
        fresh: list[Context] = []
        node: Context | None = context
        while node is not None and (id(node), withheld) not in self._places:
            fresh.append(node)
            node = node.parent
        place = self._known(node, withheld)
        for each in reversed(fresh):
            place = self._next(place, each, withheld, where)
            self._places[id(each), withheld] = place
        assert place is not None
        return place

    def _next(
        self, before: Place | None, node: Context, withheld: frozenset[int], where: str
    ) -> Place:
        """What becomes of a node after those before it."""
        equals = dict(before.equals) if before is not None else self._begun()
        made = Made(own=node.message)
        found: set[int] = set(before.pending) if before is not None else set()
        for at, change in self._changes:
            if at not in withheld and self._stands_here(at, change, node, equals):
                found.add(at)
                make(made, at, change, self._aims.get(at), where)
        if made.own == node.message:
            made.own = node.message
        base = before.whole if before is not None else None
        if made.summary is not None:
            base = self._summarised(made.summary, before, withheld)
        kept, pending = parted(made.behind)
        self.met.update(found - {at for at, _ in pending})
        alone = base is node.parent and made.own is node.message and not made.ahead
        core = node if alone else extend(base, (*made.ahead, made.own))
        ending = extend(core, (message for _, message in kept))
        return Place(
            node=node,
            own=made.own,
            ahead=tuple(made.ahead),
            behind=tuple(message for _, message in kept),
            held=tuple(message for _, message in pending),
            ending=ending,
            whole=extend(ending, (message for _, message in pending)),
            pending=tuple(at for at, _ in pending),
            summary=made.summary,
            equals=equals,
            wedged=wedged(before, node, made.behind, where),
        )

    def _stands_here(self, at: int, change: Change, node: Context, equals: dict[int, int]) -> bool:
        """Is this node where the change is to be made?"""
        match change:
            case SetMessage(index=index) | InsertMessage(index=index):
                return self._means(at, max(index, 0), node)
            case ReplaceText():
                return change.message is not None and self._means(at, change.message, node)
            case SetObservation():
                return self._comes_by(at, node, equals)
            case InjectConstraint() | SummariseBefore():
                return self._reaches(at, node)
            case _:
                return True

    def _means(self, at: int, index: int, node: Context) -> bool:
        """Is this the message of that index, as the conversation first had it?"""
        return node.depth == index + 1 and self._meant.setdefault(at, node.message) == node.message

    def _begun(self) -> dict[int, int]:
        """Results of a step whose context is empty may come by from the start."""
        return {
            at: 0
            for at, aim in self._aims.items()
            if aim.result is not None and aim.context is None
        }

    def _comes_by(self, at: int, node: Context, equals: dict[int, int]) -> bool:
        """Does this node carry the result that is meant? Counts those that are equal to it."""
        aim = self._aims[at]
        if at not in equals:
            if self._reaches(at, node):
                equals[at] = 0
            return False
        if aim.result is None or node.message != aim.result.message:
            return False
        equals[at] += 1
        return equals[at] == aim.equals + 1

    def _reaches(self, at: int, node: Context) -> bool:
        """Is this the last node of the context of the change's step?"""
        context = self._aims[at].context
        return context is not None and node.depth == context.depth and same(node, context)

    def _summarised(
        self, aim: ResolvedChange, before: Place | None, withheld: frozenset[int]
    ) -> Context | None:
        """The chain in which a summary stands for what came before the cut."""
        change = aim.change
        assert isinstance(change, SummariseBefore)
        earlier: list[Place] = []
        place = before
        while place is not None:
            earlier.append(place)
            place = self._known(place.node.parent, withheld)
        earlier.reverse()
        lead = (message for each in earlier[: aim.lead] for message in each.messages)
        tail = (message for each in earlier[aim.cut :] for message in each.messages)
        return extend(None, (*lead, edited_text("user", change.text), *tail))


def touches(change: Change) -> bool:
    """Can the change do something to a conversation?"""
    match change:
        case RenameTool() | SetMessage() | InsertMessage() | SetObservation() | SummariseBefore():
            return True
        case ReplaceText():
            return change.message is not None
        case _:
            return names_step(change)


def merge_edits(parts: Sequence[Edit]) -> Edit | None:
    """The changes of all parts in their order; None for none, the part itself for one.

    Raises BadEdit where they are meant for different threads.
    """
    if len(parts) <= 1:
        return parts[0] if parts else None
    threads = {part.thread for part in parts if part.thread is not None}
    if len(threads) > 1:
        raise BadEdit(f"{parts[-1].name}: thread: two edits name different threads")
    return Edit(
        name=" + ".join(part.name for part in parts),
        changes=tuple(change for part in parts for change in part.changes),
        thread=threads.pop() if threads else None,
    )


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
