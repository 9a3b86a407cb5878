"""What a run may be compared with: the other trials of its task, and the replays of it."""

from __future__ import annotations

from msgspec import Struct

from arc_tui import format
from arc_tui.views.compare.side import run_name
from arc_tui.views.runs.view import run_row
from replay.store import Store, edits, replays
from replay.store.rows import trace_row
from taxonomy.query.listing import RunRow
from taxonomy.query.trials import siblings

NONE = """no other run of this task, and no kept replay of this one

mark another run in the list of runs with {mark}, then come back; or name one here"""

MOST = 200
"""Choices; whoever has more names one."""


class Sibling(Struct, frozen=True, kw_only=True):
    """Something to compare with: a `name` that finds it, what it is called, what is known of it."""

    name: str
    called: str
    about: str


class Siblings(Struct, frozen=True, eq=False, kw_only=True):
    """The choices of a run, best first: trials of its task that passed, the other trials, then the
    replays of it, the latest first."""

    trace: str
    called: str
    choices: tuple[Sibling, ...]


def build_siblings(store: Store, name: str) -> Siblings:
    """What a run may be compared with. Raises NotFound."""
    row = run_row(trace_row(store, name), None)
    trials = [_trial(each) for each in siblings(store, row)]
    named = {each.digest: each.name for each in edits.listed(store)}
    again = [
        Sibling(
            name=kept.digest,
            called=f"{kept.kind} replay",
            about=" · ".join(
                [
                    f"edit {format.one_line(named.get(kept.edit, kept.edit))}"
                    if kept.edit is not None
                    else "no edit",
                    format.one_line(kept.model),
                    edits.short(kept.digest),
                ]
            ),
        )
        for kept in replays.of_trace(store, row.trace)
    ]
    return Siblings(trace=row.trace, called=run_name(row), choices=tuple([*trials, *again][:MOST]))


def _trial(row: RunRow) -> Sibling:
    mark = format.outcome_mark(row.outcome, warned=bool(row.warnings)).plain
    variant = f"variant {format.one_line(row.variant)}" if row.variant else ""
    said = [
        format.one_line(row.outcome_value) or row.outcome,
        variant,
        format.count(row.steps, "step"),
        format.one_line(row.models),
        row.trace[:8],
    ]
    return Sibling(
        name=row.trace,
        called=f"{mark} {run_name(row)}",
        about=" · ".join(each for each in said if each),
    )
