"""What a compaction of a Codex session left, and the call that wrote its summary.

Since the end of 2025 the note of a compaction holds the items that took the conversation's place;
before, the summary alone.
"""

from __future__ import annotations

from replay.formats.codex import items
from replay.formats.codex.lines import CALLS, ITEM, OUTPUTS, Line, speaks
from replay.formats.dialogue import Turn
from replay.formats.fields import obj, word
from replay.trace import Fidelity, Json, Level, Message, Response, Usage

NO_REQUEST = "request of a compaction not recorded"


def history(kept: list[Json], line: Line) -> list[Message]:
    """The items that took the conversation's place, answers put together again."""
    found: list[Message] = []
    answer: list[Line] = []
    for each in kept:
        item = Line(kind=ITEM, payload=obj(each), place=line.place)
        if item.type in CALLS | {"reasoning"} or speaks(item):
            answer.append(item)
            continue
        if answer:
            found.append(items.answer(answer))
            answer = []
        if item.type in OUTPUTS:
            found.append(items.result(item, None))
        elif item.type in ("message", "agent_message"):
            found.append(items.heard(item))
    return [*found, *([items.answer(answer)] if answer else [])]


def summary(line: Line) -> list[Message]:
    """What early releases went on from, without the wording around it."""
    words = word(line.payload.get("message"))
    return [Message(dialect="openai", body={"role": "user", "content": words})] if words else []


def call(
    line: Line, name: str, *, model: str | None, usage: Usage | None, start_ns: int | None
) -> tuple[Turn, Message | None]:
    """The call of the model that wrote the summary, and what it wrote."""
    words = word(line.payload.get("message"))
    body = {"role": "assistant", "content": words}
    turn = Turn(
        id=name,
        name="compaction",
        response=Response(model=model),
        usage=usage,
        start_ns=start_ns,
        end_ns=line.at_ns,
        time_quality="none" if line.at_ns is None else "derived",
        place=line.place,
        fidelity=Fidelity(level=Level.NONE, reasons=(NO_REQUEST,)),
    )
    return turn, Message(dialect="openai", body=body) if words else None
