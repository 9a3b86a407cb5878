"""Sessions of goose: its `sessions.db`, the JSON Lines of earlier releases, and `goose session
export --format json`.

A message is a list of blocks: texts, thoughts, requests for tools, their responses. goose keeps a
request and its response as two messages, one pair after the other, also where one response of the
model made several: steps are then more than the model was asked. Tokens are kept of the session
alone. Neither system prompt nor tools are recorded. A compaction hides from the model what was said
before it, and goes on from a summary that the user does not see.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from replay.errors import BadTrace
from replay.formats.chat import title_line
from replay.formats.common import count, derived_id, known, listed, ns, obj, seconds_ns, word
from replay.formats.database import Database, Row
from replay.formats.dialogue import Thread, Turn, without_tools
from replay.formats.source import Head, Source, Tally, decoded, decoded_text
from replay.messages import text
from replay.trace import (
    AgentSpan,
    AnySpan,
    Batch,
    Header,
    Json,
    Level,
    Message,
    Place,
    Request,
    Response,
)

NAME = "goose"
TITLE = "goose sessions"
FILES = "sessions.db and .jsonl in ~/.local/share/goose/sessions, .json exports"
FIDELITY = (Level.PARTIAL,)
LACKS = "the system prompt, the tools, tokens of a call, and which calls one response made"
VERIFIED = "its source code"

TABLES = frozenset({"sessions", "messages", "schema_version"})
"""Of its database, which `sqlite` reads."""

SUMMARY = "messages left out by a compaction not known"

_TOKENS = (
    "accumulated_input_tokens", "accumulated_output_tokens", "accumulated_total_tokens",
    "input_tokens", "output_tokens", "total_tokens",
)  # fmt: skip
_COLUMNS = (
    "id", "name", "description", "working_dir", "created_at", "session_type", "provider_name",
    "model_config_json", *_TOKENS,
)  # fmt: skip
_MESSAGE = ("id", "role", "content_json", "created_timestamp", "metadata_json")
_ORDER = ("created_timestamp", "id")
_UNSEEN = {
    "actionRequired", "contextLengthExceeded", "conversationCompacted", "notification",
    "summarizationRequested", "systemNotification", "toolConfirmationRequest",
}  # fmt: skip
"""Blocks for the person at the screen."""

_REQUESTS = {"toolRequest", "frontendToolRequest"}
_EXPORT = (rb'"working_dir"\s*:', rb'"extension_data"\s*:|"conversation"\s*:')


def sniff(head: Head) -> bool:
    """The first line of a session of before the database, or the head of an export."""
    lines = head.lines()
    first = obj(decoded(lines[0])) if lines else {}
    if "working_dir" in first and "conversation" not in first:
        return "message_count" in first or (
            "description" in first and any(_is_message(decoded(line)) for line in lines[1:3])
        )
    return head.starts(b"{") and head.has(*_EXPORT)


def _is_message(record: Json) -> bool:
    return {"role", "created", "content"} <= obj(record).keys()


def read(source: Source, tally: Tally) -> Iterator[Batch]:
    """One trace. Raises BadTrace where no message is the model's."""
    lines = source.head.lines()
    first = obj(decoded(lines[0])) if lines else {}
    if "working_dir" in first and "conversation" not in first:
        records = [record for _, record in source.records(tally)]
        about, messages = records[0], records[1:]
        about.setdefault("id", source.name.partition(".")[0])
    else:
        about = obj(source.document())
        told = about.get("conversation")
        told = told.get("messages") if isinstance(told, dict) else told
        messages = [*map(obj, listed(told))]
    batch = _batch(about, messages, source.display, tally)
    if batch is None:
        raise BadTrace(source.display, "", "contains no message of a model")
    yield batch


