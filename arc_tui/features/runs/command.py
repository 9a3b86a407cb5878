"""`arc ls`: the runs, one line each. `arc search`: the runs that say a text, and where."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click
from msgspec import Struct
from rich.text import Text

from arc_tui.cli import (
    console,
    db_option,
    held_out_option,
    json_option,
    open_judged,
    open_store,
    print_held_out,
    print_json,
    print_table,
)
from arc_tui.ui import format
from arc_tui.views.columns import BY_ID, IDENTITY, PRINTED, json_of, mark
from arc_tui.views.runs import chosen, run_rows, total_cost
from replay.store.handle import Store
from replay.store.search import runs_saying
from taxonomy.held_out import HeldOutNote, hidden, parted
from taxonomy.query.filter import ALL
from taxonomy.query.listing import RunRow, run_order, runs_at


@click.command()
@click.argument("query", nargs=-1)
@click.option("--all", "every", is_flag=True, help="Every recording of a run, not the fullest.")
@held_out_option
@json_option
@db_option
def ls(
    query: tuple[str, ...], every: bool, with_held_out: bool, as_json: bool, db: Path | None
) -> int:
    """List the runs that QUERY means: `outcome:failed tag:loop cost>0.5`; see `arc help query`.

    A plain word stands in the row of a run, a "quoted text" in what it said. In a shell the whole
    query is best put in quotes.
    """
    with open_judged(db) as store:
        words = " ".join(query)
        found = run_rows(store, words, every=every)
        tasks = hidden(store)
    visible, held = parted(found, tasks)
    print_held_out(HeldOutNote(tasks=tasks, runs=len(held), shown=with_held_out))
    rows = found if with_held_out else visible
    if as_json:
        print_json([json_of(row) for row in rows])
        return 0 if rows else 1
    if not rows and held:
        return 1
    if not rows:
        nothing = "No runs yet. Try: arc open --latest --list, or arc demo"
        click.echo(f"No runs match '{format.one_line(words)}'." if words else nothing, err=True)
        return 0
    headings = ["", *(column.heading for column in PRINTED)]
    print_table(console(), headings, [_cells(row) for row in rows])
    cost, complete = total_cost(rows)
    failed = sum(row.outcome == "failed" for row in rows)
    shown = format.usd(cost, complete=complete) if cost is not None else "unknown"
    click.echo(f"{format.count(len(rows), 'run')}, {failed} failed, cost {shown}", err=True)
    return 0


def _cells(row: RunRow) -> list[Text | str]:
    return [mark(row), *(column.printed_cell(row) for column in PRINTED)]


MOST = 50

FOUND = [BY_ID[each] for each in ("trace", "run", "title", "task", "trial", "outcome", "source_id")]
"""What `arc search --json` says of a run."""


class FoundRun(Struct, frozen=True, kw_only=True):
    """A run that says the text; `step` is None where that is part of no step."""

    row: RunRow
    step: int | None
    excerpt: str

    def as_json(self) -> dict[str, Any]:
        """What `arc search --json` says of it."""
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


@click.command()
@click.argument("text", nargs=-1, required=True)
@click.option(
    "--limit", type=click.IntRange(1), default=MOST, show_default=True, help="At most so many runs."
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
    """Find the runs that say TEXT, from the beginning of a word on, case aside.

    Looks through prompts, messages, reasoning, tool arguments, results and errors.
    """
    wanted = " ".join(text)
    with open_store(db) as store:
        found = build_found(store, wanted, limit, query=query, with_held_out=with_held_out)
    if as_json:
        print_json([run.as_json() for run in found.runs])
    elif found.runs:
        headings = ["", *(column.heading for column in IDENTITY), "step", "says"]
        print_table(console(), headings, [_finding_cells(run) for run in found.runs])
    else:
        click.echo(f"no run says {wanted!r}", err=True)
    if found.more:
        click.echo(f"the first {limit}; --limit shows more", err=True)
    return 0 if found.runs else 1


def _finding_cells(run: FoundRun) -> list[Text | str]:
    return [
        mark(run.row),
        *(column.printed_cell(run.row) for column in IDENTITY),
        format.UNKNOWN if run.step is None else str(run.step),
        format.one_line(run.excerpt),
    ]
