"""What of a step can be taken elsewhere: a value, a text, a call as JSON, a command. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

import msgspec
from msgspec import Struct

from arc_tui.ui import format
from arc_tui.views.step import CallView, StepView, step_markdown
from replay.trace import Json

COMMANDS = ("command", "cmd", "script")
"""Arguments that hold what a shell is to run."""


class Copy(Struct, frozen=True, kw_only=True):
    """A part of a step: what it is, its text as recorded, and the kind of file it would be."""

    name: str
    text: str
    suffix: str = ".txt"


def copies(step: StepView, text: str | None, value: Json | None) -> list[Copy]:
    """What can be copied, what is nearest to the cursor first: `value` is the one on its line,
    `text` what stands there."""
    return [
        *_here(text, value),
        *_of_calls(step),
        Copy(name="the step as Markdown", text=step_markdown(step), suffix=".md"),
        Copy(name="the step as JSON", text=step.raw, suffix=".json"),
        Copy(
            name="the command that prints it",
            text=f"arc show {shlex.quote(step.trace[:12])} {step.row.step}",
        ),
    ]


def _here(text: str | None, value: Json | None) -> Iterator[Copy]:
    if value is not None:
        shown = value if isinstance(value, str) else msgspec.json.encode(value).decode()
        yield Copy(name="the value under the cursor", text=shown)
    if text:
        suffix = ".json" if text.startswith(("{", "[")) else ".txt"
        yield Copy(name="the text under the cursor", text=text, suffix=suffix)


def _of_calls(step: StepView) -> Iterator[Copy]:
    """Of each call its command, itself as JSON and its result."""
    seen = [(each.call, each.result) for each in step.observations]
    asked = [(call, None) for call in step.response.calls] if step.response else []
    for call, result in seen or asked:
        name = format.cut(format.one_line(call.name), 40)
        command = command_of(call)
        if command is not None:
            yield Copy(name=f"the command of {name}", text=command, suffix=".sh")
        yield Copy(name=f"the call of {name} as JSON", text=call_json(call), suffix=".json")
        if result is not None:
            yield Copy(name=f"the result of {name}", text=result)


def command_of(call: CallView) -> str | None:
    """What a shell was asked to run; None where a call asks none."""
    if not call.parsed:
        return None
    arguments = msgspec.json.decode(call.arguments)
    if not isinstance(arguments, dict):
        return None
    said = next((arguments[name] for name in COMMANDS if arguments.get(name)), None)
    if isinstance(said, list) and all(isinstance(word, str) for word in said):
        return shlex.join(said)
    return said.rstrip("\n") if isinstance(said, str) else None


def call_json(call: CallView) -> str:
    """The call with its name and arguments; what was sent and is no JSON stays a text."""
    arguments = msgspec.Raw(call.arguments.encode()) if call.parsed else call.arguments
    encoded = msgspec.json.encode({"name": call.name, "arguments": arguments})
    return msgspec.json.format(encoded, indent=2).decode()
