"""Recordings that are to go for good: what hangs on them, its removal, and the end of its bytes.

Content is shared, so a message goes with the last recording that says it. Removal is one
transaction; it leaves a mark that the old bytes are still in the file, and `erase` takes the
mark away when they are not. Killed between the two, the database is whole, and the next pruning
erases what is left. Which recordings go is not decided here.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
from msgspec import Struct

from replay.errors import StoreUnusable
from replay.store import text_index
from replay.store.handle import Store
from replay.store.trouble import StoreBusy, describe

UNERASED = "pruned, not erased"
"""The setting that stands while removed bytes may still be in the file."""


class Weight(Struct, frozen=True, kw_only=True):
    """What goes: rows by their kind, and the `bytes` of text in them.

    `unfinished` are recordings of imports that never came to an end. `results` are what bisections,
    tries, probes and tests of these recordings came to, `other_answers` stored answers that cannot
    be told to be of any recording.
    """

    traces: int
    unfinished: int
    spans: int
    messages: int
    replays: int
    answers: int
    edits: int
    results: int
    other_answers: int
    bytes: int

    @property
    def rows(self) -> int:
        """How many of the rows that are counted here go; 0: nothing does."""
        counted = (self.traces, self.unfinished, self.messages, self.answers, self.results)
        return sum(counted)


@contextmanager
def removing(store: Store) -> Iterator[sqlite3.Connection]:
    """One transaction in which `remove` may be called; what it deletes is overwritten with zeros.

    References are checked once at its end and not row by row, which takes a scan of other tables
    for each.
    """
    db = store.db
    with describe(store.path):
        db.execute("PRAGMA secure_delete = ON").fetchone()
        db.execute("PRAGMA foreign_keys = OFF")
        try:
            with store.writing():
                yield db
                broken = db.execute("PRAGMA foreign_key_check").fetchone()
                assert broken is None, f"a row of {broken[0]} refers to a deleted row"
        finally:
            db.execute("PRAGMA foreign_keys = ON")


def weigh(
    store: Store,
    keys: Collection[str],
    *,
    unfinished_before_ns: int | None = None,
    answers: bool = False,
) -> Weight:
    """What would go with these recordings; changes nothing."""
    db = store.db
    with _marked(db, keys, unfinished_before_ns, answers):
        return _weight(db)


def remove(
    db: sqlite3.Connection,
    keys: Collection[str],
    *,
    unfinished_before_ns: int | None = None,
    answers: bool = False,
) -> Weight:
    """Remove recordings by their ids, all that is theirs alone, and everything kept of them.

    With a moment, imports go too that began before it and never came to an end. With `answers`
    every stored answer goes that no kept replay rests on, else only those of their own replays.
    What people and rules say of them is not touched. Within `removing`.
    """
    with _marked(db, keys, unfinished_before_ns, answers):
        found = _weight(db)
        if found.rows:
            for statement in _DELETIONS:
                db.execute(statement)
            text_index.refill(db)
            mark_unerased(db)
    return found


def mark_unerased(db: sqlite3.Connection) -> None:
    """Say that old bytes may still be in the file: in the transaction that makes them old."""
    db.execute("INSERT OR REPLACE INTO setting (name, value) VALUES (?, '1')", (UNERASED,))


def unerased(store: Store) -> bool:
    """May bytes of what was removed still be in the file?"""
    found = store.db.execute("SELECT 1 FROM setting WHERE name = ?", (UNERASED,)).fetchone()
    return found is not None


def erase(store: Store) -> None:
    """Write the database anew without what was removed, and empty its log.

    Raises StoreBusy where another process is in the way: what is removed stays removed, its bytes
    are gone the next time.
    """
    db = store.db
    with describe(store.path):
        db.execute("PRAGMA secure_delete = ON").fetchone()
        db.execute("VACUUM")
    _empty_log(store)
    with store.writing():
        db.execute("DELETE FROM setting WHERE name = ?", (UNERASED,))
    _empty_log(store)


def _empty_log(store: Store) -> None:
    with describe(store.path):
        busy, _, _ = store.db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    if busy:
        raise StoreBusy(
            f"{store.path}: another process is reading it: the deleted bytes are still in its log",
            "Try: close arc everywhere else, then arc db prune --yes or arc db scrub",
        )


def replayed(store: Store) -> frozenset[str]:
    """The recordings that a kept replay, bisection, try, probe or test is of."""
    found = store.db.execute(
        "SELECT trace_key FROM replay UNION SELECT json_extract(value, '$.trace') FROM setting"
        " WHERE json_valid(value) AND json_type(value) = 'object'"
        " UNION SELECT e.value FROM setting s, json_each(s.value, '$.traces') e"
        " WHERE json_valid(s.value) AND json_type(s.value) = 'object'"
    )
    return frozenset(row[0] for row in found if isinstance(row[0], str))


def copies_beside(file: Path | None) -> tuple[Path, ...]:
    """Files in the same folder whose names begin with the database's: backups may hold what was
    removed."""
    if file is None:
        return ()
    own = {file.name, *(f"{file.name}{end}" for end in ("-wal", "-shm", "-journal"))}
    begun = (f"{file.name}.", f"{file.name}-", f"{file.stem}-")
    try:
        others = [each for each in file.parent.iterdir() if each.name not in own]
    except OSError as error:
        raise StoreUnusable(f"{file.parent}: cannot be listed: {error.strerror}") from error
    return tuple(sorted(e for e in others if e.name.startswith(begun) and e.is_file()))


# --- what is marked to go

_MARKS = (
    "gone_key(key TEXT PRIMARY KEY)",
    "gone_trace(id INTEGER PRIMARY KEY)",
    "gone_span(id INTEGER PRIMARY KEY)",
    "kept_context(id INTEGER PRIMARY KEY)",
    "gone_context(id INTEGER PRIMARY KEY)",
    "gone_message(id INTEGER PRIMARY KEY)",
    "gone_toolset(id INTEGER PRIMARY KEY)",
    "gone_replay(id INTEGER PRIMARY KEY)",
    "gone_answer(id INTEGER PRIMARY KEY)",
    "gone_edit(digest TEXT PRIMARY KEY)",
    "gone_result(name TEXT PRIMARY KEY)",
)

RESTS = """
SELECT DISTINCT s.value AS server, k.value AS key
FROM replay r, json_tree(r.core) k, json_each(json_array(
  json_extract(r.core, '$.server'), json_extract(r.core, '$.edited_server'))) s
