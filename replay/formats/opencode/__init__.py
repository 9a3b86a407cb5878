"""opencode sessions: `opencode export`, its storage folder, and its database.

One trace a session that no other sent; the sessions of its sub-agents are threads below the calls
that sent them, where they are at hand (an export holds none). The system prompt is known in early
releases alone, the tools offered never.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from replay.errors import BadTrace
from replay.formats.chat import cut
from replay.formats.common import derived_id, known, obj, seconds_ns, word
from replay.formats.database import MAGIC, tables
from replay.formats.opencode import stored, thread
from replay.formats.opencode.stored import Session
from replay.formats.opencode.thread import SpanBuilder, speaker
from replay.formats.source import Head, Source, Tally
from replay.messages import observed
from replay.trace import AgentSpan, AnySpan, Batch, Header, Json, Level, Place, ToolCall

NAME = "opencode"
TITLE = "opencode sessions"
FILES = ".json exports, opencode's storage folder, opencode.db"
FIDELITY = (Level.PARTIAL,)
LACKS = "the tools; mostly the system prompt"

_TABLES = {"session", "message", "part"}
_ABOUT = (rb'"id"\s*:\s*"ses', rb'"title"\s*:', rb'"time"\s*:\s*\{\s*"created"\s*:\s*\d')
_EXPORT = (rb'\A\W*"info"\s*:\s*\{', rb'"messages"\s*:\s*\[', rb'"sessionID"\s*:')
_UNNAMED = re.compile(r"(New|Child) session - \d{4}-")


def sniff(head: Head) -> bool:
    """A database is opencode's by its tables."""
    found = tables(head)
    if found is not None:
        return found >= _TABLES
    if not head.starts(b"{") or not head.has(*_ABOUT):
        return False
    return head.has(*_EXPORT) or (head.has(rb'"version"\s*:') and not head.has(rb'"role"\s*:'))


def part_of(path: Path) -> Path | None:
    """The session file that this file of the storage folder is read with."""
    return stored.main_file(path)


def read(source: Source, tally: Tally) -> Iterator[Batch]:
    """One trace a session. Raises BadTrace where the source holds none."""
    found = 0
    for session in _sessions(source, tally):
        found += 1
        yield _trace(session, source, tally)
    if not found:
        raise BadTrace(source.display, "", "holds no opencode session with messages")


def _sessions(source: Source, tally: Tally) -> Iterator[Session]:
    """Those with messages; a session that was opened and left holds none."""
    if source.head.data.startswith(MAGIC):
        found = stored.in_database(source, tally)
    else:
        found = iter([_of_document(source, tally)])
    for session in found:
        if session.messages:
            yield session
        else:
            tally.problem(session.id or "session", "has no messages")


def _of_document(source: Source, tally: Tally) -> Session:
    document = source.document()
    if not isinstance(document, dict):
        raise BadTrace(source.display, "", "is not an object")
    if isinstance(document.get("info"), dict):
        return stored.exported(document, tally)
    if stored.is_session(document) and source.display != "-":
        return stored.in_folder(source, document, tally)
    raise BadTrace(source.display, "", "is neither an export nor the file of a session")


def _trace(session: Session, source: Source, tally: Tally) -> Batch:
    name = session.id or derived_id(NAME, *(each.info for each in session.messages))
    seen = {name}
    root, *spans = _agent(session, name, NAME, None, tally, seen)
    info = session.info
    header = Header(
        format=NAME,
        source_id=name,
        path=source.display,
        title=_title(session),
        agent=NAME,
        labels=_labels(info),
        reported_cost_usd=getattr(thread.cost(info.get("cost")), "usd", None),
        start_ns=root.start_ns,
        end_ns=root.end_ns,
    )
    return Batch(header=header, spans=(root, *spans), last=True)


def _agent(
    session: Session, name: str, title: str, parent: str | None, tally: Tally, seen: set[str]
) -> list[AnySpan]:
    """The agent span of a session, what it did, and the agents it sent."""
    tally.counts["sessions"] += 1
    teller = SpanBuilder(name, tally)
    teller.build(session)
    spans = teller.spans()
    time = obj(session.info.get("time"))
    start_ns, end_ns = _ns(time.get("created")), _ns(time.get("updated"))
    root = AgentSpan(
        id=name,
        name=title,
        parent=parent,
        start_ns=start_ns,
        end_ns=end_ns,
        time_quality="none" if start_ns is None else "exact",
        status="error" if teller.error is not None else "unset",
        error=teller.error,
        place=Place(span=name),
        extra=known(
            title=word(session.info.get("title")),
            signals=teller.signals,
            unanswered=[message.body for message in teller.unanswered],
            reverted=obj(session.info.get("revert")).get("messageID"),
        ),
    )
    found: list[AnySpan] = [root, *spans]
    for child in session.children:
        if child.id is None or child.id in seen or not child.messages:
            continue
        seen.add(child.id)
        call = _sender(child.id, spans, session)
        kind = next(filter(None, map(speaker, child.messages)), None) or "sub-agent"
        found += _agent(child, child.id, kind, call or name, tally, seen)
    return found


def _sender(child: str, spans: list[AnySpan], session: Session) -> str | None:
    """The call whose metadata or whose result names the session that it sent."""
    named = {
        word(part.get("callID"))
        for written in session.messages
        for part in written.parts
        if obj(obj(part.get("state")).get("metadata")).get("sessionId") == child
    }
    calls = [span for span in spans if isinstance(span, ToolCall)]
    by_name = (call.id for call in calls if call.call_id in named)
    by_result = (
        call.id
        for call in calls
        if call.observation is not None and child in observed(call.observation).text
    )
    return next(by_name, None) or next(by_result, None)


def _title(session: Session) -> str | None:
    """The title opencode gave it, else what the user first asked."""
    given = word(session.info.get("title"))
    if given is not None and not _UNNAMED.match(given):
        return cut(given)
    asked = (
        thread.tool_calls(each.parts)
        for each in session.messages
        if each.info.get("role") == "user"
    )
    text = next(filter(None, asked), None)
    return cut(text.strip().splitlines()[0]) if text is not None else None


def _labels(info: dict[str, Json]) -> dict[str, str]:
    found = {
        "cwd": word(info.get("directory")),
        "version": word(info.get("version")),
        "parent": word(info.get("parentID")),
    }
    return {name: value for name, value in found.items() if value is not None}


def _ns(ms: Json) -> int | None:
    known_ms = isinstance(ms, (int, float)) and not isinstance(ms, bool) and 0 < ms < 2**43
    return seconds_ns(ms / 1000) if known_ms else None
