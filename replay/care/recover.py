"""A damaged database into a new one: everything that can still be read, and a word on the rest.

`salvage` reads the rows, `mending` takes out what does not belong together, and each trace is
then written as an importer writes it, so that what follows from it (steps, sums, the index of
words) is made anew. A trace whose digest comes out as it was is whole; any other says what it
lost, among its problems. The damaged file is only read. What is saved of an encrypted one, and
whatever is made on the way, is encrypted with the same key.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec
from msgspec import Struct

from replay import files
from replay.care import check
from replay.care.mending import Mended, mend
from replay.care.rewriting import begin_like
from replay.care.salvage import Lost, Salvage, discard, salvage
from replay.errors import StoreUnusable
from replay.store import read
from replay.store.handle import Store
from replay.store.migrations import Migrations
from replay.store.schema import migrations
from replay.store.trouble import describe
from replay.store.write import Writer

TAPE = frozenset({
    "message", "context", "toolset", "trace", "span", "model_call", "tool_call", "source_score",
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
        raise StoreUnusable(
            f"{into}: is there already, and stays as it is", "--into names another file"
        )
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
            raise StoreUnusable(f"{into}: is there already, and stays as it is") from error
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
                f"{into and into.parent}: nothing can be written there: {error.strerror}",
                "--into names another place",
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
        written = writer.write(read.recorded(rows, key))
        with new.writing() as db:
            db.execute(
                "UPDATE trace SET (key, run, imported_ns) = (?, ?, ?)"
                " WHERE key = ? AND NOT complete",
                (key, run, imported_ns, written),
            )
        writer.finish(written)
        lost = dict(mended.of_trace.get(row, {}))
        if not lost and read.content_digest(new, key) == content:
            whole += 1
            continue
        lost = lost or {"something its digest spoke for": 1}
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
