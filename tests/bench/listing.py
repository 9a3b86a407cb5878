"""Light commands as whole processes, and what is asked of a database of very many runs."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from arc_tui.views.failures import FailuresRequest, build_behind, build_failures
from arc_tui.views.runs import Arrangement, build_runs, run_rows
from arc_tui.views.trace import build_beginning, build_trace
from replay.store.handle import Store
from replay.store.rows import latencies, span_rows, standing
from replay.store.search import runs_saying, steps_saying, traces_saying
from replay.store.write import Writer
from taxonomy.failures import pareto, tally
from taxonomy.judgements.schema import open_ledger
from taxonomy.query.compile import runs_meant
from taxonomy.query.filter import ALL, Filter
from taxonomy.query.listing import ORDERS, PAGE, RunRow, run_order, run_totals, runs_at
from taxonomy.stats.matrix import matrix
from tests.bench.app import EMPTY_APP
from tests.bench.corpus import trace
from tests.bench.many import fill, fill_many
from tests.bench.measure import Row, best, compare, ms, process, python, spent

TRACES, FULL_TRACES = 30_000, 300_000
NO_GOAL = "several questions, or every row made: no goal"

OPEN_LIST = """
import asyncio, pathlib
from arc_tui.app import ArcApp
from arc_tui.features.runs.widgets import RunTable
async def main():
    app = ArcApp(pathlib.Path({path!r}))
    async with app.run_test(size=(120, 40)) as pilot:
        while not app.screen.query_one(RunTable).row_count:
            await pilot.pause(0.005)
asyncio.run(main())
"""


def commands(folder: Path) -> Iterator[Row]:
    """`arc ls` and `arc show` beside `sqlite-utils --help`."""
    database = folder / "commands.db"
    with open_ledger(database) as store:
        fill(store, 10)
    tool = str(Path(sys.executable).with_name("sqlite-utils"))
    arc = (sys.executable, "-m", "arc_tui", "--db", str(database))
    for words in (("ls",), ("show", "last")):
        found = compare(process(*arc, *words), process(tool, "--help"), 7)
        yield Row(
            f"arc {words[0]}, whole process",
            str(found),
            "sqlite-utils --help, goal ≤ 1.2×",
        )


def rows(folder: Path) -> Iterator[Row]:
    """List, sort, filter, Pareto, percentiles and search over many runs; a long trace opened."""
    with open_ledger(folder / "many.db") as store:
        spans = fill_many(store, TRACES)
        writer = Writer(store)
        long = writer.finish(writer.write(trace(random.Random(1), "long", 5000))).id
        yield from _answered(store, TRACES, spans, "goal 20 ms")
        yield from _long(store, long)
    opened = python(OPEN_LIST.format(path=str(folder / "many.db")))
    yield Row(
        f"first frame with the list of {TRACES // 1000}k runs",
        str(compare(opened, python(EMPTY_APP), 3)),
        "an empty Textual app, no goal",
    )


def full_rows(folder: Path) -> Iterator[Row]:
    """The same questions of ten times as many runs."""
    with open_ledger(folder / "ten-times.db") as store:
        spans = fill_many(store, FULL_TRACES)
        yield from _answered(store, FULL_TRACES, spans, "goal 100 ms")


def _answered(store: Store, runs: int, spans: int, goal: str) -> Iterator[Row]:
    what = f"{runs // 1000}k runs, {spans / 1e6:.1f}M spans, copied: "
    for name, work in questions(store).items():
        yield Row(what + name, spent(work, 3), goal)
    for name, work in whole_screens(store).items():
        yield Row(what + name, spent(work, 2), NO_GOAL)


def whole_screens(store: Store) -> dict[str, Callable[[], object]]:
    """What takes several questions, or reads every row."""
    bar = build_failures(store, with_runs=False).rows[0]
    return {
        "the screen of runs, all it draws at first": lambda: build_runs(store),
        "the same by outcome": lambda: build_runs(store, Arrangement(order="outcome")),
        "the same of a query": lambda: build_runs(store, Arrangement(words="tag:loop")),
        "the whole list as rows": lambda: run_rows(store),
        "matrix of tasks by variant and model": lambda: matrix(store),
        "Pareto with the runs behind each bar": lambda: pareto(store),
        "all runs behind its first bar": lambda: build_behind(store, FailuresRequest(), bar),
        "every run that says a phrase": lambda: traces_saying(store, "refund invoice retry"),
    }


def questions(store: Store) -> dict[str, Callable[[], object]]:
    """What a screen or a command asks for at once."""

    def first(chosen: Filter = ALL, order: str = "") -> tuple[RunRow, ...]:
        return runs_at(store, run_order(store, chosen, order=ORDERS[order], limit=PAGE))

    def asked(query: str) -> object:
        return first(runs_meant(store, query, page=True))

    bar = build_failures(store, with_runs=False).rows[0]
    failed = Filter("outcome = ?", ("failed",), recorded=True)
    listed: dict[str, Callable[[], object]] = {
        f"first page {f'by {order}' if order else 'as imported'}": (
            lambda order=order: first(order=order)  # type: ignore[misc]
        )
        for order in ORDERS
    }
    return listed | {
        "first page of the failed by cost": lambda: first(failed, "cost"),
        "first page of two words": lambda: asked("outcome:failed refund"),
        "a word that no run says": lambda: asked("nowhere"),
        "first page of a class": lambda: asked("tag:loop"),
        "first page of a tool that failed": lambda: asked("tool.error"),
        "first page of a tool that nearly every run calls": lambda: asked("tool:search"),
        "first page of a common word in messages": lambda: asked('"refund"'),
        "first page of what is said first": lambda: asked("class:loop"),
        "order of all by cost, without rows": lambda: run_order(store, order=ORDERS["cost"]),
        "sums of all": lambda: run_totals(store),
        "sums of the failed": lambda: run_totals(store, failed),
        "Pareto, counted": lambda: tally(store),
        "the failures screen": lambda: build_failures(store, with_runs=False),
        "the runs behind its first bar": lambda: build_behind(
            store, FailuresRequest(), bar, limit=PAGE
        ),
        "latency percentiles by name": lambda: latencies(store),
        "where a call stands among those of its tool": lambda: standing(store, "search", 10**9),
        "50 runs that say a common word": lambda: runs_saying(store, "refund"),
        "50 runs that say a phrase": lambda: runs_saying(store, "refund invoice retry"),
        "a text that no run says": lambda: runs_saying(store, "refund nowhere"),
    }


def _long(store: Store, key: str) -> Iterator[Row]:
    """A trace of 10 001 spans."""
    opened = best(lambda: build_trace(store, key))
    yield Row("opening a 10 001-span trace, rows and tree", ms(opened), "Phoenix 20.26: 13-28 s")
    begun = best(lambda: build_beginning(store, key))
    yield Row("as much of it as its screen opens with", ms(begun), "goal 20 ms")
    yield Row("all its rows alone", ms(best(lambda: span_rows(store, key))), "goal 20 ms")
    for words in ("refund", "refund invoice retry", "nowhere"):
        found = best(lambda words=words: steps_saying(store, key, words), 3)  # type: ignore[misc]
        yield Row(f"its steps that say “{words}”", ms(found), "no goal")
