"""Can a change mean anything at all, whatever it is applied to?"""

from __future__ import annotations

import re
from typing import NamedTuple

from replay.edit.changes import (
    EFFORTS,
    ROLES,
    Change,
    InjectConstraint,
    InsertMessage,
    PatchSystem,
    RenameTool,
    ReplaceText,
    SetEffort,
    SetMessage,
    SetModel,
    SetObservation,
    SetTool,
    SummariseBefore,
)
from replay.edit.hints import meant

_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")


class Flaw(NamedTuple):
    """What is wrong, beginning with the key of it where it is in one, and what to do."""

    sentence: str
    hint: str = ""


def flaw(change: Change) -> Flaw | None:
    """Why a change can never be made, None where it may."""
    match change:
        case ReplaceText(anchor=""):
            return Flaw("anchor: is empty")
        case ReplaceText(target=target) if (
            target != "system" and change.tool is None and change.message is None
        ):
            return Flaw(
                f"target: {target!r} names no text", 'it is "system", "tool NAME" or "message N"'
            )
        case PatchSystem(text=text) | InjectConstraint(text=text) | SummariseBefore(text=text) if (
            not text.strip()
        ):
            return Flaw("text: is empty")
        case SetTool(description=None, schema=None):
            return Flaw("changes nothing", "give it a description or a schema")
        case RenameTool(new=new) if not _TOOL_NAME.fullmatch(new):
            return Flaw(
                f"text: {new[:140]!r} cannot be the name of a tool",
                "it takes 1 to 128 letters, digits, `_` and `-`",
            )
        case InsertMessage():
            return _insertion_flaw(change)
        case SetMessage(index=number) | SummariseBefore(step=number) if number < 0:
            return Flaw("target: counts from 0")
        case InjectConstraint(step=int(number)) | SetObservation(step=number) if number < 0:
            return Flaw("target: counts from 0")
        case SetObservation(call=int(call)) if call < 0:
            return Flaw("call: counts from 0")
        case SetModel(model=model) if not model.strip():
            return Flaw("text: is empty")
        case SetEffort(effort=effort) if effort not in EFFORTS:
            return Flaw(f"text: no effort {effort!r}", meant(effort, EFFORTS))
        case _:
            return None


def _insertion_flaw(change: InsertMessage) -> Flaw | None:
    if change.index < -1:
        return Flaw("target: counts from 0", "-1 is before all others")
    if change.role not in ROLES:
        return Flaw(f"role: no role {change.role!r}", meant(change.role, ROLES))
    if not change.text.strip():
        return Flaw("text: is empty")
    if change.index < 0 and change.role == "assistant":
        return Flaw("role: no message of the assistant can open a conversation")
    return None