WHERE k.key = 'key' AND k.type = 'text' AND s.value IS NOT NULL
"""
"""The answers that replays rest on."""

_RESTS = f"{RESTS} AND r.id {{}} IN (SELECT id FROM gone_replay)"
"""Those that replays rest on which go, or with NOT which stay."""

_FILLS = (
    "INSERT INTO gone_key SELECT value FROM json_each(:keys)",
    "INSERT INTO gone_trace SELECT id FROM trace WHERE complete"
    " AND key IN (SELECT key FROM gone_key)",
    "INSERT INTO gone_trace SELECT id FROM trace WHERE NOT complete AND imported_ns < :before",
    "INSERT INTO gone_span SELECT id FROM span WHERE trace IN (SELECT id FROM gone_trace)",
    """INSERT INTO kept_context
    WITH RECURSIVE kept(id) AS (
      SELECT context FROM model_call
        WHERE context IS NOT NULL AND span NOT IN (SELECT id FROM gone_span)
      UNION
      SELECT c.parent FROM kept JOIN context c ON c.id = kept.id WHERE c.parent IS NOT NULL)
    SELECT id FROM kept""",
    "INSERT INTO gone_context SELECT id FROM context WHERE id NOT IN (SELECT id FROM kept_context)",
    """INSERT INTO gone_message SELECT id FROM message WHERE id NOT IN (
      SELECT message FROM context WHERE id IN (SELECT id FROM kept_context)
      UNION SELECT system FROM model_call
        WHERE system IS NOT NULL AND span NOT IN (SELECT id FROM gone_span)
      UNION SELECT response FROM model_call
        WHERE response IS NOT NULL AND span NOT IN (SELECT id FROM gone_span)
      UNION SELECT observation FROM tool_call
        WHERE observation IS NOT NULL AND span NOT IN (SELECT id FROM gone_span))""",
    """INSERT INTO gone_toolset SELECT id FROM toolset WHERE id NOT IN (
      SELECT toolset FROM model_call
      WHERE toolset IS NOT NULL AND span NOT IN (SELECT id FROM gone_span))""",
    "INSERT INTO gone_replay SELECT id FROM replay WHERE trace_key IN (SELECT key FROM gone_key)",
    f"""INSERT INTO gone_answer SELECT rowid FROM answer WHERE
      (server, key) NOT IN ({_RESTS.format("NOT")})
      AND (:answers OR (server, key) IN ({_RESTS.format("")}))""",
    """INSERT INTO gone_result SELECT name FROM setting
    WHERE json_valid(value) AND json_type(value) = 'object' AND (
      json_extract(value, '$.trace') IN (SELECT key FROM gone_key)
      OR EXISTS (SELECT 1 FROM json_each(value, '$.traces') e
        WHERE e.value IN (SELECT key FROM gone_key)))""",
    """INSERT INTO gone_edit SELECT DISTINCT edit FROM replay
    WHERE id IN (SELECT id FROM gone_replay) AND edit IS NOT NULL
      AND edit NOT IN (SELECT edit FROM replay
        WHERE edit IS NOT NULL AND id NOT IN (SELECT id FROM gone_replay))
      AND NOT EXISTS (SELECT 1 FROM setting
        WHERE name NOT IN (SELECT name FROM gone_result) AND instr(name, edit))""",
)
"""What goes, in the order in which one follows from the other. A message that no recording says,
because the one that did was replaced, goes with the next pruning."""


@contextmanager
def _marked(
    db: sqlite3.Connection, keys: Collection[str], before_ns: int | None, answers: bool
) -> Iterator[None]:
    """Marks what goes in tables of this connection alone; they hold ids, and no text."""
    given = {
        "keys": msgspec.json.encode(sorted(set(keys))).decode(),
        "before": before_ns,
        "answers": answers,
    }
    _unmark(db)
    for table in _MARKS:
        db.execute(f"CREATE TEMP TABLE {table}")
    for statement in _FILLS:
        db.execute(statement, given)
    yield
    _unmark(db)


def _unmark(db: sqlite3.Connection) -> None:
    for table in _MARKS:
        db.execute(f"DROP TABLE IF EXISTS temp.{table.partition('(')[0]}")


# --- what it comes to

_TEXTS = (
    ("message", "body", "id IN (SELECT id FROM gone_message)"),
    ("toolset", "body", "id IN (SELECT id FROM gone_toolset)"),
    ("span", "name", "id IN (SELECT id FROM gone_span)"),
    ("span", "error", "id IN (SELECT id FROM gone_span)"),
    ("span", "said_error", "id IN (SELECT id FROM gone_span)"),
    ("span", "detail", "id IN (SELECT id FROM gone_span)"),
    ("tool_call", "arguments", "span IN (SELECT id FROM gone_span)"),
    ("tool_call", "arguments_raw", "span IN (SELECT id FROM gone_span)"),
    ("replay", "core", "id IN (SELECT id FROM gone_replay)"),
    ("answer", "body", "rowid IN (SELECT id FROM gone_answer)"),
    ("edit", "body", "digest IN (SELECT digest FROM gone_edit)"),
    ("setting", "value", "name IN (SELECT name FROM gone_result)"),
)


def _weight(db: sqlite3.Connection) -> Weight:
    sizes = (
        f"SELECT sum(length(CAST({column} AS BLOB))) FROM {table} WHERE {where}"
        for table, column, where in _TEXTS
    )
    whole = "SELECT count(*) FROM trace WHERE {} complete AND id IN (SELECT id FROM gone_trace)"
    return Weight(
        traces=_number(db, whole.format("")),
        unfinished=_number(db, whole.format("NOT")),
        spans=_number(db, "SELECT count(*) FROM gone_span"),
        messages=_number(db, "SELECT count(*) FROM gone_message"),
        replays=_number(db, "SELECT count(*) FROM gone_replay"),
        answers=_number(db, "SELECT count(*) FROM gone_answer"),
        edits=_number(db, "SELECT count(*) FROM gone_edit"),
        results=_number(db, "SELECT count(*) FROM gone_result"),
        other_answers=_number(
            db,
            "SELECT count(*) FROM answer WHERE rowid NOT IN (SELECT id FROM gone_answer)"
            f" AND (server, key) NOT IN ({_RESTS.format('NOT')})",
        ),
        bytes=sum(_number(db, size) for size in sizes),
    )


def _number(db: sqlite3.Connection, sql: str) -> int:
    return int(db.execute(sql).fetchone()[0] or 0)


_DELETIONS = (
    # Triggers on `trace` take the spans out of the histogram: it goes before they do.
    "DELETE FROM trace WHERE id IN (SELECT id FROM gone_trace)",
    "DELETE FROM environment WHERE digest NOT IN"
    " (SELECT environment FROM trace WHERE environment IS NOT NULL)",
    "DELETE FROM step WHERE trace IN (SELECT id FROM gone_trace)",
    "DELETE FROM message_step WHERE trace IN (SELECT id FROM gone_trace)",
    "DELETE FROM source_score WHERE trace IN (SELECT id FROM gone_trace)",
    "DELETE FROM tool_call WHERE span IN (SELECT id FROM gone_span)",
    "DELETE FROM model_call WHERE span IN (SELECT id FROM gone_span)",
    "DELETE FROM span WHERE id IN (SELECT id FROM gone_span)",
    "DELETE FROM context WHERE id IN (SELECT id FROM gone_context)",
    "DELETE FROM message WHERE id IN (SELECT id FROM gone_message)",
    "DELETE FROM toolset WHERE id IN (SELECT id FROM gone_toolset)",
    "DELETE FROM trace_supplement WHERE trace_key IN (SELECT key FROM gone_key)",
    "DELETE FROM supplement WHERE digest NOT IN (SELECT supplement FROM trace_supplement)",
    "DELETE FROM stub WHERE trace_key IN (SELECT key FROM gone_key)",
    "DELETE FROM answer WHERE rowid IN (SELECT id FROM gone_answer)",
    "DELETE FROM replay WHERE id IN (SELECT id FROM gone_replay)",
    "DELETE FROM edit WHERE digest IN (SELECT digest FROM gone_edit)",
    "DELETE FROM setting WHERE name IN (SELECT name FROM gone_result)",
)
