"""A sample whose log holds its messages and no model events: what a call saw is all before it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Raw

from replay.formats.dialogue import Thread, Turn
from replay.formats.fields import listed, obj, word
from replay.formats.inspect.attachments import Attachments
from replay.formats.inspect.model import read_usage
from replay.formats.intake import Tally
from replay.formats.normal import derived_id, stop
from replay.trace import NO_TOOLS, AnySpan, Fidelity, Level, Message, Place, Request, Response


def spans_of_messages(
    given: Sequence[Raw],
    output: dict[str, Any],
    model: str | None,
    root: str,
    texts: Attachments,
    tally: Tally,
) -> tuple[AnySpan, ...]:
    """The calls of the sample, below its root; which tools were offered is not known.

    `output` is the sample's, which tells of its last call.
    """
    read = ((index, texts.message(raw)[0]) for index, raw in enumerate(given))
    messages = [(index, message) for index, message in read if message is not None]
    system = None
    if messages and messages[0][1].role == "system":
        _, system = messages.pop(0)
    thread = Thread(
        parent=root,
        request=Request(model=model, system=system),
        fidelity=Fidelity(level=Level.PARTIAL, reasons=(NO_TOOLS,)),
        tally=tally,
    )
    last = max((i for i, message in messages if message.role == "assistant"), default=None)
    for index, message in messages:
        place = Place(span=word(message.body.get("id")), message=index)
        if message.role == "assistant":
            thread.said(message, _turn(message, root, place, output if index == last else {}))
        else:
            thread.heard(message, place=place)
    return thread.spans()


def _turn(message: Message, root: str, place: Place, output: dict[str, Any]) -> Turn:
    """A call known by its message."""
    choice = obj(next(iter(listed(output.get("choices"))), None))
    raw = word(choice.get("stop_reason"))
    return Turn(
        id=derived_id(root, "message", place.message),
        place=place,
        response=Response(
            model=word(message.body.get("model")) or word(output.get("model")),
            stop=stop(raw),
            stop_raw=raw,
        ),
        usage=read_usage(obj(output.get("usage"))),
    )
