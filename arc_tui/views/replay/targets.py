"""Which texts of a step's request can be edited, and what does an edit make of each?

A change that says nothing but a text shows as that text; any other is shown in words (`also`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from msgspec import Struct, structs

from arc_tui import format
from replay import messages
from replay.edit import (
    Change,
    Edit,
    Editor,
    InjectConstraint,
    PatchSystem,
    ReplaceText,
    SetMessage,
    SetObservation,
    SetSystem,
    SetTool,
    describe,
)
from replay.trace import NO_SYSTEM, Request, Step, ToolCall, Trace


class Target(Struct, frozen=True, eq=False, kw_only=True):
    """A text that can be edited: the system prompt, a tool's description, what a message says,
    what a tool returned.

    `name` is the tool's name, the index of the message, the step and the index of its call
    (`3.0`), or "". `about` says which one it is. `text` is what was recorded, `edited` what the
    edit of the draft makes of it, None where it leaves it.
    """

    kind: Literal["system", "tool", "message", "result"]
    text: str
    name: str = ""
    label: str
    about: str = ""
    edited: str | None = None

    @property
    def place(self) -> str:
        """Which text it is, in the words of `ReplaceText`."""
        return f"{self.kind} {self.name}".rstrip()

    @property
    def shown(self) -> str:
        """What it says under the edit of the draft."""
        return self.text if self.edited is None else self.edited

    def change(self, text: str) -> Change:
        """The change that makes it say `text`."""
        match self.kind:
            case "system":
                return SetSystem(text)
            case "tool":
                return SetTool(self.name, description=text)
            case "message":
                return SetMessage(int(self.name), text)
            case "result":
                step, _, call = self.name.partition(".")
                return SetObservation(step=int(step), call=int(call), text=text)


def place_of(change: Change) -> str | None:
    """The place of the text it changes, None where it changes no text that is there."""
    match change:
        case SetSystem() | PatchSystem() | InjectConstraint(step=None):
            return "system"
        case ReplaceText(target=target):
            return target
        case SetTool(name=name, description=str()):
            return f"tool {name}"
        case SetMessage(index=index):
            return f"message {index}"
        case SetObservation(step=step, call=call):
            return f"result {step}.{call or 0}"
        case _:
            return None


def only_text(change: Change) -> bool:
    """Does it change the text of its place and nothing beside it?"""
    match change:
        case SetTool(schema=schema):
            return schema is None
        case SetObservation(is_error=is_error):
            return is_error is None
        case _:
            return place_of(change) is not None


def also(changes: Iterable[Change], targets: Iterable[Target]) -> tuple[Change, ...]:
    """The changes that none of the texts shows, or not all of."""
    places = {target.place for target in targets}
    return tuple(
        change for change in changes if not only_text(change) or place_of(change) not in places
    )


def also_words(changes: Iterable[Change]) -> tuple[str, ...]:
    return tuple(format.one_line(describe(change)) for change in changes)


def targets(
    trace: Trace, step: Step, missing: Sequence[str], edit: Edit | None
) -> tuple[Target, ...]:
    """The texts of a step's request under an edit, each once. Raises BadEdit where it does not
    apply."""
    found: dict[str, Target] = {}
    for target in _texts(trace, step, missing):
        found.setdefault(target.place, target)
    if edit is None:
        return tuple(found.values())
    return tuple(_under(target, edit, trace, step) for target in found.values())


def _texts(trace: Trace, step: Step, missing: Sequence[str]) -> Iterator[Target]:
    request = step.ask.request
    if NO_SYSTEM not in missing:
        system = messages.text(request.system) if request.system is not None else ""
        about = "" if system else "none"
        yield Target(kind="system", label="system prompt", text=system, about=about)
    for tool in request.tools or ():
        text, name = tool.description or "", tool.name
        about = format.one_line(text)
        yield Target(kind="tool", name=name, label=f"tool {name}", text=text, about=about)
    said = request.context.messages() if request.context is not None else []
    for index, message in enumerate(said):
        text, name = messages.text(message), str(index)
        if text and not messages.results(message):
            about = f"{message.role}: {format.one_line(text)}"
            yield Target(kind="message", name=name, label=f"message {name}", text=text, about=about)
    for each in trace.steps[: step.index + 1]:
        if each.thread == step.thread:
            yield from _results(each)


def _results(step: Step) -> Iterator[Target]:
    """What the calls of a step returned, where that was recorded."""
    for place, act in enumerate(step.acts):
        if act.observation is not None:
            call = f".{place}" if len(step.acts) > 1 else ""
            text = messages.observed(act.observation).text
            yield Target(
                kind="result",
                name=f"{step.index}.{place}",
                label=f"result {step.index}{call}",
                text=text,
                about=_about(act, text),
            )


def _about(act: ToolCall, text: str) -> str:
    return f"{format.one_line(act.name)}: {format.one_line(text)}"


def _under(target: Target, edit: Edit, trace: Trace, step: Step) -> Target:
    """The target with what the edit makes of its text."""
    touching = tuple(each for each in edit.changes if place_of(each) == target.place)
    if not touching:
        return target
    if target.kind == "result":
        last = touching[-1]
        assert isinstance(last, SetObservation)
        return structs.replace(target, edited=last.text)
    editor = Editor(structs.replace(edit, changes=touching), trace)
    request = editor.request(step.ask.request, f"step {step.index}")
    return structs.replace(target, edited=_text_in(request, target))


def _text_in(request: Request, target: Target) -> str:
    """The text of a target in a request that changes of this text alone were made to."""
    match target.kind:
        case "system":
            return messages.text(request.system) if request.system is not None else ""
        case "tool":
            tools = request.tools or ()
            return next((t.description or "" for t in tools if t.name == target.name), "")
        case _:
            assert request.context is not None
            return messages.text(request.context.messages()[int(target.name)])
