"""A damaged database into a new one: everything that can still be read, and a word on the rest.

`salvage` reads the rows; what does not belong together is taken out (`mend`), and each trace is
then written as an importer writes it, so that what follows from it (steps, sums, the index of
words) is made anew. A trace whose digest comes out as it was is whole; any other says what it
lost, among its problems. The damaged file is only read. What is saved of an encrypted one, and
whatever is made on the way, is encrypted with the same key.
"""

from __future__ import annotations

import os
import sqlite3
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import get_args

import msgspec
from msgspec import Struct, field

from replay import digests, files
from replay.care import check
from replay.care.rewriting import begin_like
from replay.care.salvage import Lost, Salvage, discard, salvage
from replay.errors import StoreUnusable
from replay.store import read
from replay.store.handle import Store
from replay.store.schema import Migrations, migrations
from replay.store.trouble import describe
from replay.store.write import Writer
from replay.trace import Level, Status, TimeQuality

_PARTS = {
    "system": ("message", "system prompt"),
    "toolset": ("toolset", "tool definitions"),
    "context": ("context", "context"),
    "response": ("message", "answer"),
}
"""What a model call refers to: the column, its table, its name for a person."""

_DAMAGED = "lost to damage"
_OUTCOMES = ("passed", "failed", "unknown")


class Mended(Struct, kw_only=True):
    """What had to be taken out: the losses of each trace by its row, in words with how often, and
    rows of other tables."""

    of_trace: dict[int, Counter[str]] = field(default_factory=dict)
    rows: list[Lost] = field(default_factory=list)
    nameless: int = 0

    def note(self, trace: int, what: str) -> None:
        self.of_trace.setdefault(trace, Counter())[what] += 1


def mend(db: sqlite3.Connection, lost: Iterable[Lost]) -> Mended:
    """Take out of a salvaged database what does not belong together, in one transaction."""
    found = Mended()
    db.execute("PRAGMA foreign_keys = OFF")
    db.execute("BEGIN")
    _put_heads(db, [each for each in lost if each.table == "trace"], found)
    _mend_heads(db, found)
    _drop(db, "message", check.broken_messages(db))
    _drop(db, "context", check.broken_contexts(db))
    _drop(db, "context", _cut_off(db))
    _drop(db, "toolset", check.broken_toolsets(db))
    _forget_missing(db, found)
    _drop_spans(db, found)
    for table in check.beside_the_tape(db):
        if table not in TAPE:
            _take_out(db, table, check.broken_rows(db, table), found)
    for table, digest in list(check.broken_digests(db)):
        if table not in TAPE:
            _take_out(db, table, _rows(db, table, "digest = ?", digest), found)
    for table, column, of in _NOTHING_WITHOUT:
        missing = f"{column} IS NOT NULL AND {column} NOT IN (SELECT digest FROM {of})"
        _take_out(db, table, _rows(db, table, missing), found)
    db.execute("COMMIT")
    there = {row[0] for row in db.execute("SELECT id FROM trace WHERE complete")}
    found.of_trace = {row: lost for row, lost in found.of_trace.items() if row in there}
    return found


def _drop(db: sqlite3.Connection, table: str, rows: Iterable[int]) -> None:
    db.executemany(f"DELETE FROM {table} WHERE rowid = ?", ((row,) for row in rows))


_NOTHING_WITHOUT = (("replay", "edit", "edit"), ("trace_supplement", "supplement", "supplement"))
"""Table, column, and the table whose row it is nothing without."""


def _rows(db: sqlite3.Connection, table: str, where: str, *values: str) -> list[int]:
    return [row[0] for row in db.execute(f"SELECT rowid FROM {table} WHERE {where}", values)]


def _take_out(db: sqlite3.Connection, table: str, rows: list[int], found: Mended) -> None:
    """Take rows out of a table beside the tape, and keep what they were."""
    found.rows += [Lost(table=table, id=row, known=check.known_of(db, table, row)) for row in rows]
    _drop(db, table, rows)


def _cut_off(db: sqlite3.Connection) -> list[int]:
    """The nodes of contexts that do not reach back to their beginning."""
    whole: set[int | None] = {None}
    cut: list[int] = []
    for row, parent in db.execute("SELECT id, parent FROM context ORDER BY id"):
        if parent in whole:
            whole.add(row)
        else:
            cut.append(row)
    return cut


# --- heads of traces


