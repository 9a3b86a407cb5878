"""`arc verify`: is what is stored still what was written?

Every digest is derived again from the content it stands for. A tape is coherent when every result
answers a call and each context extends the one before it in its thread; where it is not, that is
said, but it is a property of the recording, not damage.
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
from replay.trace import Dialect, Message, Tool, Trace


class Finding(Struct, frozen=True, kw_only=True):
    """Something to tell: `damage` means stored bytes disagree with their digest."""

    severity: Literal["damage", "note"]
    what: str
    where: str


def content(store: Store) -> Iterator[Finding]:
    """Every message, context node and toolset whose digest does not follow from its row."""
    db = store.db.conn
    digests: dict[int, str] = {}
    for row, digest, dialect, body in db.execute("SELECT id, digest, dialect, body FROM message"):
        message = Message(dialect=cast(Dialect, dialect), body=msgspec.json.decode(body))
        digests[row] = digest
        if canon.message_digest(message) != digest:
            yield _damage("message", row)
    nodes: dict[int, str] = {}
    for row, digest, parent, said in db.execute(
        "SELECT id, digest, parent, message FROM context ORDER BY id"
    ):
        nodes[row] = digest
        above = None if parent is None else nodes.get(parent, "missing")
        if canon.node_digest(above, digests.get(said, "missing")) != digest:
            yield _damage("context", row)
    for row, digest, body in db.execute("SELECT id, digest, body FROM toolset"):
        tools = msgspec.json.decode(body, type=tuple[Tool, ...])
        if canon.toolset_digest(tools) != digest:
            yield _damage("toolset", row)


def _damage(table: str, row: int) -> Finding:
    return Finding(
        severity="damage", what="its bytes disagree with its digest", where=f"{table} row {row}"
    )


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
    db = store.db.conn
    row = db.execute("SELECT id, content FROM trace WHERE key = ? AND complete", (key,)).fetchone()
    kept: list[str] = []
    for span in _dicts(db.execute("SELECT * FROM span WHERE trace = ? ORDER BY span_id", row[:1])):
        sql = _CALLS.get(span["kind"])
        call = next(_dicts(db.execute(sql, (span["id"],))), {}) if sql else {}
        kept.append(span["digest"])
        if spans.span_digest(span, call) != span["digest"]:
            yield _damage(f"trace {key[:8]} span {span['span_id']}, span", span["id"])
    if canon.digest("trace", *kept) != row[1]:
        yield Finding(
            severity="damage", what="spans are missing or were added", where=f"trace {key[:8]}"
        )


def _dicts(cursor: sqlite3.Cursor) -> Iterator[dict[str, Any]]:
    # Later columns of one name win: a digest selected beside `c.*` stands for the row id.
    names = [column[0] for column in cursor.description]
    return (dict(zip(names, values, strict=True)) for values in cursor)


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
