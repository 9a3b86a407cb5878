"""Why runs fail: a bar a class with its owner, the runs behind each, and who agrees with whom; and
what is said of it in words, the same on the screen and from the command.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Literal

from msgspec import Struct, structs

from arc_tui.ui import format
from arc_tui.ui.tables import counted, estimate
from arc_tui.views.runs import NOT_AGENTS, chosen
from replay.errors import NotFound
from replay.statistics import Rate, rate
from replay.store.handle import Store
from taxonomy.calibration.sources_agree import SourcesAgree, sources_agree
from taxonomy.classes import BY_CLASS, CLASSES, FailureClass
from taxonomy.failures import (
    UNTAGGED,
    Bar,
    By,
    Pareto,
    RunBehind,
    ScannedBehind,
    is_agents,
    page_behind,
    pareto,
    scan_pareto,
    tally,
    untagged_of_scan,
    untagged_runs,
)
from taxonomy.findings import Source
from taxonomy.held_out import HeldOutNote
from taxonomy.judgements.scans import Scan, kept_scans
from taxonomy.owners import NOBODY, Owners
from taxonomy.playbook import NO_PLAYBOOK, Playbook
from taxonomy.query.failures import NONE, titles_of, verdicts
from taxonomy.query.filter import ALL, Filter, among, without_tasks
from taxonomy.query.listing import held_out_note, run_count

NOT_HERE = "○"
"""Marks a run that is in a trace store and not in this database."""


class FailuresRequest(Struct, frozen=True, kw_only=True):
    """How failures are counted: split by what, each class of a run or its first, of which tasks,
    and of the runs that a query means; or of those that a scan of the trace store `fleet` found."""

    by: By | None = None
    every: bool = False
    with_held_out: bool = False
    query: str = ""
    fleet: str | None = None


def run_name(run: RunBehind, titles: Mapping[str, str]) -> str:
    """What a run is called: its task and trial, else its title, else the trace's id."""
    if run.task:
        return " · ".join(filter(None, map(format.one_line, (run.task, run.trial))))
    return format.one_line(titles.get(run.preferred)) or run.trace[:8]


class BarRow(Struct, frozen=True, eq=False, kw_only=True):
    """A line of the Pareto. `bar` is None for the heading of a part and for untagged runs. The
    `runs` behind it are () where they were not read."""

    label: str
    of: Literal["agent", "apart", "untagged", "heading"]
    tagged: int = 0
    count: int = 0
    bar: Bar | None = None
    runs: tuple[RunBehind, ...] = ()


class FailuresView(Struct, frozen=True, eq=False, kw_only=True):
    """Everything the failures screen draws.

    `rows` are the bars in order: the agent's own failures, under a heading those not attributed
    to it, and last what nobody tagged. `titles` name the runs behind the bars that have no task.
    `runs` are all of them, whatever their outcome. What is `held_out`, the runs of held-out tasks,
    is in none of the rest unless it is shown. `scan` is the one that found the runs, None of runs
    here; `fleets` are the trace stores of which there is one.
    """

    database: str
    request: FailuresRequest
    runs: int
    pareto: Pareto
    rows: tuple[BarRow, ...]
    titles: dict[str, str]
    agreement: tuple[SourcesAgree, ...]
    held_out: HeldOutNote = HeldOutNote()
    scan: Scan | None = None
    fleets: tuple[str, ...] = ()

    def name(self, run: RunBehind) -> str:
        """What a run is called (`run_name`)."""
        return run_name(run, self.titles)

    def share(self, row: BarRow) -> Rate:
        """Of the failed runs."""
        return rate(row.count, self.pareto.failed)


EMPTY = FailuresView(
    database="",
    request=FailuresRequest(),
    runs=0,
    pareto=Pareto(bars=(), apart=(), untagged=0, failed=0, unknown=0),
    rows=(),
    titles={},
    agreement=(),
)


