"""The list of runs: which are shown, in which order, the first thing to know about each, the Pareto
beside it, and what the list says of itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TypeAlias

from msgspec import Struct, convert, structs
from rich.text import Text

from arc_tui.config import read_owners
from arc_tui.ui import format
from arc_tui.views.columns import BY_ID, SORTED
from replay.stop_order import StopOrder, stop_order
from replay.store.handle import Store
from replay.store.rows import TraceRow
from taxonomy.failures import Pareto, tally
from taxonomy.held_out import HeldOutNote
from taxonomy.judgements.audits import STALE_DAYS, AuditAge
from taxonomy.query import listing
from taxonomy.query.failures import Verdict
from taxonomy.query.filter import ALL, Filter, of_traces, without_tasks
from taxonomy.query.listing import (
    PAGE,
    RunRow,
    Totals,
    held_out_note,
    run_count,
    run_order,
    run_totals,
    runs_at,
)

NOT_AGENTS = "not attributed to the agent"

FAILED = Filter("outcome = ?", ("failed",), recorded=True)


class Arrangement(Struct, frozen=True, kw_only=True):
    """What a person chose to see. `order` is the id of a column, "" the order of import.

    `words` are a query. `only` are the traces of one kind, which `kind` names; None is all of them.
    """

    words: str = ""
    only: frozenset[str] | None = None
    kind: str = ""
    failed_only: bool = False
    order: str = ""

    @property
    def everything(self) -> bool:
        return not self.words and not self.failed_only and self.only is None

    @property
    def kept(self) -> Filter:
        """The runs that are wanted, whatever the words are."""
        named = ALL if self.only is None else of_traces(self.only)
        return named & FAILED if self.failed_only else named

    def next_order(self) -> str:
        """The order after this one, round and round."""
        ids = ["", *(column.id for column in SORTED)]
        return ids[(ids.index(self.order) + 1) % len(ids)]


class Listed(Struct, frozen=True, eq=False, kw_only=True):
    """A list of runs: all of them by name in their order, and the `rows` of it that were read.

    The first page is always among these.
    """

    traces: tuple[str, ...] = ()
    rows: Mapping[str, RunRow] = {}

    @property
    def first_page(self) -> tuple[RunRow, ...]:
        """What the widths of columns are measured by: they stay while the list is scrolled."""
        return self.read(self.traces[:PAGE])

    def read(self, traces: Sequence[str]) -> tuple[RunRow, ...]:
        """The rows of some of its runs, as far as they were read."""
        return tuple(self.rows[trace] for trace in traces if trace in self.rows)

    def missing(self, first: int, last: int) -> tuple[str, ...]:
        """The runs of all pages from that of row `first` to that of `last` that were not read."""
        pages = self.traces[max(first, 0) // PAGE * PAGE : (max(last, 0) // PAGE + 1) * PAGE]
        return tuple(trace for trace in pages if trace not in self.rows)

    def and_rows(self, rows: Sequence[RunRow]) -> Listed:
        """The same list, more of it read."""
        return Listed(traces=self.traces, rows={**self.rows, **{row.trace: row for row in rows}})


class RunsView(Struct, frozen=True, eq=False, kw_only=True):
    """Everything the runs screen draws, of the runs that an `arrangement` chooses.

    `totals` sum what is listed, and the Pareto counts it; its bars do not name their runs. `runs`
    are all of them. What is `held_out`, the runs of held-out tasks, is in none of the rest unless
    it is shown. `stopped` is the order that holds for recorders of the database.
    """

    database: str
    arrangement: Arrangement
    listed: Listed
    totals: Totals
    runs: int
    pareto: Pareto
    held_out: HeldOutNote = HeldOutNote()
    stopped: StopOrder | None = None


EMPTY = RunsView(
    database="",
    arrangement=Arrangement(),
    listed=Listed(),
    totals=Totals(runs=0, failed=0, cost_usd=None, cost_complete=False),
    runs=0,
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


def chosen(store: Store, query: str, *, page: bool = False) -> Filter:
    """The runs that a query means (`taxonomy.query.language`), all or to read a `page` of them.
    Raises BadQuery."""
    if not query:  # what reads one is not loaded either
        return ALL
    from taxonomy.query.compile import runs_meant

    return runs_meant(store, query, read_owners, page=page)


def first_meant(store: Store, query: str) -> str:
    """The trace of the run imported first of those that a query means, "" for none. Raises
    BadQuery."""
    return next(iter(run_order(store, chosen(store, query, page=True), limit=1)), "")


def run_rows(store: Store, query: str = "", *, every: bool = False) -> tuple[RunRow, ...]:
    """The runs that a query means, in the order they were imported. Raises BadQuery."""
    return listing.run_rows(store, chosen(store, query), every=every)


def total_cost(rows: Sequence[RunRow]) -> tuple[float | None, bool]:
    """(the sum of what is known of the cost, whether that is all of it)."""
    known = [row.cost_usd for row in rows if row.cost_usd is not None]
    return (sum(known) if known else None), all(row.cost_complete for row in rows)


def held_out_text(given: HeldOutNote) -> str:
    """How many runs of held-out tasks are hidden or shown, "" where there is none."""
    if not given.runs:
        return ""
    runs = f"{format.count(given.runs, 'run')} of held-out tasks"
    return f"{runs} {'shown' if given.shown else 'hidden'}"


HeldOut: TypeAlias = bool | None
"""Are the runs of held-out tasks listed? None: where one of those that are wanted is such a run."""


def build_runs(
    store: Store,
    arrangement: Arrangement = EMPTY.arrangement,
    *,
    with_held_out: HeldOut = False,
    near: str = "",
) -> RunsView:
    """The runs screen over one database, without the runs of held-out tasks unless asked.

    Of the list the first page is read and what stands around the run `near`. Raises BadQuery.
    """
    meant = chosen(store, arrangement.words)
    held = held_out_note(store)
    shown = _meets(store, arrangement, held) if with_held_out is None else with_held_out
    held = structs.replace(held, shown=shown)
    seen = without_tasks(held.hidden)
    picked = arrangement.kept & meant
    traces = tuple(run_order(store, seen & picked, order=_order(arrangement)))
    if arrangement.words:  # a search is made once
        picked = of_traces(traces)
    totals = run_totals(store, seen & picked)
    return RunsView(
        database=store.path.name if store.path else ":memory:",
        arrangement=arrangement,
        listed=_read_near(store, traces, near),
        totals=totals,
        runs=totals.runs if arrangement.everything else run_count(store, seen),
        pareto=tally(store, without=held.hidden, chosen=picked),
        held_out=held,
        stopped=stop_order(store.path) if store.path else None,
    )


def first_page(store: Store, arrangement: Arrangement, *, with_held_out: HeldOut = False) -> Listed:
    """The first page of the list of `build_runs`, long before that has counted all of a large
    database. Raises BadQuery."""
    held = held_out_note(store)
    shown = _meets(store, arrangement, held) if with_held_out is None else with_held_out
    meant = chosen(store, arrangement.words, page=True)
    seen = without_tasks(frozenset() if shown else held.tasks) & arrangement.kept & meant
    traces = tuple(run_order(store, seen, order=_order(arrangement), limit=PAGE))
    return Listed(traces=traces).and_rows(runs_at(store, traces))


def _order(arrangement: Arrangement) -> listing.Order:
    return BY_ID[arrangement.order].order if arrangement.order else ()


def _meets(store: Store, arrangement: Arrangement, held: HeldOutNote) -> bool:
    """Is a run of held-out tasks among those that were named?"""
    if arrangement.only is None or not held.runs:
        return False
    named = of_traces(arrangement.only)
    return run_count(store, named) > run_count(store, named & without_tasks(held.tasks))


def _read_near(store: Store, traces: tuple[str, ...], near: str) -> Listed:
    listed = Listed(traces=traces)
    at = traces.index(near) if near in traces else 0
    around = listed.missing(at - PAGE // 2, at + PAGE // 2)
    return listed.and_rows(runs_at(store, tuple({*traces[:PAGE], *around})))


LOADING = "Loading runs."

NO_RUNS = """No runs yet.

