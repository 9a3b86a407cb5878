"""Is what is stored still what was written, and can it be read?

`arc db verify`: every digest is derived again; what is kept beside the recordings (answers,
replays, edits, judgements) is read; the database says its size, its mode, whether its pages hold
together.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Mapping
from typing import Any, Literal, cast

import msgspec
from msgspec import Struct

from replay import digests
from replay.errors import StoreUnusable
from replay.store import spans
from replay.store.connection import dicts, lenient
from replay.store.handle import Store
from replay.store.trouble import StoreDamaged, database_errors
from replay.trace import Dialect, Message, Tool, Trace


class Finding(Struct, frozen=True, kw_only=True):
    """Something to tell: `damage` means that stored bytes are not what was written."""

    severity: Literal["damage", "note"]
    what: str
    where: str


DISAGREES = "content does not match its digest"
_LEAST_ROW_BYTES = 16
"""Of a row that has a digest."""
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


def _rows(db: sqlite3.Connection, sql: str) -> Iterator[tuple[Any, ...]]:
    """All rows of a table. Raises StoreDamaged where it has more than the file has room for, as
    when its pages are listed many times over."""
    # The driver of encrypted databases gives numbers as text.
    size = int(db.execute("PRAGMA page_count").fetchone()[0])
    size *= int(db.execute("PRAGMA page_size").fetchone()[0])
    for number, row in enumerate(db.execute(sql)):
        if number * _LEAST_ROW_BYTES > size:
            raise StoreDamaged(
                f"{_path(db)}: is damaged: a table has more rows than the file can hold",
                "Try: arc db recover",
            )
        yield row


def _path(db: sqlite3.Connection) -> str:
    return str(db.execute("PRAGMA database_list").fetchone()[2])


def broken_messages(db: sqlite3.Connection) -> list[int]:
    """The rows of messages whose bytes disagree with their digest."""
    with lenient(db):
        found = _rows(db, "SELECT id, digest, dialect, body FROM message")
        return [row for row, digest, *said in found if _message_digest(*said) != digest]


def _message_digest(dialect: str, body: str) -> str | None:
    """The digest of a stored message, None where it can be none."""
    try:
        message = Message(dialect=cast(Dialect, dialect), body=msgspec.json.decode(body))
        return digests.message_digest(message)
    except (msgspec.DecodeError, ValueError, KeyError, AttributeError, TypeError):
        return None


def broken_contexts(db: sqlite3.Connection) -> list[int]:
    """The nodes of contexts whose digest does not follow from their parent and their message."""
    with lenient(db):
        messages = dict(_rows(db, "SELECT id, digest FROM message"))
        nodes: dict[int, str] = {}
        broken: list[int] = []
        found = _rows(db, "SELECT id, digest, parent, message FROM context ORDER BY id")
        for row, digest, parent, said in found:
            nodes[row] = digest
            above = None if parent is None else nodes.get(parent, "missing")
            if digests.node_digest(above, messages.get(said, "missing")) != digest:
                broken.append(row)
        return broken


def broken_toolsets(db: sqlite3.Connection) -> list[int]:
    """The rows of sets of tools whose bytes disagree with their digest."""
    with lenient(db):
        found = _rows(db, "SELECT id, digest, body FROM toolset")
        return [row for row, digest, body in found if _toolset_digest(body) != digest]


def _toolset_digest(body: str) -> str | None:
    try:
        return digests.toolset_digest(msgspec.json.decode(body, type=tuple[Tool, ...]))
    except (msgspec.DecodeError, ValueError, TypeError):
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
    if digests.digest("trace", *kept) != row[1]:
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
        yield _note(trace, f"{call.name} {call.call_id or ''}".strip(), "no model call made it")
    for step in trace.steps:
        for act in step.acts:
            if act.observation is None:
                yield _note(trace, f"step {step.index} {act.name}", "result not recorded")
    latest: dict[str, int] = {}
    for step in trace.steps:
        context = step.ask.request.context
        depth = context.depth if context is not None else 0
        if depth < latest.get(step.thread, 0):
            yield _note(trace, f"step {step.index}", "its context is shorter than the one before")
        latest[step.thread] = depth


def _note(trace: Trace, where: str, what: str) -> Finding:
    return Finding(severity="note", what=what, where=f"trace {trace.id[:8]} {where}")


_JSON = frozenset({
    "asks", "arguments", "body", "core", "detail", "evidence", "fidelity_reasons", "items",
    "labels", "params", "problems", "reference", "tools", "warnings",
})  # fmt: skip
"""Columns that hold JSON, in whatever table."""

_TAPE = frozenset({"message", "context", "toolset", "span", "model_call", "tool_call"})
"""Tables that the digests speak for."""


def kept(store: Store) -> Iterator[Finding]:
    """Rows beside the tape that cannot be what was written."""
    db = store.db
    for table in beside_the_tape(db):
        for row in broken_rows(db, table):
            yield damage(name(table, known_of(db, table, row), row), "unreadable")
    for table, digest in broken_digests(db):
        yield damage(name(table, {"digest": digest}))


def beside_the_tape(db: sqlite3.Connection) -> list[str]:
    """The tables with rows of their own that no digest speaks for."""
    found = db.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE '\\_%' ESCAPE '\\'"
        " AND name NOT LIKE 'sqlite%' AND name NOT LIKE '%\\_words%' ESCAPE '\\'"
        " AND sql NOT LIKE '%WITHOUT ROWID%' ORDER BY name"
    )
    return [row[0] for row in found if row[0] not in _TAPE]


def broken_rows(db: sqlite3.Connection, table: str) -> list[int]:
    """Rows of a table with a text that is none, or with JSON that is none."""
    names = [
        row[1] for row in db.execute(f"PRAGMA table_info({table})").fetchall() if row[2] == "TEXT"
    ]
    if not names:
        return []
    values = ", ".join(f"CAST({each} AS BLOB)" for each in names)
    found = db.execute(f"SELECT rowid, {values} FROM {table}")
    return [row for row, *raw in found if not all(map(_readable, names, raw))]


def _readable(column: str, raw: bytes | None) -> bool:
    if raw is None:
        return True
    try:
        if column in _JSON:
            msgspec.json.decode(raw)
        raw.decode()
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return True


def broken_digests(db: sqlite3.Connection) -> Iterator[tuple[str, str]]:
    """(table, digest) of edits, replays and environments that say otherwise."""
    from replay.edit.changes import Edit

    with lenient(db):
        edits = db.execute("SELECT digest, body FROM edit").fetchall()
        replays = db.execute("SELECT digest, kind, core FROM replay").fetchall()
        environments = db.execute("SELECT digest, body FROM environment").fetchall()
    for digest, body in edits:
        try:
            held = msgspec.json.decode(body, type=Edit).digest == digest
        except msgspec.DecodeError:
            continue  # said before
        if not held:
            yield "edit", digest
    for digest, kind, core in replays:
        if digests.digest("free" if kind == "free" else "replay", core) != digest:
            yield "replay", digest
    for digest, body in environments:
        if digests.digest("environment", body) != digest:
            yield "environment", digest


def known_of(db: sqlite3.Connection, table: str, row: int) -> dict[str, Any]:
    """The values that tell a row from others: those of its unique columns."""
    columns: list[str] = []
    for index in db.execute(f"PRAGMA index_list({table})").fetchall():
        if index[2] and not columns:
            columns = [each[2] for each in db.execute(f"PRAGMA index_info({index[1]})").fetchall()]
    if not columns:
        return {}
    with lenient(db):
        sql = f"SELECT {', '.join(columns)} FROM {table} WHERE rowid = ?"
        return next(dicts(db.execute(sql, (row,))), {})


_SHOWN_CHARACTERS = 60


def name(table: str, known: Mapping[str, Any], row: int | None = None) -> str:
    """A row in words: its table and what is known of it."""
    said = [
        f"{_called(table, column)} {_short(value)}"
        for column, value in known.items()
        if value not in (None, "")
    ]
    if not said:
        return f"{table} row {row}" if row is not None else table
    words = ", ".join(said)
    return words if words.startswith(f"{table} ") else f"{table} {words}"


def _called(table: str, column: str) -> str:
    return "trace" if column == "trace_key" or (table, column) == ("trace", "key") else column


def _short(value: object) -> str:
    said = str(value)
    if _ID.fullmatch(said):
        return said[:8]
    return said if len(said) <= _SHOWN_CHARACTERS else said[: _SHOWN_CHARACTERS - 1] + "…"


_ID = re.compile("[0-9a-f]{16}")
"""The id of a trace, which lists show the beginning of."""


class Health(Struct, frozen=True, kw_only=True):
    """`damage` are the first sentences of the quick check, () for none.

    `migrations` are those applied, as `set/name`, oldest first. `batches` were sent and not
    fetched yet.
    """

    damage: tuple[str, ...]
    journal: str
    migrations: tuple[str, ...]
    traces: int
    answers: int
    replays: int
    batches: int


MOST_DAMAGE = 5


def health(store: Store) -> Health:
    """Look through the whole file once.

    Raises StoreUnusable where it is too broken to be looked through.
    """
    try:
        return _looked_through(store)
    except database_errors() as error:
        raise StoreUnusable(
            f"{store.path}: is damaged: {error}",
            "Try: arc db verify, to list what is lost; arc db recover, to save the rest",
        ) from error


def pages(store: Store) -> Iterator[Finding]:
    """The first things that SQLite finds wrong with the pages of a file, and its indices.

    Raises an error of SQLite where it gives up.
    """
    for (said,) in store.db.execute(f"PRAGMA integrity_check({MOST_DAMAGE})").fetchall():
        if said != "ok":
            yield damage("file", " ".join(said.split()))


def _looked_through(store: Store) -> Health:
    said = store.db.execute(f"PRAGMA quick_check({MOST_DAMAGE})").fetchall()
    applied = store.db.execute(
        'SELECT migration_set, name FROM "_sqlite_migrations" ORDER BY applied_at, name'
    )
    return Health(
        damage=tuple(row[0] for row in said if row[0] != "ok"),
        journal=str(store.db.execute("PRAGMA journal_mode").fetchone()[0]),
        migrations=tuple(f"{row[0]}/{row[1]}" for row in applied),
        traces=_count(store, "SELECT count(*) FROM trace WHERE complete"),
        answers=_count(store, "SELECT count(1) FROM answer"),
        replays=_count(store, "SELECT count(1) FROM replay"),
        batches=_count(store, "SELECT count(*) FROM batch WHERE NOT fetched"),
    )


def _count(store: Store, sql: str) -> int:
    return int(store.db.execute(sql).fetchone()[0])
