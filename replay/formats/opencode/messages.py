"""opencode's parts as messages of Anthropic's shape, and the steps of an answer told apart.

A part is a text, a thought, a call together with what came back, a file, or a mark. Marks tell
where a call of the model begins and ends, and what it used; early releases wrote all the calls of a
turn into one message.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from replay.formats.fields import listed, obj, word
from replay.formats.normal import count, recorded, total_usage, usd
from replay.trace import Cost, Json, Message, Usage

_UNSENT = ("text/plain", "application/x-directory")
"""Files whose content opencode puts into a text of its own."""

KNOWN = {
    "agent", "compaction", "file", "patch", "reasoning", "retry", "snapshot", "step-finish",
    "step-start", "subtask", "text", "tool",
}  # fmt: skip
_WORDED = ("compaction", "subtask")


class Step(Struct, frozen=True, kw_only=True, eq=False):
    """The parts of one call of the model, and the mark at its end ({} where there is none)."""

    parts: list[dict[str, Json]]
    finish: dict[str, Json]

    @property
    def tools(self) -> list[dict[str, Json]]:
        return [part for part in self.parts if part.get("type") == "tool"]


def steps(parts: list[dict[str, Json]]) -> list[Step]:
    """The steps of an answer; one without marks is a single step."""
    found: list[Step] = []
    current: list[dict[str, Json]] = []
    finish: dict[str, Json] = {}
    for part in parts:
        kind = part.get("type")
        if kind == "step-start" and (current or finish):
            found.append(Step(parts=current, finish=finish))
            current, finish = [], {}
        if kind == "step-finish":
            finish = part
        elif kind in ("text", "reasoning", "tool", "file"):
            current.append(part)
    if current or finish or not found:
        found.append(Step(parts=current, finish=finish))
    return found


def user(parts: list[dict[str, Json]]) -> Message | None:
    """What the user said, with what opencode added to it; None for nothing."""
    blocks: list[Json] = []
    for part in parts:
        text = part.get("text")
        if part.get("type") == "text" and isinstance(text, str) and part.get("ignored") is not True:
            blocks.append({"type": "text", "text": text})
        elif part.get("type") == "file" and part.get("mime") not in _UNSENT:
            blocks.append(_file(part))
    return _message("user", blocks) if blocks else None


def words_unknown(parts: list[dict[str, Json]]) -> bool:
    """Does opencode send something for these parts whose words are not in them?"""
    return any(part.get("type") in _WORDED for part in parts)


def asked(parts: list[dict[str, Json]]) -> str | None:
    """What a person wrote, without what opencode added."""
    for part in parts:
        if part.get("type") == "text" and part.get("synthetic") is not True:
            text = word(part.get("text"))
            if text is not None and text.strip():
                return text
    return None


def answer(step: Step) -> Message | None:
    """A step as the message it was, None where nothing of it was recorded."""
    blocks = [block for part in step.parts for block in _said(part)]
    return _message("assistant", blocks) if blocks else None


def result(tool: dict[str, Json]) -> Message | None:
    """What a call gave back, None while it has not come back."""
    state = obj(tool.get("state"))
    status = state.get("status")
    if status not in ("completed", "error"):
        return None
    text = word(state.get("output" if status == "completed" else "error")) or ""
    attached = [_file(obj(each)) for each in listed(state.get("attachments"))]
    block: dict[str, Json] = {
        "type": "tool_result",
        "tool_use_id": word(tool.get("callID")),
        "content": [{"type": "text", "text": text}, *attached] if attached else text,
    }
    if status == "error":
        block["is_error"] = True
    return _message("user", [block])


def usage(tokens: Json) -> Usage | None:
    """The figures of a step. `input` leaves the cache out.

    Later releases leave reasoning out of `output`, early ones do not, and only some tell the
    total that shows which: without it, `output` is taken to hold the reasoning unless it is too
    small to.
    """
    figures, cache = obj(tokens), obj(obj(tokens).get("cache"))
    fresh, out = count(figures.get("input")), count(figures.get("output"))
    read, write = count(cache.get("read")), count(cache.get("write"))
    thought, total = count(figures.get("reasoning")), count(figures.get("total"))
    given = None if fresh is None else fresh + (read or 0) + (write or 0)
    if out is not None and thought:
        apart = thought > out
        if total is not None and given is not None:
            apart = abs(given + out + thought - total) <= abs(given + out - total)
        out += thought if apart else 0
    return total_usage(given, out, reasoning=thought, read=read, write=write)


def cost(amount: Json) -> Cost | None:
    """opencode's own figure. Zero is what it writes where it has no price."""
    return recorded(usd(amount) or None)


def _said(part: dict[str, Json]) -> list[Json]:
    kind, text = part.get("type"), part.get("text")
    if kind == "tool":
        given = obj(part.get("state")).get("input")
        return [
            {
                "type": "tool_use",
                "id": word(part.get("callID")),
                "name": word(part.get("tool")) or "",
                "input": {} if given is None else given,
            }
        ]
    if kind == "file":
        return [_file(part)]
    if not isinstance(text, str) or not text:
        return []
    if kind == "reasoning":
        return [{"type": "thinking", "thinking": text}]
    return [{"type": "text", "text": text}]


def _file(part: dict[str, Json]) -> Json:
    return {"type": "image_url", "image_url": {"url": word(part.get("url")) or ""}}


def _message(role: str, blocks: list[Any]) -> Message:
    return Message(dialect="anthropic", body={"role": role, "content": blocks})
