"""Messages, contexts and sets of tools under today's rules; two that become the same become one.

Found first and written later: in between the old content can still be read.
"""

from __future__ import annotations

import sqlite3
from typing import cast

import msgspec

from replay import canon, redact
from replay.store.scrub.masks import Masks
from replay.store.scrub.moved import ids, move
from replay.store.trouble import StoreDamaged
from replay.trace import Dialect, Message


def damaged(where: str) -> StoreDamaged:
    """What cannot be vouched for is not given a new digest: that would hide the damage."""
    return StoreDamaged(
        f"{where}: is damaged: nothing was changed",
        "`arc verify` says what is lost, `arc db recover` saves the rest; scrub that",
    )


# --- found


def find(db: sqlite3.Connection, masks: Masks) -> None:
    """Note every message and set of tools in which something is to be masked.

    Raises StoreDamaged where the bytes of one disagree with its digest.
    """
    _find_messages(db, masks)
    _find_toolsets(db, masks)


def _find_messages(db: sqlite3.Connection, masks: Masks) -> None:
    for row in ids(db, "message"):
        was, dialect, body = db.execute(
            "SELECT digest, dialect, body FROM message WHERE id = ?", (row,)
        ).fetchone()
        masked = _json(masks, "message", body, f"message row {row}")
        if masked == body:
            continue
        if _message(dialect, body)[0] != was:
            raise damaged(f"message row {row}")
        now, role = _message(dialect, masked)
        values = (row, was, now, role, masked, redact.masked_count(masked))
        db.execute(
            f"INSERT INTO moved_message VALUES (?, ?, ?, ?, ?, ?, {_SURVIVOR.format('message')})",
            (*values, now, now, row),
        )
        move(db, was, now)


_SURVIVOR = """coalesce(
  (SELECT id FROM moved_{0} WHERE now = ? AND into_row IS NULL),
  (SELECT id FROM {0} WHERE digest = ? AND id <> ?))"""
"""The row that says the same already, NULL where there is none."""


def _message(dialect: str, body: str) -> tuple[str, str]:
    """(digest, role) of a stored message."""
    message = Message(dialect=cast(Dialect, dialect), body=msgspec.json.decode(body))
    return canon.message_digest(message), message.role


def _find_toolsets(db: sqlite3.Connection, masks: Masks) -> None:
    for row in ids(db, "toolset"):
        was, body = db.execute("SELECT digest, body FROM toolset WHERE id = ?", (row,)).fetchone()
        masked = _json(masks, "toolset", body, f"toolset row {row}")
        if masked == body:
            continue
        if _toolset(body) != was:
            raise damaged(f"toolset row {row}")
        now = _toolset(masked)
        db.execute(
            f"INSERT INTO moved_toolset VALUES (?, ?, ?, ?, {_SURVIVOR.format('toolset')})",
            (row, was, now, masked, now, now, row),
        )
        move(db, was, now)


def _toolset(body: str) -> str:
    return canon.digest("toolset", canon.encode_seen(msgspec.json.decode(body)))


def _json(masks: Masks, table: str, body: str, where: str) -> str:
    try:
        return masks.json(table, body)
    except msgspec.DecodeError as error:
        raise damaged(where) from error


# --- written


def write(db: sqlite3.Connection) -> None:
    """Write what was found, and the contexts anew that hold it. Rows that go into others stay until
    `drop`: who refers to them is not told yet."""
    db.execute(
        "UPDATE message SET (digest, role, body, masked) ="
        " (SELECT now, role, body, masked FROM moved_message m WHERE m.id = message.id)"
        " WHERE id IN (SELECT id FROM moved_message WHERE into_row IS NULL)"
    )
    db.execute(
        "UPDATE toolset SET (digest, body) ="
        " (SELECT now, body FROM moved_toolset m WHERE m.id = toolset.id)"
        " WHERE id IN (SELECT id FROM moved_toolset WHERE into_row IS NULL)"
    )
    if db.execute("SELECT 1 FROM moved_message LIMIT 1").fetchone():
        _write_contexts(db)