def build_failures(
    store: Store,
    request: FailuresRequest = EMPTY.request,
    owners: Owners = NOBODY,
    playbook: Playbook = NO_PLAYBOOK,
    *,
    with_runs: bool = True,
) -> FailuresView:
    """The failures of a database, counted as was asked; without the runs behind the bars they are
    only counted."""
    held = held_out_note(store, shown=request.with_held_out)
    if request.fleet is not None:
        return _of_scan(store, request, owners, playbook, held)
    meant = chosen(store, request.query)
    count = pareto if with_runs else tally
    counted = count(
        store,
        by=request.by,
        every=request.every,
        owners=owners,
        playbook=playbook,
        without=held.hidden,
        chosen=meant,
    )
    untagged = hinted(store, held.hidden, meant) if with_runs else ()
    rows = bar_rows(counted, untagged)
    return FailuresView(
        database=store.path.name if store.path else ":memory:",
        request=request,
        runs=run_count(store, without_tasks(held.hidden) & meant),
        pareto=counted,
        rows=rows,
        titles=titles_of(store, (run.preferred for row in rows for run in row.runs)),
        agreement=agreements(store, held.hidden, meant),
        held_out=held,
        fleets=tuple(scan.fleet for scan in kept_scans(store)),
    )


def _of_scan(
    store: Store, request: FailuresRequest, owners: Owners, playbook: Playbook, held: HeldOutNote
) -> FailuresView:
    """The same of the runs that a scan found."""
    scan = scan_named(store, request.fleet)
    counted = scan_pareto(
        store,
        scan,
        by=request.by,
        every=request.every,
        owners=owners,
        playbook=playbook,
        without=held.hidden,
    )
    rows = bar_rows(counted, untagged_of_scan(store, scan, without=held.hidden))
    return FailuresView(
        database=store.path.name if store.path else ":memory:",
        request=request,
        runs=scan.runs - scan.unread,
        pareto=counted,
        rows=rows,
        titles=_titles(run for row in rows for run in row.runs),
        agreement=(),
        scan=scan,
        fleets=tuple(each.fleet for each in kept_scans(store)),
    )


def _titles(runs: Iterable[RunBehind]) -> dict[str, str]:
    return {
        run.preferred: run.title for run in runs if isinstance(run, ScannedBehind) and run.title
    }


def scan_named(store: Store, fleet: str | None) -> Scan:
    """What was found in a trace store. Raises NotFound where it was not scanned."""
    found = {scan.fleet: scan for scan in kept_scans(store)}
    if fleet not in found:
        known = f"; scanned: {', '.join(found)}" if found else ""
        raise NotFound("scan of", fleet or "", hint=f"Try: arc fleet scan {fleet}{known}")
    return found[fleet]


def source_line(scan: Scan) -> str:
    """Which runs are counted, when they were looked at, and how many could not be."""
    unread = f", {format.number(scan.unread)} could not be read" if scan.unread else ""
    what = f" '{format.one_line(scan.query)}'" if scan.query else ""
    day = datetime.fromtimestamp(scan.started_ns / 1e9, tz=UTC).strftime("%Y-%m-%d")
    runs = format.count(scan.runs - scan.unread, "run")
    done = ""
    if scan.finished_ns is None:
        of = format.count(scan.partitions, "partition")
        done = f", unfinished: {format.number(scan.done)} of {of}"
    return f"{format.one_line(scan.fleet)}{what} (scanned {day}, {runs}{unread}{done})"


def is_here(run: RunBehind) -> bool:
    """Is the recording in this database?"""
    return not isinstance(run, ScannedBehind) or run.local is not None


def pull_hint(run: RunBehind) -> str:
    """How to copy a run that is not here."""
    assert isinstance(run, ScannedBehind)
    day = datetime.fromtimestamp((run.start_ns or 0) / 1e9, tz=UTC)
    term = shlex.quote(f"source={run.source_id}")
    return f"Try: arc fleet pull {run.fleet} {term} --since {day:%Y-%m-%d}"


class BehindBar(Struct, frozen=True, eq=False, kw_only=True):
    """The runs behind the bar of that label, and the titles of those that have no task."""

    label: str = ""
    runs: tuple[RunBehind, ...] = ()
    titles: dict[str, str] = {}


