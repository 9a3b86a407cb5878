"""How many tokens is an observation, and where in the request did it stand?

The input of the request that first carried it, less the input and the answer of the step that
called for it, is its size where nothing else came in between. Often something did, or the answer
held reasoning that was not sent on: then the growth is shared out by characters, and where no
growth was recorded a token is reckoned at four characters.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

from replay import canon
from replay.messages import observed, prose, results, thinking
from replay.trace import Context, Message, Observation, Step

How = Literal["counted", "shared", "reckoned"]

CHARACTERS = 4
"""In a token, where nothing better is known."""

_FEW = 2
"""An answer with fewer characters a token than this held reasoning that it does not show."""

_SLACK = 50
_MEDIA = re.compile(r"^\[(?:image|image_url|input_image|document|audio|input_audio|video)\]$", re.M)


class Size(NamedTuple):
    """`tokens` None for media of unknown size; `start` is how many tokens stand before it."""

    how: How
    tokens: int | None
    start: int | None = None


def sizes(before: Step, after: Step, given: Sequence[Observation]) -> list[Size]:
    """The sizes of what step `before` observed, all of it sent first by `after`, in their order."""
    new = _new(before, after)
    growth = _growth(before, after) if new else None
    found = [_size(before, each, new, growth, alone=len(given) == 1) for each in given]
    return _placed(found, _input(after))


def _size(
    before: Step, given: Observation, new: Sequence[Message], growth: int | None, *, alone: bool
) -> Size:
    words = observed(given).text
    if growth is not None and alone and _nothing_else(given, new) and _shows_all(before):
        exact = growth - (_output(before) or 0)
        if exact > 0:
            return Size("counted", exact)
    if _MEDIA.search(words):
        return Size("reckoned", None)
    if growth is not None and growth > 0:
        whole = sum(map(_characters, new)) or 1
        return Size("shared", min(growth, round(growth * len(words) / whole)))
    return Size("reckoned", len(words) // CHARACTERS)


def _placed(found: Sequence[Size], end: int | None) -> list[Size]:
    """Observations stand at the end of the request that carries them first."""
    placed: list[Size] = []
    for size in reversed(found):
        start = None if end is None or size.tokens is None else max(0, end - size.tokens)
        placed.append(size._replace(start=start))
        end = start
    return placed[::-1]


def _growth(before: Step, after: Step) -> int | None:
    old, new = _input(before), _input(after)
    return None if old is None or new is None else new - old


def _input(step: Step) -> int | None:
    return step.ask.usage.input_tokens if step.ask.usage is not None else None


def _output(step: Step) -> int | None:
    return step.ask.usage.output_tokens if step.ask.usage is not None else None


def _new(before: Step, after: Step) -> list[Message]:
    """The messages a later request adds to an earlier one; none where it does not extend it."""
    base: Context | None = before.ask.request.context
    node = after.ask.request.context
    found: list[Message] = []
    while node is not None and node is not base:
        found.append(node.message)
        node = node.parent
    return found if node is base else []


def _nothing_else(given: Observation, new: Sequence[Message]) -> bool:
    """Is the observation all that came in, beside one answer?"""
    heard = [message for message in new if message.role != "assistant"]
    alone = len(heard) == 1 and heard[0] is given.message and len(new) == 2
    return alone and len(results(given.message)) == 1 and not prose(given.message).strip()


def _shows_all(step: Step) -> bool:
    """Is every token of an answer in the message that is sent on, as far as one can tell?"""
    output, message = _output(step), step.ask.response.message
    if output is None or message is None or thinking(message):
        return False
    return output * _FEW <= _characters(message) + _SLACK


def _characters(message: Message) -> int:
    return len(canon.pack(message.body))