def _put_heads(db: sqlite3.Connection, lost: Iterable[Lost], found: Mended) -> None:
    """A row for each trace whose own is lost: as much as indices say of it, and that it is so.

    Spans whose trace no index names were never finished, or cannot be given to anyone.
    """
    for each in lost:
        known = each.known
        key = known.get("key")
        spans = db.execute("SELECT 1 FROM span WHERE trace = ? LIMIT 1", (each.id,)).fetchone()
        if not isinstance(key, str) or spans is None:
            continue
        moved = db.execute(
            "UPDATE OR IGNORE trace SET id = ? WHERE key = ? AND complete"
            " AND id NOT IN (SELECT trace FROM span)",
            (each.id, key),
        )
        if moved.rowcount:  # it is there, under a number that a damaged byte made
            continue
        made = db.execute(
            "INSERT OR IGNORE INTO trace"
            " (id, key, run, complete, format, source_id, task, trial, outcome, labels,"
            " imported_ns) VALUES (?, ?, ?, 1, 'recovered', ?, ?, ?, ?, '{}', ?)",
            (
                each.id,
                key,
                known.get("run") or key,
                key,
                known.get("task"),
                known.get("trial"),
                known.get("outcome") if known.get("outcome") in _OUTCOMES else "unknown",
                known.get("imported_ns") or 0,
            ),
        )
        if made.rowcount:
            found.note(each.id, "its trace-level data")
    (found.nameless,) = db.execute(
        "SELECT count(*) FROM span WHERE trace NOT IN (SELECT id FROM trace)"
    ).fetchone()


def _mend_heads(db: sqlite3.Connection, found: Mended) -> None:
    """Values of a trace's row that no one can read are set to nothing known."""
    rows = db.execute(
        "SELECT id, outcome, labels, problems, reference FROM trace WHERE complete"
    ).fetchall()
    for row, outcome, *values in rows:
        if outcome not in _OUTCOMES:
            db.execute(
                "UPDATE trace SET (outcome, outcome_value, outcome_by) = ('unknown', NULL, NULL)"
                " WHERE id = ?",
                (row,),
            )
            found.note(row, "outcome")
        empty = ("{}", "[]", None)
        names = ("labels", "problems", "reference")
        for name, value, nothing in zip(names, values, empty, strict=True):
            if value is not None and not _is_json(value, list if name == "problems" else dict):
                db.execute(f"UPDATE trace SET {name} = ? WHERE id = ?", (nothing, row))
                found.note(row, name)


def _is_json(text: str, of: type) -> bool:
    try:
        return isinstance(msgspec.json.decode(text), of)
    except msgspec.DecodeError:
        return False


# --- spans


def _forget_missing(db: sqlite3.Connection, found: Mended) -> None:
    """Calls forget what they refer to and is not there."""
    for column, (table, name) in _PARTS.items():
        missing = f"c.{column} IS NOT NULL AND c.{column} NOT IN (SELECT id FROM {table})"
        rows = db.execute(
            "SELECT s.trace, c.span, c.fidelity, c.fidelity_reasons FROM model_call c"
            f" JOIN span s ON s.id = c.span WHERE {missing}"
        ).fetchall()
        for trace, span, level, reasons in rows:
            found.note(trace, name)
            _mark_of(db, span)
            if column != "response":
                _weaken(db, span, level, reasons, name)
        db.execute(f"UPDATE model_call AS c SET {column} = NULL WHERE {missing}")
    missing = "c.observation IS NOT NULL AND c.observation NOT IN (SELECT id FROM message)"
    rows = db.execute(
        f"SELECT s.trace, c.span FROM tool_call c JOIN span s ON s.id = c.span WHERE {missing}"
    ).fetchall()
    for trace, span in rows:
        found.note(trace, "result of a tool")
        _mark_of(db, span)
    db.execute(
        f"UPDATE tool_call AS c SET (observation, observation_block) = (NULL, NULL) WHERE {missing}"
    )


def _mark_of(db: sqlite3.Connection, span: int) -> None:
    """Its digest speaks of what is gone, and can vouch for it no more."""
    db.execute("UPDATE span SET digest = '' WHERE id = ?", (span,))


def _weaken(db: sqlite3.Connection, span: int, level: str, reasons: str | None, name: str) -> None:
    """The request is known less completely than it was."""
    weakest = Level.NONE if name == _PARTS["context"][1] else Level.PARTIAL
    known = [each for each in Level if each == level]
    kept = max([*known, weakest], key=lambda each: each.rank)
    said = msgspec.json.decode(reasons) if reasons and _is_json(reasons, list) else []
    db.execute(
        "UPDATE model_call SET (fidelity, fidelity_reasons) = (?, ?) WHERE span = ?",
        (kept.value, digests.encode([*said, f"{name} {_DAMAGED}"]).decode(), span),
    )


