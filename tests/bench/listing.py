"""Light commands as whole processes, and what a list asks of a database of many runs."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from pathlib import Path

from arc_tui.views.runs import run_rows
from arc_tui.views.trace import build_trace
from replay.store import Store
from replay.store.rows import trace_rows
from replay.store.write import Writer
from taxonomy.ledger import open_ledger
from taxonomy.pareto import pareto, tally
from tests.bench.corpus import batches, trace
from tests.bench.measure import Row, best, ms, pair, process

TRACES = 2000


def commands(folder: Path) -> Iterator[Row]:
    """`arc ls` and `arc show` beside `sqlite-utils --help`."""
    database = folder / "commands.db"
    with open_ledger(database) as store:
        fill(store, 10)
    tool = str(Path(sys.executable).with_name("sqlite-utils"))
    arc = (sys.executable, "-m", "arc_tui", "--db", str(database))
    for words in (("ls",), ("show", "last")):
        ours, theirs = pair(process(*arc, *words), process(tool, "--help"), 7)
        yield Row(
            f"arc {words[0]}, whole process",
            f"{ms(ours)} against {ms(theirs)}: {ours / theirs:.2f}×",
            "sqlite-utils --help, goal ≤ 1.2×",
        )


def rows(folder: Path) -> Iterator[Row]:
    """List, filter and Pareto over many runs; a long trace opened."""
    with open_ledger(folder / "many.db") as store:
        spans = fill(store, TRACES)
        what = f"{TRACES} runs, {spans} spans: "
        figures = {
            "every summary read": lambda: trace_rows(store),
            "the list with its phrases": lambda: run_rows(store),
            "filtered by two words": lambda: run_rows(store, "outcome:failed refund"),
            "Pareto with its runs": lambda: pareto(store),
            "bars of the panel": lambda: tally(store),
        }
        for name, work in figures.items():
            yield Row(what + name, ms(best(work)), "goal 20 ms at 30k runs")
        writer = Writer(store)
        key = writer.write(trace(random.Random(1), "long", 5000))
        writer.finish(key)
        opened = best(lambda: build_trace(store, key))
        yield Row(
            "opening a 10 001-span trace, rows and tree", ms(opened), "Phoenix 20.26: 13-28 s"
        )


def fill(store: Store, traces: int) -> int:
    """Write the corpus; returns how many spans."""
    writer = Writer(store)
    return sum(writer.finish(writer.write(batch)).spans for batch in batches(traces))
