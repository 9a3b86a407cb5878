"""What do changes make of the system prompt? And of any text in which something is replaced."""

from __future__ import annotations

from typing import TypeAlias

from replay import messages
from replay.edit.changes import InjectConstraint, PatchSystem, ReplaceText, SetSystem
from replay.edit.hints import ATTACH
from replay.edit.patch import patched
from replay.errors import BadEdit
from replay.trace import Message

PromptChange: TypeAlias = SetSystem | PatchSystem | ReplaceText | InjectConstraint


def edited_system(change: PromptChange, system: Message | None, where: str) -> Message | None:
    """A message with the new text; the same object where the text does not change."""
    text = messages.text(system) if system is not None else ""
    if system is None and isinstance(change, (PatchSystem, ReplaceText)):
        raise BadEdit(f"{where}: there is no system prompt to edit", ATTACH)
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
            f"{where}: the anchor {shown!r} stands in {place} {times} times",
            "quote more of the text around it",
        )
    return BadEdit(
        f"{where}: the anchor {shown!r} is not in {place}",
        "copy it from there, with its line breaks",
    )
