"""What can be changed? The kinds of change, each in a few words, and the edit that lists some of
them.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import TypeAlias

import msgspec
from msgspec import Struct

from replay import digests
from replay.errors import BadEdit
from replay.trace import Json
from replay.written import WRITE_UTF8, half

ROLES = ("user", "assistant", "system")


# --- the system prompt


class SetSystem(Struct, frozen=True, tag_field="kind", tag="set_system"):
    """The whole system prompt becomes `text`."""

    text: str


class PatchSystem(Struct, frozen=True, tag_field="kind", tag="patch_system"):
    """The unified diff `text` is applied to the system prompt.

    The lines a hunk shows must stand there in one place; its line numbers do not matter.
    """

    text: str


class ReplaceText(Struct, frozen=True, tag_field="kind", tag="replace_text", omit_defaults=True):
    """`anchor` becomes `text`; it must stand exactly once in the text that `target` names.

    That is "system", the description of "tool NAME", or what "message N" says (see SetMessage).
    """

    anchor: str
    text: str
    target: str = "system"

    @property
    def message(self) -> int | None:
        """The index of the message that is meant, None where none is."""
        kind, _, number = self.target.partition(" ")
        return int(number) if kind == "message" and number.isdecimal() else None

    @property
    def tool(self) -> str | None:
        """The tool that is meant, None where none is."""
        kind, _, name = self.target.partition(" ")
        return name if kind == "tool" and name else None


class InjectConstraint(
    Struct, frozen=True, tag_field="kind", tag="inject_constraint", rename={"step": "target"},
    omit_defaults=True,
):  # fmt: skip
    """`text` is said to the model in the system's name.

    As the last paragraph of the system prompt; with a `step`, as a system message after all that
    the conversation held at that step, there and in every later context that goes on from it.
    """

    text: str
    step: int | None = None


# --- tools


class SetTool(
    Struct, frozen=True, tag_field="kind", tag="set_tool", rename={"name": "target"},
    omit_defaults=True,
):  # fmt: skip
    """The tool `name` (`target` in a file) gets another description, another schema, or both."""

    name: str
    description: str | None = None
    schema: dict[str, Json] | None = None


class RenameTool(
    Struct, frozen=True, tag_field="kind", tag="rename_tool",
    rename={"name": "target", "new": "text"},
):  # fmt: skip
    """The tool `name` is called `new`: where it is offered, forced, and in the calls made of it."""

    name: str
    new: str


class RemoveTool(
    Struct, frozen=True, tag_field="kind", tag="remove_tool", rename={"name": "target"}
):
    """The tool `name` is no longer offered, nor forced. The calls made of it stay."""

    name: str


# --- the conversation


class SetMessage(
    Struct, frozen=True, tag_field="kind", tag="set_message", rename={"index": "target"}
):
    """What message `index` (`target` in a file) says becomes `text`; its calls stay.

    The message meant is the one that stands there when the conversation first has it; a later
    context in which another one stands (a compaction) is left as it is.
    """

    index: int
    text: str


class InsertMessage(
    Struct, frozen=True, tag_field="kind", tag="insert_message", rename={"index": "target"}
):
    """A message of one of `ROLES` after message `index`, before all others for -1.

    Which message is meant is as in SetMessage. One of the assistant stands from when the
    conversation goes on after it, because no request can end with one.
    """

    index: int
    role: str
    text: str


class SetObservation(
    Struct, frozen=True, kw_only=True, tag_field="kind", tag="set_observation",
    rename={"step": "target"}, omit_defaults=True,
):  # fmt: skip
    """What call `call` of step `step` returned becomes `text`, wherever it is carried on.

    `call` may be left out where the step makes one call. `is_error` None leaves it as it was.
    """

    step: int
    text: str
    call: int | None = None
    is_error: bool | None = None


class SummariseBefore(
    Struct, frozen=True, tag_field="kind", tag="summarise_before", rename={"step": "target"}
):
    """From step `step` on, one user message saying `text` stands for what came before.

    What follows stays: the last words of the user and all after them; where the user only ever
    spoke at the start, the last answer of the model and all after it.
    """

    step: int
    text: str


# --- who is asked, and how


class SetModel(Struct, frozen=True, tag_field="kind", tag="set_model", rename={"model": "text"}):
    """Another model is asked."""

    model: str


class SetEffort(Struct, frozen=True, tag_field="kind", tag="set_effort", rename={"effort": "text"}):
    """The model tries as hard as the word says: one of `EFFORTS`, as far as the model takes it."""

    effort: str


class SetParameter(
    Struct, frozen=True, tag_field="kind", tag="set_parameter", rename={"name": "target"},
    omit_defaults=True,
):  # fmt: skip
    """The setting `name` (`target` in a file) of a request becomes `value`, or is left out without
    one: `temperature`, `top_p`, `seed`, `max_tokens`, `thinking` and the like.

    It is sent where the server of the model takes it; where not, the fidelity says so.
    """

    name: str
    value: Json = None

    @classmethod
    def from_words(cls, words: str) -> SetParameter:
        """The change that `temperature = 0.2` stands for. Raises BadEdit for anything else."""
        import tomllib  # who only reads edits parses none

        try:
            ((name, value),) = tomllib.loads(words).items()
        except (tomllib.TOMLDecodeError, ValueError) as error:
            raise BadEdit(f"{words.strip()!r} sets nothing", "Try: temperature = 0.2") from error
        return cls(name, value)


Change: TypeAlias = (
    SetSystem
    | PatchSystem
    | ReplaceText
    | InjectConstraint
    | SetTool
    | RenameTool
    | RemoveTool
    | SetMessage
    | InsertMessage
    | SetObservation
    | SummariseBefore
    | SetModel
    | SetEffort
    | SetParameter
)


class Edit(Struct, frozen=True, kw_only=True):
    """Changes made together, in their order. `thread` limits them to one thread, None to that of
    step 0. Raises BadEdit where a text of it can be neither sent nor stored."""

    name: str
    changes: tuple[Change, ...]
    thread: str | None = None

    def __post_init__(self) -> None:
        for value in ({"name": self.name}, *map(msgspec.to_builtins, self.changes)):
            for key, text in value.items():
                wrong = half(text)
                if wrong is not None:
                    raise BadEdit(f"{value.get('kind', 'edit')}: {key}: {wrong}", WRITE_UTF8)

    @property
    def digest(self) -> str:
        """Identity of what is changed; the name is not part of it."""
        return digests.digest(
            "edit", digests.encode(msgspec.to_builtins(self.changes)), self.thread or ""
        )

    @property
    def touches_system(self) -> bool:
        return any(map(_touches_system, self.changes))

    @property
    def model(self) -> str | None:
        """The model to ask instead of the control arm's, None for the same one."""
        named = [change.model for change in self.changes if isinstance(change, SetModel)]
        return named[-1] if named else None

    def recorded_name(self, name: str) -> str:
        """The name a tool was recorded under, by the name this edit offers it under.

        A model's calls are compared with recorded ones through it.
        """
        for change in reversed(self.changes):
            if isinstance(change, RenameTool) and name == change.new:
                name = change.name
        return name


