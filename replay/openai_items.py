"""What the Responses API has otherwise than Chat Completions: items instead of messages, and what a
model reasoned among them.

Items are made from chat messages, one by one; an importer has made the messages from such items
before.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from replay import messages
from replay.messages import REASONING_ITEMS
from replay.providers import is_openais
from replay.turns import THINKING

Body = dict[str, Any]

OTHERS_REASONING = "reasoning of another model not sent"
STORED_REASONING = "reasoning stored by the provider not sent"
UNSENT = frozenset({THINKING, OTHERS_REASONING, STORED_REASONING})
"""Losses of what a model thought, which take no message from it."""


def items(body: Body) -> Iterator[Body]:
    """The items of one chat message: its text first, then its calls, reasoning where it stood."""
    thoughts = body.get(REASONING_ITEMS, ())
    for place, item in enumerate(_items(body)):
        yield from (each["item"] for each in thoughts if each["before"] == place)
        yield item


def _items(body: Body) -> Iterator[Body]:
    role, content = body["role"], body.get("content")
    if role == "tool":
        output = content if isinstance(content, str) else [*_input_parts(content or [])]
        yield {"type": "function_call_output", "call_id": body["tool_call_id"], "output": output}
        return
    if role == "assistant":
        said = body.get("refusal") or content
        if said:
            text = said if isinstance(said, str) else messages.content_text(said)
            yield {"type": "message", "role": role, "content": text}
        for call in body.get("tool_calls", ()):
            yield {
                "type": "function_call",
                "call_id": call["id"],
                "name": call["function"]["name"],
                "arguments": call["function"]["arguments"],
            }
        return
    given = content if isinstance(content, str) else [*_input_parts(content or [])]
    yield {"type": "message", "role": role, "content": given}


def _input_parts(parts: Iterable[Body]) -> Iterator[Body]:
    for part in parts:
        match part["type"]:
            case "image_url":
                image = part["image_url"]
                image = image if isinstance(image, dict) else {"url": image}
                yield {
                    "type": "input_image",
                    "image_url": image.get("url"),
                    "detail": image.get("detail") or "auto",
                }
            case "file":
                yield {"type": "input_file", **part["file"]}
            case "input_audio":
                yield part
            case _:
                yield {"type": "input_text", "text": part.get("text") or part.get("refusal") or ""}


# --- what was reasoned


class Receiver(NamedTuple):
    """A model by its name at the server, and whether it is sent its recorded reasoning."""

    model: str
    reasoning: bool


_DATED = re.compile(r"-\d{4}-\d\d-\d\d$")


def reasoning_sent(
    recorded: Iterable[Body], made: Body, to: Receiver, lost: list[str]
) -> list[Body]:
    """The reasoning items of an answer that are sent back, each with what it stands `before`.

    OpenAI reads those of the model that is asked, from their encrypted content alone: nothing that
    arc asks for is stored there, and what was is not for long. One with no item after it, which an
    edit may have taken, is refused.
    """
    follow = bool(made.get("refusal") or made["content"]) + len(made.get("tool_calls", ()))
    found: list[Body] = []
    for each in recorded:
        item = each["item"]
        sealed = item.get("encrypted_content")
        if not to.reasoning or each["before"] >= follow:
            lost.append(THINKING)
        elif sealed and _DATED.sub("", str(each["model"])) != _DATED.sub("", to.model):
            lost.append(OTHERS_REASONING)
        elif not sealed and (is_openais(to.model) or not item.get("content")):
            lost.append(STORED_REASONING)
        else:
            found.append({"before": each["before"], "item": reasoning_item(item)})
    return found


def reasoning_item(item: Body) -> Body:
    """A reasoning item as it is sent back: its `status` is refused there, its id must be its own
    (or none, which a program that keeps no items sends)."""
    kept = {name: item[name] for name in ("id", "summary", "content", "encrypted_content")
            if item.get(name) is not None}  # fmt: skip
    return {"type": "reasoning", "summary": [], **kept}
