"""The items of the Responses API as messages of OpenAI's chat shape.

An answer comes as several items (reasoning, texts, calls); they are one message of the model. A
tool that takes a plain text gets it as the argument `input`, so that it is no broken JSON.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from replay.depth import from_text
from replay.formats.codex.lines import CALLS, Line
from replay.formats.fields import listed, obj, word
from replay.messages import content_text
from replay.trace import Json, Message

_EXIT = re.compile(r"(?:^Exit code: |Process exited with code )(-?\d+)", re.M)
_ABOUT_A_RUN = 400
"""Characters at the start of an output in which a command's exit code is told."""


def answer(items: Iterable[Line]) -> Message:
    """The items of one answer as the message it was; what the provider ran itself is left out."""
    texts: list[Json] = []
    thoughts: list[str] = []
    calls: list[Json] = []
    for item in items:
        if item.type == "message":
            texts += _blocks(item.payload.get("content"))
        elif item.type == "reasoning":
            thoughts += _thoughts(item)
        elif item.type in CALLS:
            calls.append(_call(item))
    body: dict[str, Json] = {"role": "assistant", "content": _simplest(texts)}
    if thoughts:
        body["reasoning_content"] = "\n".join(thoughts)
    if calls:
        body["tool_calls"] = calls
    return Message(dialect="openai", body=body)


def heard(item: Line) -> Message:
    """What a person, the harness or another agent said."""
    role = item.role if item.role in {"system", "developer"} else "user"
    content = _simplest(_blocks(item.payload.get("content"))) or ""
    return Message(dialect="openai", body={"role": role, "content": content})


def result(item: Line, name: str | None) -> Message:
    """What a tool gave back, as the model saw it."""
    body: dict[str, Json] = {
        "role": "tool",
        "tool_call_id": word(item.payload.get("call_id")),
        "content": _output(item),
    }
    if name is not None:
        body["name"] = name
    return Message(dialect="openai", body=body)


def failure(item: Line) -> str | None:
    """Why the harness counts this output as a failed call: its own word, or the exit code."""
    output = item.payload.get("output")
    if isinstance(output, dict) and output.get("success") is False:
        return content_text(output.get("content")) or "failed"
    text = content_text(_output(item))
    code = _exit_code(text)
    return f"exit code {code}" if code else None


def _exit_code(text: str) -> int:
    if text.startswith("{") and '"exit_code"' in text:
        try:
            told = obj(obj(from_text(text)).get("metadata")).get("exit_code")
        except msgspec.DecodeError:
            return 0
        return told if isinstance(told, int) else 0
    found = _EXIT.search(text[:_ABOUT_A_RUN])
    return int(found[1]) if found and len(found[1]) < 12 else 0


def called(item: Line) -> tuple[str | None, str, Json]:
    """(id, name, arguments) of a call; the arguments as their text where they were one."""
    payload = item.payload
    call_id = word(payload.get("call_id")) or word(payload.get("id"))
    if item.type == "custom_tool_call":
        given: Json = {"input": payload.get("input")}
    elif item.type == "function_call":
        given = payload.get("arguments")
    else:
        given = payload.get("arguments") or payload.get("action") or {}
    name = word(payload.get("name")) or item.type.removesuffix("_call")
    space = word(payload.get("namespace"))
    return call_id, f"{space}{name}" if space else name, given


def served(item: Line) -> dict[str, Json]:
    """What is known of a call that the provider ran."""
    known = ("action", "status", "revised_prompt")
    return {name: item.payload[name] for name in known if item.payload.get(name) is not None}


def _call(item: Line) -> Json:
    call_id, name, given = called(item)
    text = given if isinstance(given, str) else msgspec.json.encode(given).decode()
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": text}}


def _output(item: Line) -> Json:
    """A text, or blocks where the tool gave several things."""
    payload = item.payload
    output = payload.get("output", payload.get("result", payload.get("tools")))
    if isinstance(output, dict) and "content" in output:
        output = output["content"]
    if output is None or isinstance(output, str):
        return output or ""
    blocks = listed(output) if item.type != "tool_search_output" else []
    if blocks and all(isinstance(block, dict) and "type" in block for block in blocks):
        return _blocks(blocks)
    return msgspec.json.encode(output).decode()


def _blocks(content: Json) -> list[Json]:
    """Texts and images in OpenAI's chat shape; blocks of other kinds as they are."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    found: list[Json] = []
    for block in listed(content):
        kind, text = obj(block).get("type"), obj(block).get("text")
        if kind in ("input_text", "output_text", "text") and isinstance(text, str):
            found.append({"type": "text", "text": text})
        elif kind == "input_image" and isinstance(block.get("image_url"), str):
            found.append({"type": "image_url", "image_url": {"url": block["image_url"]}})
        elif block is not None:
            found.append(block)
    return found


def _simplest(blocks: list[Json]) -> Json:
    """None for nothing, the text where there is one alone."""
    alone = obj(blocks[0]) if len(blocks) == 1 else {}
    if alone.get("type") == "text" and isinstance(alone.get("text"), str):
        return alone["text"]
    return blocks or None


def _thoughts(item: Line) -> list[str]:
    """Summaries and, where the model shows it, the reasoning itself."""
    parts = [*listed(item.payload.get("summary")), *listed(item.payload.get("content"))]
    texts = (obj(part).get("text") for part in parts)
    return [text for text in texts if isinstance(text, str) and text]
