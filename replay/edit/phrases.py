"""A change in a few words, for lists and for errors. Names of tools stand in it as recorded."""

from __future__ import annotations

from replay.edit.changes import (
    Change,
    InjectConstraint,
    InsertMessage,
    PatchSystem,
    RemoveTool,
    RenameTool,
    ReplaceText,
    SetEffort,
    SetMessage,
    SetModel,
    SetObservation,
    SetSystem,
    SetTool,
    SummariseBefore,
)


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


def wanted(change: Change) -> str:
    """What a request must have for the change to mean something: `has message 3`."""
    match change:
        case SetMessage(index=index):
            return f"has message {index}"
        case ReplaceText(target=target):
            return f"has {target}"
        case InsertMessage(index=index, role="assistant"):
            return f"goes on after message {index}"
        case InsertMessage(index=index):
            return f"has message {max(index, 0)}"
        case SetObservation():
            return f"carries the {_result(change)}"
        case InjectConstraint(step=step) | SummariseBefore(step=step):
            return f"goes on from step {step} as it was recorded"
        case _:
            return "can be edited so"


def _result(change: SetObservation) -> str:
    call = f"call {change.call} of " if change.call is not None else ""
    return f"result of {call}step {change.step}"
