"""Why runs fail: a bar a class with its owner, the runs behind each, and who agrees with whom."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

from msgspec import Struct, structs

from arc_tui import format
from arc_tui.views.runs.view import chosen
from replay.errors import NotFound
from replay.statistics import Rate, rate
from replay.store import Store
from taxonomy.classes import BY_CLASS, CLASSES
from taxonomy.owners import NOBODY, Owners
from taxonomy.pareto import UNTAGGED, Bar, By, Pareto, RunBehind, is_agents, pareto, untagged_runs
from taxonomy.query import NONE, run_heads, verdicts
from taxonomy.query.filter import ALL, Filter, among
from taxonomy.sources_agree import SourcesAgree, sources_agree
from taxonomy.stats.holding import Apart, apart

NOT_AGENTS = "not the agent's doing"


class Asked(Struct, frozen=True, kw_only=True):
    """How failures are counted: split by what, each class of a run or its first, of which tasks,
    and of the runs that a query means."""

    by: By | None = None
    every: bool = False
    with_held_out: bool = False
    query: str = ""


class BarRow(Struct, frozen=True, eq=False, kw_only=True):
    """A line of the Pareto. `bar` is None for the heading of a part and for untagged runs."""

    label: str
    of: Literal["agent", "apart", "untagged", "heading"]
    tagged: int = 0
    count: int = 0
    bar: Bar | None = None
    runs: tuple[RunBehind, ...] = ()


class FailuresView(Struct, frozen=True, eq=False, kw_only=True):
    """Everything the failures screen draws.

    `rows` are the bars in order: the agent's own failures, under a heading those that were not
    its doing, and last what nobody tagged. `titles` name the runs that have no task. `runs` are
    all of them, whatever their outcome. What is `apart`, the runs of held-out tasks, is in none
    of the rest unless it is shown.
    """

    database: str
    asked: Asked
    runs: int
    pareto: Pareto
    rows: tuple[BarRow, ...]
    titles: dict[str, str]
    agreement: tuple[SourcesAgree, ...]
    apart: Apart = Apart()

    def name(self, run: RunBehind) -> str:
        """What a run is called: its task and trial, else its title, else the trace's id."""
        if run.task:
            return " · ".join(filter(None, map(format.one_line, (run.task, run.trial))))
        return format.one_line(self.titles.get(run.preferred)) or run.trace[:8]

    def share(self, row: BarRow) -> Rate:
        """Of the failed runs."""
        return rate(row.count, self.pareto.failed)


EMPTY = FailuresView(
    database="",
    asked=Asked(),
    runs=0,
    pareto=Pareto(bars=(), apart=(), untagged=0, failed=0, unknown=0),
    rows=(),
    titles={},
    agreement=(),
)


def build_failures(
    store: Store, asked: Asked = EMPTY.asked, owners: Owners = NOBODY
) -> FailuresView:
    """The failures of a database, counted as was asked."""
    held = apart(store, shown=asked.with_held_out)
    wanted = chosen(store, asked.query)
    counted = pareto(
        store, by=asked.by, every=asked.every, owners=owners, without=held.hidden, chosen=wanted
    )
    heads = run_heads(store, without=held.hidden, chosen=wanted)
    return FailuresView(
        database=store.path.name if store.path else ":memory:",
        asked=asked,
        runs=len(heads),
        pareto=counted,
        rows=bar_rows(counted, hinted(store, held.hidden, wanted)),
        titles={head.trace: head.title for head in heads if head.title and not head.task},
        agreement=agreements(store, held.hidden, wanted),
        apart=held,
    )


def agreements(
    store: Store, without: Collection[str] = NONE, wanted: Filter = ALL
) -> tuple[SourcesAgree, ...]:
    """How far person, judge and rule agree, the runs of some tasks left out."""
    return sources_agree(store, without=without, chosen=wanted)


def hinted(
    store: Store, without: Collection[str] = NONE, wanted: Filter = ALL
) -> tuple[RunBehind, ...]:
    """The failed runs nobody says anything of, each with its first candidate as a hint."""
    runs = untagged_runs(store, without=without, chosen=wanted)
    named = among(run.trace for run in runs)
    said = verdicts(store, "trace IN (SELECT value FROM json_each(?))", (named,))
    return tuple(
        structs.replace(run, step=said[run.trace].why_step, why=said[run.trace].why)
        if run.trace in said
        else run
        for run in runs
    )


def bar_rows(counted: Pareto, untagged: tuple[RunBehind, ...]) -> tuple[BarRow, ...]:
    """The lines of a Pareto, top to bottom."""
    rows = [_row(bar) for bar in counted.bars]
    if counted.apart:
        rows.append(BarRow(label=NOT_AGENTS, of="heading"))
        rows += [_row(bar) for bar in counted.apart]
    if untagged:
        rows.append(BarRow(label=UNTAGGED, of="untagged", count=len(untagged), runs=untagged))
    return tuple(rows)


def _row(bar: Bar) -> BarRow:
    return BarRow(
        label=bar.label,
        of="agent" if is_agents(bar.fault) else "apart",
        tagged=bar.tagged,
        count=bar.count,
        bar=bar,
        runs=bar.runs,
    )


def rows_named(view: FailuresView, name: str) -> tuple[BarRow, ...]:
    """The bars a person means: by label, by the letter or name of their class, by a beginning.

    `untagged` names the runs that are not tagged yet. None for a class that no run shows; raises
    NotFound, with the labels there are, for what is no class and no bar.
    """
    wanted = " ".join(name.lower().replace("_", " ").split())
    bars = [row for row in view.rows if row.of != "heading"]
    exact = tuple(row for row in bars if row.label.lower() == wanted)
    of_class = tuple(row for row in bars if wanted in _names(row))
    begin = tuple(row for row in bars if wanted and row.label.lower().startswith(wanted))
    if exact or of_class or begin:
        return exact or of_class or begin
    if any(wanted in (entry.key, entry.name.value) for entry in CLASSES):
        return ()
    raise NotFound("bar", name, hint=_known(bars))


def _names(row: BarRow) -> tuple[str, ...]:
    """The names a bar goes by beside its label."""
    if row.bar is None:
        return ("untagged", "not tagged")
    entry = BY_CLASS[row.bar.failure]
    return entry.key, entry.name.value


def _known(bars: list[BarRow]) -> str:
    labels = ", ".join(format.one_line(row.label) for row in bars)
    return f"there are {labels}" if labels else "no run failed here"