def _drop_spans(db: sqlite3.Connection, found: Mended) -> None:
    """Spans that say otherwise than their digest, and those that never had all their rows."""
    traces = db.execute("SELECT id, spans FROM trace WHERE complete").fetchall()
    for trace, wanted in traces:
        there = 0
        for span, holds in check.span_rows(db, trace):
            if holds or (span["digest"] == "" and _readable(db, span)):
                there += 1
            else:
                db.execute("DELETE FROM span WHERE id = ?", (span["id"],))
                for call in ("model_call", "tool_call"):
                    db.execute(f"DELETE FROM {call} WHERE span = ?", (span["id"],))
        if wanted is not None and there < wanted:
            found.of_trace.setdefault(trace, Counter())["span"] += wanted - there


def _readable(db: sqlite3.Connection, span: dict[str, object]) -> bool:
    """Has a span without its digest all its rows, and values that can be read?"""
    if span["status"] not in get_args(Status) or span["time_quality"] not in get_args(TimeQuality):
        return False
    values = [span["detail"]]
    for table, columns in (
        ("model_call", "params, fidelity_reasons"),
        ("tool_call", "arguments"),
    ):
        row = db.execute(f"SELECT {columns} FROM {table} WHERE span = ?", (span["id"],)).fetchone()
        if row is None and span["kind"] == table.partition("_")[0]:
            return False
        values += row or ()
    try:
        for value in values:
            if value is not None:
                msgspec.json.decode(str(value))
    except msgspec.DecodeError:
        return False
    return True


TAPE = frozenset({
    "message", "context", "toolset", "trace", "span", "model_call", "tool_call", "source_score",
    "environment",
})  # fmt: skip
"""Tables that the writer of traces fills."""


class Partial(Struct, frozen=True, kw_only=True):
    """A trace that is not all there: what it lost, in words with how often."""

    trace: str
    title: str | None
    task: str | None
    lost: dict[str, int]

    @property
    def words(self) -> str:
        """What it lost, in one line."""
        return ", ".join(f"{many} × {what}" if many > 1 else what for what, many in self.sorted())

    def sorted(self) -> list[tuple[str, int]]:
        return sorted(self.lost.items())


class Losses(Struct, frozen=True, kw_only=True):
    """What a damaged file has lost.

    `damaged` says of places how often something was wrong there, and what at first; `traces` are
    not all there, `gone` (by id) have nothing left; `rows` are those of other tables that are
    named somewhere; `unplaced` ones are left over: nothing tells their table or their trace.
    """

    damaged: dict[str, tuple[int, str]]
    traces: tuple[Partial, ...]
    gone: tuple[str, ...]
    rows: tuple[Lost, ...]
    unplaced: int

    @property
    def any(self) -> bool:
        """Is anything lost that was recorded, paid for or said?"""
        return bool(self.traces or self.gone or self.rows or self.unplaced)


class Recovered(Struct, frozen=True, kw_only=True):
    """A new database: where, how many traces are whole, rows of other tables, and the losses."""

    path: Path
    whole: int
    rows: dict[str, int]
    losses: Losses


Follows = Callable[[Lost], bool]
"""Does a lost row follow from the rest, and is made anew by whoever owns its table?"""


def survey(path: Path, *sets: Migrations, follows: Follows) -> Losses:
    """What a damaged file has lost, without saving the rest. Raises StoreUnusable as `recover`."""
    with _workshop(None) as folder:
        found, mended = _salvaged(path, folder / "rows.db", sets)
        with Store.open(folder / "rows.db", *sets) as store:
            return _losses(store, found, mended, follows)


def recover(
    path: Path, into: Path, *sets: Migrations, follows: Follows, without: Collection[str] = ()
) -> Recovered:
    """Save what can be read of `path` into a new database at `into`.

    `sets` are the migration sets beside the tape's own; the tables `without` are left empty, since
    they are made anew. Raises StoreUnusable where something is at `into`, where `path` is written
    meanwhile or has nothing of a database.
    """
    if os.path.lexists(into):
        raise StoreUnusable(f"{into}: already exists", "Try: --into FILE, another one")
    with _workshop(into) as folder:
        found, mended = _salvaged(path, folder / "rows.db", sets)
        begin_like(path, folder / "new.db")
        with (
            Store.open(folder / "rows.db", *sets) as rows,
            Store.open(folder / "new.db", *sets) as new,
        ):
            losses = _losses(rows, found, mended, follows)
            with new.writing():
                kept = _copy_beside(rows, new, without)
            whole, partial = _write_traces(rows, new, mended)
            new.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        try:
            os.link(folder / "new.db", into)
        except FileExistsError as error:
            raise StoreUnusable(f"{into}: already exists") from error
        except OSError:  # a file system without links
            (folder / "new.db").rename(into)
    losses = msgspec.structs.replace(losses, traces=partial)
    return Recovered(path=into, whole=whole, rows=kept, losses=losses)


