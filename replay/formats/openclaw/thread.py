"""One strand of an OpenClaw session told as spans.

What a call saw is what stands between it and the root, or the last compaction with what that kept.
An answer that ended in an error was not sent again.
"""

from __future__ import annotations

from msgspec import Struct, structs

from replay.formats import normal
from replay.formats.dialogue import Thread, Turn
from replay.formats.fields import known, obj, word
from replay.formats.intake import Tally
from replay.formats.normal import count, derived_id, recorded, usd
from replay.formats.openclaw import messages
from replay.formats.openclaw.entries import COMPACTION, MESSAGE, SUMMARY, Entry
from replay.trace import (
    NO_SYSTEM,
    NO_TOOLS,
    AnySpan,
    Context,
    Cost,
    Fidelity,
    Json,
    Level,
    Message,
    Request,
    Response,
    ToolCall,
    Usage,
)

WORDED = "some messages not recorded in the words the model saw"
_STOPS = {"toolUse": "tool_use", "aborted": None}
_BROKEN = {"error", "aborted"}
_MOST_KEPT = 200_000
"""Messages that all compactions of a strand may keep; a file that keeps more is not honest."""


class Seen(Struct, frozen=True, kw_only=True, eq=False):
    """What the model had seen behind an entry, how well that is known, and the entry's message."""

    context: Context | None = None
    fidelity: Fidelity = Fidelity(level=Level.PARTIAL, reasons=(NO_SYSTEM, NO_TOOLS))
    message: Message | None = None


NOTHING = Seen()


class Teller:
    """Tells a strand entry by entry. `after` is what had been seen behind each, by its number."""

    def __init__(self, parent: str, after: dict[int, Seen], tally: Tally) -> None:
        self.after = after
        self.signals: list[dict[str, Json]] = []
        self.unanswered: list[Message] = []
        self._parent, self._tally = parent, tally
        self._thread: Thread | None = None
        self._kept_messages = 0

    def tell(self, entry: Entry) -> None:
        thread = self._thread = self._thread or self._begun(entry)
        message = None
        if entry.kind == MESSAGE and entry.role == "assistant":
            message = self._said(thread, entry)
        elif entry.kind == COMPACTION:
            self._compacted(thread, entry)
        else:
            message = self._heard(thread, entry)
        self.after[entry.number] = Seen(
            context=thread.context, fidelity=thread.fidelity, message=message
        )

    def spans(self) -> list[AnySpan]:
        if self._thread is None:
            return []
        for call in self._thread.open_calls():
            self._tally.problem(f"line {call.place.line}", f"{call.call_id!r} has no result")
        return [_call_times(span) for span in self._thread.spans()]

    def _begun(self, first: Entry) -> Thread:
        seen = self.after.get(first.above.number, NOTHING) if first.above is not None else NOTHING
        return Thread(
            parent=self._parent,
            request=Request(context=seen.context),
            fidelity=seen.fidelity,
            tally=self._tally,
        )

    def _heard(self, thread: Thread, entry: Entry) -> Message | None:
        message = messages.told(entry)
        if message is None:
            return None
        at_ns = _at_ns(entry) or entry.at_ns
        thread.heard(message, place=entry.place, at_ns=at_ns, errors=_error(entry))
        if entry.kind == SUMMARY or entry.role in ("bashExecution", "branchSummary"):
            thread.weaken(WORDED)
        if entry.role == "user":
            self.unanswered.append(message)
        return message

    def _said(self, thread: Thread, entry: Entry) -> Message:
        message = messages.answer(entry)
        if is_injected(entry):
            thread.heard(message)
            return message
        turn = _turn(entry, derived_id(self._parent, entry.number))
        asked_after = thread.context
        model = word(entry.message.get("model"))
        thread.request = structs.replace(thread.request, model=model)
        thread.said(message if message.body["content"] else None, turn)
        if turn.error is not None:
            thread.context = asked_after
            self.signals.append(signal(_failed(entry), entry))
        self.unanswered.clear()
        return message

    def _compacted(self, thread: Thread, entry: Entry) -> None:
        """The summary, then what was kept of the conversation before it."""
        self.signals.append(signal("compaction", entry))
        summary = word(entry.record.get("summary"))
        kept = self._kept(entry)
        first = [messages.user(summary)] if summary else []
        thread.reset(*first, *kept)
        thread.fidelity = NOTHING.fidelity
        thread.weaken(WORDED)

    def _kept(self, entry: Entry) -> list[Message]:
        """The messages from the first kept entry up to here; none where it is not above."""
        first = word(entry.record.get("firstKeptEntryId"))
        found: list[Message] = []
        above = entry.above
        while above is not None:
            message = self.after.get(above.number, NOTHING).message
            if message is not None:
                found.append(message)
            if above.id == first or self._kept_messages + len(found) > _MOST_KEPT:
                break
            above = above.above
        self._kept_messages += len(found)
        return found[::-1] if above is not None and above.id == first else []


