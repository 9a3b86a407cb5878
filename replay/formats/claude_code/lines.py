"""The lines of a Claude Code recording, out of the three shapes they are written in, and what each
says.

A session file's line (`sessionId`, `uuid`, `parentUuid`), a line of `claude -p --output-format
stream-json` (`session_id`, `parent_tool_use_id`), and that line in a wrapper with the seconds since
some beginning (`{"t", "event"}`) become one `Line`. Which lines belong together, and which repeat
what was said before, is `order`'s question.

Besides what a person and the model said, the model is shown what a local command printed and what a
person wrote while it was at work (an attachment): such lines speak too. A session is held as long
as it is read, so of a line only that is kept which is read of it: what a tool returned stands on
its line twice, and a snapshot of files is as long as the files.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import Struct

from replay.formats.common import ns, obj, seconds_ns, word
from replay.formats.source import Tally
from replay.messages import Result, content_text, results
from replay.trace import Json, Message, Place

_STREAMED = {"system", "assistant", "user", "result"}
_KINDS = _STREAMED | {
    "agent-color", "agent-name", "agent-setting", "ai-title", "attachment",
    "attribution-snapshot", "content-replacement", "custom-title", "file-history-delta",
    "file-history-snapshot", "last-prompt", "mode", "permission-mode", "pr-link", "progress",
    "queue-operation", "relocated", "speculation-accept", "stream_event", "summary", "tag",
    "task-summary", "worktree-state",
}  # fmt: skip
_MESSAGE_KEYS = {
    "agentId", "agentName", "apiErrorStatus", "attributionAgent", "attributionPlugin",
    "attributionSkill", "costUSD", "cwd", "durationMs", "entrypoint", "error", "errorDetails",
    "forkedFrom", "gitBranch", "imagePasteIds", "isApiErrorMessage", "isCompactSummary", "isMeta",
    "isReplay", "isSidechain", "isSynthetic", "isVirtual", "isVisibleInTranscriptOnly",
    "logicalParentUuid", "mcpMeta", "message", "origin", "parentUuid", "parent_tool_use_id",
    "permissionMode", "planContent", "promptId", "requestId", "request_id", "sessionId",
    "session_id", "slug", "sourceToolAssistantUUID", "sourceToolUseID", "teamName",
    "thinkingMetadata", "timestamp", "todos", "toolUseResult", "tool_use_result", "type",
    "userType", "uuid", "version",
}  # fmt: skip
_REPEATED = ("cwd", "gitBranch", "sessionId", "session_id", "version")
"""Fields of nearly every line, with the same few values."""
_READ = {
    *_REPEATED, "costUSD", "error", "forkedFrom", "isApiErrorMessage", "isCompactSummary",
    "isMeta", "parent_tool_use_id", "requestId", "request_id",
}  # fmt: skip
"""What is read of a line that says something, beside its message."""
_MESSAGE_READ = ("id", "model", "stop_reason", "usage")
_BULKY = {"attachment", "data", "hookInfos", "message", "snapshot", "toolUseResult"}
"""What is read of no other line."""
_RESULT_KEYS = ("agentId", "exitCode", "interrupted")


def is_line(record: Json) -> bool:
    """Does this JSON value stand in a Claude Code recording, in any of its shapes?"""
    if not isinstance(record, dict):
        return False
    inner = _unwrapped(record)
    if isinstance(inner.get("session_id"), str):
        return word(inner.get("type")) in _STREAMED and "uuid" in inner
    said = isinstance(inner.get("message"), dict)
    return isinstance(inner.get("sessionId"), str) and (said or "parentUuid" in inner)


def lines(
    records: Iterable[tuple[int, dict[str, Any]]],
    tally: Tally,
    *,
    beside: bool = False,
    listed: bool = False,
) -> Iterator[Line]:
    """The lines of a file, counted. `beside` says that the file belongs to another one, `listed`
    that they stand in a list of one document.

    Only places in the main file carry a message index: labels speak of that file.
    """
    for number, wrapped in records:
        record = _unwrapped(wrapped)
        place = Place(
            span=first_text(record, "uuid"),
            message=None if beside else number - 1,
            line=None if listed else number,
        )
        line = _line(number, record, tally, at_ns=_time(record, wrapped), place=place)
        _count(line, record, tally)
        yield line


def _line(
    number: int, record: dict[str, Json], tally: Tally, *, at_ns: int | None, place: Place
) -> Line:
    raw = record.get("message")
    role = raw.get("role") if isinstance(raw, dict) else None
    kind = first_text(record, "type") or (role if isinstance(role, str) else "")
    kind = sys.intern(kind)
    uuid, parent = first_text(record, "uuid"), first_text(record, "parentUuid", "logicalParentUuid")
    uuid = sys.intern(uuid) if uuid is not None else None  # it is the parent of the next line
    delegated = first_text(record, "parent_tool_use_id")
    speaks, message = _message(kind, record, f"line {number}", tally)
    kept = _kept(record, speaks)
    return Line(
        number=number,
        record=kept,
        kind=kind,
        place=place,
        session=first_text(kept, "sessionId", "session_id"),
        uuid=uuid,
        parent=sys.intern(parent) if parent is not None else None,
        sidechain=record.get("isSidechain") is True or delegated is not None,
        agent=delegated or first_text(record, "agentId"),
        at_ns=at_ns,
        speaks=speaks,
        message=message,
        rich=_rich(record),
        copied="forkedFrom" in record,
    )


def _time(record: dict[str, Json], wrapped: dict[str, Json]) -> int | None:
    return ns(record.get("timestamp")) if record is wrapped else seconds_ns(wrapped.get("t"))


def _kept(record: dict[str, Json], speaks: bool) -> dict[str, Json]:
    """What is read of a line after it was decoded."""
    if speaks:
        kept = {name: value for name, value in record.items() if name in _READ}
        raw = obj(record.get("message"))
        kept["message"] = {name: raw[name] for name in _MESSAGE_READ if name in raw}
    else:
        kept = {name: value for name, value in record.items() if name not in _BULKY}
    for name in _REPEATED:
        if isinstance(kept.get(name), str):
            kept[name] = sys.intern(kept[name])
    return kept


def _rich(record: dict[str, Json]) -> dict[str, Json] | None:
    """What is read of a tool's own account of its result; the result itself is in the message."""
    rich = obj(record.get("toolUseResult", record.get("tool_use_result")))
    return {name: rich[name] for name in _RESULT_KEYS if name in rich} or None


