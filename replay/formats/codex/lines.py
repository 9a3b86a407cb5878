"""What does one line of a Codex rollout say: items of the Responses API, compactions, token
counts?

Items become messages of OpenAI's chat shape. The counts of a rollout run on and are given to the
calls they are of.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from msgspec import Struct

from replay.depth import from_text
from replay.errors import BadTrace
from replay.formats.common import count, listed, ns, obj, total_usage, word
from replay.formats.dialogue import Turn
from replay.formats.source import Head, Source, Tally
from replay.messages import content_text
from replay.trace import Fidelity, Json, Level, Message, Place, Response, Usage

META, ITEM, EVENT, TURN, COMPACTED = (
    "session_meta",
    "response_item",
    "event_msg",
    "turn_context",
    "compacted",
)
_BESIDE = {"world_state", "inter_agent_communication", "inter_agent_communication_metadata"}
"""Lines that a client keeps for itself; no model sees them."""

CALLS = {
    "function_call",
    "custom_tool_call",
    "local_shell_call",
    "tool_search_call",
}
SERVED = {"web_search_call", "image_generation_call"}
"""Calls that the provider ran in the middle of its answer; what they gave is not recorded."""

OUTPUTS = {
    "function_call_output",
    "custom_tool_call_output",
    "mcp_tool_call_output",
    "tool_search_output",
}
_ITEMS = {"message", "reasoning", "agent_message"} | CALLS | SERVED | OUTPUTS
_UNSAID = {
    "additional_tools", "compaction", "compaction_summary", "compaction_trigger",
    "configuration_update", "context_compaction", "ghost_snapshot", "other",
}  # fmt: skip


class Line(Struct, frozen=True, kw_only=True, eq=False):
    """One line out of its envelope. `kind` is one of the constants above, or the source's word."""

    kind: str
    payload: dict[str, Json]
    place: Place
    at_ns: int | None = None

    @property
    def type(self) -> str:
        """The payload's own type: which item, or which event."""
        return word(self.payload.get("type")) or ""

    @property
    def role(self) -> str:
        return word(self.payload.get("role")) or ""

    @property
    def where(self) -> str:
        place = self.place
        return f"line {place.line}" if place.line is not None else f"item {place.message}"


def speaks(line: Line) -> bool:
    """Is this a text of the model's?"""
    return line.type == "message" and line.role == "assistant"


def is_line(record: Json) -> bool:
    """Does this JSON value stand in a rollout, in any of its shapes but a bare item?"""
    if not isinstance(record, dict):
        return False
    if isinstance(record.get("payload"), dict):
        kind = word(record.get("type"))
        about = {"id", "cwd", "originator"} & record["payload"].keys()
        return kind in {ITEM, EVENT, TURN, COMPACTED} or (kind == META and bool(about))
    return _is_old_meta(record) or record.get("record_type") == "state"


def is_document(record: Json) -> bool:
    """Is this the one document of the first Codex?"""
    return (
        isinstance(record, dict)
        and isinstance(record.get("items"), list)
        and isinstance(record.get("session"), dict)
        and "timestamp" in record["session"]
    )


def is_one_document(head: Head) -> bool:
    """Does it begin as the first Codex wrote it, mostly over many lines?"""
    return head.starts(b"{") and head.has(rb'\A\W*"session"\s*:\s*\{')


def read_lines(source: Source, tally: Tally) -> Iterator[Line]:
    """The lines of a rollout, in their order; records of unknown kinds are counted."""
    if is_one_document(source.head):
        document = source.document()
        if not is_document(document):
            raise BadTrace(source.display, "", "has no `session` with `items`")
        yield from _document(document, tally)
        return
    for number, record in source.records(tally):
        yield from _line(number, record, tally)


def _document(document: dict[str, Any], tally: Tally) -> Iterator[Line]:
    yield Line(kind=META, payload=document["session"], place=Place(message=0))
    for index, item in enumerate(listed(document.get("items"))):
        yield from _bare(obj(item), Place(message=index), tally)