def build_behind(
    store: Store,
    request: FailuresRequest,
    row: BarRow,
    owners: Owners = NOBODY,
    playbook: Playbook = NO_PLAYBOOK,
    *,
    limit: int | None = None,
) -> BehindBar:
    """The runs behind one bar of what was counted so, or the first `limit`, where fewer can be
    told without the rest: not of bars that are split, of every class, or of what nobody named."""
    if request.fleet is not None:
        return BehindBar(label=row.label, runs=row.runs, titles=_titles(row.runs))
    hidden = held_out_note(store, shown=request.with_held_out).hidden
    meant = chosen(store, request.query)
    if limit is not None and can_be_paged(request, row):
        assert row.bar is not None
        runs = page_behind(store, row.bar, limit, owners=owners, without=hidden, chosen=meant)
    elif row.bar is None:
        runs = hinted(store, hidden, meant)
    else:
        found = pareto(
            store,
            by=request.by,
            every=request.every,
            of=row.bar,
            owners=owners,
            playbook=playbook,
            without=hidden,
            chosen=meant,
        )
        runs = next((bar.runs for bar in found.all_bars if bar.label == row.label), ())
    titles = titles_of(store, (run.preferred for run in runs))
    return BehindBar(label=row.label, runs=runs, titles=titles)


def can_be_paged(request: FailuresRequest, row: BarRow) -> bool:
    """Can the first runs behind a bar be read before all of them are?"""
    return not (row.bar is None or request.by or request.every or request.fleet is not None)


def agreements(
    store: Store, without: Collection[str] = NONE, meant: Filter = ALL
) -> tuple[SourcesAgree, ...]:
    """How far person, judge and rule agree, the runs of some tasks left out."""
    return sources_agree(store, without=without, chosen=meant)


def hinted(
    store: Store, without: Collection[str] = NONE, meant: Filter = ALL
) -> tuple[RunBehind, ...]:
    """The failed runs nobody says anything of, each with its first candidate as a hint."""
    runs = untagged_runs(store, without=without, chosen=meant)
    named = among(run.trace for run in runs)
    by_trace = verdicts(store, "trace IN (SELECT value FROM json_each(?))", (named,))
    return tuple(
        structs.replace(run, step=by_trace[run.trace].why_step, why=by_trace[run.trace].why)
        if run.trace in by_trace
        else run
        for run in runs
    )


def bar_rows(counted: Pareto, untagged: tuple[RunBehind, ...] = ()) -> tuple[BarRow, ...]:
    """The lines of a Pareto, top to bottom; `untagged` are the runs of the last, where they were
    read."""
    rows = [_row(bar) for bar in counted.bars]
    if counted.apart:
        rows.append(BarRow(label=NOT_AGENTS, of="heading"))
        rows += [_row(bar) for bar in counted.apart]
    if counted.untagged:
        rows.append(BarRow(label=UNTAGGED, of="untagged", count=counted.untagged, runs=untagged))
    return tuple(rows)


