"""`arc ls`: the runs, one line each. `arc search`: the runs that contain a text, and where."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import click
from msgspec import Struct, structs
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from arc_tui.cli import (
    console,
    db_option,
    examples,
    held_out_option,
    json_option,
    limit_option,
    limited,
    open_judged,
    open_store,
    print_held_out,
    print_json,
    print_line,
    print_list,
    print_table,
    print_view,
)
from arc_tui.ui import format
from arc_tui.views.columns import (
    BY_ID,
    COLUMNS,
    IDENTITY,
    PRINTED,
    Column,
    column_named,
    json_of,
    mark,
    sorted_by,
)
from arc_tui.views.matrix import (
    build_matrix,
    change_text,
    column_cells,
    column_head,
    csv_of,
    headings,
    model_name,
    notes,
    trials_text,
    variant_name,
)
from arc_tui.views.runs import chosen, run_rows, total_cost
from replay.errors import NotFound
from replay.store.handle import Store
from replay.store.search import runs_saying
from taxonomy.held_out import HeldOutNote, hidden, parted
from taxonomy.query.filter import ALL, without_tasks
from taxonomy.query.listing import RunRow, run_order, run_totals, runs_at
from taxonomy.stats.matrix import ORDERS, Matrix, Order, sort_rows


@click.command(
    epilog=examples(
        "arc ls outcome:failed --sort -tokens --limit 10",
        "arc ls 'tag:hallucinated steps>5' --columns task,variant,why",
        "arc ls 'variant:v4 or variant:v8' --matrix",
    )
)
@click.argument("query", nargs=-1)
@click.option(
    "--all", "every", is_flag=True, help="Show every recording of a run, not only the fullest."
)
@limit_option
@click.option("--sort", metavar="[-]COLUMN", help="Sort by a column; `-cost`: highest first.")
@click.option("--columns", metavar="A,B,…", help="Show these columns (`arc help columns`).")
@click.option(
    "--matrix",
    "as_matrix",
    is_flag=True,
    help="Show tasks by variant and model; --sort changed, task or passed.",
)
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV: a row for each task and column.")
@click.option("-k", "k", type=click.IntRange(1), help="The k of pass^k in the matrix.")
@held_out_option
@json_option
@db_option
def ls(
    query: tuple[str, ...],
    every: bool,
    limit: int,
    sort: str | None,
    columns: str | None,
    as_matrix: bool,
    as_csv: bool,
    k: int | None,
    with_held_out: bool,
    as_json: bool,
    db: Path | None,
) -> int:
    """List runs matching QUERY, as in `outcome:failed tag:loop cost>0.5`.

    `arc help query` explains the query language. A plain word matches the columns of a run, a
    "quoted text" its messages. In a shell, quote the whole query.
    """
    if as_matrix:
        _refuse({"--all": every, "--columns": columns is not None}, "be combined with --matrix")
        _refuse({"--csv": as_csv and as_json}, "be combined with --json")
        wanted = _matrix_order(sort)
        with open_judged(db) as store:
            view = build_matrix(store, " ".join(query), k=k, with_held_out=with_held_out)
        print_held_out(view.held_out)
        in_order = sort_rows(view.matrix.rows, wanted, reverse=(sort or "").startswith("-"))
        shown_rows = tuple(limited(in_order, limit))
        matrix = structs.replace(view.matrix, rows=shown_rows)
        if as_csv:
            click.echo(csv_of(matrix), nl=False)
        else:
            print_view(matrix, as_json, partial(_print_matrix, query=view.query))
        return 0
    _refuse({"-k": k is not None, "--csv": as_csv}, "be used without --matrix")
    shown = tuple(map(_column, columns.split(","))) if columns else PRINTED
    by = None if sort is None else _column(sort.removeprefix("-"))
    with open_judged(db) as store:
        words = " ".join(query)
        with store.reading():
            if by is None and not every:
                found = newest_runs(store, words, limit, with_held_out=with_held_out)
            else:
                found = every_run(store, words, every=every, with_held_out=with_held_out)
    print_held_out(found.held)
    rows = found.rows
    if by is not None:
        rows = sorted_by(rows, by, reverse=sort is not None and sort.startswith("-"))
    runs, failed, cost, complete = found.totals
    limited(range(runs), limit)
    rows = rows[:limit] if limit else rows
    if as_json:
        print_json([json_of(row, shown if columns else COLUMNS) for row in rows])
        return 0
    if not rows and found.held.runs:
        return 0
    if not rows:
        nothing = "No runs yet. Try: arc open --latest --list, or arc demo"
        click.echo(f"No runs match '{format.one_line(words)}'." if words else nothing, err=True)
        return 0
    headings = ["", *(column.heading or column.id for column in shown)]
    cells: list[list[Text | str]] = [
        [mark(row), *(column.printed_cell(row) for column in shown)] for row in rows
    ]
    print_list(console(), headings, cells)
    usd = format.usd(cost, complete=complete) if cost is not None else "unknown"
    click.echo(f"{format.count(runs, 'run')} · {failed} failed · cost {usd}", err=True)
    return 0


class _Totals(NamedTuple):
    """How many runs are listed, how many of them failed, what is known of their cost, and whether
    that is all of it."""

    runs: int
    failed: int
    cost_usd: float | None
    complete: bool


class ListedRuns(NamedTuple):
    """Runs of a list, the newest first, what all that are listed add up to, and those held out."""

    rows: Sequence[RunRow]
    totals: _Totals
    held: HeldOutNote


def newest_runs(store: Store, words: str, limit: int, *, with_held_out: bool) -> ListedRuns:
    """The newest runs that a query means, no more of them read than are printed."""
    meant, tasks = chosen(store, words), hidden(store)
    seen = meant & without_tasks(tasks)
    every, visible = run_totals(store, meant), run_totals(store, seen)
    listed = chosen(store, words, page=bool(limit))
    listed &= ALL if with_held_out else without_tasks(tasks)
    rows = runs_at(store, run_order(store, listed, limit=limit or None, newest=True))
    of = every if with_held_out else visible
    totals = _Totals(of.runs, of.failed, of.cost_usd, of.cost_complete)
    held = HeldOutNote(tasks=tasks, runs=every.runs - visible.runs, shown=with_held_out)
    return ListedRuns(rows, totals, held)


def every_run(store: Store, words: str, *, every: bool, with_held_out: bool) -> ListedRuns:
    """All runs that a query means: to be sorted by any column, or every recording of them."""
    found, tasks = run_rows(store, words, every=every), hidden(store)
    visible, held = parted(found, tasks)
    rows = (found if with_held_out else visible)[::-1]
    failed = sum(row.outcome == "failed" for row in rows)
    totals = _Totals(len(rows), failed, *total_cost(rows))
    return ListedRuns(rows, totals, HeldOutNote(tasks=tasks, runs=len(held), shown=with_held_out))


def _refuse(given: dict[str, bool], why: str) -> None:
    """Raises UsageError for the first option that was given and means nothing here."""
    for name in (name for name, there in given.items() if there):
        raise click.UsageError(f"{name} cannot {why}")


def _matrix_order(sort: str | None) -> Order:
    """The order of the rows of a matrix. Raises NotFound."""
    name = "changed" if sort is None else sort.removeprefix("-")
    for each in ORDERS:
        if each == name:
            return each
    near = get_close_matches(name, ORDERS, n=1)
    raise NotFound("matrix order", name, near, hint=f"known: {', '.join(ORDERS)}")


def _print_matrix(out: Console, found: Matrix, query: str) -> None:
    """A row for each variant and model, then one for each task."""
    if not found.rows:
        words = f" match '{format.one_line(query)}'" if query else ""
        click.echo(f"No runs of a task{words}." if words else "No runs of a task yet.", err=True)
        return
    names = [
        [variant_name(each), format.cut(model_name(each), MODEL), *column_cells(found, each)]
        for each in found.columns
    ]
    print_table(out, ["variant", "model", *column_head(found)], names)
    heads = [format.cut(each, HEADING) for each in headings(found)]
    cells = [[trials_text(cell) for cell in row.cells] for row in found.rows]
    width = out.width if out.is_terminal else sys.maxsize
    left = [["task", "change"], *([format.cut(format.one_line(row.task), TASK), change_text(row)]
                                  for row in found.rows)]  # fmt: skip
    for first, last in _blocks(left, [heads, *cells], width):
        out.print()
        table = [[*left[at + 1], *row[first:last]] for at, row in enumerate(cells)]
        print_table(out, [*left[0], *heads[first:last]], table)
    print_line(out, "; ".join(notes(found)), "dim")


TASK, MODEL, HEADING = 32, 40, 24
"""Characters of a name in a printed matrix; `--json` has all of it."""


def _blocks(
    left: Sequence[Sequence[str]], cells: Sequence[Sequence[str]], width: int
) -> Iterator[tuple[int, int]]:
    """The columns of a matrix as (first, end) of those that stand beside each other in a line, each
    time after the columns at the left."""
    edge = sum(max(map(cell_len, column)) + 2 for column in zip(*left, strict=True))
    first, used = 0, edge
    for at, column in enumerate(zip(*cells, strict=True)):
        needed = max(map(cell_len, column)) + 2
        if at > first and used + needed > width:
            yield first, at
            first, used = at, edge
        used += needed
    yield first, len(cells[0])


def _column(name: str) -> Column:
    """A column by its id or its heading. Raises NotFound."""
    found = column_named(name.strip())
    if found is None:
        names = [column.id for column in COLUMNS]
        near = get_close_matches(name, names, n=3)
        raise NotFound("column", name, near, hint="Try: arc help columns")
    return found


MOST = 50

FOUND = [BY_ID[each] for each in ("trace", "run", "title", "task", "trial", "outcome", "source_id")]
"""The columns of a run in `arc search --json`."""


class FoundRun(Struct, frozen=True, kw_only=True):
    """A run that contains the text; `step` is None where that is part of no step."""

    row: RunRow
    step: int | None
    excerpt: str

    def as_json(self) -> dict[str, Any]:
        """One match of `arc search --json`."""
        return json_of(self.row, FOUND) | {"step": self.step, "excerpt": self.excerpt}


class FoundView(Struct, frozen=True, eq=False, kw_only=True):
    """The runs that say a text, those with the latest messages first; `more` than were asked for
    say it."""

    text: str
    runs: tuple[FoundRun, ...]
    more: bool


def build_found(
    store: Store, text: str, limit: int = MOST, *, query: str = "", with_held_out: bool = False
) -> FoundView:
    """At most `limit` of the runs that a query means and that say a text, without those of
    held-out tasks unless asked."""
    without = frozenset[str]() if with_held_out else hidden(store)
    meant = chosen(store, query)
    if meant == ALL:
        sayings = runs_saying(store, text, limit + 1, without=without)
    else:
        among = {*run_order(store, meant)}
        every = runs_saying(store, text, sys.maxsize, without=without)
        sayings = [each for each in every if each.trace in among][: limit + 1]
    shown = sayings[:limit]
    rows = {row.trace: row for row in runs_at(store, [each.trace for each in shown])}
    return FoundView(
        text=text,
        runs=tuple(
            FoundRun(row=rows[each.trace], step=each.step, excerpt=each.excerpt)
            for each in shown
            if each.trace in rows
        ),
        more=len(sayings) > limit,
    )


@click.command(
    epilog=examples("arc search 'order 1049'", "arc search refund --on outcome:failed --limit 10")
)
@click.argument("text", nargs=-1, required=True)
@click.option(
    "--limit",
    type=click.IntRange(1),
    default=MOST,
    show_default=True,
    help="At most this many rows.",
)
@click.option(
    "--on", "query", default="", metavar="QUERY", help="Only in these runs, as in `arc ls`."
)
@held_out_option
@json_option
@db_option
def find(
    text: tuple[str, ...],
    limit: int,
    query: str,
    with_held_out: bool,
    as_json: bool,
    db: Path | None,
) -> int:
    """List runs that contain TEXT, starting at a word, ignoring case.

    Searches prompts, messages, reasoning, tool arguments, results and errors.
    """
    wanted = " ".join(text)
    with open_store(db) as store:
        found = build_found(store, wanted, limit, query=query, with_held_out=with_held_out)
    if as_json:
        print_json([run.as_json() for run in found.runs])
    elif found.runs:
        headings = ["", *(column.heading for column in IDENTITY), "step", "text"]
        print_list(console(), headings, [_finding_cells(run) for run in found.runs])
    else:
        click.echo(f"No runs match '{format.one_line(wanted)}'.", err=True)
    if found.more:
        click.echo(f"First {limit} shown. Try: --limit {10 * limit}", err=True)
    return 0 if found.runs else 1


def _finding_cells(run: FoundRun) -> list[Text | str]:
    return [
        mark(run.row),
        *(column.printed_cell(run.row) for column in IDENTITY),
        format.UNKNOWN if run.step is None else str(run.step),
        format.one_line(run.excerpt),
    ]
