"""OpenClaw sessions, and those of pi, whose files they are: JSON lines, a tree of entries.

One trace a session. Neither system prompt nor tool definitions are recorded. The gateway's own
greetings in the model's name are heard and are no calls. A session's order is known at its end
only, so a file is held whole while it is read.

Entries form a tree: each names its parent, and going back to an earlier one begins a new branch.
The way from the last entry to the root is the thread, the rest are abandoned branches. Sessions of
the first version name no parents and are in the order of their lines. What a call saw is what
stands between it and the root, or the last compaction with what that kept. An answer that ended in
an error was not sent again.

The session's own shape of messages (texts, thinking and calls in one list, results with `isError`)
is that of the Messages API under other names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import Struct, structs

from replay.errors import BadTrace
from replay.formats import common
from replay.formats.chat import cut, title_line
from replay.formats.common import (
    count,
    derived_id,
    known,
    listed,
    ms_ns,
    ns,
    obj,
    recorded,
    usd,
    word,
)
from replay.formats.dialogue import Thread, Turn
from replay.formats.source import HEAD_BYTES, Head, Source, Tally, decoded
from replay.messages import text
from replay.trace import (
    NO_SYSTEM,
    NO_TOOLS,
    AgentSpan,
    AnySpan,
    Batch,
    Context,
    Cost,
    Fidelity,
    Header,
    Json,
    Level,
    Message,
    Place,
    Request,
    Response,
    ToolCall,
    Usage,
)

NAME = "openclaw"
TITLE = "OpenClaw and pi sessions"
FILES = ".jsonl"
FIDELITY = (Level.PARTIAL,)
LACKS = "the system prompt and the tools"
VERIFIED = "real files"

_HEADER = re.compile(rb'\{"type"\s*:\s*"session",[^\n]*\}')
_NOISE = ("A new session was started via /", "[cron:", "<")
_LONG_LINE = (rb'"type"\s*:\s*"message"', rb'"parentId"\s*:', rb'"message"\s*:\s*\{\s*"role"')


def sniff(head: Head) -> bool:
    """Noise may stand before the first line, and a line may be longer than the head."""
    if any(is_entry(decoded(line)) for line in head.lines()[:50]):
        return True
    return len(head.data) >= HEAD_BYTES and head.starts(b"{") and head.has(*_LONG_LINE)


def read(source: Source, tally: Tally) -> Iterator[Batch]:
    """One trace. Raises BadTrace where no entry is a message."""
    found = entries(source.records(tally), tally)
    if not any(entry.kind == MESSAGE for entry in found):
        raise BadTrace(source.display, "", "contains no message of an OpenClaw session")
    about = _about(source, found)
    name = word(about.get("id")) or derived_id(NAME, *(entry.record for entry in found[:5]))
    tally.counts["sessions"] += 1
    main, *branches = strands(found)
    after: dict[int, Seen] = {}
    teller, spans, signals = _batches(name, main, branches, after, tally)
    times = [entry.at_ns for entry in found if entry.at_ns is not None]
    start_ns, end_ns = (min(times), max(times)) if times else (None, None)
    root = AgentSpan(
        id=name,
        name=NAME,
        start_ns=start_ns,
        end_ns=end_ns,
        time_quality="derived" if times else "none",
        place=Place(span=name),
        extra=known(
            cwd=word(about.get("cwd")),
            signals=signals,
            unanswered=[message.body for message in teller.unanswered],
        ),
    )
    header = Header(
        format=NAME,
        source_id=name,
        path=source.display,
        title=_title(found, main, after),
        agent=NAME,
        labels=_labels(about),
        start_ns=start_ns,
        end_ns=end_ns,
    )
    yield Batch(header=header, spans=(root, *spans), last=True)


def _batches(
    root: str,
    main: list[Entry],
    branches: list[list[Entry]],
    after: dict[int, Seen],
    tally: Tally,
) -> tuple[SpanBuilder, list[AnySpan], list[dict[str, Json]]]:
    """The thread and its branches, in the order of the lines: each forks off an earlier one."""
    teller = SpanBuilder(root, after, tally)
    tellers: dict[int, tuple[SpanBuilder, AgentSpan | None]] = {
        entry.number: (teller, None) for entry in main
    }
    beside: list[tuple[SpanBuilder, AgentSpan]] = []
    signals: list[dict[str, Json]] = []
    for branch in branches:
        span = _branch(root, branch)
        beside.append((SpanBuilder(span.id, after, tally), span))
        tellers |= {entry.number: beside[-1] for entry in branch}
        if any(entry.kind == MESSAGE for entry in branch):
            signals.append(signal("rewind", branch[-1]))
    for entry in sorted((*main, *(e for b in branches for e in b)), key=lambda e: e.number):
        tellers[entry.number][0].build(entry)
    spans = teller.spans()
    signals += teller.signals
    for other, span in beside:
        inner = other.spans()
        signals += other.signals
        if inner:
            left = [message.body for message in other.unanswered]
            spans += [structs.replace(span, extra=span.extra | known(unanswered=left)), *inner]
    return teller, spans, sorted(signals, key=lambda each: each["line"])


def _branch(root: str, branch: list[Entry]) -> AgentSpan:
    times = [entry.at_ns for entry in branch if entry.at_ns is not None]
    return AgentSpan(
        id=derived_id(root, "abandoned branch", branch[0].number),
        name="abandoned branch",
        parent=root,
        start_ns=min(times, default=None),
        end_ns=max(times, default=None),
        time_quality="derived" if times else "none",
        status="ok",
        place=branch[0].place,
        extra={"abandoned": True},
    )


def _about(source: Source, found: list[Entry]) -> dict[str, Any]:
    """The session's first line, read out of a line with noise before it where need be."""
    own = next((entry.record for entry in found if entry.kind == "session"), None)
    if own is not None:
        return own
    first = _HEADER.search(source.head.data)
    return obj(decoded(first[0])) if first is not None else {}


