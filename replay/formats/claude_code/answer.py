"""What is one answer of the model in a Claude Code recording?

One API response is written as several lines, a content block each, that share its message id; the
figures on them grow, so the last line that knows one is right. A response that the harness wrote
in the model's name (`<synthetic>`) is an error or a filler.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from replay.formats import normal
from replay.formats.claude_code.line import Line, first_text
from replay.formats.normal import recorded, usd
from replay.messages import content_text
from replay.trace import Cost, Json, Message, Response

SYNTHETIC = "<synthetic>"

Item: TypeAlias = list[Line]
"""The lines of one answer, or one other line."""


def items(lines: Iterable[Line]) -> list[Item]:
    """The lines of one answer together, where the answer begins; every other line alone.

    Results that came in while an answer was still being written follow it.
    """
    found: list[Item] = []
    answer: Item = []
    for line in lines:
        if not (line.speaks and line.kind == "assistant"):
            found.append([line])
        elif answer and line.answer is not None and line.answer == answer[0].answer:
            answer.append(line)
        else:
            answer = [line]
            found.append(answer)
    return found


def given_up(item: Item, follower: Item | None) -> bool:
    """Did another answer follow at once, with the calls of this one not run?"""
    asked = any(line.asked for line in item)
    return asked and follower is not None and follower[0].kind == "assistant"


def merged(item: Item) -> Message | None:
    """The lines of an answer as the one message it was, None where its content is not known."""
    contents = [line.message.body["content"] for line in item if line.message is not None]
    if not contents:
        return None
    if len(contents) == 1:
        content = contents[0]
    else:
        content = [block for each in contents for block in _as_blocks(each)]
    return Message(dialect="anthropic", body={"role": "assistant", "content": content})


def _as_blocks(content: Json) -> list[Json]:
    return content if isinstance(content, list) else [{"type": "text", "text": content}]


def response(item: Item) -> Response:
    """Everything of the response but its message."""
    stop = latest(item, "stop_reason")
    model = first_text(item[0].raw_message, "model")
    return Response(
        id=item[0].answer,
        model=model if model != SYNTHETIC else None,
        stop="error" if error(item) is not None else normal.stop(stop),
        stop_raw=stop if isinstance(stop, str) else None,
    )


def is_filler(item: Item) -> bool:
    """Words the harness put into the model's mouth, without an error."""
    return item[0].raw_message.get("model") == SYNTHETIC and error(item) is None


def error(item: Item) -> str | None:
    """What the harness says went wrong with this call, None where nothing did."""
    for line in item:
        word = line.word("error")
        if line.flag("isApiErrorMessage") or word:
            shown = content_text(line.message.body["content"]) if line.message else ""
            return shown or word or "API error"
    return None


def latest(item: Item, name: str) -> Json:
    """A field of the message, from the last line that knows it."""
    found = (line.raw_message.get(name) for line in reversed(item))
    return next((value for value in found if value is not None), None)


def cost(item: Item) -> Cost | None:
    """What old sessions say a call cost, on its last line."""
    for line in reversed(item):
        amount = usd(line.record.get("costUSD"))
        if amount is not None:
            return recorded(amount)
    return None


def extra(item: Item) -> dict[str, Json]:
    """The request's id, and the speed where it is not the usual one (it has its own price)."""
    usage = latest(item, "usage")
    speed = first_text(usage, "speed") if isinstance(usage, dict) else None
    found = {
        "request_id": item[0].word("requestId", "request_id"),
        "speed": speed if speed != "standard" else None,
    }
    return {name: value for name, value in found.items() if value is not None}
