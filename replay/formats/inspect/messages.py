"""A sample whose log holds its messages and no model events: what a call saw is all before it."""

from __future__ import annotations

from typing import Any

from replay.formats.dialogue import Thread, Turn
from replay.formats.fields import listed, obj, word
from replay.formats.inspect.attachments import Attachments
from replay.formats.inspect.log import Entry
from replay.formats.inspect.model import read_usage
from replay.formats.intake import Tally
from replay.formats.normal import derived_id, stop
from replay.trace import NO_TOOLS, AnySpan, Fidelity, Level, Place, Request, Response


def spans_of_messages(
    entry: Entry, root: str, texts: Attachments, tally: Tally
) -> tuple[AnySpan, ...]:
    """The calls of the sample, below its root; which tools were offered is not known."""
    sample, spec = entry.sample, obj(entry.log.get("eval"))
    bodies = [
        (index, body)
        for index, body in enumerate(listed(sample.get("messages")))
        if isinstance(body, dict)
    ]
    system = None
    if bodies and bodies[0][1].get("role") == "system":
        system, _ = texts.message(bodies.pop(0)[1])
    thread = Thread(
        parent=root,
        request=Request(model=word(spec.get("model")), system=system),
        fidelity=Fidelity(level=Level.PARTIAL, reasons=(NO_TOOLS,)),
        tally=tally,
    )
    last = max((i for i, body in bodies if body.get("role") == "assistant"), default=None)
    for index, body in bodies:
        message, _ = texts.message(body)
        place = Place(span=word(body.get("id")), message=index)
        if message.role == "assistant":
            output = obj(sample.get("output")) if index == last else {}
            thread.said(message, _turn(body, root, place, output))
        else:
            thread.heard(message, place=place)
    return thread.spans()


def _turn(body: dict[str, Any], root: str, place: Place, output: dict[str, Any]) -> Turn:
    """A call known by its message; `output` is the sample's, which tells of its last call."""
    choice = obj(next(iter(listed(output.get("choices"))), None))
    raw = word(choice.get("stop_reason"))
    return Turn(
        id=derived_id(root, "message", place.message),
        place=place,
        response=Response(
            model=word(body.get("model")) or word(output.get("model")),
            stop=stop(raw),
            stop_raw=raw,
        ),
        usage=read_usage(obj(output.get("usage"))),
    )
