"""Which events of an OpenHands run are one answer of the model, and what was its message?"""

from __future__ import annotations

from replay.formats.openhands.happened import Acted, Happened, Sent
from replay.formats.openhands.runs import Event
from replay.messages import calls
from replay.trace import Message


def answers(told: list[tuple[Event, Happened]]) -> dict[int, list[Acted]]:
    """The answers of a run: the index of the event that tells each, and all that share its id."""
    found: dict[int, list[Acted]] = {}
    first: dict[str, int] = {}
    for event, happened in told:
        acted = happened.acted if isinstance(happened, Sent) else happened
        if not isinstance(acted, Acted):
            continue
        index = first.setdefault(acted.answer_id, event.index) if acted.answer_id else event.index
        found.setdefault(index, []).append(acted)
    return found


def answer_id(group: list[Acted]) -> str | None:
    return group[0].answer_id


def joined(group: list[Acted]) -> Message:
    """The message of an answer: the provider's own, or one with the calls of all its events."""
    first = group[0].message
    if group[0].answer or len(group) == 1:
        return first
    given = [each.message.body.get("tool_calls") for each in group if calls(each.message)]
    listed_calls = [call for each in given if isinstance(each, list) for call in each]
    return Message(dialect="openai", body={**first.body, "tool_calls": listed_calls})
