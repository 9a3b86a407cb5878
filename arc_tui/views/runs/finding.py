"""Which runs say a text: what each is called, the step that says it, and the words around it."""

from __future__ import annotations

import sys

from msgspec import Struct

from arc_tui.views.runs.view import chosen
from replay.store import Store
from replay.store.search import Saying, runs_saying
from taxonomy.query.filter import ALL
from taxonomy.query.listing import RunRow, run_order, runs_at
from taxonomy.stats.holding import hidden

MOST = 50


class FoundRun(Struct, frozen=True, kw_only=True):
    """A run that says the text; `step` is None where that is part of no step."""

    trace: str
    run: str
    title: str | None
    task: str | None
    trial: str | None
    outcome: str
    source_id: str
    step: int | None
    excerpt: str


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
        runs=tuple(_found(each, rows[each.trace]) for each in shown if each.trace in rows),
        more=len(sayings) > limit,
    )


def _found(saying: Saying, row: RunRow) -> FoundRun:
    return FoundRun(
        trace=saying.trace,
        run=saying.run,
        title=row.title,
        task=row.task,
        trial=row.trial,
        outcome=row.outcome,
        source_id=row.source_id,
        step=saying.step,
        excerpt=saying.excerpt,
    )
