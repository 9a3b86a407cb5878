"""The list of runs with the first thing to know about each, and the Pareto beside it."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct, convert, structs

from arc_tui import format
from arc_tui.config import read_owners
from replay.store import Store
from replay.store.rows import TraceRow
from taxonomy.ledger import undiagnosed
from taxonomy.pareto import Pareto, tally
from taxonomy.query import Verdict, listing
from taxonomy.query.compile import runs_meant
from taxonomy.query.filter import Filter, without_tasks
from taxonomy.query.listing import RunRow
from taxonomy.stats.holding import Apart, apart


class RunsView(Struct, frozen=True, eq=False, kw_only=True):
    """Everything the runs screen draws. `cost_usd` sums what is known of it.

    The bars of the Pareto are counted, the runs behind them not named.
    `waiting` traces were not looked at by the rules as they are today.
    What is `apart`, the runs of held-out tasks, is in none of the rest unless it is shown.
    """

    database: str
    rows: tuple[RunRow, ...]
    failed: int
    cost_usd: float | None
    cost_complete: bool
    pareto: Pareto
    apart: Apart = Apart()
    waiting: int = 0


EMPTY = RunsView(
    database="",
    rows=(),
    failed=0,
    cost_usd=None,
    cost_complete=False,
    pareto=Pareto(bars=(), apart=(), untagged=0, failed=0, unknown=0),
)


NO_RUN = convert(
    {each.name: None for each in structs.fields(RunRow)}
    | dict.fromkeys(("trace", "run", "format", "source_id", "labels", "problems"), "")
    | dict.fromkeys(("steps", "spans", "calls", "errors", "masked", "imported_ns"), 0)
    | dict.fromkeys(("tokens_complete", "cost_complete", "preferred", "live"), False)
    | {"outcome": "unknown", "warnings": ()},
    RunRow,
)
"""The run of a screen that has none yet."""


def run_row(row: TraceRow, verdict: Verdict | None) -> RunRow:
    """A trace with its diagnosis beside it."""
    known = structs.asdict(row)
    if verdict is None:
        return RunRow(**known)
    return RunRow(
        **known,
        shape=verdict.shape,
        why=verdict.why,
        why_step=verdict.why_step,
        warnings=verdict.warnings,
    )


def chosen(store: Store, query: str) -> Filter:
    """The runs that a query means (`taxonomy.query.language`). Raises BadQuery."""
    return runs_meant(store, query, read_owners)


def run_rows(store: Store, query: str = "", *, every: bool = False) -> tuple[RunRow, ...]:
    """The runs that a query means, in the order they were imported. Raises BadQuery."""
    return listing.run_rows(store, chosen(store, query), every=every)


def reason(row: RunRow) -> tuple[str, int | None]:
    """Why a run is as it is: its first candidate and that step, or what is wrong where it
    passed."""
    if row.outcome == "passed" and row.warnings:
        return f"passed; {format.one_line(row.warnings[0])}", None
    if row.outcome == "passed" or row.why is None:
        return format.UNKNOWN, None
    return format.one_line(row.why), row.why_step


def phrase(row: RunRow) -> str:
    """The reason of a run with its step, on one line."""
    why, step = reason(row)
    return why if step is None else f"{why} · {step}"


def total_cost(rows: Sequence[RunRow]) -> tuple[float | None, bool]:
    """(the sum of what is known of the cost, whether that is all of it)."""
    known = [row.cost_usd for row in rows if row.cost_usd is not None]
    return (sum(known) if known else None), all(row.cost_complete for row in rows)


def apart_words(given: Apart) -> str:
    """What is said of the runs of held-out tasks, "" where there is none."""
    if not given.runs:
        return ""
    runs = f"{format.count(given.runs, 'run')} of held-out tasks"
    return f"{runs} {'shown' if given.shown else 'hidden'}"


def build_runs(
    store: Store, query: str = "", *, every: bool = False, with_held_out: bool = False
) -> RunsView:
    """The runs screen over one database, without the runs of held-out tasks unless asked."""
    held = apart(store, shown=with_held_out)
    wanted = without_tasks(held.hidden) & chosen(store, query)
    rows = listing.run_rows(store, wanted, every=every)
    cost_usd, cost_complete = total_cost(rows)
    return RunsView(
        database=store.path.name if store.path else ":memory:",
        rows=rows,
        failed=sum(row.outcome == "failed" for row in rows),
        cost_usd=cost_usd,
        cost_complete=cost_complete,
        pareto=tally(store, without=held.hidden),
        apart=held,
        waiting=len(undiagnosed(store)),
    )
