"""`arc verify`: is what is stored still what was written?

Every digest is derived again from the content it stands for. A tape is coherent when every result
answers a call and each context extends the one before it in its thread; where it is not, that is
said, but it is a property of the recording, not damage. What is kept beside the tape, `beside`
looks at; whether pages hold together, `health`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Any, Literal, cast

import msgspec
from msgspec import Struct

from replay import canon
from replay.store import spans
from replay.store.handle import Store
from replay.store.read import dicts, lenient
from replay.trace import Dialect, Message, Tool, Trace


class Finding(Struct, frozen=True, kw_only=True):
    """Something to tell: `damage` means that stored bytes are not what was written."""

    severity: Literal["damage", "note"]
    what: str
    where: str


DISAGREES = "its bytes disagree with its digest"
_MOST_TRACES = 3
"""Of the traces that share a damaged message, the first few are named."""


def content(store: Store) -> Iterator[Finding]:
    """Every message, context node and toolset whose digest does not follow from its row."""
    db = store.db
    for row in broken_messages(db):
        yield damage(f"message row {row}{_of_traces(db, row)}")
    for row in broken_contexts(db):
        yield damage(f"context row {row}")
    for row in broken_toolsets(db):
        yield damage(f"toolset row {row}")


def broken_messages(db: sqlite3.Connection) -> list[int]:
    """The rows of messages whose bytes disagree with their digest."""
    with lenient(db):
        found = db.execute("SELECT id, digest, dialect, body FROM message")
        return [row for row, digest, *said in found if _message_digest(*said) != digest]


def _message_digest(dialect: str, body: str) -> str | None:
    """The digest of a stored message, None where it can be none."""
    try:
        message = Message(dialect=cast(Dialect, dialect), body=msgspec.json.decode(body))
        return canon.message_digest(message)
    except (msgspec.DecodeError, ValueError, KeyError, AttributeError):
        return None


def broken_contexts(db: sqlite3.Connection) -> list[int]:
    """The nodes of contexts whose digest does not follow from their parent and their message."""
    with lenient(db):
        messages = dict(db.execute("SELECT id, digest FROM message").fetchall())
        nodes: dict[int, str] = {}
        broken: list[int] = []
        found = db.execute("SELECT id, digest, parent, message FROM context ORDER BY id")
        for row, digest, parent, said in found:
            nodes[row] = digest
            above = None if parent is None else nodes.get(parent, "missing")
            if canon.node_digest(above, messages.get(said, "missing")) != digest:
                broken.append(row)
        return broken


def broken_toolsets(db: sqlite3.Connection) -> list[int]:
    """The rows of sets of tools whose bytes disagree with their digest."""
    with lenient(db):
        found = db.execute("SELECT id, digest, body FROM toolset")
        return [row for row, digest, body in found if _toolset_digest(body) != digest]


def _toolset_digest(body: str) -> str | None:
    try:
        return canon.toolset_digest(msgspec.json.decode(body, type=tuple[Tool, ...]))
    except (msgspec.DecodeError, ValueError):
        return None


def _of_traces(db: sqlite3.Connection, message: int) -> str:
    """The traces that a message stands in, as words after its row."""
    found = db.execute(
        "SELECT DISTINCT t.key FROM message_step e JOIN trace t ON t.id = e.trace"
        " WHERE e.message = ? ORDER BY t.id",
        (message,),
    )
    keys = [str(row[0])[:8] for row in found]
    if not keys:
        return ""
    more = f" and {len(keys) - _MOST_TRACES} more" if len(keys) > _MOST_TRACES else ""
    return f" of trace {', '.join(keys[:_MOST_TRACES])}{more}"


def damage(where: str, what: str = DISAGREES) -> Finding:
    """What is damaged, and how."""
    return Finding(severity="damage", what=what, where=where)


_CALLS = {
    "model": """SELECT c.*, g.digest AS system, w.digest AS toolset, x.digest AS context,
        r.digest AS response FROM model_call c
      LEFT JOIN message g ON g.id = c.system LEFT JOIN toolset w ON w.id = c.toolset
      LEFT JOIN context x ON x.id = c.context LEFT JOIN message r ON r.id = c.response
      WHERE c.span = ?""",
    "tool": """SELECT c.*, o.digest AS observation FROM tool_call c
      LEFT JOIN message o ON o.id = c.observation WHERE c.span = ?""",
}


def trace_digests(store: Store, key: str) -> Iterator[Finding]:
    """Spans of a trace, and the trace, whose digests do not follow from their rows."""
    db = store.db
    row = db.execute("SELECT id, content FROM trace WHERE key = ? AND complete", (key,)).fetchone()
    kept: list[str] = []
    for span, holds in span_rows(db, row[0]):
        kept.append(span["digest"])
        if not holds:
            yield damage(f"trace {key[:8]} span {span['span_id']}, span row {span['id']}")
    if canon.digest("trace", *kept) != row[1]:
        yield damage(f"trace {key[:8]}", "spans are missing or were added")


def span_rows(db: sqlite3.Connection, trace: int) -> list[tuple[dict[str, Any], bool]]:
    """The rows of the spans of a trace by their ids, and whether each agrees with its digest."""
    with lenient(db):
        found = []
        for span in dicts(
            db.execute("SELECT * FROM span WHERE trace = ? ORDER BY span_id", (trace,))
        ):
            sql = _CALLS.get(span["kind"])
            call = next(dicts(db.execute(sql, (span["id"],))), {}) if sql else {}
            found.append((span, spans.span_digest(span, call) == span["digest"]))
        return found


# --- does a tape hold together?


def coherence(trace: Trace) -> Iterator[Finding]:
    """What the tape of a trace does not hold together."""
    for call in trace.loose:
        yield _note(
            trace, f"{call.name} {call.call_id or ''}".strip(), "no model call asked for it"
        )
    for step in trace.steps:
        for act in step.acts:
            if act.observation is None:
                yield _note(trace, f"step {step.index} {act.name}", "its result was not recorded")
    latest: dict[str, int] = {}
    for step in trace.steps:
        context = step.ask.request.context
        depth = context.depth if context is not None else 0
        if depth < latest.get(step.thread, 0):
            yield _note(trace, f"step {step.index}", "its context is shorter than the one before")
        latest[step.thread] = depth


def _note(trace: Trace, where: str, what: str) -> Finding:
    return Finding(severity="note", what=what, where=f"trace {trace.id[:8]} {where}")
