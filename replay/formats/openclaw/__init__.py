"""OpenClaw sessions, and those of pi, whose files they are: JSON lines, a tree of entries.

One trace a session. Neither system prompt nor tool definitions are recorded. The gateway's own
greetings in the model's name are heard and are no calls. A session's order is known at its end
only, so a file is held whole while it is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from msgspec import structs

from replay.errors import BadTrace
from replay.formats.chat import cut
from replay.formats.fields import known, obj, word
from replay.formats.intake import HEAD_BYTES, Head, Source, Tally, decode
from replay.formats.normal import derived_id
from replay.formats.openclaw.entries import MESSAGE, Entry, entries, is_entry, strands
from replay.formats.openclaw.thread import Seen, Teller, signal
from replay.messages import text
from replay.trace import AgentSpan, AnySpan, Batch, Header, Json, Level, Message, Place

NAME = "openclaw"
TITLE = "OpenClaw and pi sessions"
FILES = ".jsonl"
FIDELITY = (Level.PARTIAL,)
LACKS = "system prompt and tools"

_HEADER = re.compile(rb'\{"type"\s*:\s*"session",[^\n]*\}')
_NOISE = ("A new session was started via /", "[cron:", "<")
_LONG_LINE = (rb'"type"\s*:\s*"message"', rb'"parentId"\s*:', rb'"message"\s*:\s*\{\s*"role"')


def sniff(head: Head) -> bool:
    """Noise may stand before the first line, and a line may be longer than the head."""
    if any(is_entry(_decoded(line)) for line in head.lines()[:50]):
        return True
    return len(head.data) >= HEAD_BYTES and head.starts(b"{") and head.has(*_LONG_LINE)


def read(source: Source, tally: Tally) -> Iterator[Batch]:
    """One trace. Raises BadTrace where no entry is a message."""
    found = entries(source.records(tally), tally)
    if not any(entry.kind == MESSAGE for entry in found):
        raise BadTrace(source.display, "", "holds no message of an OpenClaw session")
    about = _about(source, found)
    name = word(about.get("id")) or derived_id(NAME, *(entry.record for entry in found[:5]))
    tally.counts["sessions"] += 1
    main, *branches = strands(found)
    after: dict[int, Seen] = {}
    teller, spans, signals = _told(name, main, branches, after, tally)
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


def _told(
    root: str,
    main: list[Entry],
    branches: list[list[Entry]],
    after: dict[int, Seen],
    tally: Tally,
) -> tuple[Teller, list[AnySpan], list[dict[str, Json]]]:
    """The thread and its branches, in the order of the lines: each forks off an earlier one."""
    teller = Teller(root, after, tally)
    tellers: dict[int, tuple[Teller, AgentSpan | None]] = {
        entry.number: (teller, None) for entry in main
    }
    beside: list[tuple[Teller, AgentSpan]] = []
    signals: list[dict[str, Json]] = []
    for branch in branches:
        span = _branch(root, branch)
        beside.append((Teller(span.id, after, tally), span))
        tellers |= {entry.number: beside[-1] for entry in branch}
        if any(entry.kind == MESSAGE for entry in branch):
            signals.append(signal("rewind", branch[-1]))
    for entry in sorted((*main, *(e for b in branches for e in b)), key=lambda e: e.number):
        tellers[entry.number][0].tell(entry)
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
    return obj(_decoded(first[0])) if first is not None else {}


def _title(found: list[Entry], main: list[Entry], after: dict[int, Seen]) -> str | None:
    """The session's name, else what the user first asked."""
    for entry in reversed(found):
        name = word(entry.record.get("name")) if entry.kind == "session_info" else None
        if name is not None:
            return cut(name)
    asked = (after[entry.number].message for entry in main if entry.role == "user")
    for shown in (text(message).strip() for message in asked if isinstance(message, Message)):
        if shown and not shown.startswith(_NOISE):
            return cut(shown.splitlines()[0])
    return None


def _labels(about: dict[str, Any]) -> dict[str, str]:
    found = {"cwd": word(about.get("cwd")), "forked_from": word(about.get("parentSession"))}
    return {name: value for name, value in found.items() if value is not None}


def _decoded(line: bytes) -> Json:
    try:
        return decode(line, "", "")
    except BadTrace:
        return None
