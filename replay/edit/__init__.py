"""What did the user change? An edit is data: a named list of changes, never an edited prompt.

A change says what it does to any request it meets, so one edit can be tried on every step of a
trace and on other traces. A target that is not there is an error naming the step; the one thing
that is not an error is a message the conversation has not reached yet, or no longer holds.
"""

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
    SetModel,
    SetObservation,
    SetSystem,
    SetTool,
    SummariseBefore,
    observation_edits,
)
from replay.edit.checks import flaw
from replay.edit.editor import Editor, apply
from replay.edit.hints import ATTACH, RECORD, meant
from replay.edit.phrases import describe
from replay.edit.shown import diff, diff_trace

__all__ = [
    "ATTACH",
    "RECORD",
    "Change",
    "Edit",
    "Editor",
    "InjectConstraint",
    "InsertMessage",
    "PatchSystem",
    "RemoveTool",
    "RenameTool",
    "ReplaceText",
    "SetEffort",
    "SetMessage",
    "SetModel",
    "SetObservation",
    "SetSystem",
    "SetTool",
    "SummariseBefore",
    "apply",
    "describe",
    "diff",
    "diff_trace",
    "flaw",
    "meant",
    "observation_edits",
]
