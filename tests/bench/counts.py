"""Operations that are counted, not timed: a test fails where one of them grows.

A counter yields counts under names that stay the same; less is better. What was last accepted
stands in `counts.json`; `python -m tests.bench --counts [WORD…]` counts anew and shows both,
`--keep` accepts what was found. A count holds on any machine, so that CI can hold it.
"""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from replay.store.handle import Store
from taxonomy.judgements.schema import open_ledger
from tests.bench import exports, listing, taking
from tests.bench.app import A_ROW, ARC
from tests.bench.many import fill_many
from tests.bench.shown import long_trace, only_trace
from tests.bench.terminal import Terminal
from tests.test_boundaries import loaded_by

KEPT = Path(__file__).with_name("counts.json")

MAY_GROW = 1.05
"""A count this much larger is as it was: the pages of a database differ by that much."""

PLANS_DIFFER = 1.3
"""The same for what SQLite does: its versions differ in their plans."""

RUNS = 600
"""Runs of the database that lists are counted on."""

KEY_SPANS, KEY_PRESSES = 1_000, 12


class Count(NamedTuple):
    """How many of something; less is better. Up to `may_grow` times it is as it was."""

    name: str
    value: float
    may_grow: float = MAY_GROW


def imported(folder: Path) -> Iterator[Count]:
    """Two megabytes of OTLP: statements, and bytes beyond an empty database, a span."""
    source = folder / "counted.jsonl"
    spans = exports.write(source, 2).spans
    database = folder / "counted.db"
    with open_ledger(database) as store:
        store.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        empty = database.stat().st_size
        statements = counted_statements(store, lambda: taking.bring(store, source))
        store.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    yield Count("import: SQL statements a span", statements / spans)
    yield Count("import: bytes a span on disk", (database.stat().st_size - empty) / spans)


def counted_statements(store: Store, work: Callable[[], object]) -> int:
    """How many statements SQLite ran meanwhile, those of triggers aside."""
    found = 0

    def count(statement: str) -> None:
        nonlocal found
        found += not statement.startswith("--")

    store.db.set_trace_callback(count)
    try:
        work()
    finally:
        store.db.set_trace_callback(None)
    return found


def commands(folder: Path) -> Iterator[Count]:
    """Our own modules that a command loads."""
    database = folder / "counted-commands.db"
    with open_ledger(database) as store:
        fill_many(store, 1)
    ours = ("arc_tui", "replay", "taxonomy")
    for words in (["ls"], ["show", "last"], ["failures"], ["stats"]):
        (loaded,) = loaded_by([words], database).values()
        own = [name for name in loaded if name.partition(".")[0] in ours]
        yield Count(f"arc {words[0]}: modules of arc loaded", len(own))


FIRST_FRAME = """
import asyncio, pathlib, sys
import arc_tui.commands, arc_tui.open
from arc_tui.app import ArcApp
from arc_tui.features.{screen} import screen
from arc_tui.{build}
from taxonomy.judgements.schema import open_ledger
path = pathlib.Path({path!r})
with open_ledger(path) as store:
    asked = []
    store.db.set_trace_callback(lambda said: said.startswith("--") or asked.append(said))
    {question}
ours = [name for name in sys.modules if name.partition(".")[0] in ("arc_tui", "replay", "taxonomy")]
async def main():
    app = ArcApp(path, trace={trace!r})
    async with app.run_test(size=(120, 40)) as pilot:
        while app.screen.awaits:
            await pilot.pause(0.01)
        print(len(ours), len(asked), len(app.screen.query("*")))
asyncio.run(main())
"""
"""What stands before the rows of a screen, without what it reads once they are drawn."""