def _touches_system(change: Change) -> bool:
    match change:
        case SetSystem() | PatchSystem():
            return True
        case ReplaceText(target=target):
            return target == "system"
        case InjectConstraint(step=step):
            return step is None
        case _:
            return False


def observation_edits(edit: Edit) -> Mapping[tuple[int, int], tuple[str, bool | None]]:
    """What tools are to have returned: (text, is_error) by (step, index of the call in it).

    `is_error` None leaves it as recorded. The last of several changes to one result counts.
    """
    return {
        (change.step, change.call or 0): (change.text, change.is_error)
        for change in edit.changes
        if isinstance(change, SetObservation)
    }


ATTACH_SYSTEM = "Try: arc attach TRACE --system FILE, then edit that"
ATTACH_TOOLS = "Try: arc attach TRACE --tools FILE, then edit that"


def meant(word: str, known: Iterable[str]) -> str:
    """The hint for a word that is none of the known ones."""
    names = list(known)
    near = difflib.get_close_matches(word, names, n=1)
    return f"did you mean {near[0]!r}?" if near else f"known: {', '.join(names)}"


def describe(change: Change) -> str:
    """What is changed: `tool get_order renamed to find_order`."""
    match change:
        case SetSystem():
            return "system prompt set"
        case PatchSystem():
            return "system prompt patched"
        case ReplaceText(target=target):
            return f"text replaced in {'the system prompt' if target == 'system' else target}"
        case InjectConstraint(step=step):
            place = "to the system prompt" if step is None else f"at step {step}"
            return f"constraint added {place}"
        case SetTool():
            given = {"description": change.description, "schema": change.schema}
            parts = [name for name, new in given.items() if new is not None]
            return f"tool {change.name}: {' and '.join(parts)} set"
        case RenameTool():
            return f"tool {change.name} renamed to {change.new}"
        case RemoveTool():
            return f"tool {change.name} removed"
        case SetMessage():
            return f"message {change.index} set"
        case InsertMessage(index=index, role=role):
            place = "at the start" if index < 0 else f"after message {index}"
            return f"{role} message inserted {place}"
        case SetObservation():
            return f"{_result(change)} set"
        case SummariseBefore():
            return f"conversation before step {change.step} summarised"
        case SetModel():
            return f"model set to {change.model}"
        case SetEffort():
            return f"effort set to {change.effort}"
        case SetParameter(name=name, value=None):
            return f"{name} left out"
        case SetParameter(name=name, value=value):
            return f"{name} set to {digests.bare_text(value)}"


def wanted(change: Change) -> str:
    """What a request must have for the change to mean something: `has message 3`."""
    match change:
        case SetMessage(index=index):
            return f"has message {index}"
        case ReplaceText(target=target):
            return f"has {target}"
        case InsertMessage(index=index, role="assistant"):
            return f"continues after message {index}"
        case InsertMessage(index=index):
            return f"has message {max(index, 0)}"
        case SetObservation():
            return f"contains the {_result(change)}"
        case InjectConstraint(step=step) | SummariseBefore(step=step):
            return f"continues step {step} as recorded"
        case _:
            return "can take this edit"


def _result(change: SetObservation) -> str:
    call = f"call {change.call} of " if change.call is not None else ""
    return f"result of {call}step {change.step}"