{open}   open files, agent sessions or the demo
{source}  runs of a trace store

arc record -- COMMAND   record the model calls of an agent
arc import PATH         import traces"""

KeyOf: TypeAlias = Callable[[str], str]
"""How the key of a binding is written, by its id."""


def headline(view: RunsView, key_of: KeyOf) -> Text:
    """The database, and sums over the runs that are listed."""
    totals = view.totals
    cost = format.usd(totals.cost_usd, complete=totals.cost_complete)
    by = format.one_line(view.stopped.by) if view.stopped is not None else ""
    stopped = f"recording stopped{f' by {by}' if by else ''} ({key_of('runs.stop_recording')})"
    facts = [
        stopped if view.stopped is not None else "",
        counted(view),
        f"{format.number(totals.failed)} failed",
        f"cost {cost if totals.cost_usd is not None else 'unknown'}",
        f"{held_out_text(view.held_out)} ({key_of('runs.view')})" if view.held_out.runs else "",
    ]
    database = f"  {format.one_line(view.database)}   "
    return Text.assemble((" arc ", "bold"), database, " · ".join(filter(None, facts)))


def counted(view: RunsView) -> str:
    """The runs that are listed, of how many."""
    runs = format.count(view.runs, "run")
    return runs if view.arrangement.everything else f"{format.number(view.totals.runs)} of {runs}"


def title(arrangement: Arrangement) -> Text:
    """Which runs the list shows, and in which order."""
    chosen = [
        "runs",
        format.one_line(arrangement.kind),
        format.one_line(arrangement.words),
        "failed only" if arrangement.failed_only else "",
        f"sorted by {BY_ID[arrangement.order].heading}" if arrangement.order else "",
    ]
    return Text(" · ".join(filter(None, chosen)))


def nothing(view: RunsView, key_of: KeyOf) -> str:
    """What stands where the runs would, if there are none."""
    if not view.runs:
        hidden = held_out_text(view.held_out)
        if hidden:
            return f"{hidden}.\n\n{key_of('runs.view')}   show them"
        return NO_RUNS.format(open=key_of("runs.here"), source=key_of("runs.source"))
    arrangement = view.arrangement
    failed = "failed runs" if arrangement.failed_only else "runs"
    kind = f" in '{format.one_line(arrangement.kind)}'" if arrangement.kind else ""
    words = f" match '{format.one_line(arrangement.words)}'" if arrangement.words else ""
    return f"No {failed}{kind}{words}.\n\n{key_of('runs.back')}   show all runs"


NO_AUDIT = "No audit yet. Try: arc audit"


def audit_text(age: AuditAge) -> str:
    """When the runs were last audited, whether that is too long ago, and how many no audit has
    seen as they are."""
    if age.last_ns is None:
        return NO_AUDIT
    day = datetime.fromtimestamp(age.last_ns / 1e9, UTC).date().isoformat()
    stale = f", {age.days} days ago: stale after {STALE_DAYS}" if age.is_stale else ""
    new = f"; {format.count(age.new, 'run')} new, changed, or audited by older rules"
    return f"last audit {day}{stale}{new if age.new else ''}"


def bar_cells(tagged: int, count: int, most: int, width: int) -> tuple[int, int]:
    """The cells of a bar for what is tagged and for the rest of `count`, where the longest bar
    stands for `most` and has `width` cells."""
    whole = len(format.bar(count / most, width))
    strong = min(len(format.bar(tagged / most, width)), whole)
    return strong, whole - strong