def _title(found: list[Entry], main: list[Entry], after: dict[int, Seen]) -> str | None:
    """The session's name, else what the user first asked."""
    for entry in reversed(found):
        name = word(entry.record.get("name")) if entry.kind == "session_info" else None
        if name is not None:
            return cut(name)
    asked = (after[entry.number].message for entry in main if entry.role == "user")
    for shown in (text(message).strip() for message in asked if isinstance(message, Message)):
        if shown and not shown.startswith(_NOISE):
            return title_line(shown)
    return None


def _labels(about: dict[str, Any]) -> dict[str, str]:
    found = {"cwd": word(about.get("cwd")), "forked_from": word(about.get("parentSession"))}
    return {name: value for name, value in found.items() if value is not None}


# --- the tree of entries

MESSAGE, COMPACTION = "message", "compaction"
SUMMARY, CUSTOM = "branch_summary", "custom_message"
_SILENT = {"custom", "label", "model_change", "session", "session_info", "thinking_level_change"}
_KNOWN = {MESSAGE, COMPACTION, SUMMARY, CUSTOM} | _SILENT


class Entry(Struct, frozen=True, kw_only=True, eq=False):
    """One line. `above` is the entry it follows, `at_ns` when it was written."""

    number: int
    kind: str
    record: dict[str, Json]
    id: str | None
    above: Entry | None
    at_ns: int | None

    @property
    def message(self) -> dict[str, Json]:
        return obj(self.record.get("message"))

    @property
    def role(self) -> str:
        return word(self.message.get("role")) or ""

    @property
    def place(self) -> Place:
        return Place(span=self.id, message=self.number - 1, line=self.number)


def is_entry(record: Json) -> bool:
    """Does this JSON value stand in such a session?"""
    if not isinstance(record, dict):
        return False
    if record.get("type") == "session":
        return {"id", "timestamp", "cwd"} <= record.keys()
    placed = {"id", "parentId", "timestamp"} <= record.keys()
    said = record.get("message")
    return placed and record.get("type") == MESSAGE and isinstance(said, dict) and "role" in said


def entries(records: Iterable[tuple[int, dict[str, Any]]], tally: Tally) -> list[Entry]:
    """The entries of a session in the order of their lines; kinds not known are counted."""
    found: list[Entry] = []
    home: dict[str, Entry] = {}
    for number, record in records:
        kind = word(record.get("type")) or ""
        tally.counts["messages" if kind == MESSAGE else "other_entries"] += 1
        if kind not in _KNOWN:
            tally.unknown[kind or "entry without a type"] += 1
        entry = Entry(
            number=number,
            kind=kind,
            record=record,
            id=word(record.get("id")),
            above=_above(record, found, home, tally, number),
            at_ns=ns(record.get("timestamp")),
        )
        found.append(entry)
        if entry.id is not None and kind != "session":
            if entry.id in home:
                tally.problem(f"line {number}", f"a second entry has the id {entry.id}")
            home[entry.id] = entry
    return found


def _above(
    record: dict[str, Any],
    found: list[Entry],
    home: dict[str, Entry],
    tally: Tally,
    number: int,
) -> Entry | None:
    """The entry named as parent. Files only grow at their end, so it stands before its child."""
    previous = found[-1] if found else None
    if "parentId" not in record:
        return previous
    named = word(record["parentId"])
    if named is None:
        return None
    if named not in home:
        tally.problem(f"line {number}", f"its parent {named} does not precede it in the file")
    return home.get(named, previous)


def strands(found: list[Entry]) -> list[list[Entry]]:
    """The thread, then the abandoned branches; each begins below an entry of an earlier one."""
    main: set[int] = set()
    entry = found[-1] if found else None
    while entry is not None:
        main.add(entry.number)
        entry = entry.above
    strands: list[list[Entry]] = [[each for each in found if each.number in main]]
    tips: dict[int, list[Entry]] = {}
    for entry in found:
        if entry.number in main:
            continue
        strand = tips.pop(entry.above.number, None) if entry.above is not None else None
        if strand is None:
            strand = []
            strands.append(strand)
        strand.append(entry)
        tips[entry.number] = strand
    return strands