def _error(entry: Entry) -> dict[str, str] | None:
    """What a tool says of its own failure beside its result, by the call's id."""
    told, call_id = obj(entry.message.get("details")), word(entry.message.get("toolCallId"))
    if told.get("status") != "error" or call_id is None:
        return None
    return {call_id: word(told.get("error")) or "error"}


def is_injected(entry: Entry) -> bool:
    """Did the gateway write this answer in the model's name?"""
    message = entry.message
    return message.get("provider") == "openclaw" and usage(message.get("usage")) is None


def usage(raw: Json) -> Usage | None:
    """The figures of a call: `input` leaves the cache out. All-zero means unknown."""
    figures = obj(raw)
    fresh, read = count(figures.get("input")), count(figures.get("cacheRead"))
    write, out = count(figures.get("cacheWrite")), count(figures.get("output"))
    total = None if fresh is None else fresh + (read or 0) + (write or 0)
    return normal.total_usage(total, out, read=read, write=write)


def signal(kind: str, entry: Entry) -> dict[str, Json]:
    return {"kind": kind, "message": entry.number - 1, "line": entry.number}


def _failed(entry: Entry) -> str:
    return "interrupt" if entry.message.get("stopReason") == "aborted" else "failed_call"


def _turn(entry: Entry, name: str) -> Turn:
    message, raw = entry.message, word(entry.message.get("stopReason"))
    error = word(message.get("errorMessage")) or raw if raw in _BROKEN else None
    start_ns = _at_ns(entry)
    return Turn(
        id=name,
        response=Response(
            id=word(message.get("responseId")),
            model=word(message.get("model")),
            stop=normal.stop(_STOPS.get(raw or "", raw)),
            stop_raw=raw,
        ),
        usage=usage(message.get("usage")),
        cost=_cost(message.get("usage")),
        start_ns=start_ns,
        end_ns=entry.at_ns,
        time_quality="exact" if start_ns is not None and entry.at_ns is not None else "derived",
        place=entry.place,
        error=error,
        extra=known(provider=word(message.get("provider")), api=word(message.get("api"))),
    )


def _cost(raw: Json) -> Cost | None:
    """The source's own figure. Zero is what it writes where it has no price."""
    return recorded(usd(obj(obj(raw).get("cost")).get("total")) or None)


def _at_ns(entry: Entry) -> int | None:
    """When a message was begun: milliseconds in the message itself."""
    ms = entry.message.get("timestamp")
    if isinstance(ms, bool) or not isinstance(ms, int) or not 0 < ms < 2**43:
        return None
    return ms * 1_000_000


def _call_times(span: AnySpan) -> AnySpan:
    """When a call was made is not told: it is taken to be the end of the answer that asked."""
    if not isinstance(span, ToolCall) or span.time_quality != "exact":
        return span
    return structs.replace(span, time_quality="derived")
