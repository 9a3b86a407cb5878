"""What does an edit make of a request? Of one, or of every request of a trace."""

from __future__ import annotations

from typing import Any

from msgspec import structs

from replay.edit.changes import (
    Edit,
    InjectConstraint,
    PatchSystem,
    RemoveTool,
    RenameTool,
    ReplaceText,
    SetEffort,
    SetSystem,
    SetTool,
)
from replay.edit.checks import flaw
from replay.edit.history import History, touches
from replay.edit.phrases import describe, wanted
from replay.edit.prompt import edited_system
from replay.edit.toolset import edited_choice, edited_tools
from replay.errors import BadEdit
from replay.messages import calls
from replay.trace import Context, Json, Message, Request, Tool, Trace


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
            wrong = flaw(change)
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
            f"{where}: no tool would be offered, but the conversation calls some",
            "leave one of them, or limit the replay to steps before the first call",
        )
