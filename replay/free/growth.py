"""A conversation that nobody recorded: a request, the model's answer to it, and the results.

Thinking and the blocks of a server are left out of the answer, as they are of a recording; ids go
on counting where the recorded ones ended, so that one run makes the same requests every time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import structs

from replay.blocks import text_block
from replay.convert import Sent
from replay.free.tape import Found
from replay.turns import turn_after


def grown(sent: Sent, answer: Mapping[str, Any], found: Sequence[Found]) -> Sent:
    """The request after `answer` and what its calls got, one result a call, in their order."""
    talk = sent.conversation
    said = list(_said(answer["content"], talk.calls))
    results = list(_results(found, talk.calls))
    asked = turn_after(talk.turn, {"role": "assistant", "content": said})
    told = turn_after(asked, {"role": "user", "content": results})
    talk = structs.replace(talk, turn=told, calls=talk.calls + len(found))
    return structs.replace(sent, conversation=talk)


def _said(content: Iterable[dict[str, Any]], given: int) -> Iterator[dict[str, Any]]:
    for block in content:
        if block["type"] == "text" and str(block.get("text", "")).strip():
            yield text_block(block["text"])
        elif block["type"] == "tool_use":
            name, arguments = block["name"], block["input"]
            yield {"type": "tool_use", "id": _id(given), "name": name, "input": arguments}
            given += 1


def _results(found: Iterable[Found], given: int) -> Iterator[dict[str, Any]]:
    for place, each in enumerate(found, given):
        result = {"type": "tool_result", "tool_use_id": _id(place), "content": each.content}
        yield {**result, "is_error": True} if each.is_error else result


def _id(place: int) -> str:
    return f"toolu_arc_{place}"
