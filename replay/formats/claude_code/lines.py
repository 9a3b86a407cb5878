"""What does one line of a Claude Code recording say?

Three shapes become one `Line`: a session file's line (`sessionId`, `uuid`, `parentUuid`), a line
of `claude -p --output-format stream-json` (`session_id`, `parent_tool_use_id`), and that line in
a wrapper with the seconds since some beginning (`{"t", "event"}`). Which lines belong together is
`claude_order`'s question.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import Struct

from replay.errors import BadTrace
from replay.formats.intake import Tally, decode
from replay.formats.normal import ns, seconds_ns
from replay.messages import Result, content_text, results
from replay.trace import Json, Message, Place

MAX_DEPTH = 100

_STREAMED = {"system", "assistant", "user", "result"}
_KINDS = _STREAMED | {
    "agent-setting",
    "ai-title",
    "attachment",
    "custom-title",
    "file-history-snapshot",
    "pr-link",
    "progress",
    "queue-operation",
    "stream_event",
    "summary",
}
_MESSAGE_KEYS = {
    "agentId", "costUSD", "cwd", "entrypoint", "error", "gitBranch", "imagePasteIds",
    "isApiErrorMessage", "isCompactSummary", "isMeta", "isReplay", "isSidechain", "isSynthetic",
    "isVisibleInTranscriptOnly", "message", "parentUuid", "parent_tool_use_id", "permissionMode",
    "requestId", "request_id", "sessionId", "session_id", "slug", "sourceToolAssistantUUID",
    "sourceToolUseID", "teamName", "timestamp", "toolUseResult", "tool_use_result", "type",
    "userType", "uuid", "version",
}  # fmt: skip
_NOISE = (
    "<bash-",
    "<command-",
    "<local-command-",
    "<system-reminder>",
    "<task-notification>",
    "<user-prompt-submit-hook>",
    "Caveat: The messages below",
    "[Request interrupted by user",
)


class Line(Struct, frozen=True, kw_only=True, eq=False):
    """One line, out of its wrapper.

    `number` counts from 1 in its file. `kind` is the source's `type`, `agent` names the sub-agent
    a `sidechain` line belongs to: its id, or the id of the call that delegated to it. `speaks`
    tells a usable message line; its `message` is still None where the source kept no content.
    """

    number: int
    record: dict[str, Json]
    kind: str
    place: Place
    session: str | None = None
    uuid: str | None = None
    parent: str | None = None
    sidechain: bool = False
    agent: str | None = None
    at_ns: int | None = None
    speaks: bool = False
    message: Message | None = None

    def flag(self, name: str) -> bool:
        return self.record.get(name) is True

    def word(self, *names: str) -> str | None:
        """The first of these fields that holds a text."""
        return first_text(self.record, *names)

    @property
    def raw_message(self) -> dict[str, Json]:
        """The message with what is not sent back to a model: id, model, usage, stop reason."""
        raw = self.record.get("message")
        return raw if isinstance(raw, dict) else {}

    @property
    def streamed(self) -> bool:
        """Is this a line of `stream-json`, which ends with a result line?"""
        return "session_id" in self.record

    @property
    def answer(self) -> str | None:
        """The id of the API response that an assistant line is a part of."""
        return first_text(self.raw_message, "id")

    @property
    def blocks(self) -> list[dict[str, Json]]:
        content = self.message.body["content"] if self.message is not None else None
        return [b for b in content if isinstance(b, dict)] if isinstance(content, list) else []

    @property
    def asked(self) -> list[str | None]:
        """The ids of the tool calls of this line, in their order."""
        return [first_text(b, "id") for b in self.blocks if b.get("type") == "tool_use"]

    @property
    def results(self) -> tuple[Result, ...]:
        """The tool results this line brings."""
        return results(self.message) if self.message is not None else ()

    @property
    def prompt(self) -> str:
        """What a person (or a delegating call) wrote in this line; "" for results alone."""
        if self.kind != "user" or self.message is None:
            return ""
        content = self.message.body["content"]
        if isinstance(content, list):
            results_out = (b for b in content if not _is_result(b))
            return content_text(list(results_out))
        return content_text(content)


def first_text(record: dict[str, Json], *names: str) -> str | None:
    """The first of these fields that holds a text that is not empty."""
    for name in names:
        value = record.get(name)
        if isinstance(value, str) and value:
            return value
    return None


def is_noise(text: str) -> bool:
    """Is this text of a user line the harness speaking?"""
    return text.lstrip().startswith(_NOISE)


def decoded(line: bytes) -> Json:
    """The JSON value of a line, None where it is none."""
    try:
        return decode(line, "", "")
    except BadTrace:
        return None


def is_line(record: Json) -> bool:
    """Does this JSON value stand in a Claude Code recording, in any of its shapes?"""
    if not isinstance(record, dict):
        return False
    inner = _unwrapped(record)
    if isinstance(inner.get("session_id"), str):
        return inner.get("type") in _STREAMED and "uuid" in inner
    said = isinstance(inner.get("message"), dict)
    return isinstance(inner.get("sessionId"), str) and (said or "parentUuid" in inner)


def lines(
    records: Iterable[tuple[int, dict[str, Any]]], tally: Tally, *, beside: bool = False
) -> Iterator[Line]:
    """The lines of a file, counted. `beside` says that the file belongs to another one.

    Only places in the main file carry a message index: labels speak of that file.
    """
    for number, record in records:
        line = _line(number, record, tally, beside=beside)
        _count(line, tally)
        yield line


def without_repeats(found: Iterable[Line]) -> list[Line]:
    """The lines without those that say again what a line of the same uuid said.

    A resumed session copies history. The uuid alone does not tell: an answer that came in one
    piece is written as several lines of one uuid.
    """
    kept: list[Line] = []
    said: dict[str, list[tuple[str, Message | None]]] = {}
    for line in found:
        before = said.setdefault(line.uuid, []) if line.uuid else []
        if (line.kind, line.message) not in before:
            before.append((line.kind, line.message))
            kept.append(line)
    return kept


def _line(number: int, wrapped: dict[str, Json], tally: Tally, *, beside: bool) -> Line:
    record = _unwrapped(wrapped)
    raw = record.get("message")
    role = raw.get("role") if isinstance(raw, dict) else None
    kind = first_text(record, "type") or (role if isinstance(role, str) else "")
    uuid = first_text(record, "uuid")
    delegated = first_text(record, "parent_tool_use_id")
    speaks, message = _message(kind, raw, f"line {number}", tally)
    return Line(
        number=number,
        record=record,
        kind=kind,
        place=Place(span=uuid, message=None if beside else number - 1, line=number),
        session=first_text(record, "sessionId", "session_id"),
        uuid=uuid,
        parent=first_text(record, "parentUuid", "logicalParentUuid"),
        sidechain=record.get("isSidechain") is True or delegated is not None,
        agent=delegated or first_text(record, "agentId"),
        at_ns=ns(record.get("timestamp")) if record is wrapped else seconds_ns(wrapped.get("t")),
        speaks=speaks,
        message=message,
    )


def _unwrapped(record: dict[str, Json]) -> dict[str, Json]:
    event = record.get("event")
    return event if "type" not in record and isinstance(event, dict) else record


def _message(kind: str, raw: Json, where: str, tally: Tally) -> tuple[bool, Message | None]:
    """(does the line speak, what it says). An answer may be known by its usage alone."""
    if kind not in {"user", "assistant"}:
        return False, None
    if not isinstance(raw, dict):
        tally.problem(where, "its message is not an object")
        return False, None
    content = raw.get("content")
    if _is_deep(content):
        tally.problem(where, f"its message is nested deeper than {MAX_DEPTH} levels")
        return False, None
    if isinstance(content, (str, list)):
        return True, Message(dialect="anthropic", body={"role": kind, "content": content})
    if kind == "assistant" and isinstance(raw.get("usage"), dict):
        return True, None
    tally.problem(where, "its message has no content")
    return False, None


def _is_deep(content: Json) -> bool:
    """Is this nested deeper than those who read it, by recursion, can bear?"""
    level = [content]
    for _ in range(MAX_DEPTH):
        inner: list[Json] = []
        for value in level:
            if isinstance(value, dict):
                inner.extend(value.values())
            elif isinstance(value, list):
                inner.extend(value)
        if not inner:
            return False
        level = inner
    return True


def _is_result(block: Json) -> bool:
    return isinstance(block, dict) and block.get("type") == "tool_result"


def _count(line: Line, tally: Tally) -> None:
    tally.counts["events"] += 1
    tally.counts[f"events.{line.kind or 'untyped'}"] += 1
    tally.counts["tool_use"] += len(line.asked)
    tally.counts["tool_errors"] += sum(1 for result in line.results if result.is_error)
    if line.kind not in _KINDS:
        tally.unknown[f"type {line.kind}" if line.kind else "no type"] += 1
    elif line.kind in {"user", "assistant"}:
        tally.unknown.update(name for name in line.record if name not in _MESSAGE_KEYS)