def _row(bar: Bar) -> BarRow:
    return BarRow(
        label=bar.label,
        of="agent" if is_agents(bar.attribution) else "apart",
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
    return f"there are {labels}" if labels else "no failed runs"


NO_OWNER = "unknown: set [owners] in config.toml, or the owner of a goal"
NOT_IN_PLAYBOOK = "none in playbook.toml"
NOT_NAMED = "no person, rule or judge has named a failure class for these runs"
OTHERS_DOING = "attribution: {attribution}; a prompt edit cannot fix it"
NONE_IN_COMMON = "no run tagged by both"
NOTHING_IN_COMMON = "No run yet with a failure class from two of person, judge and rule."
WHO: dict[Source, str] = {
    "human": "person", "judge": "judge", "rule": "rule", "file": "file", "import": "import",
    "agent": "agent",
}  # fmt: skip

Labelled = tuple[str, str]
"""A label, "" for none, and what it is a label of."""


def sentence(view: FailuresView) -> str:
    """What to know first: the largest bar, and how much nobody named yet."""
    return " · ".join(_sentence(view))


def _sentence(view: FailuresView) -> Iterator[str]:
    counts = view.pareto
    bars = counts.all_bars
    if bars:
        first = max(bars, key=lambda bar: bar.count)
        failed = format.count(counts.failed, "failed run")
        yield f"{format.one_line(first.label)}: {first.count} of {failed}"
    else:
        yield format.count(counts.failed, "failed run") if counts.failed else "no failed runs"
    if counts.untagged:
        yield f"{format.number(counts.untagged)} not yet tagged"
    if counts.unknown:
        yield f"{format.number(counts.unknown)} of unknown outcome left out"


def chosen_bar(view: FailuresView) -> str:
    """How failures are counted, where that is not the usual way."""
    split = f"by {view.request.by}" if view.request.by else ""
    return ", ".join(filter(None, [split, "every class" if view.request.every else ""]))


def card(view: FailuresView, row: BarRow) -> tuple[Labelled, ...]:
    """A bar explained: what the class is, its usual cause and first fix, whose it is, how much."""
    return tuple(_card(view, row))


def _card(view: FailuresView, row: BarRow) -> Iterator[Labelled]:
    if row.bar is None:
        yield "means", NOT_NAMED
    else:
        entry = BY_CLASS[row.bar.failure]
        yield "means", entry.definition if entry.name is not FailureClass.OTHER else _other(row)
        if not is_agents(row.bar.attribution):
            yield "cause", OTHERS_DOING.format(attribution=row.bar.attribution)
        for label, words in (
            ("looks like", entry.signature), ("cause", entry.cause), ("first fix", entry.fix),
        ):  # fmt: skip
            if words != format.UNKNOWN and is_agents(row.bar.attribution):
                yield label, words
        yield "owner", owner(row.bar) or NO_OWNER
        if view.pareto.without_playbook is not None:
            yield "rollback", row.bar.rollback or NOT_IN_PLAYBOOK
            yield "guard", row.bar.guard or NOT_IN_PLAYBOOK
    split = f"{row.tagged} tagged, {row.count - row.tagged} suggested"
    more = f" · {split}" if row.bar is not None else ""
    yield "of failed", f"{counted(view.share(row))}{more}"


def _other(row: BarRow) -> str:
    if row.bar is not None and row.bar.sub:
        return "none of the five classes; a free label"
    return "none of the five classes; no sub-label"


def owner(bar: Bar) -> str:
    """Whose a bar is, "" for nobody's; `+1` where its runs have another owner too."""
    if bar.owner is None and bar.owners <= 1:
        return ""
    more = f" +{bar.owners - 1}" if bar.owners > 1 else ""
    return f"{format.one_line(bar.owner) or format.UNKNOWN}{more}"


def source_name(run: RunBehind) -> str:
    """Who says so of a run: a person or a judge by name, a rule as one."""
    match run.source:
        case None:
            return format.UNKNOWN
        case "human":
            return format.one_line(run.by)
        case "judge":
            return f"judge {format.one_line(run.by)}"
        case "agent":
            return format.one_line(run.by)
        case source:
            return WHO[source]


def agreement(pairs: Sequence[SourcesAgree]) -> tuple[Labelled, ...]:
    """Each pair of sources: how often they name the same class, and what they mix up most."""
    if not any(pair.same.n for pair in pairs):
        return (("", NOTHING_IN_COMMON),)
    return tuple(line for pair in pairs for line in _agreement(pair))


def _agreement(pair: SourcesAgree) -> Iterator[Labelled]:
    one, other = WHO[pair.first], WHO[pair.second]
    label = f"{one}, {other}"
    if not pair.same.n:
        yield label, NONE_IN_COMMON
        return
    yield label, f"same class {counted(pair.same)}"
    if pair.kappa.value is None:
        yield "", "κ undefined: one of them always gives the same class"
    else:
        yield "", f"κ {estimate(pair.kappa)}"
    yield "", f"same step {counted(pair.step)}"
    for each in pair.differ[:1]:
        runs = format.count(len(each.traces), "run")
        yield "", f"differ in {runs}: {one} {each.first}, {other} {each.second}"