def traces(database: Database, path: str, tally: Tally) -> Iterator[Batch]:
    """The sessions of a database, in the order of their ids."""
    for row in database.rows("sessions", _COLUMNS, order=("id",)):
        name = word(row.get("id"))
        if name is None:
            continue
        rows = database.rows("messages", _MESSAGE, order=_ORDER, session_id=name)
        messages = [_message_of(each, path, tally) for each in rows]
        batch = _batch(_about(row, path, tally), messages, path, tally)
        if batch is not None:
            yield batch


def _about(row: Row, path: str, tally: Tally) -> dict[str, Any]:
    where = f"session {row.get('id')}"
    model = obj(decoded_text(row.get("model_config_json"), path, where, tally))
    return {**row, "model": model.get("model_name")}


def _message_of(row: Row, path: str, tally: Tally) -> dict[str, Any]:
    where = f"message {row.get('id')}"
    return {
        "role": row.get("role"),
        "created": row.get("created_timestamp"),
        "content": decoded_text(row.get("content_json"), path, where, tally),
        "metadata": decoded_text(row.get("metadata_json"), path, where, tally),
    }


def _batch(
    about: dict[str, Any], messages: Iterable[dict[str, Any]], path: str, tally: Tally
) -> Batch | None:
    """A session as a trace, None where no model spoke."""
    told = [*messages]
    if not any(each.get("role") == "assistant" for each in told):
        return None
    name = word(about.get("id")) or derived_id(NAME, *told[:4])
    builder = _SpanBuilder(name, word(about.get("model")), tally)
    for index, each in enumerate(told):
        builder.build(index, each)
    spans = builder.finish()
    times = [at for each in told if (at := _at_ns(each)) is not None]
    start_ns = ns(about.get("created_at"))
    times += [start_ns] if start_ns is not None else []
    tokens = {key: value for key in _TOKENS if (value := count(about.get(key))) is not None}
    if tokens:
        tally.problem(f"session {name}", "its tokens are of the whole session, not of each call")
    root = AgentSpan(
        id=name,
        name=NAME,
        start_ns=min(times, default=None),
        end_ns=max(times, default=None),
        time_quality="derived" if times else "none",
        place=Place(span=name),
        extra=known(session_tokens=tokens, session_type=word(about.get("session_type"))),
    )
    title = word(about.get("name")) or word(about.get("description")) or builder.asked
    header = Header(
        format=NAME,
        source_id=name,
        path=path,
        title=title_line(title),
        agent=NAME,
        labels={"cwd": cwd} if (cwd := word(about.get("working_dir"))) else {},
        start_ns=root.start_ns,
        end_ns=root.end_ns,
    )
    tally.counts["sessions"] += 1
    return Batch(header=header, spans=(root, *spans), last=True)


def _at_ns(message: dict[str, Any]) -> int | None:
    """Seconds; a few releases wrote milliseconds."""
    at = count(message.get("created"))
    return seconds_ns(at / 1000 if at is not None and at > 2**36 else at)