# --- a strand as spans

WORDED = "some messages not recorded as the model saw them"
_BROKEN = {"error", "aborted"}
_MOST_KEPT = 200_000
"""Messages that all compactions of a strand may keep; a file that keeps more is not honest."""


class Seen(Struct, frozen=True, kw_only=True, eq=False):
    """What the model had seen behind an entry, how well that is known, and the entry's message."""

    context: Context | None = None
    fidelity: Fidelity = Fidelity(level=Level.PARTIAL, reasons=(NO_SYSTEM, NO_TOOLS))
    message: Message | None = None


NOTHING = Seen()


class SpanBuilder:
    """Tells a strand entry by entry. `after` is what had been seen behind each, by its number."""

    def __init__(self, parent: str, after: dict[int, Seen], tally: Tally) -> None:
        self.after = after
        self.signals: list[dict[str, Json]] = []
        self.unanswered: list[Message] = []
        self._parent, self._tally = parent, tally
        self._thread: Thread | None = None
        self._kept_messages = 0

    def build(self, entry: Entry) -> None:
        thread = self._thread = self._thread or self._begun(entry)
        message = None
        if entry.kind == MESSAGE and entry.role == "assistant":
            message = self._add_model_call(thread, entry)
        elif entry.kind == COMPACTION:
            self._compacted(thread, entry)
        else:
            message = self._add_input(thread, entry)
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

    def _add_input(self, thread: Thread, entry: Entry) -> Message | None:
        message = input_message(entry)
        if message is None:
            return None
        at_ns = _at_ns(entry) or entry.at_ns
        thread.add_message(message, place=entry.place, at_ns=at_ns, errors=_error(entry))
        if entry.kind == SUMMARY or entry.role in ("bashExecution", "branchSummary"):
            thread.weaken(WORDED)
        if entry.role == "user":
            self.unanswered.append(message)
        return message

    def _add_model_call(self, thread: Thread, entry: Entry) -> Message:
        message = answer(entry)
        if is_injected(entry):
            thread.add_message(message)
            return message
        turn = _turn(entry, derived_id(self._parent, entry.number))
        asked_after = thread.context
        model = word(entry.message.get("model"))
        thread.request = structs.replace(thread.request, model=model)
        thread.add_model_call(message if message.body["content"] else None, turn)
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
        first = [user(summary)] if summary else []
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
    return common.total_usage(total, out, read=read, write=write)


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
            stop=common.stop(raw),
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
    return ms_ns(entry.message.get("timestamp"))


def _call_times(span: AnySpan) -> AnySpan:
    """When a call was made is not told: it is taken to be the end of the answer that asked."""
    if not isinstance(span, ToolCall) or span.time_quality != "exact":
        return span
    return structs.replace(span, time_quality="derived")


# --- messages in Anthropic's shape


def answer(entry: Entry) -> Message:
    """What the model said."""
    content = blocks(entry.message.get("content"))
    return Message(dialect="anthropic", body={"role": "assistant", "content": content})


def input_message(entry: Entry) -> Message | None:
    """What the model hears of an entry, None for nothing."""
    if entry.kind == SUMMARY:
        summary = word(entry.record.get("summary"))
        return user(summary) if summary else None
    if entry.kind == CUSTOM:
        return user(blocks(entry.record.get("content")))
    if entry.kind != MESSAGE:
        return None
    message = entry.message
    if entry.role == "toolResult":
        return _result(message)
    if entry.role == "bashExecution":
        if message.get("excludeFromContext") is True:
            return None
        return user(f"$ {word(message.get('command')) or ''}\n{word(message.get('output')) or ''}")
    content = message.get("content", message.get("summary"))
    return user(content if isinstance(content, str) else blocks(content))


def user(content: Json) -> Message:
    return Message(dialect="anthropic", body={"role": "user", "content": content})


def _result(message: dict[str, Json]) -> Message:
    block: dict[str, Json] = {
        "type": "tool_result",
        "tool_use_id": word(message.get("toolCallId")),
        "content": blocks(message.get("content")),
    }
    if message.get("isError") is True:
        block["is_error"] = True
    return user([block])


def blocks(content: Json) -> list[Json]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    return [_block(each) for each in listed(content) if each is not None]


def _block(each: Json) -> Json:
    block = obj(each)
    kind = block.get("type")
    if kind == "toolCall":
        given = block.get("arguments")
        return {
            "type": "tool_use",
            "id": word(block.get("id")),
            "name": word(block.get("name")) or "",
            "input": {} if given is None else given,
        }
    if kind == "thinking":
        signature = word(block.get("thinkingSignature"))
        thought = {"type": "thinking", "thinking": word(block.get("thinking")) or ""}
        return thought | ({"signature": signature} if signature else {})
    if kind == "image" and "data" in block:
        media = {"media_type": word(block.get("mimeType")), "data": word(block["data"])}
        return {"type": "image", "source": {"type": "base64", **media}}
    return each