def _unwrapped(record: dict[str, Json]) -> dict[str, Json]:
    event = record.get("event")
    return event if "type" not in record and isinstance(event, dict) else record


def _message(
    kind: str, record: dict[str, Json], where: str, tally: Tally
) -> tuple[bool, Message | None]:
    """(does the line speak, what it says). An answer may be known by its usage alone."""
    if kind in {"system", "attachment"}:
        content = _shown(kind, record)
        if content is None:
            return False, None
        return True, Message(dialect="anthropic", body={"role": "user", "content": content})
    if kind not in {"user", "assistant"} or record.get("isVirtual") is True:
        return False, None
    raw = record.get("message")
    if not isinstance(raw, dict):
        tally.problem(where, "its message is not an object")
        return False, None
    content = raw.get("content")
    if isinstance(content, (str, list)):
        return True, Message(dialect="anthropic", body={"role": kind, "content": content})
    if kind == "assistant" and isinstance(raw.get("usage"), dict):
        return True, None
    tally.problem(where, "its message has no content")
    return False, None


def _shown(kind: str, record: dict[str, Json]) -> Json:
    """What the model is shown of a line beside the conversation, None where it is nothing that
    the line says: the output of a local command, and words written while it was at work."""
    attachment = obj(record.get("attachment"))
    content: Json = None
    if kind == "system" and record.get("subtype") == "local_command":
        content = record.get("content")
    elif attachment.get("type") == "queued_command":
        content = attachment.get("prompt")
    return content if isinstance(content, (str, list)) and content else None


def _count(line: Line, record: dict[str, Json], tally: Tally) -> None:
    tally.counts["events"] += 1
    tally.counts[f"events.{line.kind or 'untyped'}"] += 1
    tally.counts["tool_use"] += len(line.call_ids)
    tally.counts["tool_errors"] += sum(1 for result in line.results if result.is_error)
    if line.kind not in _KINDS:
        tally.unknown[f"type {line.kind}" if line.kind else "no type"] += 1
    elif line.kind in {"user", "assistant"}:
        tally.unknown.update(name for name in record if name not in _MESSAGE_KEYS)


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
    `record` is what is left of the source's line, `rich` what it says of a tool's result beside the
    message. `copied` marks what was said in another session, of which this one goes on.
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
    rich: dict[str, Json] | None = None
    copied: bool = False

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
    def subtype(self) -> str | None:
        """What kind of a system line this is, None for any other line."""
        return self.word("subtype") if self.kind == "system" else None

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
    def call_ids(self) -> list[str | None]:
        """The ids of the tool calls of this line, in their order."""
        return [first_text(b, "id") for b in self.blocks if b.get("type") == "tool_use"]

    @property
    def results(self) -> tuple[Result, ...]:
        """The tool results this line brings."""
        return results(self.message) if self.message is not None else ()

    @property
    def prompt(self) -> str:
        """What a person (or a delegating call) wrote in this line; "" for results alone."""
        if self.kind not in {"user", "attachment"} or self.message is None:
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


def _is_result(block: Json) -> bool:
    return isinstance(block, dict) and block.get("type") == "tool_result"