@contextmanager
def _workshop(into: Path | None) -> Iterator[Path]:
    """A private folder for what is made on the way, beside what it is made for."""
    with ExitStack() as undo:
        made = files.private_folder() if into is None else files.temporary_for(into, folder=True)
        try:
            folder = undo.enter_context(made)
        except OSError as error:
            raise StoreUnusable(
                f"{into and into.parent}: cannot be written: {error.strerror}",
                "Try: --into FILE, in another folder",
            ) from error
        with describe(folder):
            yield folder


def _salvaged(path: Path, into: Path, sets: Sequence[Migrations]) -> tuple[Salvage, Mended]:
    discard(into)
    found = salvage(path, into, (migrations, *sets))
    with Store.open(into, *sets) as store:
        return found, mend(store.db, found.lost)


# --- what is lost


def _losses(store: Store, found: Salvage, mended: Mended, follows: Follows) -> Losses:
    there = {row[0] for row in store.db.execute("SELECT key FROM trace WHERE complete")}
    gone = [
        str(each.known["key"])
        for each in found.lost
        if each.table == "trace" and "key" in each.known and each.known["key"] not in there
    ]
    rows = [each for each in (*found.lost, *mended.rows) if each.table not in TAPE]
    return Losses(
        damaged=found.damaged,
        traces=tuple(_partials(store, mended.of_trace)),
        gone=tuple(gone),
        rows=tuple(each for each in rows if not follows(each)),
        unplaced=found.unplaced + mended.nameless,
    )


def _partials(store: Store, losses: Mapping[int, Counter[str]]) -> Iterator[Partial]:
    for row in sorted(losses):
        key, title, task = store.db.execute(
            "SELECT key, title, task FROM trace WHERE id = ?", (row,)
        ).fetchone()
        yield Partial(trace=key, title=title, task=task, lost=dict(losses[row]))


# --- into the new file


def _copy_beside(rows: Store, new: Store, without: Collection[str]) -> dict[str, int]:
    """Every row of the tables beside the tape, as it was; how many, by table."""
    kept: dict[str, int] = {}
    new.db.execute("PRAGMA defer_foreign_keys = ON")
    for table in check.beside_the_tape(rows.db):
        if table in TAPE or table in without:
            continue
        names = [row[1] for row in rows.db.execute(f"PRAGMA table_info({table})")]
        cursor = rows.db.execute(f"SELECT {', '.join(names)} FROM {table}")
        marks = ", ".join("?" * len(names))
        done = new.db.executemany(
            f"INSERT OR REPLACE INTO {table} ({', '.join(names)}) VALUES ({marks})", cursor
        )
        kept[table] = done.rowcount
    return kept


def _write_traces(rows: Store, new: Store, mended: Mended) -> tuple[int, tuple[Partial, ...]]:
    """Each trace as an importer writes it; how many came out whole, and those that did not."""
    writer, whole = Writer(new), 0
    partial: list[Partial] = []
    heads = rows.db.execute(
        "SELECT id, key, run, imported_ns, content, title, task FROM trace WHERE complete"
        " ORDER BY id"
    ).fetchall()
    for row, key, run, imported_ns, content, title, task in heads:
        restored = writer.restore(read.recorded(rows, key), key, run, imported_ns)
        lost = dict(mended.of_trace.get(row, {}))
        if not lost and restored == content:
            whole += 1
            continue
        lost = lost or {"content covered by its digest": 1}
        partial.append(Partial(trace=key, title=title, task=task, lost=lost))
        _mark(new, key, partial[-1])
    return whole, tuple(partial)


def _mark(new: Store, key: str, partial: Partial) -> None:
    """The trace says itself that it is not all there."""
    with new.writing() as db:
        (said,) = db.execute(
            "SELECT problems FROM trace WHERE key = ? AND complete", (key,)
        ).fetchone()
        problems = [*msgspec.json.decode(said), f"recovered from a damaged file: {partial.words}"]
        db.execute(
            "UPDATE trace SET problems = ? WHERE key = ? AND complete",
            (msgspec.json.encode(problems).decode(), key),
        )