def _write_contexts(db: sqlite3.Connection) -> None:
    """A parent stands before what follows it, so of nodes that become the same the first stays."""
    (unique,) = db.execute("SELECT sql FROM sqlite_master WHERE name = 'context_place'").fetchone()
    db.execute("DROP INDEX context_place")
    db.execute("CREATE INDEX context_place ON context(message, parent)")
    for row in ids(db, "context"):
        was, message, parent, said, said_masked = db.execute(_NODE, (row,)).fetchone()
        above = (None, 0)
        if parent is not None:
            above = db.execute(
                "SELECT digest, masked FROM context WHERE id = ?", (parent,)
            ).fetchone()
        now = canon.node_digest(above[0], said)
        first = db.execute(
            "SELECT id FROM context WHERE message IS ? AND parent IS ? AND id < ?",
            (message, parent, row),
        ).fetchone()
        db.execute(
            "UPDATE context SET digest = ?, parent = ?, message = ?, masked = ? WHERE id = ?",
            (now, parent, message, said_masked + above[1], row),
        )
        if now != was or first is not None:
            into = None if first is None else first[0]
            db.execute("INSERT INTO moved_context VALUES (?, ?, ?, ?)", (row, was, now, into))
            move(db, was, now)
    db.execute(
        "DELETE FROM context WHERE id IN (SELECT id FROM moved_context WHERE into_row IS NOT NULL)"
    )
    db.execute("DROP INDEX context_place")
    db.execute(unique)


_NODE = """
SELECT c.digest, coalesce(m.into_row, c.message), coalesce(p.into_row, c.parent),
  s.digest, s.masked
FROM context c LEFT JOIN moved_message m ON m.id = c.message
LEFT JOIN moved_context p ON p.id = c.parent
JOIN message s ON s.id = coalesce(m.into_row, c.message)
WHERE c.id = ?
"""


def drop(db: sqlite3.Connection) -> int:
    """Point everything at the rows that stay and delete those that went into them; how many."""
    for column, of in _REFERENCES["model_call"].items():
        _point(db, "model_call", column, of)
    for column, of in _REFERENCES["tool_call"].items():
        _point(db, "tool_call", column, of)
    merged = "SELECT id FROM moved_message WHERE into_row IS NOT NULL"
    db.execute(
        "INSERT OR IGNORE INTO message_step SELECT e.trace, m.into_row, e.step"
        " FROM message_step e JOIN moved_message m ON m.id = e.message"
        " WHERE m.into_row IS NOT NULL"
    )
    db.execute(f"DELETE FROM message_step WHERE message IN ({merged})")
    gone = db.execute(f"DELETE FROM message WHERE id IN ({merged})").rowcount
    gone += db.execute(
        "DELETE FROM toolset WHERE id IN (SELECT id FROM moved_toolset WHERE into_row IS NOT NULL)"
    ).rowcount
    db.execute(
        "UPDATE model_call SET masked = "
        "coalesce((SELECT masked FROM message WHERE id = model_call.system), 0)"
        " + coalesce((SELECT masked FROM context WHERE id = model_call.context), 0)"
        " + coalesce((SELECT masked FROM message WHERE id = model_call.response), 0)"
        " WHERE span IN (SELECT s.id FROM span s JOIN moved_trace t ON t.id = s.trace)"
    )
    return gone


_REFERENCES = {
    "model_call": {
        "system": "message", "response": "message", "toolset": "toolset", "context": "context",
    },
    "tool_call": {"observation": "message"},
}  # fmt: skip


def _point(db: sqlite3.Connection, table: str, column: str, of: str) -> None:
    db.execute(
        f"UPDATE {table} SET {column} = (SELECT into_row FROM moved_{of} WHERE id = {column})"
        f" WHERE {column} IN (SELECT id FROM moved_{of} WHERE into_row IS NOT NULL)"
    )
