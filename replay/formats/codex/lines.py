"""What does one line of a Codex rollout say?

Three shapes become one `Line`: today's envelope (`timestamp`, `type`, `payload`), the bare items of
rollouts before September 2025, and the one JSON document (`session`, `items`) of the first Codex.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from replay.errors import BadTrace
from replay.formats.fields import listed, obj, word
from replay.formats.intake import Head, Source, Tally, decode
from replay.formats.normal import ns
from replay.trace import Json, Place

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


def decoded(line: bytes) -> Json:
    """The JSON value of a line, None where it is none."""
    try:
        return decode(line, "", "")
    except BadTrace:
        return None


def lines(source: Source, tally: Tally) -> Iterator[Line]:
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