def first_frames(folder: Path) -> Iterator[Count]:
    """What the app loads, asks the database and mounts until a screen has its rows."""
    database = folder / "counted-runs.db"
    with open_ledger(database) as store:
        fill_many(store, RUNS)
    long = long_trace(KEY_SPANS)
    trace = only_trace(long)
    for name, code in {
        f"the list of {RUNS} runs": FIRST_FRAME.format(
            screen="runs", build="views.runs import Arrangement, build_runs", path=str(database),
            question="build_runs(store, Arrangement())", trace=None,
        ),
        f"a run of {KEY_SPANS:,} spans": FIRST_FRAME.format(
            screen="trace", build="views.trace import build_beginning", path=str(long),
            question=f"build_beginning(store, {trace!r})", trace=trace,
        ),
    }.items():  # fmt: skip
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        modules, statements, widgets = map(int, done.stdout.split())
        yield Count(f"{name}: modules of arc loaded until it is drawn", modules)
        yield Count(f"{name}: SQL statements until it is drawn", statements)
        yield Count(f"{name}: widgets mounted", widgets)


def lists(folder: Path) -> Iterator[Count]:
    """Hundreds of steps that SQLite's machine takes to answer each question of a list."""
    with open_ledger(folder / "counted-lists.db") as store:
        fill_many(store, RUNS)
        for name, work in listing.questions(store).items():
            yield Count(f"{RUNS} runs: {name}", counted_steps(store.db, work), PLANS_DIFFER)


def counted_steps(db: sqlite3.Connection, work: Callable[[], object]) -> int:
    """Hundreds of steps that SQLite's machine takes meanwhile."""
    found = 0

    def step() -> int:
        nonlocal found
        found += 1
        return 0

    db.set_progress_handler(step, 100)
    try:
        work()
    finally:
        db.set_progress_handler(None, 0)
    return found


def keys(_: Path) -> Iterator[Count]:
    """Frames that the app draws in a real terminal for a key, where it draws fewest: a busy machine
    may draw a frame more between two steps of the same work."""
    with Terminal(*ARC, str(long_trace(KEY_SPANS)), "open", "last") as terminal:
        terminal.until(A_ROW)
        terminal.settle()
        for what, keys in {"a row down": "j", "a page down or up": "\x04\x15"}.items():
            found = []
            for turn in range(KEY_PRESSES):
                terminal.press(keys[turn % len(keys)])
                found.append(terminal.frames)
            yield Count(f"{what} in {KEY_SPANS:,} spans: frames drawn", min(found))


COUNTERS: dict[str, Callable[[Path], Iterator[Count]]] = {
    "import": imported,
    "commands": commands,
    "first frames": first_frames,
    "lists": lists,
    "keys": keys,
}
"""By a short name. A counter is given a folder for what it makes."""


def counted(counter: str) -> dict[str, Count]:
    """What a counter counts, by name."""
    with tempfile.TemporaryDirectory(prefix="arc-counts-") as folder:
        return {count.name: count for count in COUNTERS[counter](Path(folder))}


def accepted() -> dict[str, dict[str, float]]:
    """What was last accepted of each counter."""
    if not KEPT.exists():
        return {}
    return msgspec.json.decode(KEPT.read_bytes(), type=dict[str, dict[str, float]])


def accept(counter: str, found: Mapping[str, Count]) -> None:
    """From now on these are what later counts are held against, in place of all that was accepted
    of the counter."""
    own = {name: round(count.value, 2) for name, count in found.items()}
    text = msgspec.json.encode(accepted() | {counter: own}, order="sorted")
    KEPT.write_bytes(msgspec.json.format(text, indent=1) + b"\n")


def worse(found: Mapping[str, Count], known: Mapping[str, float]) -> dict[str, tuple[float, float]]:
    """(accepted, found) of the counts that have grown; those never accepted are not among them."""
    return {
        name: (known[name], round(count.value, 2))
        for name, count in found.items()
        if name in known and count.value > known[name] * count.may_grow
    }


def markdown() -> str:
    """The accepted counts as a table."""
    rows = (
        f"| {name} | {value:,.10g} |" for own in accepted().values() for name, value in own.items()
    )
    return "\n".join(("| what | count |", "| --- | --- |", *rows))