class _SpanBuilder:
    """Tells a session message by message. `_answer` are the blocks of the answer being written:
    what the model says without a word between is one."""

    def __init__(self, parent: str, model: str | None, tally: Tally) -> None:
        self.asked: str | None = None
        self._parent, self._tally = parent, tally
        self._thread = Thread(
            parent=parent, request=Request(model=model), fidelity=without_tools(None), tally=tally
        )
        self._answer: list[Json] = []
        self._begun = 0
        self._heard_ns: int | None = None
        self._ended_ns: int | None = None

    def build(self, index: int, message: dict[str, Any]) -> None:
        self._tally.counts["messages"] += 1
        role, at_ns = word(message.get("role")), _at_ns(message)
        blocks = [*map(obj, listed(message.get("content")))]
        seen = [block for block in blocks if word(block.get("type")) not in _UNSEEN]
        if not seen:
            return
        if role == "assistant":
            if not self._answer:
                self._begun = index
            self._answer += _answer_blocks(seen, self._tally)
            self._ended_ns = at_ns
            return
        self._close()
        if role != "user":
            self._tally.unknown[role or "message without a role"] += 1
            return
        self._add_input(index, seen, obj(message.get("metadata")), at_ns)

    def finish(self) -> tuple[AnySpan, ...]:
        self._close()
        for call in self._thread.open_calls():
            self._tally.problem(f"message {call.place.message}", f"{call.name} has no response")
        return self._thread.spans()

    def _add_input(
        self, index: int, blocks: list[dict[str, Any]], about: dict[str, Any], at_ns: int | None
    ) -> None:
        content, errors = _input_blocks(blocks, self._tally)
        message = Message(dialect="anthropic", body={"role": "user", "content": content})
        if about.get("agentVisible") is True and about.get("userVisible") is False and not errors:
            self._thread.reset(message)
            self._thread.weaken(SUMMARY)
            return
        self._thread.add_message(message, place=Place(message=index), at_ns=at_ns, errors=errors)
        self.asked = self.asked or text(message)
        self._heard_ns = at_ns or self._heard_ns

    def _close(self) -> None:
        blocks, self._answer = self._answer, []
        if not blocks:
            return
        message = Message(dialect="anthropic", body={"role": "assistant", "content": blocks})
        turn = Turn(
            id=derived_id(self._parent, "answer", self._begun),
            response=Response(model=self._thread.request.model),
            start_ns=self._heard_ns,
            end_ns=self._ended_ns,
            time_quality="none" if self._ended_ns is None else "derived",
            place=Place(message=self._begun),
        )
        self._thread.add_model_call(message, turn)
        self._heard_ns = self._ended_ns or self._heard_ns


def _answer_blocks(blocks: list[dict[str, Any]], tally: Tally) -> list[Json]:
    """What the model said, as Anthropic's blocks."""
    found: list[Json] = []
    for block in blocks:
        kind = word(block.get("type"))
        if kind in _REQUESTS:
            asked = obj(obj(block.get("toolCall")).get("value"))
            found.append({
                "type": "tool_use", "id": word(block.get("id")),
                "name": word(asked.get("name")) or "unknown tool",
                "input": asked.get("arguments") or {},
            })  # fmt: skip
        elif kind in ("thinking", "text"):
            found.append(block)
        elif kind == "redactedThinking":
            found.append({"type": "redacted_thinking", "data": block.get("data")})
        else:
            tally.unknown[kind or "block without a type"] += 1
    return found


def _input_blocks(blocks: list[dict[str, Any]], tally: Tally) -> tuple[list[Json], dict[str, str]]:
    """(what the model was told, as Anthropic's blocks; why calls failed)."""
    found: list[Json] = []
    errors: dict[str, str] = {}
    for block in blocks:
        kind = word(block.get("type"))
        if kind == "toolResponse":
            call_id, back = word(block.get("id")), obj(block.get("toolResult"))
            value = back.get("value")
            shown = _parts(obj(value).get("content") if isinstance(value, dict) else value)
            failed = back.get("status") == "error" or obj(value).get("isError") is True
            why = word(back.get("error")) or text(
                Message(dialect="anthropic", body={"role": "user", "content": shown})
            )
            if failed and call_id is not None:
                errors[call_id] = why or "error"
            content = shown or ([{"type": "text", "text": why}] if failed and why else [])
            found.append({"type": "tool_result", "tool_use_id": call_id, "content": content})
        elif kind == "image":
            found += _parts([block])
        elif kind == "text":
            found.append(block)
        else:
            tally.unknown[kind or "block without a type"] += 1
    return found, errors


def _parts(content: Json) -> list[Json]:
    """Texts, images and resources of MCP as blocks."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    found: list[Json] = []
    for part in map(obj, listed(content)):
        if part.get("type") == "image":
            source = {"media_type": part.get("mimeType"), "data": part.get("data")}
            found.append({"type": "image", "source": {"type": "base64", **source}})
        elif isinstance(part.get("text"), str):
            found.append({"type": "text", "text": part["text"]})
        elif part:
            found.append({"type": "text", "text": msgspec.json.encode(part).decode()})
    return found
