"""What became of one message of a conversation, and may it stand where it does?

The changes that mean a message are made to it in their order; new messages come before it or
after it. A call and its result are never parted: that is refused with a sentence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct

from replay.edit.aims import Aim
from replay.edit.changes import (
    Change,
    InjectConstraint,
    InsertMessage,
    RenameTool,
    ReplaceText,
    SetMessage,
    SetObservation,
    SummariseBefore,
)
from replay.edit.speech import observed, open_calls, replaced, said, spoken
from replay.edit.toolset import renamed_calls
from replay.errors import BadEdit
from replay.trace import Context, Message


class Place(Struct, frozen=True, eq=False, kw_only=True):
    """What became of one recorded node.

    `ahead`, `own` and `behind` are the messages in its place. `held` ones, the assistant's, by the
    changes `pending`, come after them once the conversation goes on: `whole` is the edited chain
    with them, `ending` that of a request which ends here. `summary` is the change that cut the
    chain here. `equals` counts for a change of a result the equal ones that came by since its
    step; `wedged` tells that a message stands between a call and its result.
    """

    node: Context
    own: Message
    whole: Context | None
    ending: Context | None
    ahead: tuple[Message, ...] = ()
    behind: tuple[Message, ...] = ()
    held: tuple[Message, ...] = ()
    pending: tuple[int, ...] = ()
    summary: Aim | None = None
    equals: Mapping[int, int] = {}
    wedged: bool = False

    @property
    def said(self) -> tuple[Message, ...]:
        return (*self.ahead, self.own, *self.behind, *self.held)


class Made(Struct, kw_only=True):
    """A place in the making; `behind` messages come with the changes that put them there."""

    own: Message
    ahead: list[Message] = []
    behind: list[tuple[int, Message]] = []
    summary: Aim | None = None


def make(made: Made, at: int, change: Change, aim: Aim | None, where: str) -> None:
    """One change made to a place that it means."""
    match change:
        case RenameTool():
            made.own = renamed_calls(made.own, change.name, change.new)
        case SetMessage():
            made.own = said(made.own, change, where)
        case ReplaceText():
            made.own = replaced(made.own, change, where)
        case InsertMessage(index=index) if index < 0:
            made.ahead.append(spoken(change.role, change.text))
        case InsertMessage():
            made.behind.append((at, spoken(change.role, change.text)))
        case SetObservation():
            assert aim is not None
            assert aim.result is not None
            made.own = observed(made.own, aim.result.block, change)
        case InjectConstraint():
            made.behind.append((at, spoken("system", change.text)))
        case SummariseBefore():
            made.summary = aim
        case _:
            pass


Behind: TypeAlias = Sequence[tuple[int, Message]]


def parted(behind: Behind) -> tuple[Behind, Behind]:
    """The messages a request may end with, and those of assistants at the end of them."""
    kept = len(behind)
    while kept and behind[kept - 1][1].role == "assistant":
        kept -= 1
    return behind[:kept], behind[kept:]


def wedged(before: Place | None, node: Context, behind: Behind, where: str) -> bool:
    """Does a new message stand between a call and its result?

    One of the user may: results go before it. Raises BadEdit where a call would lose its result.
    """
    speaks = node.message.role == "assistant"
    if speaks and before is not None and before.wedged and _waits(before.node):
        raise BadEdit(
            f"{where}: a message before message {node.depth - 1} would part calls made together",
            "insert it after their results",
        )
    if behind and _waits(node):
        if any(message.role == "assistant" for _, message in behind):
            raise BadEdit(
                f"{where}: a message of the assistant after message {node.depth - 1} would stand"
                " between a call and its result",
                "insert it after the result, or insert one of the user",
            )
        return True
    return before is not None and before.wedged and not speaks


def _waits(node: Context) -> bool:
    """Does a call wait for its result after this node?"""
    return open_calls(node.messages())[-1] > 0
