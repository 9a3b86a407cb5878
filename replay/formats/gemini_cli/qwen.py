"""Sessions of Qwen Code, a fork of Gemini CLI: `~/.qwen/projects/*/chats/<session>.jsonl`.

Contents are Gemini's; the envelope is its own. A line is an answer, or what the model was told: by
a person, or by the calls of an answer. It names the line that it follows (`parentUuid`), so that
going back leaves a branch. Older releases wrote Gemini CLI's files.
"""

from __future__ import annotations

from typing import Any

from replay.formats.common import count, known, listed, obj, word
from replay.formats.gemini_cli.thread import HISTORY, Record, Session, as_message
from replay.formats.source import Head, Source, Tally, decoded
from replay.trace import Json, Place

AGENT = "qwen-code"

_SPOKEN = {"user": "user", "tool_result": "user", "assistant": "gemini"}
_BESIDE = {
    "at_command", "attribution_snapshot", "file_history_snapshot", "session_recap", "slash_command",
    "ui_telemetry",
}  # fmt: skip
"""Lines that the client keeps for itself; no model sees them."""


def is_qwen(head: Head) -> bool:
    """Does a line of the head hold Gemini's contents in Qwen's envelope?"""
    return any(_is_line(obj(decoded(line))) for line in head.lines()[:40])


def _is_line(record: dict[str, Any]) -> bool:
    if not isinstance(record.get("sessionId"), str) or "parentUuid" not in record:
        return False
    if word(record.get("type")) == "system":
        return "systemPayload" in record
    return isinstance(obj(record.get("message")).get("parts"), list)


def qwen_session(source: Source, tally: Tally) -> Session:
    """The records of a session in their order."""
    reading = _Reading(tally)
    for number, line in source.records(tally):
        reading.read(number, line)
    return reading.session()


class _Reading:
    """Reads the lines. `_last` has, by line, the record that what follows the line comes after."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._about: dict[str, Json] = {}
        self._records: list[Record] = []
        self._rewinds: list[Place] = []
        self._last: dict[str | None, Record | None] = {None: None}
        self._latest: Record | None = None

    def session(self) -> Session:
        return Session(
            about=self._about,
            records=self._records,
            tip=self._latest,
            rewinds=self._rewinds,
            agent=AGENT,
        )

    def read(self, number: int, line: dict[str, Any]) -> None:
        place = Place(span=word(line.get("uuid")), message=number - 1, line=number)
        for name in ("sessionId", "cwd", "version", "gitBranch"):
            self._about.setdefault(name, word(line.get(name)))
        record = self._record(line, place)
        after = self._last.get(word(line.get("parentUuid")), self._latest)
        if record is not None:
            record.after = after
            self._records.append(record)
            after = record
        self._latest = after
        self._last[place.span] = after

    def _record(self, line: dict[str, Any], place: Place) -> Record | None:
        """What the line adds to the conversation, None where it is nothing."""
        kind, sub = word(line.get("type")) or "", word(line.get("subtype"))
        payload = obj(line.get("systemPayload"))
        if kind in _SPOKEN:
            self._tally.counts["messages"] += 1
            value = _value(_SPOKEN[kind], line)
            calls = [obj(part).get("functionCall") for part in value["content"]]
            self._tally.counts["tool_calls"] += sum(bool(call) for call in calls)
            return Record(kind=_SPOKEN[kind], value=value, place=place)
        if kind != "system":
            self._tally.unknown[kind or "line without a type"] += 1
        elif sub == "chat_compression":
            kept = [as_message(each) for each in listed(payload.get("compressedHistory"))]
            return Record(kind=HISTORY, value={"messages": kept}, place=place)
        elif sub == "rewind":
            self._rewinds.append(place)
        elif sub == "custom_title":
            self._about["summary"] = payload.get("customTitle")
        elif sub not in _BESIDE:
            self._tally.unknown[f"system {sub}" if sub else "system"] += 1
        return None


def _value(kind: str, line: dict[str, Any]) -> dict[str, Json]:
    """The line as Gemini CLI would have written it."""
    return {
        "type": kind,
        "content": listed(obj(line.get("message")).get("parts")),
        **known(
            timestamp=line.get("timestamp"),
            model=line.get("model"),
            tokens=_tokens(obj(line.get("usageMetadata"))),
            status=obj(line.get("toolCallResult")).get("status"),
        ),
    }


def _tokens(given: dict[str, Any]) -> dict[str, Json]:
    """Whether the answer's tokens count its thoughts hangs on the provider; the sum tells."""
    total, asked = count(given.get("totalTokenCount")), count(given.get("promptTokenCount"))
    said, thought = count(given.get("candidatesTokenCount")), count(given.get("thoughtsTokenCount"))
    if total and asked is not None and said is not None and total == asked + said:
        said -= min(thought or 0, said)
    return known(
        input=asked,
        output=said,
        thoughts=thought,
        cached=count(given.get("cachedContentTokenCount")),
    )
