"""Messages, contexts and sets of tools under today's rules; two that become the same become one.

Which digest became which is remembered in tables of one connection, in no memory.
"""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import cast

import msgspec
from msgspec import Struct, field

from replay import digests
from replay.redact.placeholders import PLACEHOLDER, masked_count
from replay.redact.redactor import Redactor
from replay.redact.text import REFERENCE, refers, restored
from replay.store.content import SHORT
from replay.store.trouble import StoreDamaged
from replay.trace import Dialect, Message


def damaged(where: str) -> StoreDamaged:
    """What cannot be vouched for is not given a new digest: that would hide the damage."""
    return StoreDamaged(
        f"{where}: is damaged: nothing was changed",
        "Try: arc db verify, to list what is lost; arc db recover, then scrub the new file",
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
        values = (row, was, now, role, masked, masked_count(masked))
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
    return digests.message_digest(message), message.role


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
    return digests.digest("toolset", digests.encode_seen(msgspec.json.decode(body)))


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
        now = digests.node_digest(above[0], said)
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


OF_OURS = frozenset({"audit", "batch", "diagnosis", "replay", "setting"})
"""Tables whose texts refer by digests and ids of traces (`references`)."""


class Masks:
    """Masks texts of tables under one redactor. `found` counts new placeholders by (table, rule).

    A text in which nothing is found comes back as it was, to the byte. `is_trace` tells the ids of
    traces from other texts.
    """

    def __init__(self, redactor: Redactor, is_trace: Callable[[str], bool]) -> None:
        self.found: Counter[tuple[str, str]] = Counter()
        self._redactor = redactor
        self._is_trace = is_trace
        self._short = lru_cache(4096)(redactor.text)
        self._short_clear = lru_cache(4096)(redactor.clear)

    def text(self, table: str, text: str) -> str:
        """A text, masked."""
        if table in OF_OURS:
            return "".join(
                part
                if refers(part, self._is_trace)
                else self._counted(table, part, self._text(part))
                for part in REFERENCE.split(text)
            )
        return self._counted(table, text, self._text(text))

    def _text(self, text: str) -> str:
        return self._short(text) if len(text) <= SHORT else self._redactor.text(text)

    def json(self, table: str, encoded: str) -> str:
        """A JSON text, masked leaf by leaf. Raises msgspec.DecodeError where it is none."""
        raw = encoded.encode()
        clear = self._short_clear(raw) if len(raw) <= SHORT else self._redactor.clear(raw)
        if clear:
            return encoded
        value = msgspec.json.decode(raw)
        masked = self._redactor.value(value)
        if table in OF_OURS:
            masked = restored(value, masked, self._is_trace)
        if masked is value:
            return encoded
        return self._counted(table, encoded, digests.encode(masked).decode())

    def json_or_text(self, table: str, text: str) -> str:
        """A text that may be JSON."""
        try:
            return self.json(table, text)
        except msgspec.DecodeError:
            return self.text(table, text)

    def silently(self, text: str) -> str:
        """A text that is derived from others, masked and not counted."""
        return self._redactor.text(text)

    def _counted(self, table: str, before: str, after: str) -> str:
        if after != before:
            new = _rules(after) - _rules(before)
            self.found.update({(table, rule): many for rule, many in new.items()})
        return after


def _rules(text: str) -> Counter[str]:
    """How many placeholders of each rule stand in a text."""
    return Counter(mark.split(":")[1] for mark in PLACEHOLDER.findall(text))


_TABLES = (
    "moved_message(id INTEGER PRIMARY KEY, was TEXT UNIQUE, now TEXT, role TEXT, body TEXT,"
    " masked INTEGER, into_row INTEGER)",
    "moved_toolset(id INTEGER PRIMARY KEY, was TEXT UNIQUE, now TEXT, body TEXT, into_row INTEGER)",
    "moved_context(id INTEGER PRIMARY KEY, was TEXT, now TEXT, into_row INTEGER)",
    "moved_digest(was TEXT PRIMARY KEY, now TEXT) WITHOUT ROWID",
    "moved_trace(id INTEGER PRIMARY KEY)",
    "moved_answer(server TEXT, key TEXT, PRIMARY KEY (server, key)) WITHOUT ROWID",
    "asked(key TEXT, trace TEXT, edit TEXT, model TEXT, step INTEGER, side TEXT, sample INTEGER)",
)

_INDICES = (
    "moved_message_now ON moved_message(now)",
    "moved_toolset_now ON moved_toolset(now)",
    "asked_of ON asked(trace, edit, model)",
    "asked_key ON asked(key)",
)

_HEX = re.compile(r"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")


@contextmanager
def remembering(db: sqlite3.Connection) -> Iterator[None]:
    """The tables exist within. They hold ids, digests and masked texts: SQLite may put them into a
    file for a while."""
    _forget(db)
    for table in _TABLES:
        db.execute(f"CREATE TEMP TABLE {table}")
    for index in _INDICES:
        db.execute(f"CREATE INDEX temp.{index}")
    yield
    _forget(db)


def _forget(db: sqlite3.Connection) -> None:
    for table in _TABLES:
        db.execute(f"DROP TABLE IF EXISTS temp.{table.partition('(')[0]}")


def move(db: sqlite3.Connection, was: str, now: str) -> None:
    """A digest became another one. The first word counts."""
    if was != now:
        pair = (was.rpartition(":")[2], now.rpartition(":")[2])
        db.execute("INSERT OR IGNORE INTO moved_digest VALUES (?, ?)", pair)


class Digests:
    """Puts new digests where old ones stand."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def now(self, text: str) -> str:
        """The text with every digest that moved as it is now."""
        return _HEX.sub(self._one, text)

    def _one(self, met: re.Match[str]) -> str:
        found = self._db.execute("SELECT now FROM moved_digest WHERE was = ?", (met.group(),))
        row = found.fetchone()
        return met.group() if row is None else str(row[0])


def ids(db: sqlite3.Connection, table: str, key: str = "id") -> Iterator[int]:
    """The rows of a table by their ids, so many at a time: they may be changed meanwhile, and the
    texts of one are in memory, however long they are."""
    sql = f"SELECT {key} FROM {table} WHERE {key} > ? ORDER BY {key} LIMIT {_TOGETHER}"
    after = -1
    while found := db.execute(sql, (after,)).fetchall():
        yield from (row[0] for row in found)
        after = found[-1][0]


_TOGETHER = 1000


DIGEST = "a digest, recomputed from its content"
ID = "an id derived by a hash"
WORD = "one of arc's own fixed values"
SECTION = "part of the text index, which is rebuilt"


class Texts(Struct, frozen=True, kw_only=True):
    """The columns of a table: plain `text`, `json`, and `ours`, each with the reason why nothing
    from outside can stand in it.

    `derived` says in SQL which rows are made of a trace, its column `trace`, and made again when
    they are gone. Where the trace changes they go: what they quote may be half a secret, which no
    rule knows.
    """

    text: tuple[str, ...] = ()
    json: tuple[str, ...] = ()
    ours: Mapping[str, str] = field(default_factory=dict)
    derived: str = ""


Places = Mapping[str, Texts]

TAPE: Places = {
    "message": Texts(text=("role",), json=("body",), ours={"digest": DIGEST, "dialect": WORD}),
    "context": Texts(ours={"digest": DIGEST}),
    "toolset": Texts(json=("body",), ours={"digest": DIGEST}),
    "trace": Texts(
        text=(
            "format", "source_id", "item", "path", "title", "task", "trial", "variant", "agent",
            "outcome_value", "outcome_by", "models",
        ),
        json=("labels", "reference", "problems"),
        ours={
            "key": ID, "run": ID, "outcome": WORD, "fidelity": WORD, "content": DIGEST,
            "prompt": DIGEST, "environment": DIGEST,
        },
    ),
    "span": Texts(
        text=("span_id", "parent", "name", "error", "said_error", "place_span", "brief"),
        json=("detail",),
        ours={
            "kind": WORD, "time_quality": WORD, "status": WORD, "source_status": WORD,
            "digest": DIGEST,
        },
    ),
    "model_call": Texts(
        text=("model", "response_id", "response_model", "stop_raw", "agent"),
        json=("params", "fidelity_reasons"),
        ours={
            "stop": WORD, "cost_source": WORD, "fidelity": WORD,
            "prices": "the name of a table of prices that arc ships",
        },
    ),
    "tool_call": Texts(
        text=("call_id", "asked_by", "arguments_raw"),
        json=("arguments",),
        ours={"effect": WORD},
    ),
    "step": Texts(text=("thread",)),
    "message_step": Texts(),
}  # fmt: skip
"""What digests speak for."""

PLAIN: Places = {
    "source_score": Texts(text=("span_id", "name", "source", "label", "explanation")),
    "stub": Texts(text=("tool", "result", "source"), json=("arguments",), ours={"trace_key": ID}),
    "batch": Texts(text=("server", "id", "model"), json=("asks",)),
    "setting": Texts(text=("name",), json=("value",)),
}
"""What stands beside it, each row for itself."""

KEPT: Places = {
    "supplement": Texts(text=("name", "system"), json=("tools",), ours={"digest": DIGEST}),
    "trace_supplement": Texts(ours={"trace_key": ID, "supplement": DIGEST}),
    "edit": Texts(text=("name",), json=("body",), ours={"digest": DIGEST}),
    "answer": Texts(
        text=("server", "model", "source"),
        json=("body",),
        ours={"key": DIGEST, "prices": "the name of a table of prices that arc ships"},
    ),
    "claim": Texts(text=("server",), ours={"key": DIGEST, "owner": ID}),
    "replay": Texts(
        text=("model",),
        json=("core",),
        ours={"digest": DIGEST, "trace_key": ID, "edit": DIGEST, "kind": WORD},
    ),
    "latency": Texts(text=("name",), ours={"kind": WORD}),
    "environment": Texts(
        ours={"digest": DIGEST, "body": "made of masked rows, and made anew where these change"}
    ),
}
"""What stands beside it and has digests of its own, or is a sum of other rows."""

INDEX: Places = {
    f"{table}{part}": Texts(ours=dict.fromkeys(columns, SECTION))
    for table in ("message_words", "span_words")
    for part, columns in (
        ("", ("words",)), ("_data", ()), ("_idx", ("segid", "term", "pgno")), ("_docsize", ()),
        ("_config", ("k", "v")),
    )
}  # fmt: skip

MIGRATIONS: Places = {
    "_sqlite_migrations": Texts(
        ours=dict.fromkeys(("migration_set", "name", "applied_at"), "which version made a table")
    )
}

STORE: Places = {**TAPE, **PLAIN, **KEPT, **INDEX, **MIGRATIONS}
"""All of the store's own tables."""