def _line(number: int, record: dict[str, Any], tally: Tally) -> Iterator[Line]:
    tally.counts["lines"] += 1
    place = Place(message=number - 1, line=number)
    payload, kind = record.get("payload"), word(record.get("type")) or ""
    if not isinstance(payload, dict):
        yield from _bare(record, place, tally)
        return
    if kind == ITEM:
        _count(word(payload.get("type")) or "item without a type", tally)
    elif kind not in {META, EVENT, TURN, COMPACTED} | _BESIDE:
        tally.unknown[kind or "line without a type"] += 1
    yield Line(kind=kind, payload=payload, place=place, at_ns=ns(record.get("timestamp")))


def _bare(record: dict[str, Any], place: Place, tally: Tally) -> Iterator[Line]:
    """A record of the days before the envelope: no line but the first tells its time."""
    if record.get("record_type") == "state":
        return
    kind = word(record.get("type"))
    if kind is None and _is_old_meta(record):
        yield Line(kind=META, payload=record, place=place, at_ns=ns(record.get("timestamp")))
        return
    _count(kind or "line without a type", tally)
    yield Line(kind=ITEM, payload=record, place=place)


def _is_old_meta(record: dict[str, Any]) -> bool:
    about = isinstance(record.get("id"), str) and isinstance(record.get("timestamp"), str)
    return about and "type" not in record and ("instructions" in record or "git" in record)


def _count(kind: str, tally: Tally) -> None:
    if kind in _ITEMS:
        tally.counts[kind] += 1
    elif kind not in _UNSAID:
        tally.unknown[kind] += 1


_EXIT = re.compile(r"(?:^Exit code: |Process exited with code )(-?\d+)", re.M)
_ABOUT_A_RUN = 400
"""Characters at the start of an output in which a command's exit code is told."""


def answer_message(items: Iterable[Line]) -> Message:
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


def input_message(item: Line) -> Message:
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
            found.append(answer_message(answer))
            answer = []
        if item.type in OUTPUTS:
            found.append(result(item, None))
        elif item.type in ("message", "agent_message"):
            found.append(input_message(item))
    return [*found, *([answer_message(answer)] if answer else [])]


def summary(line: Line) -> list[Message]:
    """What early releases went on from, without the wording around it."""
    words = word(line.payload.get("message"))
    return [Message(dialect="openai", body={"role": "user", "content": words})] if words else []


def summary_call(
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


class Figures:
    """Reads the counts in their order. `leading` is a count that waits for the answer it is of."""

    def __init__(self) -> None:
        self.leading: Usage | None = None
        self._total: Json = None
        self._before: dict[str, int] = {}
        self._stands_before: bool | None = None

    def next_usage(self, info: Json) -> Usage | None:
        """The usage of one more answer, None where the event says nothing new."""
        total, last = obj(info).get("total_token_usage"), obj(obj(info).get("last_token_usage"))
        if not isinstance(total, dict) or total == self._total:
            return None
        earlier, self._before = self._before, _counts(total)
        self._total = total
        if not last:
            last = {name: value - earlier.get(name, 0) for name, value in self._before.items()}
        return total_usage(
            count(last.get("input_tokens")),
            count(last.get("output_tokens")),
            reasoning=count(last.get("reasoning_output_tokens")),
            read=count(last.get("cached_input_tokens")),
        )

    def stands_before(self, *, answering: bool) -> bool:
        """Is a count met now that of the answer to come? `answering`: one is open without any."""
        if self._stands_before is None:
            self._stands_before = not answering
        return self._stands_before

    def lead(self, *, answer: bool) -> Usage | None:
        """The count that waited for what begins now: an answer, or the note of a compaction.

        Where counts stand behind, a waiting one can only be of a compaction.
        """
        if answer and not self._stands_before:
            return None
        leading, self.leading = self.leading, None
        return leading


def _counts(total: dict[str, Json]) -> dict[str, int]:
    known = {name: count(value) for name, value in total.items()}
    return {name: value for name, value in known.items() if value is not None}
