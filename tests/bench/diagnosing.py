"""What the rules cost: steps a second, beside reading the same rows from SQLite without them.

All of it is one thread that computes, so the figures are processor seconds: what else the machine
does does not count.
"""

from __future__ import annotations

import random
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from arc_tui import importing
from replay.store import read
from replay.store.handle import Store
from replay.store.write import Writer
from taxonomy.diagnosis import diagnose
from taxonomy.judgements.diagnoses import undiagnosed
from taxonomy.judgements.schema import open_ledger
from tests.bench.corpus import batches, trace
from tests.bench.measure import Row, ms

TRACES = 10_000
STEPS = 6
"""Steps a trace: short ones, so that the corpus is made in a minute or two."""

LENGTHS = (1_000, 4_000)
"""Steps of a session that is diagnosed by itself."""

PLAIN = (
    "SELECT * FROM trace",
    "SELECT * FROM span s LEFT JOIN model_call m ON m.span = s.id"
    " LEFT JOIN tool_call t ON t.span = s.id ORDER BY s.trace, s.seq",
    "SELECT id, dialect, body FROM message",
    "SELECT id, parent, message FROM context ORDER BY id",
    "SELECT id, body FROM toolset",
    "SELECT * FROM source_score",
)
"""What a diagnosis reads of every trace, each row once, as text and numbers."""


def rows(folder: Path) -> Iterator[Row]:
    """A corpus imported, read plainly, loaded as values, diagnosed and kept."""
    database = folder / "diagnosed.db"
    with open_ledger(database) as store:
        imported = spent(lambda: fill(store, TRACES, STEPS))
        steps = TRACES * STEPS
        plain = min(spent(lambda: read_plainly(database)) for _ in range(3))
        keys = undiagnosed(store)
        loaded = spent(lambda: [read.load(store, key).id for key in keys])
        diagnosed = spent(lambda: list(importing.diagnose_new(store)))
        size = sum(part.stat().st_size for part in folder.glob("diagnosed.db*"))
    yield Row(
        f"diagnosis of {TRACES} traces, {steps} steps ({size >> 20} MB)",
        f"{steps / diagnosed:.0f} steps/s, {ms(diagnosed)}: {diagnosed / plain:.0f}× a plain read",
        f"the same rows from SQLite {ms(plain)}; their import {ms(imported)}",
    )
    yield Row(
        "of it loading the traces as values",
        f"{ms(loaded)}: {loaded / diagnosed:.0%}",
        "the rest is rules, localiser and what is kept",
    )
    yield long_sessions(folder)


def long_sessions(folder: Path) -> Row:
    """The rules on one long session, at two lengths, beside reading it from the store."""
    took: list[float] = []
    figures = []
    for steps in LENGTHS:
        diagnosed, loaded = one_session(folder / f"session-{steps}.db", steps)
        took.append(diagnosed / steps)
        figures.append(f"{ms(diagnosed)} at {steps}, {diagnosed / loaded:.1f}× reading it")
    return Row(
        "diagnosis of one session, in steps",
        "; ".join(figures),
        f"a step of the longer costs {took[1] / took[0]:.2f}×, goal ≤ 1.2×",
    )


def one_session(database: Path, steps: int) -> tuple[float, float]:
    """Processor seconds of the diagnosis of a session of so many steps, and of reading it."""
    with open_ledger(database) as store:
        writer = Writer(store)
        key = writer.write(trace(random.Random(steps), "session", steps))
        writer.finish(key)
        session = read.load(store, key)
        diagnosed = min(spent(lambda: diagnose(session)) for _ in range(3))
        return diagnosed, min(spent(lambda: read.load(store, key)) for _ in range(3))


def fill(store: Store, traces: int, steps: int) -> None:
    writer = Writer(store)
    for batch in batches(traces, steps=steps):
        writer.finish(writer.write(batch))


def read_plainly(database: Path) -> int:
    """Every row that a diagnosis reads, by `sqlite3` alone; how many there are."""
    connection = sqlite3.connect(database)
    try:
        return sum(len(connection.execute(statement).fetchall()) for statement in PLAIN)
    finally:
        connection.close()


def spent(work: Callable[[], object]) -> float:
    """Processor seconds of a single run: what is diagnosed is not diagnosed again."""
    start = time.process_time()
    work()
    return time.process_time() - start
